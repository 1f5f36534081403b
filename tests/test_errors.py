"""Errors across processes."""

import pickle

import pytest

from xmcbench import errors
from xmcbench.errors import DataError, StorageError, UnknownName, UsageError, XmcbenchError, kind_of, of_kind, told
from xmcbench.records.record_json import DamagedRecord

MADE = [
    DataError("no text", "add one"),
    UnknownName("method", "tfdif", ["tfidf", "bm25"]),
    DamagedRecord("not a record", "run again"),
]


@pytest.mark.parametrize("error", MADE)
def test_an_error_is_the_same_after_pickle(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.message, again.hint, str(again)) == (type(error), error.message, error.hint, str(error))


@pytest.mark.parametrize(("error", "kind"), [*zip(MADE, (DataError, UnknownName, StorageError), strict=True)])
def test_another_process_raises_the_nearest_kind_of_error(error, kind):
    again = of_kind(kind_of(error), error.message, error.hint)
    assert (type(again), str(again)) == (kind, str(error))


def test_every_kind_is_of_this_module():
    for each in (XmcbenchError, UsageError, UnknownName):
        assert getattr(errors, kind_of(each.__new__(each))) is each


def test_what_an_error_of_somebody_else_says():
    assert told(ValueError("two\nlines \x1b[31m")) == r"ValueError: two lines \x1b[31m"
    assert told(KeyboardInterrupt()) == "KeyboardInterrupt"
