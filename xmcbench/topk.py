"""Predictions: the top labels of every instance, best first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.errors import DataError, MethodError
from xmcbench.storage.arrays import read_arrays, read_rows, write_rows
from xmcbench.storage.reading import Unreadable

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

#: Cells of a dense score block that are ranked at a time.
_BLOCK = 16_000_000
#: In rows of more labels, and of more than four times k, the best ones are found before they are sorted.
_MANY = 1_000
#: Rows that are checked at a time.
_ROWS = 65_536
#: Message and hint for a row that has NaN.
_NAN = ("has a score that is NaN", "a diverged training? check the loss")
#: The format of a prediction file, for errors.
_FILE = "an .npz with int32 'indices' and float32 'scores', both [N, k]"


@dataclass(frozen=True)
class TopK:
    """Top-k labels of N instances.

    indices: int32 [N, k], label ids, best first; -1 for missing predictions.
    scores: float32 [N, k], non-increasing along a row; -inf where the index is -1, and infinite at the first place at
    most. Equal scores are ordered by label id, lower first.
    """

    indices: np.ndarray
    scores: np.ndarray

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def k(self) -> int:
        """Number of predictions per row."""
        return int(self.indices.shape[1])

    @classmethod
    def ranked(cls, indices: np.ndarray, scores: np.ndarray) -> TopK:
        """Bring candidates in any order [N, k] into the order of the protocol.

        Index -1 or score -inf marks a missing candidate. Scores are compared as in ``from_scores``. Raises MethodError
        for an index beyond int32, masked entries, complex scores, and where a score is NaN or beyond float32.
        """
        indices = _unmasked("indices", indices)
        if indices.size and (indices.min() < np.iinfo(np.int32).min or indices.max() > np.iinfo(np.int32).max):
            raise MethodError("an index of a label is outside the numbers of int32", "missing predictions are -1")
        scores = _comparable(_unmasked("scores", scores))
        indices = np.where(scores == -np.inf, -1, indices).astype(np.int32)
        missing = indices < 0
        rows = np.arange(len(scores))
        _refuse_nan(np.where(missing, 0, scores).max(axis=1, initial=0), rows)
        # Missing entries sort last: their keys are the largest.
        key = _best_first(scores)
        key = np.where(missing, np.inf if key.dtype.kind == "f" else np.iinfo(key.dtype).max, key)
        order = np.lexsort((np.where(missing, np.iinfo(np.int32).max, indices), key), axis=1)
        indices, missing = np.take_along_axis(indices, order, 1), np.take_along_axis(missing, order, 1)
        return cls(indices, _to_float32(indices, np.take_along_axis(scores, order, 1), missing, rows))

    @classmethod
    def from_scores(cls, scores: np.ndarray | csr_matrix, k: int) -> TopK:
        """Return the k best labels of each row of a score matrix [N, L].

        In a dense matrix every label is a candidate, in a sparse matrix only the stored entries; but none scored -inf.
        Scores are compared as they are given, and kept as float32: where two are equal in float32 and the second label
        has the lower id, its score is lowered by the least. Sums in float64 differ in their last bits between machines:
        scores that only differ in these are tied if they are converted to float32 before. Raises MethodError where a
        score is NaN, masked or complex, or among the k best and beyond float32.
        """
        if hasattr(scores, "tocsr"):
            return cls._from_sparse(scores.tocsr(), k)
        scores = _unmasked("scores", scores)  # a list, or a matrix of numpy, which has rows of two dimensions
        rows, labels = scores.shape
        indices = np.full((rows, k), -1, np.int32)
        values = np.full((rows, k), -np.inf, np.float32)
        kept = min(k, labels)
        step = max(1, _BLOCK // max(1, labels))
        for start in range(0, rows, step):
            block = _comparable(scores[start : start + step])
            numbers = np.arange(start, start + len(block))
            _refuse_nan(block.max(axis=1, initial=0), numbers)
            best = _places_of_least(_best_first(block), kept)
            found = np.take_along_axis(block, best, 1)
            missing = found == -np.inf
            best = np.where(missing, -1, best)
            indices[start : start + step, :kept] = best
            values[start : start + step, :kept] = _to_float32(best, found, missing, numbers)
        return cls(indices, values)

    @classmethod
    def _from_sparse(cls, scores: csr_matrix, k: int) -> TopK:
        if not scores.has_canonical_format:
            scores = scores.copy()
            scores.sum_duplicates()
        lengths = np.diff(scores.indptr)
        rows = np.repeat(np.arange(scores.shape[0]), lengths)
        found = _comparable(scores.data)
        _refuse_nan(found, rows)
        order = np.lexsort((scores.indices, _best_first(found), rows))
        rank = np.arange(len(order)) - np.repeat(scores.indptr[:-1], lengths)
        kept = (rank < k) & (found[order] != -np.inf)
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=scores.shape[0]))])
        return cls.from_rows(starts, scores.indices[order][kept], found[order][kept], k)

    @classmethod
    def from_rows(cls, starts: np.ndarray, labels: np.ndarray, scores: np.ndarray, k: int) -> TopK:
        """Return predictions of N rows, given one row after the other and best first, in k columns.

        starts: int [N + 1], where each row begins and the last one ends. labels, scores: one value for each prediction,
        at most k in a row. Equal scores are put in order; they are compared as in ``from_scores``. Raises MethodError
        where one is beyond float32, masked or complex.
        """
        lengths = np.diff(starts)
        filled = np.arange(k) < lengths[:, None]
        indices = np.full((len(lengths), k), -1, np.int32)
        scores = _comparable(_unmasked("scores", scores))
        values = np.zeros((len(lengths), k), scores.dtype)
        indices[filled], values[filled] = labels, scores
        disorder = (values[:, 1:] > values[:, :-1]) | (
            (values[:, 1:] == values[:, :-1]) & (indices[:, 1:] < indices[:, :-1])
        )
        rows = np.flatnonzero((disorder & filled[:, 1:]).any(axis=1))
        found = _to_float32(indices, values, ~filled, np.arange(len(lengths)))
        if len(rows):
            ranked = cls.ranked(indices[rows], values[rows])
            indices[rows], found[rows] = ranked.indices, ranked.scores
        return cls(indices, found)

    @classmethod
    def joined(cls, parts: Iterable[TopK], k: int, instances: int | None = None) -> TopK:
        """Concatenate the rows of several predictions, in k columns.

        Given the number of instances, each part is let go as soon as it is copied, so that a generator never holds the
        predictions twice: for 1.5M rows of 100, that is 1.2 GB.

        instances: number of rows; rows beyond those of the parts stay empty (default: those of the parts).
        """
        if instances is None:
            parts = list(parts)
            instances = sum(map(len, parts))
        indices, scores = np.full((instances, k), -1, np.int32), np.full((instances, k), -np.inf, np.float32)
        start = 0
        for part in parts:
            stop = start + len(part)
            indices[start:stop, : part.k], scores[start:stop, : part.k] = part.indices, part.scores
            start = stop
        return cls(indices, scores)

    def pairs(self, labels: int) -> csr_matrix:
        """Return the predictions as a binary CSR matrix, float32 [N, labels]."""
        from scipy.sparse import csr_matrix

        rows, places = np.nonzero(self.indices >= 0)
        ones = np.ones(len(rows), np.float32)
        return csr_matrix((ones, (rows, self.indices[rows, places])), shape=(len(self), labels))

    def check(self, instances: int, k: int, labels: int, first: int = 0) -> None:
        """Raise MethodError unless these are valid predictions [instances, k] over ``labels`` labels.

        first: number of the first row, where these are a part of the predictions; for the message.
        """
        self._check_arrays()
        indices, scores = self.indices, self.scores
        if indices.shape != (instances, k) or scores.shape != (instances, k):
            raise MethodError(
                f"predictions have the shapes {indices.shape} and {scores.shape}, not {(instances, k)}",
                "one row for every instance, in their order, and k columns; pad with index -1 and score -inf",
            )
        if indices.dtype != np.int32 or scores.dtype != np.float32:
            raise MethodError(
                f"predictions are {indices.dtype} and {scores.dtype}", "indices are int32, scores float32"
            )
        for start in range(0, instances, _ROWS):
            _check_rows(indices[start : start + _ROWS], scores[start : start + _ROWS], labels, first + start)

    def _check_arrays(self) -> None:
        """Raise MethodError unless indices and scores are arrays with rows, none of them masked."""
        for name, values in (("indices", self.indices), ("scores", self.scores)):
            if not isinstance(values, np.ndarray) or not values.ndim:
                raise MethodError(
                    f"the {name} are of type {type(values).__name__}, not an array of rows",
                    "TopK(np.array(indices, np.int32), np.array(scores, np.float32)), both [N, k]",
                )
            _unmasked(name, values)

    def save(self, path: str | Path) -> None:
        """Write an .npz with the arrays ``indices`` and ``scores``; equal predictions give equal bytes."""
        self.save_joined(path, [self], len(self), self.k)

    @staticmethod
    def save_joined(path: str | Path, parts: Iterable[TopK], instances: int, k: int) -> None:
        """Write the parts as one file of predictions [instances, k], each part as it comes.

        Raises ValueError, and writes nothing, where the parts are not as many rows and columns.
        """
        arrays = ((part.indices, part.scores) for part in parts)
        write_rows(Path(path), arrays, (instances, k), indices=np.int32, scores=np.float32)

    @classmethod
    def load(cls, path: str | Path) -> TopK:
        """Read what ``save`` wrote. Raises DataError when the file is missing or not such a file."""
        path = Path(path)
        with _read_errors(path):
            return cls._of_two(*read_arrays(path, "indices", "scores"))

    @classmethod
    def load_parts(cls, path: Path) -> Iterator[TopK]:
        """Read a file as ``load`` does, some rows at a time, in one part at least. Raises what ``load`` raises."""
        with _read_errors(path):
            for arrays in read_rows(path, _ROWS, "indices", "scores"):
                yield cls._of_two(*arrays)

    @classmethod
    def _of_two(cls, indices: np.ndarray, scores: np.ndarray) -> TopK:
        if indices.ndim != 2 or scores.ndim != 2:
            raise ValueError(f"its arrays have the shapes {indices.shape} and {scores.shape}")
        return cls(indices, scores)

    @staticmethod
    def check_parts(parts: Iterable[TopK], instances: int, k: int, labels: int) -> Iterator[TopK]:
        """Yield parts of the predictions [instances, k], each checked when it comes. Raises what ``check`` raises."""
        rows = 0
        for part in TopK.check_rows(parts, instances):
            part.check(len(part), k, labels, first=rows)
            rows += len(part)
            yield part

    @staticmethod
    def check_rows(parts: Iterable[TopK], instances: int) -> Iterator[TopK]:
        """Yield parts of the predictions [instances, k]. Raises MethodError for other rows, and for no TopK."""
        rows = 0
        for part in parts:
            if not isinstance(part, TopK):
                raise MethodError(
                    f"predict returned an object of type {type(part).__name__}", "it must return an xmcbench.TopK"
                )
            part._check_arrays()
            rows += len(part)
            if rows > instances:
                break
            yield part
        if rows != instances:
            raise MethodError(
                f"predictions have {rows} rows{' or more' if rows > instances else ''}, not {instances}",
                "predict(raw_X, k) returns a row of k columns for every text",
            )


@contextmanager
def _read_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"no prediction file at {path}") from None
    except Unreadable as error:
        raise DataError(f"cannot read {path}: {error}") from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not a prediction file: {error}", _FILE) from error


def _unmasked(name: str, values: np.ndarray) -> np.ndarray:
    """Return values, or nested lists of them, as an array. Raises MethodError if some of them are masked."""
    if np.ma.is_masked(values):  # type: ignore[no-untyped-call]
        hint = "a missing prediction has score -inf or index -1: scores.filled(-np.inf)"
        raise MethodError(f"some of the {name} are masked, and would be ranked", hint)
    return np.asarray(values)


def _comparable(scores: np.ndarray) -> np.ndarray:
    """Return scores as a type that numpy compares fast: float32, float64 or integers. Raises MethodError if complex."""
    if scores.dtype.kind == "c":
        raise MethodError("the scores are complex numbers", "rank by their real part: scores.real")
    if scores.dtype.kind == "f" and scores.dtype.itemsize < 4:
        return scores.astype(np.float32)
    if scores.dtype.kind == "b":
        return scores.astype(np.uint8)
    return scores if scores.dtype.kind in "iuf" else scores.astype(np.float64)


def _best_first(scores: np.ndarray) -> np.ndarray:
    """Return numbers that rise as scores fall. The negative of an integer may overflow."""
    return -scores if scores.dtype.kind == "f" else ~scores


def _places_of_least(keys: np.ndarray, count: int) -> np.ndarray:
    """Return the columns of the least keys [N, L] of every row, in order, int32 [N, count]; ties by lower column."""
    # A stable sort keeps the lower column first, also among ties at the cut.
    if not count or keys.shape[1] <= max(_MANY, 4 * count):
        return np.argsort(keys, axis=1, kind="stable")[:, :count].astype(np.int32)
    places = np.empty((len(keys), count), np.int32)
    for row, own in enumerate(keys):
        candidates = np.flatnonzero(own <= np.partition(own, count - 1)[count - 1])
        places[row] = candidates[np.argsort(own[candidates], kind="stable")[:count]]
    return places


def _to_float32(indices: np.ndarray, scores: np.ndarray, missing: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return scores [N, k] as float32 in the same order, and -inf where one is missing.

    A score that equals the score before in float32 is lowered by the least, unless the labels are in the order of a
    tie. rows: their numbers. Raises MethodError for a score beyond float32.
    """
    with np.errstate(over="ignore"):
        values = np.where(missing, np.float32(-np.inf), scores.astype(np.float32))
    if scores.dtype == np.float32:
        return values
    _refuse_beyond(values, scores, missing, rows)
    falls = indices[:, 1:] < indices[:, :-1]
    unsaid = np.flatnonzero(((values[:, 1:] == values[:, :-1]) & falls & ~missing[:, 1:]).any(axis=1))
    lowered = values[unsaid]
    for place in range(1, lowered.shape[1] if len(unsaid) else 0):
        before = lowered[:, place - 1]
        with np.errstate(over="ignore"):
            most = np.where(falls[unsaid, place - 1], np.nextafter(before, np.float32(-np.inf)), before)
        lowered[:, place] = np.minimum(lowered[:, place], most)
    values[unsaid] = lowered
    _refuse_beyond(values, scores, missing, rows)  # below the least of float32 there is none to lower it to
    return values


