"""The raw-text layout of the Extreme Classification repository: ``trn``, ``tst`` and ``lbl`` as JSON lines.

An instance is an object with ``uid``, ``title``, ``content`` and ``target_ind``, the 0-based line numbers of its labels
in lbl; a label has a ``title`` and optionally a ``uid``. Values are kept as they are: a uid of digits keeps its leading
zeros, HTML entities are not decoded. ``target_rel`` is not read: a pair is known or it is not. In a file without
pairs, no instance has a ``target_ind``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from xmcbench.data.compression import atomic_gzip, lines, open_source
from xmcbench.data.rows import CHARACTERS, Kind, Row, Rows, at, decoded, no_rows
from xmcbench.errors import DataError


def read_rows(path: Path, kind: Kind, size: int) -> Iterator[Rows]:
    """The rows of a JSON-lines file (.gz or plain), at most ``size`` at a time.

    Labels without a uid get their row number; either all have one or none. The same holds for the ``target_ind`` of
    instances. Raises DataError with file and line if a line is not a JSON object in UTF-8, lacks a key or has a value
    of the wrong type, or if a label has no text.
    """
    check = _Instances().check if kind == "instances" else _Labels().check
    rows, held = no_rows(), 0
    with open_source(path) as stream:
        for number, line in enumerate(lines(stream), 1):
            entry = _entry(path, number, line)
            check(path, number, entry, rows)
            uid, title, content = entry.get("uid"), entry.get("title"), entry.get("content", "")
            # json creates no subclasses, and `type is` is the fastest test.
            if type(uid) is not str or type(title) is not str or type(content) is not str:
                raise _ill_typed(path, number, entry)
            rows.uids.append(uid)
            rows.titles.append(title)
            rows.contents.append(content)
            held += len(title) + len(content)
            if len(rows.uids) == size or held >= CHARACTERS:
                yield rows
                rows, held = no_rows(), 0
    if rows.uids:
        yield rows


class _Instances:
    """The state of reading a file of instances."""

    def __init__(self) -> None:
        self._with_labels: bool | None = None

    def check(self, path: Path, number: int, entry: dict[str, object], rows: Rows) -> None:
        """Take the label ids of a line."""
        if self._with_labels is None:
            self._with_labels = "target_ind" in entry
        if self._with_labels != ("target_ind" in entry):
            raise at(path, number, "some instances have a target_ind and some have none", "give every one, or none")
        targets = entry.get("target_ind", [])
        if not isinstance(targets, list) or not set(map(type, targets)) <= {int}:
            raise at(path, number, "target_ind is not a list of integers", "expected 0-based line numbers of lbl")
        try:
            rows.targets.extend(targets)
        except OverflowError:
            raise at(
                path, number, f"target_ind {max(targets, key=abs)} is out of range", "0-based line numbers of lbl"
            ) from None
        rows.lengths.append(len(targets))


class _Labels:
    """The state of reading a file of labels."""

    def __init__(self) -> None:
        self._with_uid: bool | None = None

    def check(self, path: Path, number: int, entry: dict[str, object], rows: Rows) -> None:
        """A label has a title; its uid is the row number if no label has one. Its content is not read."""
        if self._with_uid is None:
            self._with_uid = "uid" in entry
        if self._with_uid != ("uid" in entry):
            raise at(path, number, "some labels have a uid and some have none", "give every label one, or none")
        entry.setdefault("uid", str(number - 1))
        entry["content"] = ""
        title = entry.get("title")
        if isinstance(title, str) and not title.strip():
            raise at(path, number, "the label has no text", "every label needs a title")


def _entry(path: Path, number: int, line: bytes) -> dict[str, object]:
    text = decoded(path, number, line)
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise at(path, number, f"is not JSON: {error}", "expected one JSON object per line, no blank lines") from None
    if type(entry) is not dict:
        raise at(path, number, "is not a JSON object", 'a row looks like {"uid": "7", "title": "..."}')
    return entry


def _ill_typed(path: Path, number: int, entry: dict[str, object]) -> DataError:
    values = {"uid": entry.get("uid"), "title": entry.get("title"), "content": entry.get("content", "")}
    key = next(key for key, value in values.items() if not isinstance(value, str))
    if key not in entry:
        return at(path, number, f"{key} is missing", 'a row looks like {"uid": "7", "title": "..."}')
    return at(path, number, f"{key} is {json.dumps(entry[key])[:40]}, not a string", "put it in quotes")


def write_instances(path: Path, rows: Iterable[Row]) -> None:
    """Write instances as (uid, title, content, label ids), gzipped where the name ends in .gz.

    Equal rows give equal bytes.
    """
    with atomic_gzip(path) as stream:
        for uid, title, content, labels in rows:
            ids = [int(label) for label in labels]
            row = {"uid": uid, "title": title, "content": content, "target_ind": ids, "target_rel": [1.0] * len(ids)}
            stream.write(_line(row))


def write_labels(path: Path, rows: Iterable[tuple[str, str]]) -> None:
    """Write labels as (uid, title), gzipped where the name ends in .gz; equal rows give equal bytes."""
    with atomic_gzip(path) as stream:
        for uid, title in rows:
            stream.write(_line({"uid": uid, "title": title}))


def _line(row: Mapping[str, object]) -> bytes:
    return (json.dumps(row, ensure_ascii=False) + "\n").encode()
