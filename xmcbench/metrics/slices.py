"""Slices: groups of test rows in which a difference of two methods is unlike the difference in the other rows.

For every slice the mean difference inside is compared with that outside. A difference that is the same everywhere is in
no slice; where one method is better by an effect of its own, the slice is found whatever the overall difference is. Of
PSP@k, a ratio of sums, the differences of both groups are such ratios too: rows on which more is attainable weigh more.

The test is a permutation test of Welch's t: what is left of the differences when the overall one is taken out is dealt
out to the rows at random, and the statistic of the slice is computed again. Studentized, the test also holds, for many
rows, where the variances inside and outside differ (Janssen, 1997, "Studentized permutation tests for non-i.i.d.
hypotheses"). Holm's correction is over all slices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmcbench.errors import DataError
from xmcbench.metrics.paired import holm

#: The least rows inside and outside of a slice that is tested.
LEAST_ROWS = 20

#: Permutations drawn, and how many for more than _MANY_ROWS rows.
PERMUTATIONS, PERMUTATIONS_OF_MANY_ROWS = 10_000, 2_000
_MANY_ROWS = 100_000

#: Cells of the matrix of permuted differences [permutations, rows] that are held at a time, few enough for the caches.
_BLOCK = 500_000

#: Variances below this, of fractions, are rounding.
_ROUNDING = 1e-24
#: The least variance within slices, as a share of the whole: less is rounding of sums of squares.
_LEAST_SHARE = 1e-10


class Contrast(NamedTuple):
    """A slice against the other rows, as fractions.

    rows: of the slice. inside, outside: the weighted mean differences. t: Welch's statistic. p: two-sided, of no
    contrast. adjusted: p after Holm's correction over the slices.
    """

    rows: int
    inside: float
    outside: float
    t: float
    p: float
    adjusted: float


def contrasts(
    differences: NDArray[np.float64],
    slices: Mapping[str, NDArray[np.bool_]],
    *,
    weights: NDArray[np.float64] | None = None,
    seed: int = 0,
    permutations: int | None = None,
) -> dict[str, Contrast]:
    """Return the contrast of every slice that can be tested, the clearest first: by p, then by the size of t.

    differences: [rows], one per test row, whose mean is the overall difference. weights: [rows], of mean 1, what
    it is a ratio to: more for a row that counts more in PSP@k. Default is 1. slices: name -> members, bool
    [rows]; a slice is left out if fewer than ``LEAST_ROWS`` rows are inside or outside. permutations: default 10,000,
    or 2,000 for more than 100,000 rows.

    Raises DataError where a slice is not of these rows.
    """
    rows = len(differences)
    for name, members in slices.items():
        if members.shape != (rows,):
            raise DataError(f"the slice {name!r} is of {members.shape} rows, the differences of {rows}")
    tested = {name: members for name, members in slices.items() if LEAST_ROWS <= members.sum() <= rows - LEAST_ROWS}
    if not tested:
        return {}
    inside = np.column_stack([*tested.values()]).astype(np.float64)
    sizes = inside.sum(axis=0)
    weight = np.ones(rows) if weights is None else weights
    # Where one method is better everywhere, by the same ratio, rows of greater weight differ more: nothing of theirs.
    left = differences - differences.mean() * weight
    sums = _Sums(left.sum(), (left**2).sum(), left.var(ddof=1))  # the same in every order
    observed = _welch(left[None], inside, sizes, sums)[0]
    drawn = permutations or (PERMUTATIONS_OF_MANY_ROWS if rows > _MANY_ROWS else PERMUTATIONS)
    least = np.abs(observed) * (1 - 1e-9)
    reached = np.zeros(len(tested))
    # RandomState's streams are frozen by numpy's policy, those of Generator are not.
    random = np.random.RandomState(seed)
    step = max(1, _BLOCK // rows)
    for start in range(0, drawn, step):
        dealt = np.stack([random.permutation(left) for _ in range(min(step, drawn - start))])
        reached += (np.abs(_welch(dealt, inside, sizes, sums)) >= least).sum(axis=0)
    p = dict(zip(tested, ((1 + reached) / (1 + drawn)).tolist(), strict=True))
    adjusted = holm(p)
    found = {}
    for place in sorted(range(len(tested)), key=lambda place: (p[[*tested][place]], -abs(observed[place]))):
        name = [*tested][place]
        members = tested[name]
        found[name] = Contrast(
            int(sizes[place]),
            float(differences[members].sum() / weight[members].sum()),
            float(differences[~members].sum() / weight[~members].sum()),
            float(observed[place]),
            p[name],
            adjusted[name],
        )
    return found


class _Sums(NamedTuple):
    """The sums of differences and of their squares over all rows, and their variance."""

    values: float
    squares: float
    variance: float


def _welch(
    differences: NDArray[np.float64], inside: NDArray[np.float64], sizes: NDArray[np.float64], sums: _Sums
) -> NDArray[np.float64]:
    """Return Welch's t of each slice, float64 [draws, slices], of differences [draws, rows]; 0 where nothing varies.

    sums: of every draw, which has the same differences in another order.

    Where nothing varies inside nor outside, but between them, it is large and finite.
    """
    within, within_squares = differences @ inside, differences**2 @ inside
    without, without_squares = sums.values - within, sums.squares - within_squares
    others = differences.shape[1] - sizes
    variance = _variance(within, within_squares, sizes) / sizes + _variance(without, without_squares, others) / others
    contrast = within / sizes - without / others
    if sums.variance <= _ROUNDING:
        return np.zeros_like(contrast)
    least = _LEAST_SHARE * sums.variance * (1 / sizes + 1 / others)
    return np.asarray(contrast / np.sqrt(np.maximum(variance, least)))


def _variance(
    sums: NDArray[np.float64], squares: NDArray[np.float64], count: NDArray[np.float64]
) -> NDArray[np.float64]:
    return np.asarray(np.maximum(squares - sums**2 / count, 0.0) / (count - 1))
