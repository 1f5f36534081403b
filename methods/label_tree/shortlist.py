"""The clusters that an instance is trained on: its own, and those that are easily mistaken for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xmcbench import TopK
from xmcbench.methods.label_tree.tree import Level

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

#: Candidates that are ranked at a time.
_BLOCK = 20_000_000
#: What a candidate counts: one that the instance has, and a sibling of one. Those below a wrong guess count 1 and less.
_OWN, _SIBLING = 4.0, 2.0
#: What is added to draw among equals, at most.
_NOISE = 1e-3


def shortlist(level: Level, guessed: TopK | None, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Clusters int64 [N, m], -1 for none, and the share of the instance's labels in each, float32; 0 where it has none.

    First come the clusters that the instance has, then their siblings (teacher-forcing negatives), then the others
    below the clusters that were ``guessed`` on the level above (matcher-aware negatives of XR-Transformer),
    the best guess first; ``size`` at most, among equals as many as are drawn. guessed: clusters of the level
    above; None on the first level, where all clusters are siblings.
    """
    rng = np.random.default_rng([seed, 31])
    size = min(size, level.clusters)
    rows = level.labels.shape[0]
    branches = level.clusters // level.children.shape[0] + 1
    guesses = guessed.k if guessed else 0
    step = max(1, _BLOCK // (branches * (1 + guesses)))
    # Less than lies between the last two of the weights 1, 1/2, 1/3, ...: a draw never overtakes a better guess.
    noise = min(_NOISE, 1 / max(1, guesses * (guesses + 1)))
    found, shares = np.full((rows, size), -1, np.int64), np.zeros((rows, size), np.float32)
    for start in range(0, rows, step):
        block = slice(start, min(start + step, rows))
        own = level.labels[block]
        above = (own @ level.children.T).tocsr()
        above.data[:] = _SIBLING
        if guessed is not None:
            above = above.maximum(_weighed(guessed.indices[block], level.children.shape[0]))
        candidates = (above @ level.children).tocsr()
        candidates.data += rng.uniform(0, noise, len(candidates.data)).astype(np.float32)
        ranked = TopK.from_scores((candidates + _OWN * (own > 0)).astype(np.float32), size).indices
        found[block] = ranked
        there = ranked >= 0
        at = np.broadcast_to(np.arange(len(ranked))[:, None], ranked.shape)[there]
        counts = np.asarray(own[at, ranked[there]]).ravel()
        shares[block][there] = counts / np.maximum(np.asarray(own.sum(axis=1)).ravel()[at], 1)
    width = max(1, int((found >= 0).sum(axis=1).max(initial=0)))
    return found[:, :width], shares[:, :width]


def _weighed(guessed: np.ndarray, clusters: int) -> csr_matrix:
    """The guesses as CSR float32 [n, clusters]: 1 for the best, 1/2 for the second, ..."""
    from scipy.sparse import csr_matrix

    rows, places = np.nonzero(guessed >= 0)
    weights = (1 / (1 + places)).astype(np.float32)
    return csr_matrix((weights, (rows, guessed[rows, places])), shape=(len(guessed), clusters))
