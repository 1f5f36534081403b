"""How long and how fast an encoder is fine-tuned, by how much is known, and what is held out to decide the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

#: ``fixed``: always as many steps; ``labels``: as many for every hundredth of the labels that a pair is known of.
Growth = Literal["fixed", "labels"]
#: Shares of the fine-tuned weights that are tried, and the one that is taken where too few labels are known to try.
SHARES, TOO_FEW_LABELS = (0.0, 0.25, 0.5, 0.75, 1.0), 0.5
#: One label of so many is held out; fewer known labels than this are too few. Unknown labels to rank them among.
_FOLDS, _CANDIDATES = 5, 2000


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


def held_out_labels(pairs: csr_matrix, seed: int) -> tuple[csr_matrix, csr_matrix, np.ndarray]:
    """Known pairs in two parts with no label in common, both CSR of the shape of ``pairs`` [N, L].

    Returns the pairs to train on, those held out, and the labels among which to rank the latter: all that have a known
    pair and some that have none, int64, in order. The second part is empty where too few labels are known.
    """
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng([seed, 8])
    known = np.unique(pairs.indices)
    count = len(known) // _FOLDS
    held = np.isin(pairs.indices, rng.permutation(known)[:count])
    rows = np.repeat(np.arange(pairs.shape[0]), np.diff(pairs.indptr))
    parts = [
        csr_matrix((pairs.data[part], (rows[part], pairs.indices[part])), shape=pairs.shape) for part in (~held, held)
    ]
    unknown = np.setdiff1d(np.arange(pairs.shape[1]), known)
    others = rng.permutation(unknown)[:_CANDIDATES]
    return parts[0], parts[1], np.sort(np.concatenate([known, others])).astype(np.int64)
