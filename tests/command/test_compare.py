"""Comparison of two rows: which of their runs belong together, and `xmcbench compare` as a user meets it."""

import gzip
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

import xmcbench
from xmcbench import comparison
from xmcbench.metrics import METRICS
from xmcbench.records import Store, as_json
from xmcbench.records.ranks import Ranks
from xmcbench.records.selection import Selected
from xmcbench.setting import Setting


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """The folder of the one run of this module."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def runs(inside, run_folder, tmp_path):
    """A runs folder on LF-Debian-2K: TF-IDF in two presets and BM25 at zero shot, BM25 with all pairs too."""
    if not run_folder.joinpath("runs").exists():
        for words in (
            ("ez", "--methods", "tfidf:sklearn,tfidf:pecos,bm25", "--seed", "0"),
            ("ez", "--methods", "tfidf:sklearn,tfidf:pecos,bm25", "--seed", "1"),  # else only the first seed is planned
            ("full", "--methods", "bm25"),
        ):
            ended = inside("run", "--dataset", "lf-debian-2k", "--setting", *words)
            assert ended.returncode == 0, ended.stderr
        shutil.copytree(tmp_path / "runs", run_folder / "runs")
        return tmp_path / "runs"
    return shutil.copytree(run_folder / "runs", tmp_path / "runs")


def keys(runs, pattern):
    return [json.loads(path.read_text())["key"] for path in sorted((runs / "records").rglob(pattern))]


def result(ended):
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def worse(runs, other, share):
    """A copy of a runs folder in which every TF-IDF cell has lost a share of the true pairs that it found."""
    shutil.copytree(runs, other)
    store = Store(other)
    for record in store.records():
        if record.cell.method == "tfidf":
            ranks = store.ranks(record, store.truth(record))
            changed = {}
            for name, ranks_of in ranks.by_filter.items():
                found = np.random.RandomState(0).permutation(np.flatnonzero(ranks_of))
                changed[name] = ranks_of.copy()
                changed[name][found[: int(share * len(found))]] = 0
            made = Ranks(changed, ranks.seen)
            made.save(store.ranks_path(record.cell))
            facts = msgspec.structs.replace(record.ranks, sha256=made.digest)
            store.write(msgspec.structs.replace(record, ranks=facts))
    return other


def test_two_identical_runs_do_not_differ(inside, runs):
    one, other = keys(runs, "tfidf-s*.json")[0], keys(runs, "bm25-s1*.json")[0]
    document = result(inside("compare", one, one, "--json"))
    assert {
        (figures["delta"], figures["low"], figures["high"], figures["p"]) for figures in document["metrics"].values()
    } == {(0.0, 0.0, 0.0, 1.0)}
    assert document["apart"] == {}
    text = inside("compare", "bm25", other, "--setting", "ez").stdout
    assert "No metric differs significantly at the 5% level" in text
    assert "paired over 1,121 test instances" in text


def test_one_true_pair_in_a_hundred_is_missed(inside, runs, tmp_path):
    other = worse(runs, tmp_path / "other", 0.01)
    (file,) = [path for path in (other / "records").rglob("tfidf-s0*.json") if '"variant": "pecos"' in path.read_text()]
    mine = runs / file.relative_to(other)
    document = result(inside("compare", mine, file, "--json"))
    assert document["metrics"]["R@100"]["p"] < 0.05
    assert document["metrics"]["R@100"]["low"] > 0
    assert list(document["apart"]) == []


def test_a_difference_is_a_minus_b_and_follows_from_the_records(inside, runs):
    """With the filter of the dataset's card, as the records; another one gives other figures."""
    store = Store(runs)
    said = {record.key: record for record in store.records()}
    for first, second in (("tfidf:pecos", "bm25"), ("bm25", "tfidf:pecos")):
        document = result(inside("compare", first, second, "--setting", "ez", "--json"))
        assert document["filter"] == "self"
        values = [said[document[side][0]].metrics["self"].values for side in ("first", "second")]
        for metric in METRICS:
            found = document["metrics"][metric]
            assert [found["first"], found["second"]] == pytest.approx(
                [of_seed[metric] for of_seed in values], abs=1e-12
            )
            assert found["delta"] == pytest.approx(values[0][metric] - values[1][metric], abs=1e-12)
            assert found["low"] <= found["delta"] <= found["high"]
            assert found["p_holm"] >= found["p"]
    plain = result(inside("compare", "bm25", "tfidf:pecos", "--setting", "ez", "--filter", "none", "--json"))
    values = said[plain["first"][0]].metrics
    assert plain["metrics"]["P@1"]["first"] == pytest.approx(values["none"].values["P@1"], abs=1e-12)
    assert values["none"].values["P@1"] != values["self"].values["P@1"]
    assert plain["filter"] == "none"
    rows = inside("compare", "tfidf:pecos", "bm25", "--setting", "ez").stdout.splitlines()
    (line,) = [line.split() for line in rows if line.startswith("P@1 ")]
    first, second = (said[key].metrics["self"].values["P@1"] for key in (plain["second"][0], plain["first"][0]))
    assert line[1:4] == [f"{100 * first:.2f}", f"{100 * second:.2f}", f"{100 * (first - second):+.2f}"]


