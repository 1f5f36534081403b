import json

import pytest

from xmcbench.errors import StorageError
from xmcbench.records import Cell, Store, read_record
from xmcbench.records.record import sealed
from xmcbench.setting import Setting
from xmcbench.storage.canonical import sha256_json

CELL = Cell("Tiny", "d" * 64, Setting.of("fs", 0.5), "e" * 64, "tfidf", {"ngrams": 2, "max_df": 1.0}, 3)


@pytest.fixture
def written(tmp_path):
    """A record as the store writes it: its path and its content."""
    record = {
        "schema": 1,
        "key": CELL.key,
        "cell": CELL.identity(),
        "method": {"title": "TF-IDF"},
        "status": "ok",
        "metrics": {"none": {"values": {"P@1": 0.3372, "R@100": 2 / 3}}},
        "environment": {"accelerators": ()},
    }
    store = Store(tmp_path)
    return store.record_path(CELL), store.write(CELL, record)


def test_a_record_is_read_as_it_was_written(written):
    path, record = written
    assert read_record(path) == json.loads(json.dumps(record))
    assert Cell.of(record) == CELL
    assert Cell.of(record).key == record["key"]


@pytest.mark.parametrize("change", [("0.3372", "0.3373"), ('"P@1"', '"P@3"'), ("TF-IDF", "TF-IDF 2")])
def test_a_record_edited_by_hand_is_named(written, change):
    path, _ = written
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change))
    with pytest.raises(StorageError, match=f"{path.name} is not as it was written"):
        read_record(path)


def test_layout_does_not_count(written):
    path, record = written
    path.write_text(json.dumps(record))
    assert read_record(path)["sha256"] == record["sha256"]


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 0.0},
        {"seed": False},
        {"seed": "0"},
        {"method": "../../elsewhere"},
        {"dataset": ".."},
        {"dataset": ""},
        {"dataset": "a\nb"},
        {"method": 3},
        {"setting": {"kind": "fs", "by": "label", "ratio": 2}},
        {"setting": {"kind": "fs"}},
        {"setting": "ez"},
        {"colour": "blue"},
    ],
)
def test_a_cell_that_no_run_could_have_is_refused(written, change):
    path, record = written
    cell = {**record["cell"], **change}
    path.write_text(json.dumps(sealed({**record, "cell": cell, "key": sha256_json(cell)})))
    with pytest.raises(StorageError, match="the cell is none that a run could have"):
        read_record(path)


def test_a_copy_is_no_second_record(written):
    path, _ = written
    store = Store(path.parents[3])
    assert len(store.records()) == 1
    path.with_name("copy.json").write_bytes(path.read_bytes())
    with pytest.raises(StorageError, match=r"copy\.json is the record of a cell whose place is"):
        store.records()


def test_what_is_no_record_says_so(written):
    path, record = written
    for content, reason in (
        ("{", "cannot read"),
        ("[" * 100_000, "cannot read"),
        (json.dumps({**record, "status": float("nan")}), "NaN is no JSON"),
        (json.dumps({**record, "status": "\ud800"}), "cannot read"),
        ("[]", "no record"),
        (json.dumps({name: value for name, value in record.items() if name != "sha256"}), "no record"),
        (json.dumps({**record, "schema": 2}), "has schema 2"),
        (json.dumps({**record, "key": "0" * 64}), "the key is not that of the cell"),
    ):
        path.write_text(content)
        with pytest.raises(StorageError, match=reason):
            read_record(path)