def _refuse_beyond(values: np.ndarray, scores: np.ndarray, missing: np.ndarray, rows: np.ndarray) -> None:
    """Raise MethodError if a score is finite, and its value in float32 is not. rows: their numbers."""
    beyond = np.isinf(values) & np.isfinite(scores) & ~missing
    if beyond.any():
        row, place = np.argwhere(beyond)[0]
        raise MethodError(
            f"row {rows[row]} has the score {scores[row, place]:g}, which is beyond float32",
            "scale the scores, or take logarithms; a label that is no prediction scores -inf",
        )


def _refuse_nan(scores: np.ndarray, rows: np.ndarray) -> None:
    """Raise MethodError if a score is NaN. rows: the row of each."""
    wrong = np.isnan(scores)
    if wrong.any():
        raise MethodError(f"row {rows[wrong.argmax()]} {_NAN[0]}", _NAN[1])


def _check_rows(indices: np.ndarray, scores: np.ndarray, labels: int, start: int) -> None:
    """Raise MethodError for the first rule that a row of a block breaks; ``start`` is the number of its first row."""
    missing = indices == -1
    in_order = np.sort(indices, axis=1)
    tied = (scores[:, 1:] == scores[:, :-1]) & ~missing[:, 1:] & (indices[:, 1:] < indices[:, :-1])
    rules = [
        (np.isnan(scores), *_NAN),
        (
            (indices < -1) | (indices >= labels),
            f"names a label outside 0..{labels - 1}",
            "missing predictions are -1",
        ),
        (missing != (scores == -np.inf), "has index -1 and score -inf apart", "set both or neither"),
        (
            (scores[:, 1:] > scores[:, :-1]) | tied,
            "is not in order: best first, ties by lower label id",
            "TopK.ranked(indices, scores) sorts",
        ),
        (
            np.isposinf(scores[:, 1:]),
            "has several scores that are infinite, which says nothing of their order",
            "float32 ends at 3.4e38: scale the scores, or take logarithms",
        ),
        ((in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0), "names a label twice", "predict it once"),
    ]
    for broken, what, hint in rules:
        if broken.any():
            raise MethodError(f"row {start + int(broken.any(axis=1).argmax())} {what}", hint)
