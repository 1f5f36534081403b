"""The tree: labels clustered by the instances that have them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xmcbench import usable_cores

if TYPE_CHECKING:
    from pecos.xmc import ClusterChain
    from scipy.sparse import csc_matrix, csr_matrix


def label_tree(X: csr_matrix, pairs: csc_matrix, *, nr_splits: int, max_leaf_size: int, seed: int) -> ClusterChain:
    """A tree over the mean features of the instances of each label (PIFA), by hierarchical 2-means.

    X: CSR float32 [N, features]; pairs: binary CSC float32 [N, L], at least one in each column. nr_splits: children of
    a node; where it is a power of 2, clusters of a level are equal in size to within one label. Returns PECOS's chain:
    a CSC matrix for each level, [its clusters, clusters above]; the last one has the labels as its rows.
    """
    with quiet_pecos():
        from pecos.xmc import Indexer, LabelEmbeddingFactory

        threads = usable_cores()
        return Indexer.gen(
            LabelEmbeddingFactory.create(pairs, X, method="pifa", threads=threads),
            indexer_type="hierarchicalkmeans",
            nr_splits=nr_splits,
            max_leaf_size=max_leaf_size,
            seed=seed,
            threads=threads,
        )


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


def levels(tree: ClusterChain, pairs: csr_matrix, smallest: int, largest: int) -> list[Level]:
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


def _children(tree: ClusterChain, place: int, above: int) -> csr_matrix:
    """Which clusters of level ``place`` are below each cluster of level ``above``; -1 is the root."""
    from scipy.sparse import csr_matrix

    members = tree[place]
    for between in range(place - 1, above, -1):
        members = members @ tree[between]
    if above < 0:
        members = np.ones((tree[place].shape[0], 1), np.float32)
    return csr_matrix(members.T, dtype=np.float32)


@contextmanager
def quiet_pecos() -> Iterator[None]:
    """Without the warnings that PECOS causes: it uses a deprecated namespace of scipy, and does not close its files."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*scipy.sparse.sputils", category=DeprecationWarning)
        warnings.simplefilter("ignore", ResourceWarning)
        yield
