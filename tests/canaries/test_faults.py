"""Planted faults: each is one that a canary shows. ``planting.py`` plants all of them; here, a few."""

import json
from pathlib import Path

import pytest
from planting import SOURCES, Fault, copy, faults, plant, python, see

METHODS = Path(__file__).parents[2] / "methods"
#: Small changes that no result depends on.
HARMLESS = [
    Fault("sparse/search.py", "a renamed variable", "kept = weights > 0", "kept = above = weights > 0"),
    Fault("words/analysis.py", "an unused function", "def _ngrams(", "def _unused():\n    return 1\n\n\ndef _ngrams("),
]


def test_the_text_of_every_fault_is_there_once():
    counts = {fault.what: (METHODS / fault.file).read_text().count(fault.old) for fault in faults()}
    assert len(counts) == len(faults()) >= 40
    assert {what: count for what, count in counts.items() if count != 1} == {}
    assert not [fault.what for fault in faults() if fault.old == fault.new]


def test_there_is_a_fault_in_every_package():
    folders = {file.parent.relative_to(METHODS).as_posix() for file in METHODS.rglob("*.py")}
    assert folders == {Path(fault.file).parent.as_posix() for fault in faults()}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    copy(folder / "unchanged")
    return json.loads(python(folder / "unchanged", "-c", SOURCES))


@pytest.mark.slow
@pytest.mark.parametrize(
    "what", ["weights of votes and text are exchanged", "hinge is not squared", "window: one word less"]
)
def test_a_fault_is_seen(sources, tmp_path, what):
    fault = next(fault for fault in faults() if fault.what == what)
    seen = see(fault, sources, tmp_path)
    assert seen.different, seen
    assert "**" not in seen.row()


@pytest.mark.slow
@pytest.mark.parametrize("change", HARMLESS, ids=lambda change: change.what)
def test_a_change_that_is_none_is_not(sources, tmp_path, change):
    seen = see(change, sources, tmp_path, only=("knn", "tfidf"))
    assert seen.run > 3
    assert not seen.different


def test_a_text_that_is_not_there(tmp_path):
    copy(tmp_path / "tree")
    with pytest.raises(ValueError, match="0 times"):
        plant(Fault("knn.py", "nothing", "no such text", ""), tmp_path / "tree")