def test_no_dataset_and_no_predictions_are_needed(inside, runs, monkeypatch):
    before = inside("compare", "tfidf:pecos", "bm25", "--setting", "ez")
    shutil.rmtree(runs / "predictions")
    monkeypatch.setattr("xmcbench.data.catalog.load_dataset", lambda _: pytest.fail("a dataset was loaded"))
    monkeypatch.setenv("XMCBENCH_CACHE", str(runs / "none"))
    after = inside("compare", "tfidf:pecos", "bm25", "--setting", "ez")
    assert (after.returncode, after.stdout) == (before.returncode, before.stdout) == (0, before.stdout)


def test_ranks_that_are_gone_or_others_are_named(inside, runs):
    path = sorted((runs / "ranks").rglob("tfidf*.npz"))[0]
    other = sorted((runs / "ranks").rglob("bm25*.npz"))[0]
    shutil.copy(other, path)
    ended = inside("compare", "tfidf:sklearn", "tfidf:pecos")
    assert (ended.returncode, f"{path.name}: checksum mismatch" in ended.stderr) == (1, True)
    path.unlink()
    ended = inside("compare", "tfidf:sklearn", "tfidf:pecos")
    assert (ended.returncode, "cannot read the ranks" in ended.stderr) == (1, True)
    (truth,) = (runs / "truth").iterdir()
    truth.unlink()
    ended = inside("compare", "tfidf:sklearn", "tfidf:pecos")
    assert (ended.returncode, "cannot read the true pairs" in ended.stderr) == (1, True)


def test_what_is_stale_is_said(inside, runs, altered):
    store = Store(runs)
    for record in store.records():
        if record.cell.method == "bm25" and record.cell.seed == 0:
            store.write(altered(record, (("method", "source_sha256"), "0" * 64)))
    text = inside("compare", "tfidf:pecos", "bm25", "--setting", "ez").stdout
    lines = text.splitlines()
    assert lines[1].startswith("B: BM25")
    assert lines[2].startswith("   stale: the method's code has changed")
    assert lines[3] == "   mixed: its results were made by different code"
    document = result(inside("compare", "tfidf:pecos", "bm25", "--setting", "ez", "--json"))
    assert [len(document["problems"][side]) for side in ("first", "second")] == [0, 2]
    compared = xmcbench.compare("tfidf:pecos", "bm25", setting="ez", runs=runs)
    assert compared.as_json()["problems"] == document["problems"]


def test_records_are_compared_seed_by_seed_for_what_differs(inside, runs):
    """Seed 0 of one row was set against seed 1 of the other: their seeds, and in fs their subsets, differed."""
    store = Store(runs)
    store.record_path(next(record.cell for record in store.records() if record.name == "TF-IDF (pecos)")).unlink()
    document = result(inside("compare", "tfidf:sklearn", "tfidf:pecos", "--json"))
    assert "cell.seed" not in document["apart"]
    assert {place.rpartition(".")[0] for place in document["apart"]} == {"cell.parameters", "method"}


def test_what_differs_is_named(inside, runs):
    text = inside("compare", "tfidf:sklearn", "tfidf:pecos").stdout
    assert "A: TF-IDF (sklearn), LF-Debian-2K, zero-shot (no pairs), seed 0, 1" in text
    assert "Significant at the 5% level: P@1" in text
    assert "cell.parameters.vectorizer: sklearn | pecos" in text
    assert "hardware" not in text


