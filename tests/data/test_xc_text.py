import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmcbench.data.sources.xc_raw import json_part, read_rows, write_instances
from xmcbench.data.store import _Reader, load_corpus
from xmcbench.errors import DataError
from xmcbench.texts import Texts

_TEXT = st.text(st.characters(blacklist_categories=("Cs",)), max_size=12)
_ROW = st.tuples(_TEXT, _TEXT, _TEXT, st.lists(st.integers(0, 9), max_size=4))


@given(st.lists(_ROW, min_size=1, max_size=6, unique_by=lambda row: row[0]), st.sampled_from(["a.json", "a.json.gz"]))
def test_instances_are_read_as_they_were_written(tmp_path_factory, rows, name):
    path = tmp_path_factory.mktemp("text") / name
    write_instances(path, rows)
    read = [*read_rows(path, "instances")]
    assert [(row.path, row.line) for row in read] == [(path, line) for line in range(1, len(rows) + 1)]
    assert [(row.uid, row.title, row.content, list(row.labels)) for row in read] == rows
    folder = tmp_path_factory.mktemp("store")
    load_corpus(json_part(path, "instances"), folder)
    texts = Texts.open(folder / "texts.arrow")
    assert list(texts.titles) == [row[1] for row in rows]
    assert list(texts.contents) == [row[2] for row in rows]
    assert list(texts.uids) == [row[0] for row in rows]


def test_labels_need_a_title_only(tmp_path):
    path = tmp_path / "lbl.json"
    path.write_text('{"title": "one"}\n{"title": "two", "target_ind": null}\n')
    rows = read_rows(path, "labels")
    assert [(row.uid, row.title, row.content) for row in rows] == [("0", "one", ""), ("1", "two", "")]
    assert not load_corpus(json_part(path, "labels"), tmp_path).uids
    path.write_text('{"title": "one", "content": 7}\n')
    with pytest.raises(DataError, match=r"lbl\.json, line 1: content is 7, not a string"):
        load_corpus(json_part(path, "labels"), tmp_path / "other")


def test_a_title_only_instance_has_an_empty_content(tmp_path):
    path = tmp_path / "trn.json"
    path.write_text('{"uid": "1", "title": "one", "target_ind": [0]}\n')
    (row,) = read_rows(path, "instances")
    assert row.content == ""


GOOD = {"uid": "1", "title": "t", "content": "c", "target_ind": [0]}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "is not JSON"),
        (b"", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[1]", "is not a JSON object"),
        (b'{"title": "\xff"}', "is not UTF-8"),
        ({**GOOD, "uid": 7}, "uid is 7, not a string"),
        ({**GOOD, "title": None}, "title is null, not a string"),
        ({**GOOD, "content": ["c"]}, 'content is ["c"], not a string'),
        ({key: GOOD[key] for key in ("title", "content", "target_ind")}, "uid is missing"),
        ({key: GOOD[key] for key in ("uid", "content", "target_ind")}, "title is missing"),
        (
            {key: GOOD[key] for key in ("uid", "title", "content")},
            "some instances have a target_ind and some have none",
        ),
        ({**GOOD, "target_ind": None}, "target_ind is not a list of integers"),
        ({**GOOD, "target_ind": [0.0]}, "target_ind is not a list of integers"),
        ({**GOOD, "target_ind": [True]}, "target_ind is not a list of integers"),
        ({**GOOD, "target_ind": 3}, "target_ind is not a list of integers"),
        ({**GOOD, "target_ind": [-1]}, "target_ind -1 is out of range"),
        ({**GOOD, "target_ind": [2**40]}, f"target_ind {2**40} is out of range"),
        (b'{"uid": "1", "title": "half \\ud800", "target_ind": []}', "half a surrogate pair"),
    ],
)
def test_a_broken_instance_names_file_and_line(tmp_path, line, reason):
    path = tmp_path / "trn.json"
    first = json.dumps({**GOOD, "uid": "0"}).encode()
    path.write_bytes(first + b"\n" + (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n")
    with pytest.raises(DataError) as caught:
        load_corpus(json_part(path, "instances"), tmp_path)
    assert f"{path}, line 2: " in caught.value.message
    assert reason in caught.value.message
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"uid": "2", "title": " "}', "the label has no text"),
        (b'{"uid": "2", "title": ""}', "the label has no text"),
        (b'{"uid": "2"}', "title is missing"),
        (b'{"title": "two"}', "some labels have a uid and some have none"),
        (b'{"uid": "1", "title": "two"}', "duplicate uid '1', first in line 1"),
    ],
)
def test_a_broken_label_names_file_and_line(tmp_path, line, reason):
    path = tmp_path / "lbl.json"
    path.write_bytes(b'{"uid": "1", "title": "one"}\n' + line + b"\n")
    with pytest.raises(DataError) as caught:
        load_corpus(json_part(path, "labels"), tmp_path)
    assert f"{path}, line 2: {reason}" in caught.value.message


@pytest.mark.parametrize("kind", ["instances", "labels"])
def test_an_empty_corpus_is_said(tmp_path, kind):
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b""))
    with pytest.raises(DataError, match="is empty"):
        load_corpus(json_part(path, kind), tmp_path)


def test_a_byte_order_mark_is_left_out(tmp_path):
    path = tmp_path / "lbl.json"
    path.write_bytes('\ufeff{"title": "one"}\n'.encode())
    (row,) = read_rows(path, "labels")
    assert row.title == "one"


def test_a_file_cut_inside_a_line_is_said(tmp_path):
    path = tmp_path / "trn.json"
    path.write_text(json.dumps(GOOD) + '\n{"uid": "2", "ti')
    with pytest.raises(DataError, match="line 2: is not JSON"):
        load_corpus(json_part(path, "instances"), tmp_path)


def test_a_file_without_pairs_has_no_target_ind(tmp_path):
    path = tmp_path / "trn.json"
    path.write_text('{"uid": "1", "title": "one"}\n{"uid": "2", "title": "two"}\n')
    assert [[*row.labels] for row in read_rows(path, "instances")] == [[], []]
    assert load_corpus(json_part(path, "instances"), tmp_path).pairs == 0


@pytest.mark.parametrize(("name", "limit", "sizes"), [("ROWS", 2, [2, 2, 1]), ("CHARACTERS", 10, [1] * 5)])
def test_rows_are_kept_in_batches(tmp_path, monkeypatch, name, limit, sizes):
    monkeypatch.setattr(f"xmcbench.data.store.{name}", limit)
    write_instances(tmp_path / "trn.json", [(str(row), "title", "content", []) for row in range(5)])
    batches = _Reader(json_part(tmp_path / "trn.json", "instances")).batches()
    assert [batch.num_rows for batch in batches] == sizes
