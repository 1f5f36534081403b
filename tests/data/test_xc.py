"""The files of the XC repository: matrices, filters, and raw text."""

import gzip
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix, random

from xmcbench.data.sources.xc_raw import json_part, read_rows, write_instances
from xmcbench.data.store import _Reader, load_corpus
from xmcbench.data.xc_matrix import (
    read_filter,
    read_matrix,
    write_filter,
    write_matrix,
)
from xmcbench.errors import DataError
from xmcbench.texts import Texts

_VALUES = st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False).filter(bool)


@st.composite
def matrices(draw, values=_VALUES):
    """Sparse matrices with empty rows, empty ones among them."""
    rows = draw(st.integers(0, 5))
    columns = draw(st.integers(1, 6))
    cells = draw(st.dictionaries(st.tuples(st.integers(0, max(0, rows - 1)), st.integers(0, columns - 1)), values))
    dense = np.zeros((rows, columns), np.float32)
    for cell, value in cells.items():
        if rows:
            dense[cell] = value
    return csr_matrix(dense)


def _same(one, other):
    assert one.shape == other.shape
    assert one.dtype == other.dtype == np.float32
    for part in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(one, part), getattr(other, part))


@given(matrices(), st.sampled_from(["m.txt", "m.txt.gz"]))
def test_a_matrix_is_read_as_it_was_written(tmp_path_factory, matrix, name):
    path = tmp_path_factory.mktemp("matrix") / name
    write_matrix(path, matrix)
    _same(read_matrix(path), matrix)


@given(matrices(values=st.just(1.0)), st.sampled_from(["f.txt", "f.txt.gz"]))
def test_a_filter_is_read_as_it_was_written(tmp_path_factory, pairs, name):
    path = tmp_path_factory.mktemp("filter") / name
    write_filter(path, pairs)
    _same(read_filter(path, *pairs.shape), pairs)


def test_a_larger_matrix_is_read_as_it_was_written(tmp_path):
    matrix = random(200, 1000, 0.01, "csr", np.float32, np.random.RandomState(0))
    matrix.sort_indices()
    write_matrix(tmp_path / "m.txt", matrix)
    _same(read_matrix(tmp_path / "m.txt"), matrix)


@pytest.mark.parametrize(
    "text",
    [
        "2 4\n3:1.5 0:2\n\n",
        "2 4\r\n3:1.5 0:2\r\n\r\n",
        "2 4\n  3:1.5   0:2 \n \n",
        "2 4\n3:1.5\t0:+2e0\n\n",
        "\ufeff2 4\n3:1.5 0:2\n\n",
    ],
)
def test_forms_seen_in_the_wild_read_alike(tmp_path, text):
    (tmp_path / "m.txt").write_bytes(text.encode())
    matrix = read_matrix(tmp_path / "m.txt")
    assert matrix.toarray().tolist() == [[2, 0, 0, 1.5], [0, 0, 0, 0]]
    assert matrix.has_sorted_indices


def test_a_last_line_needs_no_newline(tmp_path):
    (tmp_path / "m.txt").write_text("1 4\n3:1")
    assert read_matrix(tmp_path / "m.txt").nnz == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "line 1: the header is ''"),
        ("2\n", "line 1: the header is '2'"),
        ("2 x\n", "line 1: the header is '2 x'"),
        ("2 4\n0:1\n4:1\n", "line 3: column 4 is out of range"),
        ("2 4\n0:1\n-1:1\n", "line 3: '-1' is not a column number"),
        ("2 4\n0:1\n0x1:1\n", "line 3: '0x1' is not a column number"),
        ("2 4\n0:1\n1:one\n", "line 3: '1:one' is not an entry"),
        ("2 4\n0:1\n1\n", "line 3: '1' is not an entry"),
        ("2 4\n0:1\n1:\n", "line 3: '1:' is not an entry"),
        ("2 4\n0:1\n1:1:1\n", "line 3: '1:1:1' is not an entry"),
        ("2 4\n0:nan\n\n", "line 2: '0:nan' is not an entry"),
        ("2 4\n\n0:inf\n", "line 3: '0:inf' is not an entry"),
        ("2 4\n1:1\n1:1 2:1 1:1\n", "line 3: column 1 is given more than once"),
        ("2 4\n0:1\n", "has 1 row, but its header '2 4' says 2"),
        ("2 4\n0:1\n\n\n", "has 3 rows, but its header '2 4' says 2"),
    ],
)
def test_a_broken_matrix_names_file_and_line(tmp_path, text, reason):
    (tmp_path / "m.txt").write_text(text)
    with pytest.raises(DataError) as caught:
        read_matrix(tmp_path / "m.txt")
    assert "m.txt" in caught.value.message
    assert reason in caught.value.message


def test_an_error_far_down_names_its_line(tmp_path):
    (tmp_path / "m.txt").write_text("50 4\n" + "0:1 3:1\n" * 40 + "0:1 9:1\n" + "\n" * 9)
    with pytest.raises(DataError, match="line 42: column 9 is out of range"):
        read_matrix(tmp_path / "m.txt")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0 1\n2 0\n", "line 2: document 2 is out of range"),
        ("0 1\n1 3\n", "line 2: label 3 is out of range"),
        ("0 1\n1\n", "line 2: '1' is not a pair"),
        ("0 1 1\n", "line 1: '0 1 1' is not a pair"),
        ("0 b\n", "line 1: 'b' is not a label number"),
        ("0 1\n\ufeff1 2\n", r"line 2: '\ufeff1' is not a document number"),
    ],
)
def test_a_broken_filter_names_file_and_line(tmp_path, text, reason):
    (tmp_path / "f.txt").write_text(text)
    with pytest.raises(DataError, match="f.txt") as caught:
        read_filter(tmp_path / "f.txt", 2, 3)
    assert reason in caught.value.message


def test_a_filter_may_be_empty_and_may_say_a_pair_twice(tmp_path):
    (tmp_path / "f.txt").write_text("")
    assert read_filter(tmp_path / "f.txt", 2, 3).nnz == 0
    (tmp_path / "f.txt").write_text("1 2\n0 1\n1 2\n")
    assert read_filter(tmp_path / "f.txt", 2, 3).toarray().tolist() == [[0, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize("text", ["\ufeff0 1\n1 2\n", "\ufeff0 1\r\n\n1  2"])
def test_a_filter_may_begin_with_a_byte_order_mark(tmp_path, text):
    (tmp_path / "f.txt").write_bytes(text.encode())
    assert read_filter(tmp_path / "f.txt", 2, 3).toarray().tolist() == [[0, 1, 0], [0, 0, 1]]
    (tmp_path / "f.txt").write_bytes("\ufeff".encode())
    assert read_filter(tmp_path / "f.txt", 2, 3).nnz == 0


def test_a_truncated_matrix_is_said(tmp_path):
    packed = gzip.compress(("9 4\n" + "0:1.25 3:0.75\n" * 9).encode())
    (tmp_path / "m.txt.gz").write_bytes(packed[:-12])
    with pytest.raises(DataError, match="truncated"):
        read_matrix(tmp_path / "m.txt.gz")


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
