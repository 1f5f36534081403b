"""Figures computed from stored ranks: under which constants, what is missing, and what another run has meanwhile."""

import msgspec
import pytest

from xmcbench.errors import DataError, UsageError
from xmcbench.plugins.registry import Registry
from xmcbench.records import Staleness, Store, as_json
from xmcbench.runner.execution import execute
from xmcbench.runner.grid import Grid, requests_of
from xmcbench.runner.plan import plan
from xmcbench.runner.schedule import Backoff
from xmcbench.runner.scorer import Scorer
from xmcbench.runner.scoring import evaluations, is_outdated, up_to_date
from xmcbench.runner.target import Target
from xmcbench.setting import Setting

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
    unknown = msgspec.structs.replace(record, protocol=msgspec.structs.replace(record.protocol, propensity=None))
    with pytest.raises(DataError, match="the propensities of tiny are not known"):
        evaluations([unknown], store, "none")
    assert evaluations([unknown], store, "none", (2.0, 0.1))


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
    assert not is_outdated(msgspec.structs.replace(other, ranks=None), "none", constants, TODAY)


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
