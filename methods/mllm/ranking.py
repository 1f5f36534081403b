"""Features of candidates, and the trees that rank by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xmcbench import Texts
from xmcbench.methods.mllm.matching import Terms
from xmcbench.methods.words.sentences import split_sentences

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class Thesaurus:
    """Terms of labels, and which labels are broader than others."""

    def __init__(self, terms: Terms, raw_Y: Texts) -> None:
        """Read the parents that are labels."""
        from scipy.sparse import csr_matrix

        self.terms = terms
        number = {uid: label for label, uid in enumerate(raw_Y.uids)}
        above = getattr(raw_Y, "parents", [()] * len(raw_Y))
        known = {(label, number[uid]) for label, uids in enumerate(above) for uid in uids if uid in number}
        edges = np.array(sorted(edge for edge in known if edge[0] != edge[1]), np.int64).reshape(-1, 2)
        size = (len(raw_Y), len(raw_Y))
        self._broader = csr_matrix((np.ones(len(edges), np.float32), edges.T), shape=size)
        self._narrower = self._broader.T.tocsr()

    def candidates(self, texts: Texts) -> tuple[csr_matrix, np.ndarray]:
        """Return the labels that texts name, binary CSR float32 [texts, L], and for each its features, float32
        [candidates, 11]: share of sentences that name it, of these by its title, mean tokens and ambiguity, first and
        last of them and what is between, as shares of the text's length, this length in sentences, and the shares of
        the candidates that are broader, narrower, and siblings."""
        from scipy.sparse import csr_matrix

        pairs = zip(texts.titles, texts.contents, strict=True)
        documents = [[*split_sentences(title), *split_sentences(content)] for title, content in pairs]
        lengths = np.array([len(sentences) for sentences in documents], np.int64)
        matches = self.terms.match([sentence for sentences in documents for sentence in sentences])
        document = np.repeat(np.arange(len(documents)), lengths)[matches.sentences]
        place = matches.sentences - (np.cumsum(lengths) - lengths)[document]
        order = np.lexsort((place, matches.labels, document))
        document, label, place = document[order], matches.labels[order], place[order]
        starts = np.flatnonzero((np.diff(document, prepend=-1) > 0) | (np.diff(label, prepend=-1) != 0))
        counts = np.diff(starts, append=len(order))
        length = lengths[document[starts]]
        values = np.stack([matches.preferred[order], matches.sizes[order], matches.ambiguity[order]])
        means = np.add.reduceat(values.astype(np.float64), starts, axis=1) / counts
        first, last = place[starts], place[starts + counts - 1]
        ends = np.searchsorted(document[starts], np.arange(len(documents) + 1))
        found = csr_matrix(
            (np.ones(len(starts), np.float32), label[starts], ends), (len(texts), self._broader.shape[0])
        )
        related = self._relate(found)
        columns = [counts / length, *means, first / length, last / length, (last - first) / length, length, *related]
        return found, np.stack(columns, axis=1).astype(np.float32)

    def _relate(self, found: csr_matrix) -> list[np.ndarray]:
        """Return for each candidate the shares of its text's candidates that are broader, narrower, and siblings."""
        from xmcbench.methods.sparse.products import pair_scores

        places = found.indptr, found.indices
        broader = pair_scores(found, self._broader, *places)
        narrower = pair_scores(found, self._narrower, *places)
        # Below its parents, a candidate finds itself as often as it has parents.
        below = pair_scores(found @ self._broader, self._broader, *places)
        siblings = below - np.diff(self._broader.indptr)[found.indices]
        sizes = np.diff(found.indptr)
        return [counts / np.repeat(sizes, sizes) for counts in (broader, narrower, siblings)]


class Trees:
    """The trees of a scikit-learn ensemble as arrays, which can be kept."""

    def __init__(self, estimators: Sequence[Any]) -> None:
        """Read fitted decision trees of two classes, which those of an ensemble are even if a sample lacks one."""
        trees = [estimator.tree_ for estimator in estimators]
        sizes = [tree.node_count for tree in trees]
        self._roots = np.cumsum([0, *sizes[:-1]])
        nodes = np.arange(sum(sizes))

        def children(name: str) -> np.ndarray:
            own = np.concatenate([getattr(tree, name) for tree in trees])
            # A leaf leads to itself.
            return np.where(own < 0, nodes, own + np.repeat(self._roots, sizes))

        self._left, self._right = children("children_left"), children("children_right")
        self._feature = np.maximum(np.concatenate([tree.feature for tree in trees]), 0)
        self._threshold = np.concatenate([tree.threshold for tree in trees])
        values = np.concatenate([tree.value[:, 0] for tree in trees])
        self._probability = values[:, 1] / values.sum(axis=1)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Return the mean probability of the second class over the trees, for each row of features: float64 [rows]."""
        rows = np.arange(len(features))[:, None]
        nodes = np.tile(self._roots, (len(features), 1))
        while True:
            is_left = features[rows, self._feature[nodes]] <= self._threshold[nodes]
            following = np.where(is_left, self._left[nodes], self._right[nodes])
            if np.array_equal(following, nodes):
                probabilities: np.ndarray = self._probability[nodes].mean(axis=1)
                return probabilities
            nodes = following
