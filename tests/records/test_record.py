import json
from pathlib import Path

import msgspec
import pytest

from xmcbench.environment import Compute, Hardware, Program
from xmcbench.errors import StorageError
from xmcbench.records import Cell, Record, Store, as_json, read_record
from xmcbench.records import record as record_module
from xmcbench.records.record_json import seal
from xmcbench.setting import Setting
from xmcbench.storage.canonical import canonical_json, sha256_json


@pytest.fixture
def written(record, tmp_path):
    """A record as the store writes it: its path and its content."""
    store = Store(tmp_path)
    made = store.write(record(setting=Setting.of("fs", 0.5), seed=3, value=0.3372, half_width=0.01, ngrams=2, df=1.0))
    return store.record_path(made.cell), made


def seal_again(values):
    """JSON values with the checksum that somebody would give them who knows how."""
    content = {name: value for name, value in values.items() if name != "sha256"}
    return json.dumps({**content, "sha256": sha256_json(content)})


def test_a_record_is_read_as_it_was_written(written):
    path, record = written
    assert read_record(path) == record
    assert read_record(path).cell == record.cell
    assert record.key == record.cell.key == sha256_json(as_json(record)["cell"])
    assert json.loads(path.read_text()) == json.loads(json.dumps(as_json(record)))


def test_the_key_is_that_of_earlier_records():
    """Cells that were run before keep their key, and so their place."""
    cell = Cell(
        dataset="LF-Debian-2K",
        dataset_sha256="0" * 64,
        setting=Setting.of("fs", 0.01),
        subset_sha256="1" * 64,
        method="tfidf",
        parameters={"ngrams": 2, "max_df": 1.0, "stem": None, "fast": True},
        seed=0,
    )
    identity = {
        "dataset": "LF-Debian-2K",
        "dataset_sha256": "0" * 64,
        "setting": {"kind": "fs", "by": "label", "ratio": 0.01},
        "subset_sha256": "1" * 64,
        "method": "tfidf",
        "parameters": {"ngrams": 2, "max_df": 1.0, "stem": None, "fast": True},
        "seed": 0,
    }
    assert cell.key == sha256_json(identity)
    assert cell.path == Path(f"lf-debian-2k/fs-label-0.01/tfidf-s0-{cell.key[:12]}")


@pytest.mark.parametrize("change", [("0.3372", "0.3373"), ("TFIDF", "TFIDF 2"), ("3.11", "3.12")])
def test_a_record_edited_by_hand_is_named(written, altered, change):
    path, record = written
    made = altered(record, (("environment", "packages"), {"python": "3.11"}))
    Store(path.parents[3]).write(made)
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change))
    with pytest.raises(StorageError, match=f"{path.name}: checksum mismatch"):
        read_record(path)


def test_layout_does_not_count(written):
    path, record = written
    path.write_text(json.dumps(as_json(record)))
    assert read_record(path).sha256 == record.sha256


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"seed": 0.5}, "Expected `int`"),
        ({"seed": False}, "Expected `int`"),
        ({"seed": "0"}, "Expected `int`"),
        ({"seed": -1}, ">= 0"),
        ({"seed": 2**32}, "<= 4294967295"),
        ({"seed": 3.0}, "Expected `int`"),
        ({"method": "../../elsewhere"}, "is not a valid file name"),
        ({"dataset": ".."}, "is not a valid file name"),
        ({"dataset": ""}, "is not a valid file name"),
        ({"dataset": "a\nb"}, "is not a valid file name"),
        ({"method": 3}, "Expected `str`"),
        ({"parameters": {"steps": [1]}}, r"\$\.cell\.parameters"),
        ({"dataset_sha256": "d"}, r"\$\.cell\.dataset_sha256"),
        ({"setting": {"kind": "fs", "by": "label", "ratio": 2}}, "outside"),
        ({"setting": {"kind": "fs"}}, "needs a ratio"),
        ({"setting": {"kind": "fs", "ratio": 0.5}}, "the setting is incomplete"),
        ({"setting": {"kind": "ez", "ratio": 0.5}}, "cannot be used with"),
        ({"setting": "ez"}, "Expected `object`"),
        ({"color": "blue"}, "unknown field `color`"),
    ],
)
def test_a_cell_that_no_run_could_have_is_refused(written, change, reason):
    path, record = written
    values = as_json(record)
    cell = {**values["cell"], **change}
    path.write_text(seal_again({**values, "cell": cell, "key": sha256_json(cell)}))
    with pytest.raises(StorageError, match=f"is not a valid record: .*{reason}"):
        read_record(path)


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (("metrics", "self", "values", "P@1"), "high", r"Expected `float`.*\$\.metrics\[\.\.\.\]\.values"),
        (("metrics", "self", "scored"), -1, r">= 0.*scored"),
        (("metrics", "mine"), {}, "metrics"),
        (("measured", "total_s"), -1.0, r">= 0.*total_s"),
        (("measured", "wall_s", "fit"), None, r"wall_s"),
        (("predictions", "sha256"), "x" * 64, "predictions.sha256"),
        (("predictions",), None, "predictions, ranks or figures are missing"),
        (("ranks",), None, "predictions, ranks or figures are missing"),
        (("metrics",), {}, "predictions, ranks or figures are missing"),
        (("protocol", "propensity"), None, "propensity"),
        (("protocol", "source_sha256"), None, "source_sha256"),
        (("environment", "xmcbench"), None, "xmcbench"),
        (("status",), "fine", "status"),
        (("ranks", "best"), 1, "unknown field `best`"),
        (("better",), 1, "unknown field `better`"),
    ],
)
def test_a_field_of_another_type_is_named(written, place, value, reason):
    path, record = written
    values = as_json(record)
    inner = values
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    path.write_text(seal_again(values))
    with pytest.raises(StorageError, match=f"is not a valid record: .*{reason}"):
        read_record(path)