def test_two_settings_of_one_method_are_compared_by_their_keys(inside, runs):
    (full,) = keys(runs, "full/bm25*.json")
    ez = keys(runs, "ez/bm25-s0*.json")[0]
    document = result(inside("compare", ez[:10], full[:10], "--json"))
    assert document["apart"]["cell.setting.kind"] == ["ez", "full"]
    assert document["metrics"]["P@1"]["p"] == 1.0


def test_a_verdict_on_a_single_run_is_about_the_method_if_no_seed_matters_to_it(inside, runs, altered):
    """A side of several runs shows itself whether it does."""
    store, words = Store(runs), ("compare", "tfidf:pecos", keys(runs, "ez/bm25-s0*.json")[0])
    said = [inside(*words).stdout]
    for method in ("tfidf", "bm25"):
        for record in [record for record in store.records() if record.cell.method == method]:
            store.write(altered(record, (("method", "deterministic"), False)))
        said.append(inside(*words).stdout)
    assert ["The verdict is about these runs" in text for text in said] == [False, False, True]


def test_the_words_must_name_one_row_each(inside, runs):
    for words, message in (
        (("tfidf", "bm25"), "tfidf matches 2 rows"),
        (("tfdif", "bm25"), "did you mean 'tfidf'"),
        (("tfidf:sklaern", "bm25"), "did you mean 'tfidf:sklearn'"),
        (("bm25:pecos", "tfidf:pecos"), "(did you mean 'bm25:"),
        (("bm25", "bm25"), "several results in common (choose one)\n  --setting ez\n  --setting full"),
        (("tfidf:pecos", "bm25", "--setting", "full"), "tfidf:pecos has no result with this dataset, setting and seed"),
        (("bm25", "bm25", "--ratio", "0.1"), "can only be used with the setting fs"),
        (("bm25", "runs/none.json"), "no record at runs/none.json"),
        (("bm25", "tfidf", "--runs", "none"), "no runs folder at none"),
    ):
        ended = inside("compare", *words)
        assert (ended.returncode, message in ended.stderr) == (2, True), ended.stderr


def test_a_folder_is_the_dataset_that_its_card_names(inside, tiny):
    (tiny / "card.toml").write_text('name = "Small Set"\nslug = "small-set"\n')
    assert inside("run", "--dataset", tiny, "--setting", "ez", "--methods", "bm25,tfidf").returncode == 0
    for given in ([], ["--dataset", "tiny"], ["--dataset", "./tiny"], ["--dataset", "tiny/../tiny/."]):
        ended = inside("compare", "bm25", "tfidf", *given)
        assert (ended.returncode, ended.stderr) == (0, "")
    ended = inside("compare", "bm25", "tfidf", "--dataset", "lf-debian-2k")
    assert (ended.returncode, "bm25 has no result with this dataset, setting and seed" in ended.stderr) == (2, True)


def test_data_at_a_place_are_the_version_that_is_there(inside, tiny, tmp_path):
    other = tmp_path / "other" / tiny.name
    shutil.copytree(tiny, other)
    with gzip.open(other / "trn.json.gz", "at") as stream:
        stream.write('{"uid": "new", "title": "a story", "content": "", "target_ind": [1], "target_rel": [1.0]}\n')
    for place, names in ((tiny, "tfidf"), (other, "tfidf,bm25")):
        assert inside("run", "--dataset", place, "--setting", "ez", "--methods", names).returncode == 0
    assert inside("compare", "tfidf", "bm25", "--dataset", other).returncode == 0
    ended = inside("compare", "tfidf", "bm25", "--dataset", tiny)
    assert ended.returncode == 2
    assert f"bm25 has no result on the data at {tiny} (it has results on other data of the same name" in ended.stderr
    for place in (tiny, other):
        assert inside("show", "tfidf", "--text", "fruit", "--dataset", place).returncode == 0
    rows = json.loads(inside("ls", "results", "--json").stdout)
    assert len({row["key"] for row in rows}) == 3
    for row in rows:  # a key is one of a version
        shown = [inside("show", row["key"], "--text", "fruit", "--dataset", place) for place in (tiny, other)]
        assert sorted(ended.returncode for ended in shown) == [0, 2]
    # The data at a place that was changed since are no version that has a result.
    shutil.rmtree(other)
    shutil.copytree(tiny, other)
    assert "bm25 has no result on the data" in inside("compare", "tfidf", "bm25", "--dataset", other).stderr


