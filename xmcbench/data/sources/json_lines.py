"""Files with one JSON object per line, or with an array of objects."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from xmcbench.data.compression import lines, open_source, whole
from xmcbench.data.rows import at, decoded, unmarked
from xmcbench.storage.atomic import atomic_file

#: Bytes of an array, which is read as a whole.
_ARRAY = 256 << 20


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """(line number, object) of every line that is not blank. Raises DataError with file and line for anything else."""
    with open_source(path) as stream:
        for number, line in enumerate(lines(stream), 1):
            text = decoded(path, number, line)
            if text.strip():
                yield number, object_of(path, number, text, "expected one JSON object per line")


def read_rows(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """(number, object) of every row of a .json file: JSON Lines with the number of the line, or an array of objects.

    Raises DataError with file and number for anything else.
    """
    with open_source(path) as stream:
        if not unmarked(stream.peek(1024)).lstrip().startswith(b"["):  # type: ignore[attr-defined]
            yield from read_objects(path)
            return
        content = whole(stream, _ARRAY, "an array, which is read at once,")
    hint = "expected one JSON object per line, or an array of objects"
    try:
        rows = json.loads(unmarked(content))
    except (ValueError, RecursionError) as error:
        raise at(path, 1, f"is not JSON: {error}", hint) from None
    for number, row in enumerate(rows, 1):
        if type(row) is not dict:
            raise at(path, number, "is not a JSON object", hint)
        yield number, row


def object_of(path: Path, number: int, text: str, hint: str = "expected a JSON object") -> dict[str, object]:
    """The JSON object that a text is. Raises DataError with file and line for anything else."""
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise at(path, number, f"is not JSON: {error}", hint) from None
    if type(entry) is not dict:
        raise at(path, number, "is not a JSON object", hint)
    return entry


def write_objects(path: Path, entries: Iterable[Mapping[str, object]]) -> None:
    """Write one object per line, UTF-8. Raises StorageError."""
    with atomic_file(path) as stream:
        for entry in entries:
            stream.write(f"{json.dumps(entry, ensure_ascii=False)}\n".encode())


def string_of(path: Path, number: int, entry: Mapping[str, object], key: str, default: str | None = None) -> str:
    """The string at a key, or the default where the key is missing or null. A number is taken by its digits.

    Raises DataError with file and line for any other value.
    """
    value = entry.get(key)
    if value is None and default is not None:
        return default
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        if key not in entry:
            raise at(path, number, f"{key} is missing", f'a row looks like {{"{key}": "...", ...}}')
        raise at(path, number, f"{key} is {json.dumps(value)[:40]}, not a string", "put it in quotes")
    return value
