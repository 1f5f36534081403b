"""Paired comparison: two lists of predictions for the same test rows, metric by metric.

The difference of every metric has a 95 % bootstrap interval over the rows (``xmcbench.metrics.bootstrap``), and a
p-value from a randomisation test: if neither were better, the two scores of a row could as well be exchanged, so the
sign of each row's difference is flipped at random and the sum compared with the one that was seen. Both keep the rows
together, which is what makes small differences visible: most of the variance of a metric is between rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from xmcbench.errors import DataError
from xmcbench.metrics import bootstrap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xmcbench.metrics.evaluation import Scores

#: Sign flips drawn, and how many for more than _MANY_ROWS rows. The smallest p-value is 1 / (flips + 1).
FLIPS, FLIPS_OF_MANY_ROWS = 10_000, 2_000
_MANY_ROWS = 200_000

#: Cells of the matrix of signs [flips, rows] that are held at a time (128 MB).
_BLOCK = 16_000_000

#: Sums that differ by less than this share of the largest possible one are equal: they differ by rounding.
_ROUNDING = 1e-12


class Difference(NamedTuple):
    """Second minus first, as a fraction: its 95 % interval, and the p-value of the randomisation test."""

    first: float
    second: float
    delta: float
    low: float
    high: float
    p: float


def compare(first: Scores, second: Scores, seed: int = 0) -> dict[str, Difference]:
    """The difference of two evaluations on the same test rows: metric -> difference.

    Raises DataError when they are not of the same rows. PSP is compared by its numerators; what is attainable depends
    on the true pairs alone and is the same for both.
    """
    if (first.scored, first.unlabelled) != (second.scored, second.unlabelled):
        raise DataError(
            f"{first.scored} and {second.scored} scored rows cannot be paired", "two evaluations of one test set can"
        )
    deltas = {name: second.per_instance[name] - column for name, column in first.per_instance.items()}
    intervals = bootstrap.intervals(deltas, first.attainable, seed)
    values = p_values(deltas, seed)
    return {
        name: Difference(
            first.values[name],
            second.values[name],
            second.values[name] - first.values[name],
            intervals[name].low,
            intervals[name].high,
            values[name],
        )
        for name in first.values
    }


def p_values(deltas: Mapping[str, NDArray[np.float64]], seed: int = 0) -> dict[str, float]:
    """Two-sided p-values of the hypothesis that the differences, float64 [rows] each, are as often up as down.

    All columns are flipped together. p = (1 + flips at least as far from zero) / (1 + flips), which is never zero and
    never too small (Phipson and Smyth, 2010). Without a difference in any row p is 1.
    """
    if not deltas:
        return {}
    columns = np.column_stack(list(deltas.values()))
    columns = columns[columns.any(axis=1)]  # a row without a difference has no sign to flip
    rows = len(columns)
    if not rows:
        return dict.fromkeys(deltas, 1.0)
    seen = np.abs(columns.sum(axis=0)) - _ROUNDING * np.abs(columns).sum(axis=0)
    flips = FLIPS_OF_MANY_ROWS if rows > _MANY_ROWS else FLIPS
    # RandomState's streams are frozen by numpy's policy, those of Generator are not.
    random = np.random.RandomState(seed)
    as_far = np.zeros(columns.shape[1], np.int64)
    total = columns.sum(axis=0)
    bytes_a_flip = 4 * -(-rows // 32)  # whole words, or the stream would depend on the block
    step = max(1, _BLOCK // rows)
    for start in range(0, flips, step):
        drawn = min(step, flips - start)
        bits = np.frombuffer(random.bytes(drawn * bytes_a_flip), np.uint8).reshape(drawn, bytes_a_flip)
        kept = np.unpackbits(bits, axis=1, count=rows).astype(np.float64)
        # The sum with signs is twice the sum of what kept its sign, less the sum of all.
        as_far += (np.abs(2 * (kept @ columns) - total) >= seen).sum(axis=0)
    return {name: (1 + int(count)) / (1 + flips) for name, count in zip(deltas, as_far, strict=True)}
