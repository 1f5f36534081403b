"""Requests to the scoring process, answered without the process."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from xmcbench import load_dataset
from xmcbench.errors import DataError, MethodError
from xmcbench.metrics import VERSION
from xmcbench.records import Cell, Store, Truth
from xmcbench.records.staleness import metrics_digest
from xmcbench.runner import ranking, scorer, scoring
from xmcbench.runner.scorer import Scorer
from xmcbench.setting import Setting, draw
from xmcbench.topk import TopK

DEPTH = 101


@pytest.fixture
def asked(at_hand, tiny, tmp_path):
    """Score predictions, scores [30, 10], for a setting and a seed: what was found, and the cell."""
    store, dataset = Store(tmp_path / "runs"), load_dataset(str(tiny))

    def ask(scores, setting=("ez",), seed=0, depth=DEPTH, keep=True, **other):
        chosen = Setting.of(*setting)
        subset = draw(dataset.train_pattern(), chosen, seed)
        facts = {
            "dataset": "tiny",
            "dataset_sha256": dataset.digest,
            "setting": chosen,
            "subset_sha256": subset.digest if subset else None,
            "method": "x",
            "parameters": {},
            "seed": seed,
        }
        cell = Cell(**{**facts, **other})
        TopK.from_scores(scores, DEPTH).save(store.predictions_path(cell))
        return Scorer().score(cell, store.root, str(tiny), depth, keep), cell

    return ask


RANDOM = np.random.RandomState(0).rand(30, 10)


@pytest.mark.parametrize("rows", [1, 4, 112])
def test_predictions_are_ranked_some_rows_at_a_time(at_hand, rows):
    """Rows, true pairs and filters of a part belong together."""
    dataset = load_dataset(str(Path(__file__).parents[1] / "sample"))
    assert len(dataset.filters) > 1
    scores = np.random.RandomState(0).rand(len(dataset.test), len(dataset.labels))
    scores[[3, 5, 112]] = -np.inf
    whole, truth = TopK.from_scores(scores, 117), Truth.of(dataset)
    parts = [TopK(whole.indices[at : at + rows], whole.scores[at : at + rows]) for at in range(0, len(whole), rows)]
    expected, empty = ranking.rank([whole], dataset, truth, None)
    found, empty_of_parts = ranking.rank(iter(parts), dataset, truth, None)
    assert empty == empty_of_parts == 3
    for name in dataset.filters:
        assert expected.by_filter[name].any()
        assert found.by_filter[name].tolist() == expected.by_filter[name].tolist()
    assert expected.by_filter["none"].tolist() != expected.by_filter[dataset.card.filter].tolist()


def test_a_request_gives_figures_and_ranks(asked, tiny, tmp_path):
    store, dataset = Store(tmp_path / "runs"), load_dataset(str(tiny))
    found, cell = asked(RANDOM, ("fs", 0.3), seed=2, keep=False)
    assert not store.ranks_path(cell).exists()
    assert not (store.root / "truth").exists()
    assert asked(RANDOM, ("fs", 0.3), seed=2)[0] == found
    assert found.ranks.file == store.relative(store.ranks_path(cell))
    assert store.ranks_path(cell).exists()
    assert store.truth_path("tiny", found.ranks.truth_sha256).exists()
    assert found.predictions.depth == DEPTH
    assert {*found.metrics} == {*dataset.filters}
    assert (found.protocol.version, found.protocol.filter) == (VERSION, dataset.card.filter)
    assert (found.protocol.propensity, found.protocol.source_sha256) == (dataset.propensity, metrics_digest())
    figures = found.metrics["none"]
    assert (figures.scored, figures.unlabeled) == (30, 0)
    subset = draw(dataset.train_pattern(), Setting.of("fs", 0.3), 2)
    seen = {*np.unique(subset.pairs.indices).tolist()}
    true = [{row % 10, (row + 3) % 10} for row in range(30)]
    assert figures.views["seen"].scored == sum(bool(labels & seen) for labels in true)
    assert figures.views["unseen"].scored == sum(bool(labels - seen) for labels in true)
    hits = sum(RANDOM[row].argmax() in {row % 10, (row + 3) % 10} for row in range(30))
    assert figures.values["P@1"] == pytest.approx(hits / 30)


def test_figures_over_all_labels_do_not_depend_on_what_the_method_saw(asked):
    """Propensities are those of the full training matrix."""
    whole = [asked(RANDOM, setting)[0].metrics["none"] for setting in (("ez",), ("fs", 0.3), ("full",))]
    assert whole[0].values == whole[1].values == whole[2].values
    assert whole[0].intervals == whole[1].intervals == whole[2].intervals
    assert "PSP@5" in whole[0].values
    assert whole[1].views["seen"].values != whole[1].values


def test_a_request_that_is_not_about_this_data_is_refused(asked):
    with pytest.raises(DataError, match="not the version of the cell"):
        asked(RANDOM, dataset_sha256="0" * 64)
    with pytest.raises(DataError, match="the subset is not the one"):
        asked(RANDOM, ("fs", 0.3), subset_sha256="0" * 64)
    with pytest.raises(DataError, match="the subset is not the one"):
        asked(RANDOM, ("full",), subset_sha256="0" * 64)
    for scores, depth in ((RANDOM[:29], DEPTH), (RANDOM, DEPTH - 1), (np.hstack([RANDOM, RANDOM]), DEPTH)):
        with pytest.raises(MethodError):
            asked(scores, depth=depth)


def test_figures_follow_from_the_ranks_and_the_constants(run_here, chance, tmp_path):
    (record,) = run_here(chance, "full", methods=["chance"])
    store = Store(tmp_path / "runs")
    same = Scorer().rescore(record.cell, store.root, record.protocol.filter, record.protocol.propensity)
    assert (same.metrics, same.protocol, same.ranks) == (record.metrics, record.protocol, record.ranks)
    assert same.predictions is None
    other = Scorer().rescore(record.cell, store.root, "none", (0.9, 3.0))
    assert other.protocol.propensity == (0.9, 3.0)
    assert other.protocol.filter == "none"
    truth = store.truth(record)
    expected = scoring.figures(store.ranks(record, truth), truth, (0.9, 3.0))
    assert other.metrics == expected
    for name in record.metrics:
        assert other.metrics[name].values["P@5"] == record.metrics[name].values["P@5"]


def test_a_request_survives_the_pipe(asked):
    found, cell = asked(RANDOM)
    request = scorer._Request(cell=cell, root="/r", dataset="d", depth=3)
    assert msgspec.json.decode(msgspec.json.encode(request), type=scorer._Request) == request
    answer = scorer._Answer(scored=found)
    assert msgspec.json.decode(msgspec.json.encode(answer), type=scorer._Answer) == answer
