"""`xmcbench power` on the committed records."""

import json
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest

from xmcbench.analysis import power
from xmcbench.metrics.power import Spread
from xmcbench.records import Store
from xmcbench.setting import Setting

BOARD = Path(__file__).parents[2] / "leaderboards"


@pytest.fixture
def few(tmp_path):
    """A runs folder with some committed rows: TF-IDF by two recipes, BM25, XR-Linear; one has no ranks."""
    shutil.copytree(BOARD / "truth", tmp_path / "few" / "truth")
    for kind in ("records", "ranks"):
        for name in ("tfidf", "bm25", "xr-linear", "label-expansion"):
            for path in (BOARD / kind / "lf-debian-20k" / "ez").glob(f"{name}-s*"):
                copied = tmp_path / "few" / path.relative_to(BOARD)
                copied.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copied)
    store = Store(tmp_path / "few")
    (one,) = [each for each in store.records() if each.cell.method == "label-expansion"]
    store.write(msgspec.structs.replace(one, ranks=None))
    return store.root


def test_two_rows_and_all_rows_of_a_dataset(inside, few):
    where = ("--runs", few, "--dataset", "lf-debian-20k", "--setting", "ez")
    ended = inside("power", "tfidf:", "bm25", "--detect", "1", *where, "--json")
    assert ended.returncode == 0, ended.stderr
    (document,) = json.loads(ended.stdout)
    (pair,) = document["pairs"]
    assert pair["seeds_needed"] is None
    rows = pair["instances_needed"]["1"]
    # The half-width of the interval of this pair on 5,115 instances is 0.88 points.
    assert rows == pytest.approx((2.8 / 0.01) ** 2 * 5_115 * (0.0088 / 1.96) ** 2, rel=0.02)

    ended = inside("power", "--detect", "0.5", *where)
    assert ended.returncode == 0, ended.stderr
    assert "BM25 and TF-IDF (pecos)" in ended.stdout
    assert "Left out, without stored ranks: Label expansion." in ended.stdout
    assert "TF-IDF and XR-Linear" in ended.stdout
    (damaged,) = (few / "records").rglob("bm25-*.json")
    damaged.write_text("{")
    ended = inside("power", "--detect", "0.5", *where)
    assert (ended.returncode, ended.stderr.count("left out: ")) == (1, 1)
    damaged.unlink()
    psp = inside("power", "--detect", "2", "--metric", "PSP@1", *where)
    assert psp.returncode == 0


def test_rows_that_never_differ_are_left_out(inside, few):
    store = Store(few)
    (one,) = [each for each in store.records() if each.cell.method == "bm25"]
    cell = msgspec.structs.replace(one.cell, method="twin")
    named = msgspec.structs.replace(one.method, title="Twin")
    store.write(msgspec.structs.replace(one, key=cell.key, cell=cell, method=named))
    ranks = [(few / "ranks" / each.path).with_suffix(".npz") for each in (one.cell, cell)]
    shutil.copy(*ranks)
    ended = inside("power", "bm25", "twin", "--detect", "5", "--runs", few)
    assert ended.returncode == 2
    assert "rows are left out: with the same scores on every instance" in ended.stderr
    ended = inside("power", "--detect", "5", "--runs", few)
    assert "Left out, with the same scores on every instance: BM25 and Twin." in ended.stdout


def test_many_pairs_are_summed_up():
    pairs = tuple(power.Pair("a", f"b{n}", Spread(0.01 * n, (), 100)) for n in range(1, 21))
    made = power.Needed("D", Setting.of("ez"), "P@1", "none", 0.1, 0.8, 100, pairs, {})
    needed = [each.spread.rows_needed(0.1, 1) for each in pairs]
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
