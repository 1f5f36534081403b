"""The cost of cells on data that are not here."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from xmcbench.analysis import scale
from xmcbench.analysis.scale import Rates
from xmcbench.plugins.registry import Registry
from xmcbench.records import Store
from xmcbench.runner.rows import Request, resolve
from xmcbench.setting import Setting

LEADERBOARDS = Path(__file__).parents[2] / "leaderboards"
ZERO_SHOT = Setting.of("ez")


@dataclass(frozen=True)
class Board:
    records: list
    rates: Rates


@pytest.fixture(scope="module")
def board():
    records = Store(LEADERBOARDS).records()
    return Board(records, Rates(records))


@pytest.fixture(scope="module")
def row():
    """A row of a method under a preset."""
    registry = Registry()

    def find(method, preset=None, setting=ZERO_SHOT):
        ((rows, _),) = resolve([Request("data", setting, (f"{method}:{preset}" if preset else method,))], registry)
        return rows[0]

    return find


def made_by(board, row, dataset):
    """The records of a row on a dataset, zero-shot."""
    found = [
        record
        for record in board.records
        if record.cell.method == row.entry.name
        and (record.cell.dataset, record.cell.setting) == (dataset, ZERO_SHOT)
        and {**row.values, **record.values} == row.values
    ]
    assert found
    return found


def worked(record):
    return sum(seconds for phase, seconds in record.measured.wall_s.items() if phase != "load")


@pytest.mark.parametrize("method", ["tfidf", "bm25"])
def test_a_cell_that_was_measured_takes_that_long(board, row, method):
    (record,) = made_by(board, row(method), "LF-YSO-25K")
    (cost,) = Rates([record]).forecast(row(method), ZERO_SHOT, record.counts).values()
    assert cost.seconds == pytest.approx((worked(record),) * 2)
    assert cost.machines[0].startswith(record.environment.hardware.processor)


def test_a_large_training_on_a_gpu_is_bounded_from_above(board, row):
    """Texts are counted as long as they may be: the true time is below, within the share of the tokens."""
    (record,) = made_by(board, row("ict", "gpu"), "LF-Debian-20K")
    cost = board.rates.forecast(row("ict", "gpu"), ZERO_SHOT, record.counts)["gpu"]
    assert worked(record) <= cost.seconds[1] <= 4 * worked(record)
    assert cost.machines == record.environment.hardware.accelerators


def test_work_grows_with_texts_labels_and_the_encoder(row):
    counts = {"train": 1000, "test": 100, "labels": 10}
    work = lambda row, **more: scale._work(row.values, row.variant, ZERO_SHOT, {**counts, **more})  # noqa: E731
    sparse, dense = row("tfidf"), row("maclr", "paper")
    assert work(sparse) == {"pretrain": (1010, 1010), "fit": (1010, 1010), "predict": (100, 1000)}
    token = 12 * 12 * 768**2
    assert work(dense)["predict"] == (100 * (288 * token + 10 * 768),) * 2
    assert work(dense, labels=20)["fit"] == (20 * 64 * token,) * 2
    assert work(dense)["pretrain"] == (131e6 * 3 * (288 + 64) / 2 * token,) * 2
    longer = replace(dense, values={**dense.values, "instance_length": 2 * 288})
    assert work(longer)["predict"] == (100 * (576 * token + 10 * 768),) * 2


def test_the_mean_length_is_that_of_texts_that_are_cut():
    cuts = {("data", "instances"): {64: 0.8, 128: 0.2, 256: 0.0}}
    assert scale._mean_length(cuts, "data", "instances", 64) == pytest.approx(64 * 0.9)
    assert scale._mean_length(cuts, "data", "instances", 128) == pytest.approx(64 * 0.9 + 64 * 0.5)
    assert scale._mean_length(cuts, "data", "labels", 32) == 32  # no record tells


@pytest.mark.parametrize(("method", "preset"), [("glove", "paper"), ("hybrid", "small"), ("rerank", None)])
def test_what_no_record_tells_has_no_cost(board, row, method, preset):
    assert board.rates.forecast(row(method, preset), ZERO_SHOT, {"train": 9, "test": 9, "labels": 9}) == {}


def test_another_parameter_has_no_rate_and_a_later_one_has(board, row, altered):
    records = made_by(board, row("tfidf"), "LF-YSO-25K")
    counts = records[0].counts
    earlier = [altered(record, (("cell", "parameters"), {"max_df": 1.0, "ngrams": 2})) for record in records]
    assert Rates(earlier).forecast(row("tfidf"), ZERO_SHOT, counts)
    other = [altered(record, (("cell", "parameters"), {**record.cell.parameters, "ngrams": 3})) for record in records]
    assert not Rates(other).forecast(row("tfidf"), ZERO_SHOT, counts)


def test_times_in_words():
    assert scale.in_words((30.0, 30.2)) == "30 s"
    assert scale.in_words((60.0, 7200.0)) == "60 s to 2 h 0 min"
    assert scale.in_words((86_400.0 * 10, 86_400.0 * 1000)) == "10 days to 1,000 days"


def test_a_dry_run_says_what_cells_cost_before_any_data_is_here(inside, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    request = ("run", "--dataset", "lf-amazon-131k", "--setting", "ez", "--methods", "all", "--preset", "paper")
    request = (*request, "--runs", LEADERBOARDS)
    ended = inside(*request, "--dry-run", code=0)
    lines = {line.split(" (")[0].split("  ")[0]: line for line in ended.stdout.splitlines()}
    assert " to " in lines["TF-IDF"]
    assert lines["MACLR"].count("days") == 2
    assert "no measured rate" in lines["GloVe"]
    assert "294,805 training and 134,835 test instances, 131,073 labels" in ended.stdout
    assert "NVIDIA H" in ended.stdout
    assert "astec is left out: it needs pairs" in ended.stdout
    cells = {cell["method"]: cell for cell in json.loads(inside(*request, "--dry-run", "--json").stdout)["forecast"]}
    assert cells["TF-IDF"]["estimate_s"].keys() == {"cpu"}
    assert cells["GloVe (paper)"]["estimate_s"] == {}
    refused = inside(*request, code=1)
    assert "is not on this machine" in refused.stderr


def test_a_dry_run_of_several_datasets_names_them_and_needs_counts(inside, tiny):
    several = inside(
        *("run", "--dataset", "lf-amazon-131k,lf-debian-2k", "--setting", "ez", "--methods", "tfidf", "--dry-run")
    )
    assert [line.split()[1] for line in several.stdout.splitlines() if line.startswith("TF-IDF")] == [
        "lf-amazon-131k",
        "lf-debian-2k",
    ]
    refused = inside(
        *("run", "--dataset", f"lf-amazon-131k,{tiny}", "--setting", "ez", "--methods", "tfidf", "--dry-run")
    )
    assert refused.returncode == 1
    assert "has no counts" in refused.stderr


def test_a_dry_run_of_data_that_are_not_here_checks_the_rest(inside):
    words = ("run", "--dataset", "lf-amazon-131k", "--setting", "ez", "--methods", "tfidf", "--dry-run")
    limited = inside(*words, "--limit", "10", code=1)
    assert "LF-Amazon-131K is not on this machine" in limited.stderr
    misspelled = inside(*words, "--best", "nope", code=2)
    assert "unknown metric 'nope'" in misspelled.stderr
    shard = inside(*words, "--shard", "1/2", code=2)
    said = "--shard needs the data, on which it depends what shard a cell is in"
    assert shard.stderr == f"xmcbench: error: {said} (leave it out: the forecast is of all cells)\n"


def test_a_forecast_has_the_seeds_that_would_run(inside):
    words = ("run", "--dataset", "lf-amazon-131k", "--methods", "tfidf,knn,xr-linear", "--seed", "1,0", "--dry-run")

    def seeds(*setting):
        cells = json.loads(inside(*words, *setting, "--json", code=0).stdout)["forecast"]
        return {cell["method"].split(" (")[0]: cell["seeds"] for cell in cells}

    assert seeds("--setting", "full") == {"TF-IDF": [1], "kNN": [1], "XR-Linear": [1, 0]}
    assert seeds("--setting", "fs", "--ratio", "0.5") == {"TF-IDF": [1], "kNN": [1, 0], "XR-Linear": [1, 0]}
