"""Balanced clusters by 2-means from the top."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

#: Iterations of 2-means at a node.
_ITERATIONS = 20


def balanced_clusters(vectors: csr_matrix, clusters: int, seed: int) -> np.ndarray:
    """Return the cluster of each row, int64 [n], by balanced 2-means from the top; sizes differ by one at most.

    Clusters 2i and 2i + 1 are the halves of cluster i of half as many clusters.

    vectors: CSR float32 [n, features], compared by cosine. clusters: a power of two, at most n. At every node the rows
    are halved by how much nearer they are to one of two centers than to the other.
    """
    rng = np.random.default_rng(seed)
    vectors = of_length_1(vectors)
    parts = [np.arange(vectors.shape[0])]
    while len(parts) < clusters:
        halves = []
        for rows in parts:
            halves += _halved(vectors[rows], rows, rng)
        parts = halves
    found = np.empty(vectors.shape[0], np.int64)
    for number, rows in enumerate(parts):
        found[rows] = number
    return found


def _halved(vectors: csr_matrix, rows: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    half = (len(rows) + 1) // 2
    # Dense, for a node has two.
    centers = vectors[rng.choice(len(rows), 2, replace=False)].toarray()
    order, before = np.arange(len(rows)), -np.inf
    for _ in range(_ITERATIONS):
        nearness = vectors @ centers.T
        order = np.argsort(nearness[:, 1] - nearness[:, 0], kind="stable")
        total = float(nearness[order[:half], 0].sum() + nearness[order[half:], 1].sum())
        if total - before <= 1e-4 * abs(total):
            break
        before = total
        for side, members in enumerate((order[:half], order[half:])):
            center = np.asarray(vectors[members].sum(axis=0)).ravel()
            centers[side] = center / max(float(np.linalg.norm(center)), 1e-12)
    return [np.sort(rows[order[:half]]), np.sort(rows[order[half:]])]


def of_length_1(vectors: csr_matrix) -> csr_matrix:
    """Return the rows scaled to length 1, those without a value as they are. vectors: CSR float32 [n, features]."""
    squares = np.bincount(
        np.repeat(np.arange(vectors.shape[0]), np.diff(vectors.indptr)),
        vectors.data.astype(np.float64) ** 2,
        vectors.shape[0],
    )
    lengths = np.repeat(np.where(squares > 0, np.sqrt(squares), 1), np.diff(vectors.indptr))
    scaled: csr_matrix = vectors.copy()
    scaled.data = (vectors.data / lengths).astype(np.float32)
    return scaled
