"""GloVe (Pennington et al. 2014): co-occurrence counts, and word vectors from them. Imports numba: import it late.

In training the counts are split into PARTS x PARTS blocks by the words of their row and column. Blocks that share
neither a row word nor a column word touch different vectors, so the PARTS blocks of a (wrapped) diagonal are trained at
the same time (DSGD; Gemulla et al., KDD 2011). Every vector meets its counts in an order fixed by the seed, regardless
of the number of threads: the same seed gives the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np

from xmcbench import MethodError
from xmcbench.methods.kernels import kernel

#: Candidate entries of the rows that are counted at a time.
_CANDIDATES = 32_000_000


@dataclass(frozen=True)
class Cooccurrence:
    """A symmetric matrix [V, V] of counts in CSR form; the columns of a row are in order of first occurrence. starts:
    int64 [V + 1]. columns: int32. counts: float32, above 0."""

    starts: np.ndarray
    columns: np.ndarray
    counts: np.ndarray

    @property
    def words(self) -> int:
        """Number of words, V."""
        return len(self.starts) - 1

    @classmethod
    def of(cls, stream: np.ndarray, words: int, window: int) -> Cooccurrence:
        """Count words at most ``window`` places apart in one text; two words d apart add 1/d (section 4.2). stream:
        int32, codes below ``words``, a -1 after each text. A word next to itself counts from both sides. A word's
        surroundings are added into one dense row, so that no pair is held twice and nothing is sorted. Memory: 12 bytes
        a token, 16 an entry of the result while its parts are joined, 17 a place in the rows counted at a time."""
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
            block = place_starts[first : last + 1]
            _count_rows(stream, places, block, words, window, offsets, *found, filled, numba.get_num_threads())
            ends = (offsets[:-1] + filled).astype(np.int32)
            kept = np.arange(offsets[-1], dtype=np.int32) < np.repeat(ends, np.diff(offsets))
            columns.append(found[0][kept])
            counts.append(found[1][kept])
            first = last
        return cls(np.concatenate([[0], np.cumsum(lengths)]), np.concatenate(columns), np.concatenate(counts))


@kernel()
def _places(stream, words):  # type: ignore[no-untyped-def]
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


@kernel(parallel=True)
def _count_rows(stream, places, place_starts, words, window, offsets, columns, counts, lengths, workers):  # type: ignore[no-untyped-def]
    """Fill row r of a block of rows from ``offsets[r]`` on; ``lengths[r]`` says how many entries it has."""
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


#: Blocks of a diagonal, the maximum number of threads. Constant, so that results do not depend on the number of cores.
PARTS = 32
#: Vectors are padded with zeros to a multiple of this many floats, a whole number of SIMD registers.
_LANES = 16
#: Sums may be taken in any order, products fused; NaN stays NaN, so that a diverged training is seen.
_FAST = {"reassoc", "contract", "nsz"}


class Entries(NamedTuple):
    """The counts in the order of training: block b, of row part b // PARTS and column part b % PARTS, lies in
    ``starts[b]:starts[b + 1]``. starts: int64 [PARTS^2 + 1]. rows, columns: int32. logs: float32, the logarithms of the
    counts."""

    starts: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    logs: np.ndarray


class Side(NamedTuple):
    """Vectors (w or w~) and biases of the words on one side, and the sums of their squared steps for AdaGrad. vectors,
    squares: float32 [V, d rounded up to whole registers]. biases, bias_squares: float32 [V]."""

    vectors: np.ndarray
    squares: np.ndarray
    biases: np.ndarray
    bias_squares: np.ndarray


def train(
    counts: Cooccurrence, dimensions: int, epochs: int, learning_rate: float, x_max: float, alpha: float, seed: int
) -> tuple[np.ndarray, list[float]]:
    """Vectors w + w~ of all words, float32 [V, dimensions], and the mean loss f(X) (...)^2 / 2 of an entry by epoch.
    Minimizes equation 8 by AdaGrad, one entry at a time as section 4.2 and the authors' program do: sums of squares
    begin at 1 and take a step's own gradient in after it; the learning rate is part of the gradient that is squared.
    Raises MethodError when the loss is not finite any more."""
    random = np.random.default_rng(seed)
    entries = partition(counts, int(random.integers(2**31)))
    main, context = (start(counts.words, dimensions, random) for _ in range(2))
    # f(x) = (x / x_max)^alpha below x_max, else 1 (equation 9).
    weighting = np.float32(np.log(x_max)), np.float32(alpha)
    block_losses, losses = np.zeros(PARTS * PARTS), []
    for epoch in range(1, epochs + 1):
        _epoch(random.permutation(PARTS), entries, main, context, weighting, np.float32(learning_rate), block_losses)
        losses.append(float(block_losses.sum() / max(1, len(entries.logs))))
        if not np.isfinite(losses[-1]):
            raise MethodError(f"the loss of GloVe is NaN or infinite in epoch {epoch}", "lower the learning rate")
    return (main.vectors + context.vectors)[:, :dimensions], losses


def partition(counts: Cooccurrence, seed: int) -> Entries:
    """The entries of the matrix by blocks, within a block in an order drawn from ``seed`` (0 .. 2^31 - 1)."""
    starts, rows, columns, logs = _blocks(counts.starts, counts.columns, counts.counts)
    _shuffle(starts, rows, columns, logs, seed)
    return Entries(starts, rows, columns, logs)


def start(words: int, dimensions: int, random: np.random.Generator) -> Side:
    """One side before training: vectors and biases uniform in +-1/(2 dimensions), as in the authors' program."""
    width = -(-dimensions // _LANES) * _LANES
    vectors = np.zeros((words, width), np.float32)
    vectors[:, :dimensions] = (random.random((words, dimensions), np.float32) - 0.5) / dimensions
    biases = (random.random(words, np.float32) - np.float32(0.5)) / dimensions
    return Side(vectors, np.ones_like(vectors), biases.astype(np.float32), np.ones_like(biases))


@kernel()
def _blocks(row_starts, columns, counts):  # type: ignore[no-untyped-def]
    """Entries brought from rows into blocks; a word's part is its number modulo PARTS, which spreads the frequent."""
    starts = np.zeros(PARTS * PARTS + 1, np.int64)
    for row in range(len(row_starts) - 1):
        for entry in range(row_starts[row], row_starts[row + 1]):
            starts[(row % PARTS) * PARTS + columns[entry] % PARTS + 1] += 1
    starts = np.cumsum(starts)
    free, size = starts[:-1].copy(), len(columns)
    block_rows, block_columns, logs = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.float32)
    for row in range(len(row_starts) - 1):
        for entry in range(row_starts[row], row_starts[row + 1]):
            block = (row % PARTS) * PARTS + columns[entry] % PARTS
            block_rows[free[block]], block_columns[free[block]] = row, columns[entry]
            logs[free[block]] = np.log(counts[entry])
            free[block] += 1
    return starts, block_rows, block_columns, logs


