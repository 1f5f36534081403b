import pytest

from xmcbench.errors import StorageError
from xmcbench.records import equivalence
from xmcbench.records.equivalence import (
    FILE,
    Evidence,
    equal_sources,
    read_equivalence,
    read_file,
    with_evidence,
    write_file,
)

ONE, TWO, THREE = ("1" * 64, "2" * 64, "3" * 64)


def evidence(source, kind="canaries"):
    return Evidence(source=source, kind=kind, date="2026-01-02", processor="P", outcome="equal on 3 canaries")


def test_a_file_is_read_as_it_was_written(tmp_path):
    lists = {"tfidf": ((evidence(ONE, "first"), evidence(TWO)),), "ranks": ((evidence(None, "first"), evidence(TWO)),)}
    write_file(tmp_path / FILE, lists)
    assert read_file(tmp_path / FILE) == lists
    assert read_file(tmp_path / "elsewhere" / FILE) == {}


@pytest.mark.parametrize("content", ["", "[]", '{"tfidf": [[{}]]}', '{"tfidf": [[{"source": "short"}]]}', "{"])
def test_a_damaged_file_is_named(tmp_path, content):
    (tmp_path / FILE).write_text(content)
    with pytest.raises(StorageError, match=FILE):
        read_equivalence(tmp_path)


def test_the_lists_of_several_folders_stand_side_by_side(tmp_path, monkeypatch):
    board, own = tmp_path / "board", tmp_path / "own"
    monkeypatch.setattr(equivalence, "find_shipped", lambda name: board)
    for folder, listed in ((board, (evidence(ONE), evidence(TWO))), (own, (evidence(TWO), evidence(THREE)))):
        folder.mkdir()
        write_file(folder / FILE, {"tfidf": (listed,)})
    found = read_equivalence(own, board)
    assert equal_sources(found, "tfidf", ONE) == {ONE, TWO}
    assert equal_sources(found, "tfidf", TWO) == {ONE, TWO, THREE}
    assert equal_sources(found, "bm25", TWO) == {TWO}
    assert equal_sources(read_equivalence(board), "tfidf", THREE) == {THREE}


def sources(equivalence):
    return [[entry.source for entry in listed] for listed in equivalence["tfidf"]]


def test_a_source_goes_into_the_list_of_an_earlier_one():
    one = with_evidence({}, "tfidf", ONE, evidence(TWO))
    assert sources(one) == [[ONE, TWO]]
    assert [entry.kind for entry in one["tfidf"][0]] == ["first", "canaries"]
    assert sources(with_evidence(one, "tfidf", TWO, evidence(THREE))) == [[ONE, TWO, THREE]]
    assert sources(with_evidence(one, "tfidf", THREE, evidence("4" * 64))) == [[ONE, TWO], [THREE, "4" * 64]]
    again = with_evidence(one, "tfidf", ONE, Evidence(source=TWO, kind="reruns", date="2026-02-03", processor="P"))
    assert [(entry.source, entry.kind) for entry in again["tfidf"][0]] == [(ONE, "first"), (TWO, "reruns")]
    assert with_evidence(one, "bm25", None, evidence(TWO))["tfidf"] == one["tfidf"]
