"""The archive of the MACLR example: trn, tst and lbl as plain JSON lines, and the test pairs in ``all_pairs.txt``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.data.rows import ROWS, Rows, at, batched
from xmcbench.data.sources.source import Holding, Part, Place
from xmcbench.data.sources.text_lines import read_lines
from xmcbench.data.sources.writing import MARK, label_ids, rows_of, sides, texts_of, write_lines
from xmcbench.data.sources.xc_raw import XCRaw
from xmcbench.data.xc_text import read_rows, write_instances, write_labels
from xmcbench.errors import DataError
from xmcbench.output.quantities import counted

if TYPE_CHECKING:
    from xmcbench.data.dataset import Dataset

_PAIRS = "all_pairs.txt"


class Maclr(XCRaw):
    """As XC raw. Where no test instance has a ``target_ind``, its labels are those of ``all_pairs.txt``."""

    name = "maclr"
    title = "the archive of the MACLR example: trn, tst and lbl as .json, all_pairs.txt"

    @classmethod
    def recognize(cls, place: Place) -> bool:
        return XCRaw.recognize(place) and place.find(_PAIRS) is not None

    def holding(self) -> Holding:
        held, pairs = super().holding(), self.place.find(_PAIRS)
        if held.test is None or pairs is None:
            return held
        notes: list[str] = []
        read = partial(_with_pairs, held.test.path, held.labels.path, pairs, notes)
        test = Part("instances", held.test.path, (held.test.path, held.labels.path, pairs), read, notes=notes)
        return Holding(held.labels, held.train, test, held.test_filter, held.train_filter)

    @classmethod
    def write(cls, dataset: Dataset, folder: Path, flatten: bool) -> None:
        for side, texts, pairs in sides(dataset):
            write_instances(folder / f"{side}.json", rows_of(texts, pairs))
        write_labels(folder / "lbl.json", zip(dataset.labels.uids, dataset.labels.titles, strict=True))
        _, test = texts_of(dataset)
        test_uids, label_uids = list(test.uids), list(dataset.labels.uids)
        for uid in (*test_uids, *label_uids):
            if uid.split() != [uid] or uid.startswith(MARK):
                raise DataError(
                    f"uid {uid!r} contains a space, begins with a byte-order mark, or is empty",
                    "all_pairs.txt of the format maclr is separated by spaces",
                )
        pairs_of = zip(test_uids, label_ids(dataset.test_pairs()), strict=True)
        write_lines(folder / _PAIRS, (f"{uid} {label_uids[label]} 1" for uid, ids in pairs_of for label in ids))


def _relevance(word: str, pairs: Path, number: int) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise at(pairs, number, f"{word!r} is not a number", "expected test uid, label uid and a number")
    return value


def _with_pairs(path: Path, label_path: Path, pairs: Path, notes: list[str]) -> Iterator[Rows]:
    """The test instances with the labels of their lines, or those of the file of pairs if no line has any."""
    uids = (uid for rows in read_rows(label_path, "labels", ROWS) for uid in rows.uids)
    place = {uid: row for row, uid in enumerate(uids)}
    by_uid: dict[str, list[int]] = {}
    for number, line in enumerate(read_lines(pairs), 1):
        words = line.split()
        if not words:
            continue
        if len(words) not in (2, 3):
            raise at(pairs, number, "is not a pair", "expected test uid, label uid and a number")
        if words[1] not in place:
            raise at(pairs, number, f"there is no label {words[1]!r}", f"uids are those of {label_path.name}")
        if len(words) == 2 or _relevance(words[2], pairs, number) > 0:
            by_uid.setdefault(words[0], []).append(place[words[1]])
    own = given = differing = known = 0
    for rows in read_rows(path, "instances", ROWS):
        own += len(rows.targets)
        known += sum(uid in by_uid for uid in rows.uids)
        if own:
            start = 0
            for uid, length in zip(rows.uids, rows.lengths, strict=True):
                listed = by_uid.get(uid, [])
                differing += set(listed) != set(rows.targets[start : start + length])
                start += length
            yield rows
            continue
        listed_rows = [by_uid.get(uid, []) for uid in rows.uids]
        given += sum(map(len, listed_rows))
        empty = zip(rows.uids, rows.titles, rows.contents, listed_rows, strict=True)
        yield from batched(empty)
    if known < len(by_uid):
        missing = len(by_uid) - known
        verb = "is" if missing == 1 else "are"
        notes.append(f"{counted(missing, 'test uid')} of {pairs.name} {verb} not in {path.name}")
    if own and differing:
        instances = counted(differing, "test instance")
        notes.append(f"{pairs.name} lists other labels than {path.name} for {instances}; it is not used")
    if own and given:
        raise DataError(
            f"{path}: some instances have labels and some have theirs in {pairs.name}", "give target_ind to all or none"
        )