@kernel()
def _shuffle(starts, rows, columns, logs, seed):  # type: ignore[no-untyped-def]
    """Bring the entries of each block into a random order, in place (Fisher and Yates)."""
    np.random.seed(seed)  # numba's own generator: NumPy's global one is not touched
    for block in range(PARTS * PARTS):
        first = starts[block]
        for last in range(starts[block + 1] - 1, first, -1):
            other = np.random.randint(first, last + 1)
            rows[last], rows[other] = rows[other], rows[last]
            columns[last], columns[other] = columns[other], columns[last]
            logs[last], logs[other] = logs[other], logs[last]


@kernel(parallel=True)
def _epoch(diagonals, entries, main, context, weighting, rate, losses):  # type: ignore[no-untyped-def]
    """All entries once, diagonal after diagonal; ``losses`` [PARTS^2] takes the sum of the losses of each block."""
    for diagonal in diagonals:
        for part in numba.prange(PARTS):
            block = part * PARTS + (part + diagonal) % PARTS
            losses[block] = _train_block(block, entries, main, context, weighting, rate)


# Without error_model="numpy" every division could raise, and no loop would be vectorized.
@kernel(fastmath=_FAST, error_model="numpy")
def _train_block(block, entries, main, context, weighting, rate):  # type: ignore[no-untyped-def]
    loss = 0.0
    log_x_max, alpha = weighting
    for entry in range(entries.starts[block], entries.starts[block + 1]):
        row, column, log = entries.rows[entry], entries.columns[entry], entries.logs[entry]
        w, w_squares = main.vectors[row], main.squares[row]
        v, v_squares = context.vectors[column], context.squares[column]
        product = np.float32(0)
        for place in range(len(w)):
            product += w[place] * v[place]
        difference = product + main.biases[row] + context.biases[column] - log
        weight = np.exp(alpha * min(np.float32(0), log - log_x_max))
        loss += 0.5 * weight * difference * difference
        step = rate * weight * difference
        for place in range(len(w)):
            w_step, v_step = step * v[place], step * w[place]
            w[place] -= w_step / np.sqrt(w_squares[place])
            v[place] -= v_step / np.sqrt(v_squares[place])
            w_squares[place] += w_step * w_step
            v_squares[place] += v_step * v_step
        main.biases[row] -= step / np.sqrt(main.bias_squares[row])
        context.biases[column] -= step / np.sqrt(context.bias_squares[column])
        main.bias_squares[row] += step * step
        context.bias_squares[column] += step * step
    return loss
