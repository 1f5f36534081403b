"""Figures follow the metrics and the card: they are computed again from the ranks, and nothing is trained again."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from xmcbench.metrics import VERSION
from xmcbench.records import Store, as_json

SAMPLE = Path(__file__).parents[1] / "sample"
CARD = (SAMPLE / "card.toml").read_text()
WORDS = ("run", "--dataset", "sets/sample", "--setting", "ez", "--methods", "tfidf,bm25")


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A folder with the dataset and the runs of two methods on it."""
    folder = tmp_path_factory.mktemp("figures")
    shutil.copytree(SAMPLE, folder / "sets" / "sample")
    command = [sys.executable, "-m", "xmcbench", *WORDS]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return folder


@pytest.fixture
def folder(run_folder, tmp_path):
    """A copy of it, in which a test may change what it likes."""
    return shutil.copytree(run_folder, tmp_path, dirs_exist_ok=True)


@pytest.fixture
def run(inside, folder):
    """Run the same command again: (what it printed as JSON, records by method). No cell may be run."""

    def again(*more):
        before = stamps(folder)
        ended = inside(*WORDS, "--json", *more)
        assert ended.returncode == 0, ended.stderr
        assert stamps(folder) == before
        return json.loads(ended.stdout), {record.cell.method: record for record in Store(folder / "runs").records()}

    return again


def stamps(folder):
    """Return the times of the files that a cell would leave: logs, predictions, artifacts, ranks."""
    return {
        path: path.stat().st_mtime_ns
        for name in ("logs", "predictions", "artifacts", "ranks", "truth")
        for path in (folder / "runs" / name).rglob("*")
        if path.is_file()
    }


def score(inside, folder, record, filter_name="file"):
    """The figures of the stored predictions, computed from these and from the files of the dataset."""
    file = Path("runs", record.predictions.file)
    words = ("score", "--dataset", "sets/sample", "--predictions", file, "--filter", filter_name, "--json")
    return json.loads(inside(*words).stdout)["values"]


def test_other_propensities_are_seen_by_the_next_run(run, inside, folder):
    _, before = run()
    (folder / "sets" / "sample" / "card.toml").write_text(CARD.replace("a = 0.6\nb = 2.6", "a = 0.5\nb = 0.4"))
    document, after = run()
    for method, record in after.items():
        assert record.protocol.propensity == (0.5, 0.4)
        assert (record.cell, record.measured, record.ranks) == (
            before[method].cell,
            before[method].measured,
            before[method].ranks,
        )
        for name, figures in record.metrics.items():
            assert figures.values == pytest.approx(score(inside, folder, record, name), abs=1e-12)
            old = before[method].metrics[name]
            for metric, value in figures.values.items():
                assert (value != old.values[metric]) == metric.startswith("PSP"), (method, name, metric)
            assert figures.views["unseen"].values == figures.values
    printed = {row["cell"]["method"]: row["metrics"] for row in document["records"]}
    assert printed == {method: json.loads(json.dumps(as_json(record)["metrics"])) for method, record in after.items()}
    _, same = run()
    assert same == after


def test_another_default_filter_is_seen_by_the_next_run(run, inside, folder):
    (folder / "sets" / "sample" / "card.toml").write_text(CARD.replace('filter = "file"', 'filter = "self"'))
    document, after = run()
    assert document["filter"] == "self"
    assert {record.protocol.filter for record in after.values()} == {"self"}
    assert after["bm25"].metrics["self"].values == pytest.approx(score(inside, folder, after["bm25"], "self"))


@pytest.mark.parametrize(("place", "value"), [("version", VERSION - 1), ("source_sha256", "0" * 64)])
def test_figures_of_other_metrics_are_computed_again(run, folder, altered, place, value):
    store = Store(folder / "runs")
    before = {record.cell.method: record for record in store.records()}
    wrong = {"P@1": 0.0, "nDCG@1": 0.0}
    for record in before.values():
        store.write(
            altered(
                record,
                (("protocol", place), value),
                *((("metrics", "file", "values", name), figure) for name, figure in wrong.items()),
            )
        )
    assert store.records()[0].metrics["file"].values["P@1"] == 0
    _, after = run()
    assert after == before


