"""`xmcbench power` on the committed records."""

import gzip
import json
import shutil

import msgspec
import numpy as np
import pytest
from committed import BOARD, copy_records

from xmcbench.analysis import power
from xmcbench.metrics.power import Spread
from xmcbench.records import Store
from xmcbench.setting import Setting


@pytest.fixture
def few(tmp_path):
    """A runs folder with some committed rows: TF-IDF by two recipes, BM25, XR-Linear."""
    for name in ("tfidf", "bm25", "xr-linear"):
        copy_records(f"lf-debian-20k/ez/{name}-s*", tmp_path / "few")
    return tmp_path / "few"


def test_two_rows_and_all_rows_of_a_dataset(inside, few):
    where = ("--runs", few, "--dataset", "lf-debian-20k", "--setting", "ez")
    ended = inside("power", "tfidf:", "bm25", "--detect", "1", *where, "--json", code=0)
    (document,) = json.loads(ended.stdout)
    (pair,) = document["pairs"]
    assert pair["seeds_needed"] is None
    rows = pair["instances_needed"]["1"]
    # The half-width of the interval of this pair on 5,115 instances is 0.88 points.
    assert rows == pytest.approx((2.8 / 0.01) ** 2 * 5_115 * (0.0088 / 1.96) ** 2, rel=0.02)

    ended = inside("power", "--detect", "0.5", "--wide", *where, code=0)
    assert "BM25 and TF-IDF (pecos)" in ended.stdout
    assert "TF-IDF and XR-Linear" in ended.stdout
    (damaged,) = (few / "records").rglob("bm25-*.json")
    damaged.write_text("{")
    ended = inside("power", "--detect", "0.5", *where)
    assert (ended.returncode, ended.stderr.count("left out: ")) == (1, 1)
    damaged.unlink()
    inside("power", "--detect", "2", "--metric", "PSP@1", *where, code=0)


def test_versions_of_a_dataset_are_told_apart(inside, few):
    """One block each, under a heading of its own."""
    store = Store(few)
    for one in store.records():
        cell = msgspec.structs.replace(one.cell, dataset_sha256="f" * 64)
        store.write(msgspec.structs.replace(one, key=cell.key, cell=cell))
        shutil.copy(*((few / "ranks" / at.path).with_suffix(".npz") for at in (one.cell, cell)))
    shown = inside("power", "--detect", "1", "--runs", few, code=0).stdout
    before = one.cell.dataset_sha256
    for digest in (before, "f" * 64):
        assert f"LF-Debian-20K (data {digest[:12]}), zero-shot" in shown
    names = [found["dataset"] for found in json.loads(inside("power", "--detect", "1", "--runs", few, "--json").stdout)]
    assert sorted(names) == sorted(f"LF-Debian-20K (data {digest[:12]})" for digest in (before, "f" * 64))


def test_rows_that_never_differ_are_left_out(inside, few):
    store = Store(few)
    (one,) = [record for record in store.records() if record.cell.method == "bm25"]
    cell = msgspec.structs.replace(one.cell, method="twin")
    named = msgspec.structs.replace(one.method, title="Twin")
    store.write(msgspec.structs.replace(one, key=cell.key, cell=cell, method=named))
    ranks = [(few / "ranks" / at.path).with_suffix(".npz") for at in (one.cell, cell)]
    shutil.copy(*ranks)
    ended = inside("power", "bm25", "twin", "--detect", "5", "--runs", few, code=2)
    assert "rows are left out: with the same difference on every instance" in ended.stderr
    ended = inside("power", "--detect", "5", "--runs", few)
    assert "Left out, with the same difference on every instance: BM25 and Twin." in ended.stdout


def test_rows_of_another_default_filter_are_left_out_unless_one_is_named(inside, few):
    """As `compare` refuses them."""
    store = Store(few)
    (one,) = [record for record in store.records() if record.cell.method == "bm25"]
    store.write(msgspec.structs.replace(one, protocol=msgspec.structs.replace(one.protocol, filter="none")))
    ended = inside("power", "--detect", "1", "--runs", few)
    assert "Left out, with another default filter than self: BM25." in ended.stdout
    assert "BM25 and" not in ended.stdout
    ended = inside("power", "--detect", "1", "--runs", few, "--filter", "none")
    assert "BM25 and TF-IDF" in ended.stdout
    assert inside("power", "bm25", "tfidf:", "--detect", "1", "--runs", few).returncode == 2
    inside("power", "bm25", "tfidf:", "--detect", "1", "--runs", few, "--filter", "none", code=0)


