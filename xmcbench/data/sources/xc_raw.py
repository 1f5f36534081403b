"""The raw-text layout of the Extreme Classification repository: ``trn``, ``tst`` and ``lbl`` as JSON lines.

An instance is an object with ``uid``, ``title``, ``content`` and ``target_ind``, the 0-based line numbers of its labels
in lbl; a label has a ``title`` and optionally a ``uid``, ``alternatives`` (a list of other names), a ``content`` (such
as a definition) and ``parents`` (a list of uids of broader labels). Values are kept as they are: a uid of digits keeps
its leading zeros, HTML entities are not decoded. ``target_rel`` is not read: a pair is known or it is not. In a file
without pairs, no instance has a ``target_ind``.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from xmcbench.data.sources import Content, Holding, Part, Place, Row, Source
from xmcbench.data.sources.records import parse_object, write_objects
from xmcbench.data.sources.source import (
    SHORT_NAMES,
    Instance,
    Kind,
    clean_details,
    instance_rows,
    label_ids,
    label_rows,
)
from xmcbench.data.sources.text_lines import MARK, write_lines
from xmcbench.data.text_files import at, number_lines, parse_finite, read_lines
from xmcbench.errors import DataError
from xmcbench.output.quantities import format_count

#: The file of pairs in the archive of the MACLR example.
_PAIRS = "all_pairs.txt"


class XCRaw(Source):
    """``trn.json``, ``tst.json`` and ``lbl.json``, each plain or gzipped."""

    name = "xc"
    title = "raw text of the Extreme Classification repository: trn, tst and lbl as .json.gz"
    holds_details = True

    @classmethod
    def recognize(cls, place: Place) -> bool:
        return place.find("lbl.json", "trn.json") is not None

    def find_parts(self) -> Holding:
        labels, train, test = (self.place.find(f"{name}.json") for name in ("lbl", "trn", "tst"))
        if labels is None or not (train or test):
            missing = "trn.json.gz, tst.json.gz" if labels else "lbl.json.gz"
            hint = "a dataset folder holds trn, tst and lbl as .json.gz or .json"
            raise DataError(f"{self.place.path} has no {missing}", hint)
        instances = [json_part(path, "instances") if path else None for path in (train, test)]
        return Holding(json_part(labels, "labels"), instances[0], instances[1])

    @classmethod
    def write(cls, content: Content, folder: Path, flatten: bool) -> None:
        from xmcbench.data.xc_matrix import write_matrix

        for side, texts, pairs in content.sides():
            write_instances(folder / f"{SHORT_NAMES[side]}.json.gz", instance_rows(texts, pairs))
            write_matrix(folder / f"{SHORT_NAMES[side]}_X_Y.txt", pairs)
        write_objects(folder / "lbl.json.gz", label_rows(content.labels))


class Maclr(XCRaw):
    """As XC raw. Where no test instance has a ``target_ind``, its labels are those of ``all_pairs.txt``."""

    name = "maclr"
    title = "the archive of the MACLR example: trn, tst and lbl as .json, all_pairs.txt"

    @classmethod
    def recognize(cls, place: Place) -> bool:
        return XCRaw.recognize(place) and place.find(_PAIRS) is not None

    def find_parts(self) -> Holding:
        held, pairs = super().find_parts(), self.place.find(_PAIRS)
        if held.test is None or pairs is None:
            return held
        notes: list[str] = []
        read = partial(_read_test, held.test.path, held.labels.path, pairs, notes)
        test = Part("instances", held.test.path, (held.test.path, held.labels.path, pairs), read, notes)
        return Holding(held.labels, held.train, test)

    @classmethod
    def write(cls, content: Content, folder: Path, flatten: bool) -> None:
        for side, texts, pairs in content.sides():
            write_instances(folder / f"{SHORT_NAMES[side]}.json", instance_rows(texts, pairs))
        write_objects(folder / "lbl.json", label_rows(content.labels))
        uids, labels = list(content.test.uids), list(content.labels.uids)
        for uid in (*uids, *labels):
            if uid.split() != [uid] or uid.startswith(MARK):
                what = f"uid {uid!r} contains a space, begins with a byte-order mark, or is empty"
                raise DataError(what, "all_pairs.txt of the format maclr is separated by spaces")
        pairs_of = zip(uids, label_ids(content.test_pairs()), strict=True)
        write_lines(folder / _PAIRS, (f"{uid} {labels[label]} 1" for uid, ids in pairs_of for label in ids))


def json_part(path: Path, kind: Kind) -> Part:
    """A JSON-lines file of this layout; its rows depend on no other file."""
    return Part(kind, path, (path,), partial(read_rows, path, kind))


def read_rows(path: Path, kind: Kind) -> Iterator[Row]:
    """The rows of a JSON-lines file (.gz or plain). Raises DataError with file and line.

    Labels without a uid get their row number; either all have one or none. The same holds for the ``target_ind`` of
    instances.
    """
    is_label = kind == "labels"
    key, what = ("uid", "label") if is_label else ("target_ind", "instance")
    has_key = None
    for number, line in number_lines(path):
        entry = parse_object(path, number, line, "expected one JSON object per line, no blank lines")
        if has_key is None:
            has_key = key in entry
        if has_key != (key in entry):
            raise at(path, number, f"some {what}s have a {key} and some have none", f"give every {what} one, or none")
        if is_label:
            entry.setdefault("uid", str(number - 1))
            if entry.get("content") is None:
                entry["content"] = ""
        uid, title, content = entry.get("uid"), entry.get("title"), entry.get("content", "")
        # json creates no subclasses, and `type is` is the fastest test.
        if type(uid) is not str or type(title) is not str or type(content) is not str:
            raise _ill_typed(path, number, entry)
        if is_label:
            if not title.strip():
                raise at(path, number, "the label has no text", "every label needs a title")
            alternatives, parents = (_texts(path, number, key, entry) for key in ("alternatives", "parents"))
            yield Row(path, number, uid, title, details=clean_details(title, alternatives, content, parents))
        else:
            yield Row(path, number, uid, title, content, _targets(path, number, entry.get("target_ind", [])))


def _texts(path: Path, number: int, key: str, entry: Mapping[str, object]) -> list[str]:
    found = entry.get(key)
    if found is None:
        return []
    if not isinstance(found, list) or not set(map(type, found)) <= {str}:
        raise at(path, number, f"{key} is {json.dumps(found)[:40]}, not a list of strings", f'"{key}": ["..."]')
    return found


def _targets(path: Path, number: int, targets: object) -> array[int]:
    if not isinstance(targets, list) or not set(map(type, targets)) <= {int}:
        raise at(path, number, "target_ind is not a list of integers", "expected 0-based line numbers of lbl")
    try:
        return array("i", targets)
    except OverflowError:
        what = f"target_ind {max(targets, key=abs)} is out of range"
        raise at(path, number, what, "0-based line numbers of lbl") from None


def _ill_typed(path: Path, number: int, entry: Mapping[str, object]) -> DataError:
    values = {"content": "", **entry}
    key = next(key for key in ("uid", "title", "content") if not isinstance(values.get(key), str))
    if key not in entry:
        return at(path, number, f"{key} is missing", 'a row looks like {"uid": "7", "title": "..."}')
    return at(path, number, f"{key} is {json.dumps(entry[key])[:40]}, not a string", "put it in quotes")


def write_instances(path: Path, rows: Iterable[Instance]) -> None:
    """Write instances as (uid, title, content, label ids), gzipped where the name ends in .gz."""
    instances = ((uid, title, content, [int(label) for label in labels]) for uid, title, content, labels in rows)
    entries = (
        {"uid": uid, "title": title, "content": content, "target_ind": ids, "target_rel": [1.0] * len(ids)}
        for uid, title, content, ids in instances
    )
    write_objects(path, entries)


def write_labels(path: Path, rows: Iterable[tuple[str, str]]) -> None:
    """Write labels as (uid, title), gzipped where the name ends in .gz."""
    write_objects(path, ({"uid": uid, "title": title} for uid, title in rows))


def _read_pairs(path: Path, label_path: Path) -> dict[str, list[int]]:
    """Read the label ids of every uid in the file of pairs."""
    ids = {label.uid: row for row, label in enumerate(read_rows(label_path, "labels"))}
    found: dict[str, list[int]] = {}
    for number, line in read_lines(path):
        words, hint = line.split(), "expected test uid, label uid and a number"
        if not words:
            continue
        if len(words) not in (2, 3):
            raise at(path, number, "is not a pair", hint)
        if words[1] not in ids:
            raise at(path, number, f"there is no label {words[1]!r}", f"uids are those of {label_path.name}")
        relevance = parse_finite(words[2]) if len(words) == 3 else 1.0
        if relevance is None:
            raise at(path, number, f"{words[2]!r} is not a number", hint)
        if relevance > 0:
            found.setdefault(words[0], []).append(ids[words[1]])
    return found


def _read_test(path: Path, label_path: Path, pairs: Path, notes: list[str]) -> Iterator[Row]:
    """Read the test instances with the labels of their lines, or those of the file of pairs if no line has any."""
    by_uid = _read_pairs(pairs, label_path)
    has_labels = any(row.labels for row in read_rows(path, "instances"))
    differing = known = 0
    for row in read_rows(path, "instances"):
        labels = by_uid.get(row.uid, [])
        known += row.uid in by_uid
        differing += {*labels} != {*row.labels}
        yield row if has_labels else row._replace(labels=labels)
    if missing := len(by_uid) - known:
        verb = "is" if missing == 1 else "are"
        notes.append(f"{format_count(missing, 'test uid')} of {pairs.name} {verb} not in {path.name}")
    if has_labels and differing:
        instances = format_count(differing, "test instance")
        notes.append(f"{pairs.name} lists other labels than {path.name} for {instances}; it is not used")
