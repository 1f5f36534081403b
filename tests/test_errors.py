"""Errors across processes."""

import pickle

import pytest

from xmcbench import errors
from xmcbench.errors import DataError, StorageError, UnknownName, UsageError, XmcbenchError, kind_of, of_kind, summarize
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


class OfPlugin(UsageError):
    """With an attribute of its own."""

    def __init__(self, first, second):
        super().__init__(f"{first} {second}")
        self.first = first


class Empty(XmcbenchError):
    """Without a message."""

    def __init__(self):
        pass


def test_an_error_of_a_plug_in_is_whole_after_pickle():
    error = OfPlugin(1, "two")
    error.add_note("in the third batch")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.first, again.__notes__) == (OfPlugin, "1 two", 1, ["in the third batch"])
    assert str(pickle.loads(pickle.dumps(Empty()))) == ""


@pytest.mark.parametrize("kind", ["", "Nothing", "Iterable", "summarize", "_FULL_DISK", "__name__"])
def test_a_kind_that_there_is_not_is_an_error_of_any_kind(kind):
    again = of_kind(kind, "gone", "look")
    assert (type(again), str(again)) == (XmcbenchError, "gone (look)")


@pytest.mark.parametrize(("error", "kind"), [*zip(MADE, (DataError, UnknownName, StorageError), strict=True)])
def test_another_process_raises_the_nearest_kind_of_error(error, kind):
    again = of_kind(kind_of(error), error.message, error.hint)
    assert (type(again), str(again)) == (kind, str(error))


def test_every_kind_is_of_this_module():
    for kind in (XmcbenchError, UsageError, UnknownName):
        assert getattr(errors, kind_of(kind.__new__(kind))) is kind


def test_what_an_error_of_somebody_else_says():
    assert summarize(ValueError("two\nlines \x1b[31m")) == r"ValueError: two lines \x1b[31m"
    assert summarize(KeyboardInterrupt()) == "KeyboardInterrupt"


def test_an_error_that_cannot_say_anything_has_its_class():
    class Mute(Exception):
        def __str__(self):
            raise AttributeError("message")

    assert summarize(Mute()) == "Mute"
