"""A tree of linear classifiers over given features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix, hstack

from xmcbench import TopK
from xmcbench.methods.label_tree.tree import label_tree

if TYPE_CHECKING:
    from xmcbench.methods.label_tree.linear import Chunks

#: Nodes that are scored at a time, at most.
_BLOCK = 20_000_000


class TreeRanker:
    """Ranks the labels that have a training pair; the others have no classifier and are never predicted. The model of
    XR-Linear (Yu et al., JMLR 2022): a linear SVM at each node, trained on the instances of its parent (teacher-forcing
    negatives), and a beam search from the root."""

    def __init__(self, seen: np.ndarray, levels: list[Chunks]) -> None:
        """seen: int [S], the labels that the leaves stand for, rising. levels: the classifiers, from the root down."""
        self._seen, self._levels = seen, levels

    @classmethod
    def train(
        cls,
        X: csr_matrix | None,
        pairs: csr_matrix,
        *,
        nr_splits: int,
        max_leaf_size: int,
        cost: float,
        threshold: float,
        seed: int,
    ) -> TreeRanker:
        """Build the tree and train a linear SVM at each node. X: CSR float32 [N, features]; None where N is 0. pairs:
        binary CSR [N, L], at least one in each row. cost: C of the SVM. threshold: weights below it are dropped."""
        from xmcbench.methods.label_tree.linear import Chunks, linear_svms

        seen = np.unique(pairs.indices)
        if not len(seen) or X is None:
            return cls(seen, [])
        positives = pairs[:, seen].tocsc().astype(np.float32)
        tree = label_tree(X, positives, nr_splits=nr_splits, max_leaf_size=max_leaf_size, seed=seed)
        found = []
        for members in reversed(tree):
            above = (positives @ members).tocsc()
            svms = linear_svms(X, positives, members, above, cost=cost, threshold=threshold, seed=seed)
            found.append(Chunks.of(svms, members))
            positives = above
        return cls(seen, found[::-1])

    @property
    def labels(self) -> int:
        """Number of labels with a classifier."""
        return len(self._seen)

    def search(self, X: csr_matrix, k: int, beam_size: int) -> TopK:
        """Return the k best labels that the beam reaches; fewer if fewer labels have a classifier. Scores are those of
        PECOS: the product over the path of exp(-max(0, 1 - margin)^3), 0..1. X: CSR float32 [n, features]."""
        if not self._levels:
            return TopK.from_rows(np.zeros(X.shape[0] + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), k)
        queries = hstack([X, np.ones((X.shape[0], 1), np.float32)], format="csr", dtype=np.float32)
        step = max(1, _BLOCK // (beam_size * max(level.widest for level in self._levels)))
        parts = []
        for start in range(0, X.shape[0], step):
            block = queries[start : start + step]
            nodes, scores = np.zeros((block.shape[0], 1), np.int32), np.ones((block.shape[0], 1), np.float32)
            for level in self._levels:
                count = min(k, self.labels) if level is self._levels[-1] else beam_size
                nodes, scores = level.best(block, nodes, scores, count)
            found = nodes >= 0
            starts = np.concatenate([[0], np.cumsum(found.sum(axis=1))])
            parts.append(TopK.from_rows(starts, self._seen[nodes[found]], scores[found], k))
        return TopK.joined(parts, k)
