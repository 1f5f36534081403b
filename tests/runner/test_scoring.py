"""Requests to the scoring process, answered without it; and figures that are computed again from stored ranks."""

from collections import deque
from pathlib import Path

import msgspec
import numpy as np
import pytest

from xmcbench import load_dataset
from xmcbench.errors import DataError, MethodError, UsageError
from xmcbench.metrics import VERSION
from xmcbench.plugins.registry import Registry
from xmcbench.records import Cell, Staleness, Store, Truth, as_json
from xmcbench.records.staleness import metrics_digest
from xmcbench.runner import figures, ranking, scorer
from xmcbench.runner.execution import execute
from xmcbench.runner.grid import Grid, requests_of
from xmcbench.runner.plan import plan
from xmcbench.runner.schedule import Backoff
from xmcbench.runner.scorer import Scorer
from xmcbench.runner.scoring import evaluations, is_outdated, up_to_date
from xmcbench.runner.target import Target
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
    expected = figures.figures(store.ranks(record, truth), truth, (0.9, 3.0))
    assert other.metrics == expected
    for name in record.metrics:
        assert other.metrics[name].values["P@5"] == record.metrics[name].values["P@5"]


def test_a_request_survives_the_pipe(asked):
    found, cell = asked(RANDOM)
    request = scorer._Request(cell=cell, root="/r", dataset="d", depth=3)
    assert msgspec.json.decode(msgspec.json.encode(request), type=scorer._Request) == request
    answer = scorer._Answer(scored=found)
    assert msgspec.json.decode(msgspec.json.encode(answer), type=scorer._Answer) == answer


TODAY = Staleness()


@pytest.fixture
def stored(run_here, chance, tmp_path):
    (record,) = run_here(chance, methods=["chance"])
    return record, Store(tmp_path / "runs")


def test_constants_are_those_of_the_record_unless_others_are_given(stored):
    record, store = stored
    (own,) = evaluations([record], store, "none")
    assert own.values["PSP@1"] == pytest.approx(record.metrics["none"].values["PSP@1"])
    (same,) = evaluations([record], store, "none", record.protocol.propensity)
    (other,) = evaluations([record], store, "none", (2.0, 0.1))
    assert own.values == same.values
    assert own.values["PSP@1"] != other.values["PSP@1"]


def test_a_filter_that_was_not_scored(stored):
    record, store = stored
    with pytest.raises(UsageError, match="was not scored under the filter file"):
        evaluations([record], store, "file")


@pytest.fixture
def outdated(stored, altered):
    """A record whose figures are from other metrics, as it is in the store."""
    record, store = stored
    wrong = (("metrics", "none", "values", "P@1"), 9.0)
    return store.write(altered(record, (("protocol", "source_sha256"), "0" * 64), wrong)), store


def update(record, store, filter_name="none"):
    with Scorer() as scorer:
        return up_to_date(record, "tiny", filter_name, record.protocol.propensity, store, scorer, TODAY)


def test_figures_of_other_metrics_are_replaced(stored, outdated):
    record, store = outdated
    assert update(record, store) == stored[0] == store.find(record.cell)


def test_what_another_run_has_written_meanwhile_stays(outdated, altered):
    """It has other ranks: the older record would stand beside them."""
    record, store = outdated
    newer = store.write(altered(record, (("measured", "started"), "2026-01-02T00:00:00+00:00")))
    found = update(record, store)
    assert found.measured.started == newer.measured.started
    assert found.metrics["none"].values["P@1"] != 9
    assert store.find(record.cell) == found
    written = store.write(altered(found, (("measured", "started"), "2026-01-03T00:00:00+00:00")))
    assert update(record, store) == written == store.find(record.cell)


def test_a_cell_that_another_run_has_is_left_to_it(outdated):
    record, store = outdated
    with store.claim(record.cell) as claim:
        assert claim.held
        assert update(record, store) is None
        assert store.find(record.cell) == record
    store.record_path(record.cell).unlink()
    assert update(record, store) is None


def test_a_record_keeps_its_filter_where_the_other_was_not_scored(stored, outdated):
    """The figures are computed again all the same."""
    record, store = outdated
    assert update(record, store, "file") == stored[0] == store.find(record.cell)


def test_a_filter_that_was_not_scored_makes_no_record_outdated(stored, altered):
    record, _ = stored
    constants = record.protocol.propensity
    assert not is_outdated(record, "none", constants, TODAY)
    assert not is_outdated(record, "file", constants, TODAY)
    assert is_outdated(record, "none", (9.0, 9.0), TODAY)
    other = altered(record, (("metrics", "self"), as_json(record)["metrics"]["none"]), (("protocol", "filter"), "self"))
    assert is_outdated(other, "none", constants, TODAY)


def test_a_cell_that_another_run_scores_again_is_not_trained_again(chance, outdated, tiny, monkeypatch):
    """It is held for as long as that takes."""
    record, store = outdated
    made = plan(requests_of([Grid([str(tiny)], [Setting.of("ez")], ["chance"])]), Registry([chance]), store)
    assert [cell.state for cell in made.cells] == ["cached"]
    claim = store.claim(record.cell)
    assert claim.__enter__().held
    asked = []

    def fail(backoff, name):
        asked.append(name)
        if len(asked) == 2:
            claim.__exit__(None, None, None)

    monkeypatch.setattr(Backoff, "fail", fail)
    (found,) = execute(made, Target(store))
    assert found.measured.started == record.measured.started
    assert found.metrics["none"].values["P@1"] != 9
    assert store.find(record.cell) == found
    assert asked == [record.key] * 2


def test_a_cell_that_another_run_held_waits_while_the_scorer_is_busy(chance, outdated, tiny, monkeypatch):
    """The answer to the request before would be taken for its figures."""
    record, store = outdated
    grid = Grid([str(tiny)], [Setting.of("ez")], ["chance"], seeds=(0, 1))
    made = plan(requests_of([grid]), Registry([chance]), store)
    assert [cell.state for cell in made.cells] == ["cached", "to run"]
    claim = store.claim(record.cell)
    assert claim.__enter__().held
    answers, polls = deque(), []

    def send(asking, request):
        asking.is_busy = True
        answers.append(scorer._answer(msgspec.json.encode(request), {}))

    monkeypatch.setattr(Backoff, "fail", lambda *_: claim.__exit__(None, None, None))
    monkeypatch.setattr(Scorer, "_send", send)
    monkeypatch.setattr(Scorer, "_receive", lambda _: answers.popleft())
    monkeypatch.setattr(Scorer, "has_answer", property(lambda _: len(polls) > 3 or polls.append(None)))
    found = execute(made, Target(store, jobs=2))
    assert [made.ranks.file for made in found] == [store.relative(store.ranks_path(made.cell)) for made in found]
    assert found == [store.find(made.cell) for made in found]
