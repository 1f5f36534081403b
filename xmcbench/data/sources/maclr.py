"""The archive of the MACLR example: trn, tst and lbl as plain JSON lines, and the test pairs in ``all_pairs.txt``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import accumulate
from pathlib import Path

from xmcbench.data.lines import at, parse_finite, read_lines
from xmcbench.data.rows import ROWS, Rows, batch_rows
from xmcbench.data.sources.source import SHORT_NAMES, Content, Holding, Part, Place, instance_rows, label_ids
from xmcbench.data.sources.text_lines import MARK, write_lines
from xmcbench.data.sources.xc_raw import XCRaw, read_rows, write_instances, write_labels
from xmcbench.errors import DataError
from xmcbench.output.quantities import counted

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
        read = partial(_read_test, held.test.path, held.labels.path, pairs, notes)
        test = Part("instances", held.test.path, (held.test.path, held.labels.path, pairs), read, notes=notes)
        return Holding(held.labels, held.train, test, held.test_filter, held.train_filter)

    @classmethod
    def write(cls, content: Content, folder: Path, flatten: bool) -> None:
        for side, texts, pairs in content.sides():
            write_instances(folder / f"{SHORT_NAMES[side]}.json", instance_rows(texts, pairs))
        write_labels(folder / "lbl.json", zip(content.labels.uids, content.labels.titles, strict=True))
        uids, labels = list(content.test.uids), list(content.labels.uids)
        for uid in (*uids, *labels):
            if uid.split() != [uid] or uid.startswith(MARK):
                raise DataError(
                    f"uid {uid!r} contains a space, begins with a byte-order mark, or is empty",
                    "all_pairs.txt of the format maclr is separated by spaces",
                )
        pairs_of = zip(uids, label_ids(content.test_pairs()), strict=True)
        write_lines(folder / _PAIRS, (f"{uid} {labels[label]} 1" for uid, ids in pairs_of for label in ids))


def _read_pairs(path: Path, label_path: Path) -> dict[str, list[int]]:
    """Read the label ids of every uid in the file of pairs."""
    uids = (uid for rows in read_rows(label_path, "labels", ROWS) for uid in rows.uids)
    ids = {uid: row for row, uid in enumerate(uids)}
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


def _read_test(path: Path, label_path: Path, pairs: Path, notes: list[str]) -> Iterator[Rows]:
    """Read the test instances with the labels of their lines, or those of the file of pairs if no line has any."""
    by_uid = _read_pairs(pairs, label_path)
    own = given = differing = known = 0
    for rows in read_rows(path, "instances", ROWS):
        own += len(rows.targets)
        known += sum(uid in by_uid for uid in rows.uids)
        listed = [by_uid.get(uid, []) for uid in rows.uids]
        if own:
            ends = zip(listed, accumulate(rows.lengths), rows.lengths, strict=True)
            differing += sum({*ids} != {*rows.targets[end - length : end]} for ids, end, length in ends)
            yield rows
        else:
            given += sum(map(len, listed))
            yield from batch_rows(zip(rows.uids, rows.titles, rows.contents, listed, strict=True))
    if missing := len(by_uid) - known:
        verb = "is" if missing == 1 else "are"
        notes.append(f"{counted(missing, 'test uid')} of {pairs.name} {verb} not in {path.name}")
    if differing:
        instances = counted(differing, "test instance")
        notes.append(f"{pairs.name} lists other labels than {path.name} for {instances}; it is not used")
    if own and given:
        what = f"{path}: some instances have labels and some have theirs in {pairs.name}"
        raise DataError(what, "give target_ind to all or none")