def test_a_plan_changes_nothing(inside, folder):
    (folder / "sets" / "sample" / "card.toml").write_text(CARD.replace("a = 0.6", "a = 0.5"))
    before = {path: path.read_bytes() for path in (folder / "runs").rglob("*.json")}
    document = json.loads(inside(*WORDS, "--dry-run", "--json").stdout)
    assert [cell["state"] for cell in document["cells"]] == ["cached", "cached"]
    assert {path: path.read_bytes() for path in before} == before


def test_a_cell_whose_ranks_are_needed_and_gone_runs_again(inside, folder):
    (folder / "sets" / "sample" / "card.toml").write_text(CARD.replace("a = 0.6", "a = 0.5"))
    lost = next((folder / "runs" / "ranks").rglob("bm25*"))
    lost.unlink()
    before = {record.cell.method: record for record in Store(folder / "runs").records()}
    states = {
        cell["method"]: cell["state"] for cell in json.loads(inside(*WORDS, "--dry-run", "--json").stdout)["cells"]
    }
    assert states == {"BM25": "to run", "TF-IDF": "cached"}
    ended = inside(*WORDS)
    assert ended.returncode == 0, ended.stderr
    (said,) = [line for line in ended.stderr.splitlines() if line.startswith("xmcbench: cannot read the ranks")]
    assert said.endswith("; the cell runs again")
    after = {record.cell.method: record for record in Store(folder / "runs").records()}
    assert {record.protocol.propensity for record in after.values()} == {(0.5, 2.6)}
    assert after["tfidf"].measured == before["tfidf"].measured
    assert after["bm25"].measured != before["bm25"].measured
    assert lost.exists()


def test_another_default_filter_is_seen_by_the_board(inside, folder, monkeypatch):
    monkeypatch.setenv("XMCBENCH_DATASETS", str(folder / "sets"))
    (folder / "sets" / "sample" / "card.toml").write_text(CARD.replace('filter = "file"', 'filter = "self"'))
    ended = inside("leaderboard", "--runs", "runs", "--out", "pages", "--check")
    assert (ended.returncode, ended.stderr.count("another default filter")) == (1, 2)
    assert {record.protocol.filter for record in Store(folder / "runs").records()} == {"file"}
    # A run brings the row of one method up to date, the board those of all.
    inside(*WORDS[:-1], "tfidf")
    ended = inside("leaderboard", "--runs", "runs", "--out", "pages")
    assert ended.returncode == 0, ended.stderr
    assert {record.protocol.filter for record in Store(folder / "runs").records()} == {"self"}


def test_two_definitions_of_propensity_stand_on_no_board(run, inside, folder, monkeypatch):
    """A dataset that is known by its name is scored again for the board; of another the records are refused."""
    (folder / "sets" / "sample" / "card.toml").write_text(CARD.replace("a = 0.6", "a = 0.5"))
    inside("run", "--dataset", "sets/sample", "--setting", "ez", "--methods", "tfidf")
    ended = inside("leaderboard", "--runs", "runs", "--out", "pages")
    assert ended.returncode == 1
    assert "differ in their propensities" in ended.stderr
    monkeypatch.setenv("XMCBENCH_DATASETS", str(folder / "sets"))
    ended = inside("leaderboard", "--runs", "runs", "--out", "pages")
    assert ended.returncode == 0, ended.stderr
    assert {record.protocol.propensity for record in Store(folder / "runs").records()} == {(0.5, 2.6)}
    assert (folder / "pages" / "sample.md").exists()
    (folder / "sets" / "sample" / "card.toml").write_text(CARD)
    ended = inside("leaderboard", "--runs", "runs", "--out", "pages", "--check")
    assert (ended.returncode, ended.stderr.count("figures are from other metrics or propensities")) == (1, 2)
    assert {record.protocol.propensity for record in Store(folder / "runs").records()} == {(0.5, 2.6)}
