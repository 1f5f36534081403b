"""The tree: labels clustered by the instances that have them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.methods.label_tree.clusters import balanced_clusters

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix, csr_matrix


def label_tree(X: csr_matrix, pairs: csc_matrix, *, nr_splits: int, max_leaf_size: int, seed: int) -> list[csc_matrix]:
    """Return a tree over the mean features of the instances of each label (PIFA), by balanced 2-means from the top.

    X: CSR float32 [N, features]; pairs: binary CSC float32 [N, L], at least one in each column. nr_splits: children of
    a node. The result has a CSC float32 matrix for each level, [its clusters, clusters above]; the last one has the
    labels as its rows. Sizes of the clusters of the last level differ by one label at most (Yu et al. 2022, section 3,
    with balanced clusters).
    """
    from scipy.sparse import csc_matrix

    labels = pairs.shape[1]
    depth = max(0, min(ceil(log2(labels / max_leaf_size)), labels.bit_length() - 1))
    members = balanced_clusters((pairs.T @ X).tocsr(), 1 << depth, seed)
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
    """One level of a tree: K clusters, or the labels themselves.

    children: binary CSR float32 [clusters above, K]; the first level has a single cluster above, the root. labels: CSR
    float32 [N, K], how many labels of each instance are in each cluster.
    """

    children: csr_matrix
    labels: csr_matrix

    @property
    def clusters(self) -> int:
        """K."""
        return int(self.children.shape[1])


def levels(tree: list[csc_matrix], pairs: csr_matrix, smallest: int, largest: int) -> list[Level]:
    """The levels of a tree that have ``smallest`` to ``largest`` clusters, from the root down; at least one.

    pairs: binary CSR [N, L]. If no level has a size within these bounds, the nearest one below them is taken, or the
    first one where there is none.
    """
    sizes = [chain.shape[0] for chain in tree]
    fitting = [place for place, size in enumerate(sizes) if size <= largest] or [0]
    kept = [place for place in fitting if sizes[place] >= smallest] or fitting[-1:]
    found, counts = [], pairs.astype(np.float32).tocsr()
    for place in reversed(range(len(sizes))):
        if place in kept:
            above = [each for each in kept if each < place]
            found.append(Level(_children(tree, place, max(above, default=-1)), counts))
        counts = (counts @ tree[place]).tocsr()
    return found[::-1]


def _children(tree: list[csc_matrix], place: int, above: int) -> csr_matrix:
    """Which clusters of level ``place`` are below each cluster of level ``above``; -1 is the root."""
    from scipy.sparse import csr_matrix

    members = tree[place]
    for between in range(place - 1, above, -1):
        members = members @ tree[between]
    if above < 0:
        members = np.ones((tree[place].shape[0], 1), np.float32)
    return csr_matrix(members.T, dtype=np.float32)
