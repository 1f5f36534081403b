"""Judgments: the scores that a judge gave to documents and labels, in a file that grows while they are given.

A line of the file is a JSON object: ``judge``, ``document`` (SHA-256 of the text), ``label`` (the text) and ``score``.
The judge is the model with its digest or, on a server, its name, and a digest of what it was told.
"""

from __future__ import annotations

import hashlib
import math
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np
from msgspec import Struct

from xmcbench import Artifacts, MethodError, UsageError, progress

#: A document and a label, as texts.
Pair = tuple[str, str]
FILE = "judgments.jsonl"
#: Pairs that are judged between two progress reports.
_PAIRS = 8192
#: Difference of two scores, absolute or relative, that another batch or another request can make.
_NOISE = 0.1


class Judge(Protocol):
    """Scores documents and labels. identity: everything that a score depends on but the two texts."""

    identity: str

    @property
    def counts(self) -> Mapping[str, int]:
        """Numbers of requests and tokens, where they are counted."""

    def judge(self, pairs: Sequence[Pair]) -> Iterator[tuple[int, float]]:
        """Yield the position of a pair and its score, in any order."""


class Judgment(Struct, frozen=True):
    """A line of the file."""

    judge: str
    document: str
    label: str
    score: float


class Judgments:
    """The judgments of one judge: those of files, and those that it gives, which are appended to a file at once.
    counts: how many were ``asked`` of the judge, and how many were ``kept``, which cost nothing."""

    def __init__(self, judge: Judge, out: Path, files: Iterable[Path] = ()) -> None:
        """Read what is there. Raises UsageError for a file that cannot be read and for two scores of one pair; a last
        line cut short is left out."""
        self._judge, self._out = judge, out
        self._known: dict[tuple[str, str], float] = {}
        self.counts = {"asked": 0, "kept": 0}
        for file in (*files, *([out] if out.exists() else [])):
            self._read(file, may_be_cut=file == out)

    def score(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return the scores of pairs, float32, asking the judge for those that are not known. Raises MethodError for a
        score that is not finite."""
        keys = [(_digest(document), label) for document, label in pairs]
        places = {key: place for place, key in enumerate(keys) if key not in self._known}
        missing = [*places.values()]
        self.counts["asked"] += len(missing)
        self.counts["kept"] += len(pairs) - len(missing)
        if missing:
            with self._out.open("ab") as stream:
                for position, score in self._judge.judge([pairs[place] for place in missing]):
                    key = keys[missing[position]]
                    if not math.isfinite(score):
                        raise MethodError(f"the judge gives {key[1]!r} the score {score}", "precision=fp32 may help")
                    self._known[key] = score
                    stream.write(msgspec.json.encode(Judgment(self._judge.identity, *key, score)) + b"\n")
                    stream.flush()  # what was paid for is not asked again, whatever ends this process
        return np.array([self._known[key] for key in keys], np.float32)

    def write(self, file: Path, pairs: Sequence[Pair]) -> None:
        """Write the judgments of pairs, all of which are known, in their order."""
        keys = dict.fromkeys((_digest(document), label) for document, label in pairs)
        identity = self._judge.identity
        lines = (msgspec.json.encode(Judgment(identity, *key, self._known[key])) + b"\n" for key in keys)
        file.write_bytes(b"".join(lines))

    @staticmethod
    def digest(pairs: Sequence[Pair]) -> str:
        """Return the SHA-256 (hex) of pairs."""
        digest = hashlib.sha256()
        for place, part in enumerate(chain.from_iterable(pairs)):
            digest.update((b"\x00" if place else b"") + part.encode())
        return digest.hexdigest()

    def _read(self, file: Path, may_be_cut: bool) -> None:
        content = _read_file(file)
        *lines, rest = content.split(b"\n")
        if may_be_cut and rest:  # the process was killed while it wrote
            file.write_bytes(content[: len(content) - len(rest)])
        elif rest:
            lines.append(rest)
        for number, line in enumerate(lines, 1):
            try:
                found = msgspec.json.decode(line, type=Judgment)
            except msgspec.MsgspecError as error:
                raise UsageError(f"{file}, line {number} is not a judgment: {error}") from error
            if found.judge == self._judge.identity:
                key = found.document, found.label
                before = self._known.get(key, found.score)
                if not math.isclose(before, found.score, rel_tol=_NOISE, abs_tol=_NOISE):
                    raise UsageError(
                        f"{file}, line {number}: the label {found.label!r} has the score {found.score:g}, and "
                        f"{before:g} for the same document before",
                        "keep the judgments of one server",
                    )
                self._known[key] = found.score


def keep_scores(
    artifacts: Artifacts,
    judge: Judge,
    pairs: Sequence[Pair],
    texts: Sequence[str],
    files: Iterable[Path] = (),
    own: bool = False,
) -> tuple[np.ndarray, dict[str, float], Path]:
    """Return a judge's scores of pairs, float32, what they cost, and the file that keeps them. texts: digests of those
    that the pairs come from. files: of judgments that are not asked again, part of the identity. own: keep the file out
    of the reach of other cells. The cost: how many answers were ``asked`` and how many were ``kept`` before, each pair
    once, ``seconds``, and what the judge counts. A process that is killed asks for the rest when it is started
    again."""
    files, begin, before = tuple(files), time.perf_counter(), dict(judge.counts)
    given = [hashlib.sha256(_read_file(file)).hexdigest() for file in files]
    identity = {"judge": judge.identity, "texts": list(texts), "files": given, "pairs": Judgments.digest(pairs)}
    uses = Judgments, type(judge)
    work = artifacts.unfinished("judgments", identity, *uses)
    cost: dict[str, float] = {"asked": 0, "kept": len({*pairs})}

    def build(folder: Path) -> None:
        work.mkdir(parents=True, exist_ok=True)
        judgments = Judgments(judge, work / FILE, files)
        for start in range(0, len(pairs), _PAIRS):
            progress.steps(start, len(pairs), "pair")
            judgments.score(pairs[start : start + _PAIRS])
        judgments.write(folder / FILE, pairs)
        cost["asked"] = judgments.counts["asked"]
        cost["kept"] -= cost["asked"]
        shutil.rmtree(work)

    file = artifacts.get("judgments", identity, build, uses=uses, own=own) / FILE
    scores = Judgments(judge, file).score(pairs)
    cost["seconds"] = round(time.perf_counter() - begin, 2)
    return scores, cost | {name: number - before.get(name, 0) for name, number in judge.counts.items()}, file


def _read_file(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
