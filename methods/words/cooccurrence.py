"""How often words occur near each other (Pennington et al. 2014, section 3). Imports numba: import it late."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

#: Candidate entries of the rows that are counted at a time.
_CANDIDATES = 32_000_000


@dataclass(frozen=True)
class Cooccurrence:
    """A symmetric matrix [V, V] of counts in CSR form; the columns of a row are in order of first occurrence.

    starts: int64 [V + 1]. columns: int32. counts: float32, above 0.
    """

    starts: np.ndarray
    columns: np.ndarray
    counts: np.ndarray

    @property
    def words(self) -> int:
        """Number of words, V."""
        return len(self.starts) - 1

    @classmethod
    def of(cls, stream: np.ndarray, words: int, window: int) -> Cooccurrence:
        """Counts of words at most ``window`` places apart in one text; two words d apart add 1/d (section 4.2).

        stream: int32, codes below ``words``, a -1 after each text. A word next to itself counts from both sides.

        Row by row: a word's places are looked up and what surrounds them is added into one dense row, so that no pair
        is ever held twice and nothing is sorted. Memory: 12 bytes a token, 16 bytes an entry of the result while its
        parts are joined, and 17 bytes a place in the rows that are counted at a time.
        """
        places, place_starts = _places(stream, words)
        widest = np.minimum(2 * window * np.diff(place_starts), words)
        room = np.concatenate([[0], np.cumsum(widest)])
        lengths = np.zeros(words, np.int64)
        columns, counts = [np.empty(0, np.int32)], [np.empty(0, np.float32)]
        first = 0
        while first < words:
            last = max(first + 1, int(np.searchsorted(room, room[first] + _CANDIDATES, side="right")) - 1)
            offsets, filled = room[first : last + 1] - room[first], lengths[first:last]
            found = np.empty(offsets[-1], np.int32), np.empty(offsets[-1], np.float32)
            _count_rows(stream, places, place_starts[first : last + 1], words, window, offsets, *found, filled)
            ends = (offsets[:-1] + filled).astype(np.int32)
            kept = np.arange(offsets[-1], dtype=np.int32) < np.repeat(ends, np.diff(offsets))
            columns.append(found[0][kept])
            counts.append(found[1][kept])
            first = last
        return cls(np.concatenate([[0], np.cumsum(lengths)]), np.concatenate(columns), np.concatenate(counts))


@numba.njit  # type: ignore[untyped-decorator]
def _places(stream: np.ndarray, words: int) -> tuple[np.ndarray, np.ndarray]:
    """The places of each word in the stream, rising, word after word, and where each word's begin; both int64."""
    starts = np.zeros(words + 1, np.int64)
    for code in stream:
        if code >= 0:
            starts[code + 1] += 1
    starts = np.cumsum(starts)
    places, free = np.empty(starts[-1], np.int64), starts[:-1].copy()
    for place, code in enumerate(stream):
        if code >= 0:
            places[free[code]] = place
            free[code] += 1
    return places, starts


@numba.njit(parallel=True)  # type: ignore[untyped-decorator]
def _count_rows(
    stream: np.ndarray,
    places: np.ndarray,
    place_starts: np.ndarray,
    words: int,
    window: int,
    offsets: np.ndarray,
    columns: np.ndarray,
    counts: np.ndarray,
    lengths: np.ndarray,
) -> None:
    """Fill row r of a block of rows from ``offsets[r]`` on; ``lengths[r]`` says how many entries it has."""
    workers = numba.get_num_threads()
    for worker in numba.prange(workers):
        sums = np.zeros(words, np.float64)
        touched = np.empty(words, np.int32)
        # Frequent words have low numbers: dealt out in turn they weigh equally on all workers.
        for row in range(worker, len(lengths), workers):
            size = 0
            for place in places[place_starts[row] : place_starts[row + 1]]:
                for step in (-1, 1):
                    for distance in range(1, window + 1):
                        near = place + step * distance
                        if near < 0 or stream[near] < 0:
                            break
                        if sums[stream[near]] == 0:
                            touched[size] = stream[near]
                            size += 1
                        sums[stream[near]] += 1 / distance
            for place in range(size):
                columns[offsets[row] + place] = touched[place]
                counts[offsets[row] + place] = sums[touched[place]]
                sums[touched[place]] = 0
            lengths[row] = size