def test_two_datasets_and_two_filters_are_refused_unless_forced(inside, runs, tiny, tmp_path, altered):
    inside("run", "--dataset", tiny, "--setting", "ez", "--methods", "bm25", "--runs", "small")
    (file,) = (tmp_path / "small" / "records").rglob("*.json")
    (mine,) = (runs / "records").rglob("ez/bm25-s0*.json")
    ended = inside("compare", mine, file)
    assert (ended.returncode, "differ in their datasets" in ended.stderr) == (2, True)
    ended = inside("compare", mine, file, "--force", "--filter", "file")
    assert (ended.returncode, "BM25 has no figures under the filter file (it has: " in ended.stderr) == (2, True)
    forced = inside("compare", mine, file, "--force")
    assert forced.returncode == 0, forced.stderr
    assert "not tested: the rows differ in their datasets: LF-Debian-2K and tiny" in forced.stdout
    (head,) = [line for line in forced.stdout.splitlines() if line.startswith("Metric")]
    assert head.split() == ["Metric", "A", "B", "A", "-", "B"]
    assert result(inside("compare", mine, file, "--force", "--json"))["metrics"]["P@1"]["p"] is None

    (record,) = [record for record in Store(runs).records() if Store(runs).record_path(record.cell) == mine]
    other = Store(tmp_path / "older")
    other.write(altered(record, (("protocol", "filter"), "none")))
    ended = inside("compare", mine, other.record_path(record.cell))
    assert (ended.returncode, "differ in their filters: self and none" in ended.stderr) == (2, True)
    other.write(altered(record, (("cell", "dataset_sha256"), "0" * 64)))
    (moved,) = [path for path in (other.root / "records").rglob("*.json") if path.name != mine.name]
    ended = inside("compare", mine, moved)
    assert (ended.returncode, "differ in their versions of LF-Debian-2K" in ended.stderr) == (2, True)


def test_of_few_instances_it_says_what_is_not_shown(inside, tiny):
    where = ("--dataset", "tiny", "--setting", "ez")
    assert inside("run", *where, "--methods", "tfidf,bm25").returncode == 0
    ended = inside("compare", "tfidf", "bm25", *where)
    assert ended.returncode == 0, ended.stderr
    assert "(test over instances; Holm's correction over" in ended.stdout
    assert "With fewer than 200 instances, a more cautious test is used" in ended.stdout


def test_of_many_instances_it_does_not(inside, runs):
    ended = inside("compare", "tfidf:pecos", "bm25", "--setting", "ez", "--runs", runs)
    assert ended.returncode == 0, ended.stderr
    assert "(randomization test over instances; Holm's correction over" in ended.stdout
    assert "fewer than" not in ended.stdout


FS = Setting.of("fs", 0.01)


@pytest.mark.parametrize(
    ("setting", "mine", "theirs", "matched"),
    [
        (FS, (0, 1), (0, 1), True),
        (FS, (0, 1), (2, 3), False),
        (FS, (0, 1), (0, 2), False),
        (FS, (0, 1, 2), (0, 1), False),
        (Setting.of("ez"), (0, 1), (0, 1), False),  # a seed of one method says nothing of another's
    ],
)
def test_runs_belong_together_where_they_saw_the_same_subsets(monkeypatch, record, setting, mine, theirs, matched):
    asked = []
    monkeypatch.setattr(comparison, "evaluations", lambda *_: [SimpleNamespace(scored=30)])
    monkeypatch.setattr(comparison.paired, "compare", lambda *_, **options: asked.append(options) or {})
    rows = [
        Selected(tuple(record(seed=seed, setting=setting) for seed in seeds), Store(Path("runs")))
        for seeds in (mine, theirs)
    ]
    comparison._differences(*rows, None, False)
    assert asked[0]["matched"] is matched


def test_another_default_filter_is_no_obstacle_where_a_filter_is_named(record, altered):
    one = record()
    figures = as_json(one)["metrics"]["self"]
    other = altered(one, (("metrics", "none"), figures), (("protocol", "filter"), "none"))
    rows = [Selected((record,), Store(Path("runs"))) for record in (one, other)]
    assert comparison.obstacle(*rows) == "filters: self and none"
    assert not comparison.obstacle(*rows, "none")
