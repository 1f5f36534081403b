"""The raw-text layout of the Extreme Classification repository: ``trn``, ``tst`` and ``lbl`` as JSON lines.

An instance is an object with ``uid``, ``title``, ``content`` and ``target_ind``, the 0-based line numbers of its labels
in lbl; a label has a ``title`` and perhaps a ``uid``. Values are taken as they stand: a uid of digits keeps its leading
zeros, HTML entities are not decoded. ``target_rel`` is not read: a pair is known or it is not.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from xmcbench.data.compression import atomic_gzip, open_source
from xmcbench.errors import DataError

#: A file of instances (trn, tst), or of labels (lbl).
Kind = Literal["instances", "labels"]


class Rows(NamedTuple):
    """Consecutive rows of a corpus.

    targets holds the label ids of all rows one after the other, lengths how many of them each row has.
    """

    uids: list[str]
    titles: list[str]
    contents: list[str]
    targets: array[int]
    lengths: list[int]


def read_rows(path: Path, kind: Kind, size: int) -> Iterator[Rows]:
    """The rows of a JSON-lines file (.gz or plain), at most ``size`` at a time.

    Labels without a uid get their row number; either all have one or none. Raises DataError with file and line when a
    line is not a JSON object in UTF-8, lacks a key or has one of the wrong type, or when a label has no text.
    """
    lone = None
    rows = _empty()
    with open_source(path) as stream:
        for number, line in enumerate(stream, 1):
            entry = _entry(path, number, line)
            uid, title, content = entry.get("uid"), entry.get("title"), entry.get("content", "")
            if kind == "labels":
                if lone is None:
                    lone = "uid" not in entry
                if lone and "uid" not in entry:
                    uid = str(number - 1)
                if lone != ("uid" not in entry):
                    raise at(path, number, "some labels have a uid and some have none", "give every label one, or none")
            # Subclasses cannot occur in what json reads, and `type is` is the fastest test there is.
            if type(uid) is not str or type(title) is not str or type(content) is not str:
                raise _ill_typed(path, number, entry, ("uid", "title", "content"))
            if kind == "labels":
                if not title or title.isspace():
                    raise at(path, number, "the label has no text", "every label needs a title")
            else:
                targets = entry.get("target_ind")
                if type(targets) is not list or not set(map(type, targets)) <= {int}:
                    raise at(path, number, "target_ind is no list of integers", "0-based line numbers of lbl")
                try:
                    rows.targets.extend(targets)
                except OverflowError:
                    raise at(path, number, f"target_ind {max(targets, key=abs)} names no label") from None
                rows.lengths.append(len(targets))
            rows.uids.append(uid)
            rows.titles.append(title)
            rows.contents.append(content)
            if len(rows.uids) == size:
                yield rows
                rows = _empty()
    if rows.uids:
        yield rows


def _empty() -> Rows:
    return Rows([], [], [], array("i"), [])


def _entry(path: Path, number: int, line: bytes) -> dict[str, object]:
    try:
        entry = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        reason = "is not UTF-8" if isinstance(error, UnicodeDecodeError) else f"is not JSON: {error}"
        raise at(path, number, reason, "one JSON object a line, no blank lines") from None
    if type(entry) is not dict:
        raise at(path, number, "is no JSON object", 'a row looks like {"uid": "7", "title": "..."}')
    return entry


def _ill_typed(path: Path, number: int, entry: dict[str, object], keys: Iterable[str]) -> DataError:
    for key in keys:
        if not isinstance(entry.get(key, "" if key == "content" else None), str):
            what = f"is {json.dumps(entry[key])[:40]}, not a string" if key in entry else "is missing"
            return at(path, number, f"{key} {what}")
    raise AssertionError("called for a row whose texts are all strings")


def at(path: Path, line: int, what: str, hint: str = "") -> DataError:
    """The error of a broken line: file and 1-based line number first."""
    return DataError(f"{path}, line {line}: {what}", hint)


def write_rows(
    path: Path,
    uids: Iterable[str],
    titles: Iterable[str],
    contents: Iterable[str] | None = None,
    targets: Iterable[Sequence[int]] | None = None,
) -> None:
    """Write a JSON-lines file, gzipped where the name ends in .gz; equal rows give equal bytes.

    Without ``contents`` and ``targets`` it is a file of labels: uid and title only.
    """
    with atomic_gzip(path) as stream:
        if contents is None or targets is None:
            for uid, title in zip(uids, titles, strict=True):
                stream.write(_line({"uid": uid, "title": title}))
            return
        for uid, title, content, labels in zip(uids, titles, contents, targets, strict=True):
            ids = [int(label) for label in labels]
            row = {"uid": uid, "title": title, "content": content, "target_ind": ids, "target_rel": [1.0] * len(ids)}
            stream.write(_line(row))


def _line(row: dict[str, object]) -> bytes:
    return (json.dumps(row, ensure_ascii=False) + "\n").encode()
