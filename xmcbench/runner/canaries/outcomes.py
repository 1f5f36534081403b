"""Outcomes of canaries: their content, their files, and their comparison."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import Struct

from xmcbench.errors import StorageError
from xmcbench.storage.atomic import atomic_file
from xmcbench.storage.reading import read_bytes
from xmcbench.topk import TopK

#: The file of the stored outcomes.
OUTCOMES = "outcomes.json"
#: Labels of a text that are kept, and significant digits of their scores.
_KEPT, _DIGITS = 5, 7
#: Share of the labels, and of the ranks, that may differ because near ties depend on the processor; or twice the
#: tolerance of the scores, if that is larger.
_MOVED = 0.02
#: Losses are rounded to five places.
_ROUNDING = 2e-5


class CanaryOutcome(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The outcome of a canary.

    ranks: of the true pairs, 0 beyond the last rank. losses: of each training in the notes, "step loss ..." per
    point of its curve. top: the best labels of each test text and their scores, as "8:0.91 3:0.5". tolerance: see
    ``compare``. reason: of a status that is not ``ok``.
    """

    status: Literal["ok", "failed", "skipped"] = "ok"
    reason: str = ""
    tolerance: float = 0.002
    ranks: str = ""
    losses: dict[str, str] = {}
    top: tuple[str, ...] = ()

    @classmethod
    def of(cls, found: TopK, ranks: np.ndarray, notes: Mapping[str, object], tolerance: float) -> CanaryOutcome:
        """Return the outcome of predictions, the ranks of the true pairs and the notes of a method."""
        rows = zip(found.indices[:, :_KEPT].tolist(), found.scores[:, :_KEPT].tolist(), strict=True)
        top = tuple(
            " ".join(f"{label}:{score:.{_DIGITS}g}" for label, score in zip(*row, strict=True) if label >= 0)
            for row in rows
        )
        return cls(
            tolerance=tolerance, ranks=" ".join(map(str, ranks.tolist())), losses=_extract_losses(notes), top=top
        )


class Stored(Struct, frozen=True, forbid_unknown_fields=True):
    """The outcomes of a method's canaries, and their origin. source_sha256: of the method without its parts."""

    source_sha256: str
    date: str
    processor: str
    packages: dict[str, str]
    outcomes: dict[str, CanaryOutcome]


def read_outcomes(file: Path, methods: Iterable[str]) -> dict[str, Stored]:
    """Read the stored outcomes of all methods, among them the given ones. Raises StorageError."""
    try:
        stored = msgspec.json.decode(read_bytes(file), type=dict[str, Stored])
    except (OSError, msgspec.DecodeError) as error:
        raise StorageError(f"cannot read the outcomes of canaries in {file}: {error}") from error
    if lacking := sorted({*methods} - stored.keys()):
        names = ",".join(lacking)
        raise StorageError(f"{file} has no outcomes of the canaries of {names}", f"xmcbench confirm --store {names}")
    return stored


def write_outcomes(file: Path, stored: Mapping[str, Stored]) -> None:
    """Write outcomes by method, with a line per test text, so that diffs can be read and merged."""
    usual = msgspec.to_builtins(CanaryOutcome())
    content: dict[str, Any] = {}
    for method, of_method in sorted(stored.items()):
        outcomes = {
            name: {key: value for key, value in msgspec.to_builtins(outcome).items() if value != usual[key]}
            for name, outcome in of_method.outcomes.items()
        }
        content[method] = {**msgspec.to_builtins(of_method), "outcomes": outcomes}
    with atomic_file(file) as stream:
        stream.write(f"{json.dumps(content, indent=1, ensure_ascii=False)}\n".encode())


class Difference(Struct, frozen=True):
    """A difference in a canary. size: as a multiple of the tolerance; infinite without a tolerance."""

    canary: str
    what: str
    size: float


