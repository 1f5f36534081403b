"""kNN: the nearest training instances vote with their labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from xmcbench import Doc, Texts, TopK
from xmcbench.methods.declarations import AboveZero, Instances, Share
from xmcbench.methods.sparse.features import FeatureMethod
from xmcbench.methods.sparse.search import SparseIndex, count_votes

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

#: Instances whose votes are held at a time.
_BATCH = 16_384


class KNN(FeatureMethod):
    """The nearest training instances vote with their labels, and the label texts count too.

    The score of a label is (1 - text) x votes + text x similarity, where similarity is that of the instance and the
    label text, and votes is the share, by similarity^power, of the nearest training instances that have the label.
    Neighbors are searched among all training instances. One without a known pair votes for nothing, so that with few
    pairs the votes weigh little and the label texts decide.

    Similarity is the inner product of TF-IDF vectors; ``pefa`` votes by embeddings, with a softmax, and shares a vote
    among an instance's labels. The k best labels are exact: every label that is voted for and the k labels with the
    nearest texts are scored. Not in MACLR's tables: the simple baseline that a method has to beat where it sees pairs.
    """

    title = "kNN"
    supervision = "required"
    deterministic = True
    packages: ClassVar = {"numba": "numba"}

    neighbors: Annotated[Instances, Doc("maximum number of neighbors that vote", "LF-Debian-20K-dev")] = 50
    power: Annotated[AboveZero, Doc("exponent of the similarity in the weight of a vote", "LF-Debian-20K-dev")] = 1.0
    text: Annotated[
        Share, Doc("share of the label text in the score; the rest is that of the votes", "LF-Debian-20K-dev")
    ] = 0.5

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        assert pairs is not None, "supervision is required"
        self._pairs = pairs.astype(np.float64)
        self._features = self._shared_features(raw_X, raw_Y)
        self._instances = SparseIndex(self._features.transform(raw_X))
        self._labels = SparseIndex(self._features.labels)
        self.notes["training_instances_with_a_pair"] = int((np.diff(pairs.indptr) > 0).sum())

    def predict_batches(self, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        for start in range(0, len(raw_X), _BATCH):
            yield self._rank(self._features.transform(raw_X[start : start + _BATCH]), k)

    def _rank(self, queries: csr_matrix, k: int) -> TopK:
        """The best of the labels that are voted for and of the k labels with the nearest texts: no other can be one."""
        from scipy.sparse import coo_matrix

        from xmcbench.methods.sparse.products import pair_scores

        votes = count_votes(self._instances.search(queries, self.neighbors), self._pairs, self.power).tocoo()
        texts = self._labels.search(queries, k).pairs(votes.shape[1]).tocoo()
        rows, labels = np.concatenate([votes.row, texts.row]), np.concatenate([votes.col, texts.col])
        scores = coo_matrix((np.concatenate([votes.data, 0 * texts.data]), (rows, labels)), shape=votes.shape).tocsr()
        similarity = pair_scores(queries, self._features.labels, scores.indptr, scores.indices)
        scores.data = (1 - self.text) * scores.data + self.text * similarity
        scores.eliminate_zeros()
        return TopK.from_scores(scores.astype(np.float32), k)
