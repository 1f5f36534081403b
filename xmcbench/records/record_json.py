"""A record as JSON: sealed when it is written, checked when it is read.

``sha256`` covers all the other fields, as canonical JSON: a record that was edited by hand is rejected.

Decoding and its error messages are msgspec's: it checks types while it parses, names the wrong field, and imports in a
few milliseconds, so that ``xmcbench ls`` stays fast.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from xmcbench.errors import StorageError
from xmcbench.output.escaping import visible
from xmcbench.records.record import SCHEMA, Cell, Record
from xmcbench.storage.canonical import canonical_json, sha256_json
from xmcbench.storage.reading import Unreadable, read_bytes

_AGAIN = "run the cell again"


class DamagedRecord(StorageError):
    """The file of a record does not hold one, or was changed after it was written."""


def as_json(record: Record) -> dict[str, Any]:
    """The record as JSON values."""
    values: dict[str, Any] = msgspec.to_builtins(record, str_keys=True)
    return values


def seal(record: Record) -> Record:
    """The record with the checksum of its content."""
    return msgspec.structs.replace(record, sha256=_seal(as_json(record)))


def check_readable(part: Cell | Record) -> None:
    """Raise ValueError, saying why, for a cell or a record that could be written but not be read back.

    A method decides what its parameters and notes are: half of a surrogate pair, a number of a thousand digits.
    """
    try:
        text = canonical_json(msgspec.to_builtins(part, str_keys=True))
        msgspec.json.decode(text.encode(), type=type(part))
    except (ValueError, TypeError, OverflowError, msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"a record cannot hold it: {visible(str(error))}") from error


def read_record(path: Path) -> Record:
    """Read the record in a file. Raises StorageError where it cannot be read, and what ``parse_record`` raises."""
    try:
        content = read_bytes(path)
    except (OSError, Unreadable) as error:
        raise StorageError(f"cannot read the record {path}: {error}", "move or delete it") from error
    return parse_record(content, str(path))


def parse_record(content: bytes, place: str) -> Record:
    """Return the record that these bytes hold. place: of the bytes, for messages.

    Raises StorageError for one of a later schema, and DamagedRecord, a StorageError too, for one that is damaged,
    edited or not a record.
    """
    if record := _parse_canonical(content):
        return record
    try:
        values = msgspec.json.decode(content)
        # Before all else: half a surrogate pair is JSON, but not text.
        seal = _seal(values) if isinstance(values, dict) else sha256_json(values)
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise DamagedRecord(f"cannot read the record {place}: {error}", _AGAIN) from error
    schema = values.get("schema") if isinstance(values, dict) else None
    if schema != SCHEMA:
        problem = f"{place} is not a record of schema {SCHEMA}"
        is_later = isinstance(schema, int) and schema > SCHEMA
        raise StorageError(problem, "upgrade xmcbench") if is_later else DamagedRecord(problem, _AGAIN)
    try:
        record = msgspec.convert(values, Record)
    except (ValueError, msgspec.MsgspecError) as error:
        raise DamagedRecord(f"{place} is not a valid record: {error}", _AGAIN) from error
    if seal != values.get("sha256"):
        raise DamagedRecord(f"{place}: checksum mismatch", "restore the file or run the cell again")
    return record


def _parse_canonical(content: bytes) -> Record | None:
    """Return the record in canonical JSON, whose checksum is that of the bytes; None if it takes a closer look."""
    try:
        record = msgspec.json.decode(content, type=Record)
    except (ValueError, msgspec.MsgspecError, RecursionError):
        return None
    before, _, after = content.partition(f'"sha256":"{record.sha256}","status":'.encode())
    whole = b"\\u" not in content and hashlib.sha256(before + b'"status":' + after).hexdigest() == record.sha256
    return record if whole else None


def _seal(values: Mapping[str, Any]) -> str:
    return sha256_json({name: value for name, value in values.items() if name != "sha256"})


def differences(
    first: object, second: object, place: str, tolerance: float = 0.0
) -> Iterator[tuple[str, object, object]]:
    """Yield each leaf in which two values of JSON differ, as (place, first, second); a missing one is None.

    place: the name of the values, such as ``metrics``; leaves are named ``metrics.self.scored`` or
    ``propensity[0]``. tolerance: relative and absolute difference up to which numbers are equal. Lists of different
    lengths are leaves.
    """
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for name in sorted({*first, *second}):
            yield from differences(first.get(name), second.get(name), f"{place}.{name}", tolerance)
    elif isinstance(first, list | tuple) and isinstance(second, list | tuple) and len(first) == len(second):
        for position, (one, other) in enumerate(zip(first, second, strict=True)):
            yield from differences(one, other, f"{place}[{position}]", tolerance)
    elif isinstance(first, float | int) and isinstance(second, float | int):
        if not math.isclose(first, second, rel_tol=tolerance, abs_tol=tolerance):
            yield place, first, second
    elif first != second:
        yield place, first, second