def compare(stored: Mapping[str, CanaryOutcome], new: Mapping[str, CanaryOutcome]) -> list[Difference]:
    """Return the canaries whose outcome differs from the stored one, without canaries that were skipped now.

    Rounding depends on the processor, so the score at each rank may differ by ``tolerance`` times the standard
    deviation of all stored scores, and a loss by the fraction ``tolerance``. A few labels may differ if their scores
    are as near to those of the next rank; as many ranks of true pairs may differ.
    """
    found = []
    for name in {**stored, **new}:
        if name not in new:
            found.append(Difference(name, "it is not defined any more", math.inf))
        elif new[name].status == "skipped":
            continue
        elif name not in stored or stored[name].status != "ok":
            found.append(Difference(name, "no outcome is stored", math.inf))
        elif new[name].status == "failed":
            found.append(Difference(name, f"it failed: {new[name].reason}", math.inf))
        else:
            parts = list(_compare(stored[name], new[name]))
            if parts:
                found.append(Difference(name, ", ".join(what for what, _ in parts), max(size for _, size in parts)))
    return found


def _compare(stored: CanaryOutcome, new: CanaryOutcome) -> Iterator[tuple[str, float]]:
    """Yield the differences beyond the tolerance, in words and as a multiple of it."""
    most = max(_MOVED, 2 * new.tolerance)
    (labels, scores), (other_labels, other_scores) = _parse(stored.top), _parse(new.top)
    if labels.shape != other_labels.shape or ((labels < 0) != (other_labels < 0)).any():
        yield "other texts have predictions, or another number", math.inf
        return
    there = labels >= 0
    unit = new.tolerance * float(scores[there].std() if there.any() else 1) or 1.0
    far = _largest(np.where(there, scores - other_scores, 0)) / unit
    if far > 1:
        yield f"scores by {far * new.tolerance:.2g} of their deviation", far
    moved = labels != other_labels
    filled = np.where(there, scores, -1e30)  # far from every score
    near = np.abs(np.diff(filled, axis=1, append=filled[:, -1:])) <= 2 * unit
    near[:, 1:] |= near[:, :-1]
    if (moved & there & ~near).any():
        yield f"{int((moved & ~near).sum())} labels of {there.sum()} without a tie", math.inf
    elif moved.sum() > math.ceil(most * there.sum()):
        yield f"{moved.sum()} labels of {there.sum()}", float(moved.sum() / (most * there.sum()))
    ranks, other_ranks = stored.ranks.split(), new.ranks.split()
    others = sum(rank != other for rank, other in zip(ranks, other_ranks, strict=False))
    if len(ranks) != len(other_ranks):
        yield "the number of true pairs", math.inf
    elif others > math.ceil(most * len(ranks)):
        yield f"{others} ranks of {len(ranks)}", others / (most * len(ranks))
    yield from _compare_losses(stored, new)


def _compare_losses(stored: CanaryOutcome, new: CanaryOutcome) -> Iterator[tuple[str, float]]:
    for name in sorted({*stored.losses, *new.losses}):
        before, after = (
            np.array([float(number) for number in outcome.losses.get(name, "").replace(",", " ").split()])
            for outcome in (stored, new)
        )
        if before.shape != after.shape:
            yield f"the number of losses of {name}", math.inf
        elif len(before):
            far = _largest((before - after) / (new.tolerance * np.abs(before) + _ROUNDING))
            if far > 1:
                yield f"losses of {name} by {far * new.tolerance:.2g} of what they are", far


def _largest(differences: np.ndarray) -> float:
    """Return the largest absolute value; infinite where one is no number, as after a training that diverged."""
    return float(np.nan_to_num(np.abs(differences), nan=math.inf, posinf=math.inf).max(initial=0))


def _parse(top: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return labels, int64 [N, ranks], -1 for none, and scores, float64; 0 for none."""
    labels, scores = np.full((len(top), _KEPT), -1), np.zeros((len(top), _KEPT))
    for row, line in enumerate(top):
        for rank, entry in enumerate(line.split()):
            label, _, score = entry.partition(":")
            labels[row, rank], scores[row, rank] = int(label), float(score)
    return labels, scores


def _extract_losses(notes: Mapping[str, Any]) -> dict[str, str]:
    """Return the curves of the trainings, by the name of the note; and the losses of GloVe, one per epoch."""
    curves = {name: note["curve"] for name, note in notes.items() if isinstance(note, Mapping) and "curve" in note}
    if "loss" in notes:
        curves["loss"] = list(enumerate(notes["loss"], 1))
    return {
        name: ", ".join(" ".join(f"{number:g}" for number in point) for point in curve)
        for name, curve in curves.items()
    }
