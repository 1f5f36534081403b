"""Evaluations from stored ranks: under which constants, and what is missing."""

import msgspec
import pytest

from xmcbench.errors import DataError, StorageError
from xmcbench.records import Store
from xmcbench.runner.rescoring import evaluations


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
    with pytest.raises(StorageError, match="was not scored under the filter file"):
        evaluations([record], store, "file")