def test_a_copy_is_not_a_second_record(written):
    path, _ = written
    store = Store(path.parents[3])
    assert len(store.records()) == 1
    path.with_name("copy.json").write_bytes(path.read_bytes())
    assert len(store.records()) == 1
    ((left_out, error),) = store.left_out.items()
    assert left_out == path.with_name("copy.json")
    assert "copy.json holds a record that belongs at" in str(error)


def test_what_is_not_a_record_says_so(written):
    path, record = written
    values = as_json(record)
    for content, reason in (
        ("{", "cannot read"),
        ("[" * 100_000, "cannot read"),
        (json.dumps({**values, "status": float("nan")}), "cannot read"),
        (json.dumps({**values, "reason": "\ud800"}), "cannot read"),
        ("[]", r"is not a record of schema 2 \(run the cell again\)"),
        (json.dumps({**values, "schema": 1}), r"is not a record of schema 2 \(run the cell again\)"),
        (json.dumps({**values, "schema": 3}), r"is not a record of schema 2 \(upgrade xmcbench\)"),
        (json.dumps({name: value for name, value in values.items() if name != "sha256"}), "checksum mismatch"),
        (seal_again({**values, "key": "0" * 64}), "the key does not match the cell"),
    ):
        path.write_text(content)
        with pytest.raises(StorageError, match=reason):
            read_record(path)


def test_the_checksum_covers_every_other_field(written):
    _, record = written
    content = {name: value for name, value in as_json(record).items() if name != "sha256"}
    assert record.sha256 == sha256_json(content)
    assert canonical_json(content) != canonical_json(as_json(record))
    changed = msgspec.structs.replace(record, log="logs/x.log")
    assert seal(changed).sha256 != record.sha256


def test_no_part_can_be_changed_or_has_a_field_that_is_not_declared():
    found = {thing for thing in vars(record_module).values() if isinstance(thing, type)}
    parts = {cls for cls in found if issubclass(cls, msgspec.Struct)} - {msgspec.Struct}
    assert {Cell, Record, Setting} <= parts
    for cls in parts | {Compute, Hardware, Program}:
        assert cls.__struct_config__.frozen, cls
        assert cls.__struct_config__.forbid_unknown_fields, cls


def test_the_name_of_a_row(record):
    assert record("tfidf").name == "TFIDF"
    assert record("tfidf", ngrams=2, df=1).name == "TFIDF (ngrams=2, df=1)"


def test_a_cell_that_took_nothing_saved_no_time(record):
    values = as_json(record())
    del values["measured"]["reused_s"]
    assert msgspec.convert(values, Record).measured.reused_s == 0.0


@pytest.mark.parametrize(
    ("setting", "values", "seedless"),
    [
        (Setting.of("ez"), {"deterministic": True}, True),
        (Setting.of("full"), {"deterministic": True}, True),  # its pairs are all pairs, whatever the seed
        (Setting.of("fs", 0.5), {"deterministic": True}, False),
        (Setting.of("fs", 0.5), {"deterministic": True, "supervision": "unused"}, True),
        (Setting.of("full"), {}, False),
    ],
)
def test_what_no_seed_would_change(record, setting, values, seedless):
    made = record(setting=setting, **values)
    given = msgspec.structs.replace(made, subset=record(setting=Setting.of("fs", 0.5)).subset)
    assert (made.seedless, given.seedless) == (seedless, seedless)
