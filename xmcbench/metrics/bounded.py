"""Bounded differences: a test of their mean over few test rows, and the interval that belongs to it.

Sign flips ask whether differences are as often on one side of 0 as on the other. Where the mean is 0 but one method
gains much on few rows and the other a little on many, few rows seldom show the gains, and flips reject far too often.
Here only the bounds are used: a row's difference is in [-1, 1], for a ratio in [-weight, weight]. To the rows that are
there one more is added that lies at the bound against the difference in question, and the rows are weighted at random
by a Dirichlet distribution, all alike. The share of weighted means at or beyond 0 is the one-sided p (Gaffke, 2005,
"Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative variable"; Learned-Miller
and Thomas, 2019, arXiv:1905.06208). No distribution within the bounds is known of which it rejects too often. Where
differences are -1, 0 and 1, as of P@1, it is the exact sign test.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from xmcbench.metrics.flips import LEVEL, Verdict

#: Of fewer rows differences are compared by their bounds. Flips are wrong there; of more, they are more powerful.
FEW_ROWS = 200
#: Random weights that are drawn.
DRAWS = 10_000
#: So many draws at or beyond a value are still so few that it is rejected: (1 + draws) / (1 + DRAWS) < LEVEL / 2.
_REJECTED = math.ceil(LEVEL / 2 * (1 + DRAWS)) - 2


def verdicts(
    differences: Mapping[str, NDArray[np.float64]], weights: Mapping[str, NDArray[np.float64]], seed: int = 0
) -> dict[str, Verdict]:
    """Return the verdict on each named difference, float64 [rows]. Its value is sum(difference) / sum(weight).

    A name without weights (positive, float64 [rows]) is a mean over the rows. p is twice the smaller one-sided one, and
    below 0.05 exactly where 0 is outside the interval. Without a difference in any row p is 1, and the interval holds
    what so few rows leave possible. The numbers depend on ``seed`` and the rows, not on which names are asked for.
    """
    found = {}
    # RandomState's streams are frozen by numpy's policy, those of Generator are not.
    random = np.random.RandomState(seed)
    shares = random.standard_exponential((DRAWS, 1 + max(map(len, differences.values()), default=0)))
    for name, difference in differences.items():
        weight = weights.get(name, np.ones(len(difference)))
        bound = weight.max(initial=0.0)
        sums, total = shares[:, 1:] @ difference, shares[:, 1:] @ weight
        edge = shares[:, 0] * bound
        lows, highs = (np.sort((sums + side * edge) / (total + edge)) for side in (-1, 1))
        beyond = min(np.count_nonzero(lows <= 0), np.count_nonzero(highs >= 0))
        p = min(1.0, 2 * (1 + beyond) / (1 + DRAWS))
        found[name] = Verdict(float(lows[_REJECTED]), float(highs[-1 - _REJECTED]), p)
    return found
