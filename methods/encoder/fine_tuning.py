"""How long and how fast an encoder is fine-tuned, by how much is known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

#: ``fixed``: always as many steps; ``labels``: as many for every hundredth of the labels that a pair is known of.
Growth = Literal["fixed", "labels"]


@dataclass(frozen=True)
class Effort:
    """Steps and highest learning rate of a fine-tuning."""

    steps: int
    rate: float


def effort(
    pairs: csr_matrix,
    *,
    steps: int,
    batch: int,
    rate: float,
    growth: Growth = "fixed",
    epochs: float | None = None,
    full_rate_pairs: int = 0,
) -> Effort:
    """Steps and rate for these pairs, a CSR matrix [N, L].

    growth: ``labels`` is the paper's rule, 2,000 steps for 1% of the labels and 10,000 for 5%. epochs: passes over the
    pairs at most. full_rate_pairs: with fewer pairs the rate falls with the square root of their number.
    """
    if growth == "labels":
        known = len(np.unique(pairs.indices)) / pairs.shape[1]
        steps = max(1, round(steps * known / 0.01))
    if epochs is not None:
        steps = min(steps, max(1, math.ceil(epochs * pairs.nnz / min(batch, pairs.nnz))))
    return Effort(steps, rate * min(1.0, math.sqrt(pairs.nnz / full_rate_pairs)) if full_rate_pairs else rate)
