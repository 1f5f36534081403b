"""The tree: labels clustered by the instances that have them, its levels, and shortlists of clusters."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2

import numpy as np
from scipy.sparse import csc_matrix, csr_matrix

from xmcbench import TopK

#: Iterations of 2-means at a node.
_ITERATIONS = 20


def cluster_evenly(vectors: csr_matrix, clusters: int, seed: int) -> np.ndarray:
    """Return the cluster of each row, int64 [n], by balanced 2-means from the top; sizes differ by one at most.
    vectors: CSR float32 [n, features], compared by cosine. clusters: a power of two, at most n; 2i and 2i + 1 are the
    halves of cluster i of half as many. Rows are halved by how much nearer they are to one of two centers."""
    rng = np.random.default_rng(seed)
    vectors = of_length_1(vectors)
    parts = [np.arange(vectors.shape[0])]
    while len(parts) < clusters:
        halves = []
        for rows in parts:
            halves += _halve(vectors[rows], rows, rng)
        parts = halves
    found = np.empty(vectors.shape[0], np.int64)
    for number, rows in enumerate(parts):
        found[rows] = number
    return found


def _halve(vectors: csr_matrix, rows: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
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


def label_tree(X: csr_matrix, pairs: csc_matrix, *, nr_splits: int, max_leaf_size: int, seed: int) -> list[csc_matrix]:
    """Return a tree over the mean features of the instances of each label (PIFA), by balanced 2-means from the top. X:
    CSR float32 [N, features]; pairs: binary CSC float32 [N, L], at least one in each column. nr_splits: children of a
    node. The result has a CSC float32 matrix per level, [its clusters, clusters above]; the labels are the rows of
    the last one (Yu et al. 2022, section 3, with balanced clusters)."""
    labels = pairs.shape[1]
    depth = max(0, min(ceil(log2(labels / max_leaf_size)), labels.bit_length() - 1))
    members = cluster_evenly((pairs.T @ X).tocsr(), 1 << depth, seed)
    chain = []
    while True:
        clusters = int(members.max()) + 1
        ones = np.ones(len(members), np.float32)
        chain.append(csc_matrix((ones, (np.arange(len(members)), members)), shape=(len(members), clusters)))
        if clusters == 1:
            return chain[::-1]
        members = np.arange(clusters) // nr_splits


@dataclass(frozen=True)
class Level:
    """One level of a tree: K clusters, or the labels themselves. children: binary CSR float32 [clusters above, K]; the
    first level has a single cluster above, the root. labels: CSR float32 [N, K], labels of an instance in a cluster."""

    children: csr_matrix
    labels: csr_matrix

    @property
    def clusters(self) -> int:
        """K."""
        return int(self.children.shape[1])


def levels(tree: list[csc_matrix], pairs: csr_matrix, smallest: int, largest: int) -> list[Level]:
    """The levels of a tree that have ``smallest`` to ``largest`` clusters, from the root down; at least one. pairs:
    binary CSR [N, L]. If no level has a size within these bounds, the nearest one below them is taken, or the first."""
    sizes = [chain.shape[0] for chain in tree]
    fitting = [place for place, size in enumerate(sizes) if size <= largest] or [0]
    kept = [place for place in fitting if sizes[place] >= smallest] or fitting[-1:]
    found, counts = [], pairs.astype(np.float32).tocsr()
    for place in reversed(range(len(sizes))):
        if place in kept:
            above = [level for level in kept if level < place]
            found.append(Level(_children(tree, place, max(above, default=-1)), counts))
        counts = (counts @ tree[place]).tocsr()
    return found[::-1]


def _children(tree: list[csc_matrix], place: int, above: int) -> csr_matrix:
    """Clusters of level ``place`` below each cluster of level ``above``; -1 is the root."""
    members = _members(tree, place, above) if above >= 0 else np.ones((tree[place].shape[0], 1), np.float32)
    return csr_matrix(members.T, dtype=np.float32)


def shallow_levels(
    X: csr_matrix, pairs: csr_matrix, *, branches: int, leaf: int, height: int, seed: int
) -> list[Level]:
    """Return the levels of a shallow and wide tree, the labels last (You et al., NeurIPS 2019, section 3). Labels are
    halved until a cluster has ``leaf`` at most. From these clusters upwards, every level with a ``branches``-th as many
    is kept, ``height`` levels in all at most. X: CSR float32 [N, features]. pairs: binary CSR [N, L], at least one in
    each row and column. branches: a power of 2."""
    binary = label_tree(X, pairs.tocsc().astype(np.float32), nr_splits=2, max_leaf_size=leaf, seed=seed)
    last, step = len(binary) - 1, branches.bit_length() - 1
    kept = [place for place in (last - 1 - step * number for number in range(height)) if place >= 0][::-1]
    chain = [_members(binary, place, above) for above, place in zip([-1, *kept], [*kept, last], strict=True)]
    return levels(chain, pairs, 1, max(matrix.shape[0] for matrix in chain))


def _members(binary: list[csc_matrix], place: int, above: int) -> csc_matrix:
    """Clusters of level ``above`` that hold those of level ``place``: CSC float32; -1 is the root."""
    found = binary[place]
    for between in range(place - 1, above, -1):
        found = found @ binary[between]
    return found.tocsc()


#: Candidates that are ranked at a time.
_BLOCK = 20_000_000
#: What a candidate counts: one that the instance has, and a sibling of one. Those below a wrong guess count 1 and less.
_OWN, _SIBLING = 4.0, 2.0
#: What is added to draw among equals, at most.
_NOISE = 1e-3


def shortlist(level: Level, guessed: TopK | None, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Clusters int64 [N, m], -1 for none, and the share of the instance's labels in each, float32; 0 where it has none.
    First come the clusters that the instance has, then their siblings (teacher-forcing negatives), then the others
    below the clusters that were ``guessed`` on the level above, the best guess first (matcher-aware negatives of
    XR-Transformer); ``size`` at most, ties drawn. guessed: None on the first level, where all clusters are siblings."""
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
            above = above.maximum(_weigh(guessed.indices[block], level.children.shape[0]))
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


def _weigh(guessed: np.ndarray, clusters: int) -> csr_matrix:
    """The guesses as CSR float32 [n, clusters]: 1 for the best, 1/2 for the second, ..."""
    rows, places = np.nonzero(guessed >= 0)
    weights = (1 / (1 + places)).astype(np.float32)
    return csr_matrix((weights, (rows, guessed[rows, places])), shape=(len(guessed), clusters))