def test_a_dataset_without_the_filter_keeps_no_other_from_being_judged(inside, few, tiny):
    inside("run", "--dataset", tiny, "--setting", "ez", "--methods", "tfidf,bm25", "--runs", few, code=0)
    ended = inside("power", "--detect", "1", "--setting", "ez", "--runs", few, "--filter", "self")
    assert (ended.returncode, "BM25 and TF-IDF" in ended.stdout) == (0, True), ended.stderr
    assert "tiny" not in ended.stdout
    alone = inside("power", "--detect", "1", "--dataset", "tiny", "--runs", few, "--filter", "self")
    assert (alone.returncode, "not scored under the filter self" in alone.stderr) == (2, True)


def test_rows_that_are_scored_on_a_single_instance_are_left_out(inside, tiny, few):
    """Rows without variation do not prevent other datasets from being judged."""
    with gzip.open(tiny / "tst.json.gz", "rt") as stream:
        first = stream.readline()
    with gzip.open(tiny / "tst.json.gz", "wt") as stream:
        stream.write(first)
    inside("run", "--dataset", tiny, "--setting", "ez", "--methods", "tfidf,bm25", "--runs", few, code=0)
    ended = inside("power", "--detect", "1", "--setting", "ez", "--runs", few, code=0)
    assert "BM25 and TF-IDF" in ended.stdout
    alone = inside("power", "--detect", "1", "--dataset", "tiny", "--runs", few)
    assert "with a single scored instance" in alone.stderr


def test_rows_of_two_datasets_are_refused(inside, few):
    copy_records("lf-debian-de/ez/bm25-s*", few)
    other = next(record for record in Store(few).records() if record.cell.dataset == "LF-Debian-de")
    ended = inside("power", "tfidf:", other.key, "--detect", "1", "--runs", few)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "the two rows differ in their datasets: LF-Debian-20K and LF-Debian-de" in ended.stderr


def test_rows_of_two_settings_are_said_to_be(inside, few):
    """Their test instances are the same, so that they can be compared."""
    copy_records("lf-debian-20k/full/knn-s*", few)
    words = ("power", "tfidf:", "knn", "--detect", "1", "--runs", few)
    ended = inside(*words, code=0)
    head, table, *_ = ended.stdout.split("\n\n")
    assert head.startswith("LF-Debian-20K, zero-shot (no pairs) and full (all training pairs): to show a difference")
    assert "TF-IDF and kNN" in table
    (document,) = json.loads(inside(*words, "--json").stdout)
    assert document["settings"] == ["ez", "full"]


def test_many_pairs_are_summed_up():
    pairs = tuple(power.Pair("a", f"b{n}", Spread(0.01 * n, (), 100)) for n in range(1, 21))
    made = power.Needed("D", (Setting.of("ez"),), "P@1", "none", 0.1, 0.8, 100, pairs, {})
    needed = [pair.spread.rows_needed(0.1, 1) for pair in pairs]
    text = str(made)
    assert str(needed[9]) in text
    assert str(needed[17]) in text
    assert np.all(np.diff(needed) > 0)


def test_what_is_refused(inside, tmp_path):
    for words, said in (
        (("tfidf", "--detect", "1"), "power needs two rows, or none"),
        (("--detect", "0"), "--detect 0 must be between"),
        (("--detect", "1", "--power", "100"), "--power 100 must be between"),
        (("--detect", "1", "--metric", "X"), "unknown metric 'X'"),
        (("--detect", "1", "--dataset", "lf-yso-25k", "--setting", "full", "--seed", "5"), "has no result"),
        (("--detect", "1", "--setting", "fs", "--ratio", "0.33"), "has no result with this dataset, setting and seed"),
    ):
        ended = inside("power", *words, "--runs", BOARD)
        assert (ended.returncode, said in ended.stderr) == (2, True), ended.stderr
    ended = inside("power", "--detect", "1", "--runs", "nowhere")
    assert (ended.returncode, "no runs folder at nowhere" in ended.stderr) == (2, True)


def test_rows_with_some_seeds_in_common_are_judged_as_if_they_were_named(inside, tmp_path):
    """Among all rows they were taken for rows on other subsets."""
    for pattern in ("zestxml-s[01]", "knn-s[012]"):
        copy_records(f"lf-debian-20k/fs-label-0.01/{pattern}*", tmp_path / "few")
    where = ("--runs", "few", "--dataset", "lf-debian-20k", "--setting", "fs", "--ratio", "0.01", "--json")
    (named,), (found,) = (
        json.loads(inside("power", *words, "--detect", "1", *where).stdout) for words in (("zestxml", "knn"), ())
    )
    assert named["pairs"] == found["pairs"] != []
    for path in (tmp_path / "few").rglob("zestxml-s1*"):
        path.unlink()
    ended = inside("power", "--detect", "1", *where)
    assert "with one run, although its result depends on the seed" in ended.stderr
    copy_records("lf-debian-20k/fs-label-0.01/zestxml-s[02]*", tmp_path / "few")
    for path in (tmp_path / "few").rglob("knn-s2*"):
        path.unlink()
    ended = inside("power", "--detect", "1", *where)
    assert "with one subset in common" in ended.stderr
