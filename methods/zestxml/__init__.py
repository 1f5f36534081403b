"""ZestXML: a sparse bilinear model over the TF-IDF features of documents and labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from xmcbench import Doc, Texts, TopK
from xmcbench.methods.declarations import AboveZero, Labels, NonNegative, Positive, Share
from xmcbench.methods.presets import CHOICES, PRESETS
from xmcbench.methods.sparse.features import FeatureMethod
from xmcbench.methods.sparse.search import SparseIndex

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

#: Documents whose label features are held at a time.
_BATCH = 2048
_PAPER = "the authors' program, Amazon"


class ZestXML(FeatureMethod):
    """Generalized zero-shot classification by x^T W y (Gupta et al., KDD 2021; MACLR section 5, baseline ZestXML).

    x and y are TF-IDF vectors of a document and a label. Which entries of W may differ from zero is decided once, by
    how often a document feature and a label feature meet in the known pairs. The links found so, and equal features,
    give each document a shortlist of labels. W is trained as one linear SVM on the shortlists and on the known pairs
    outside them. The score of a label is share x exp(-max(0, 1 - x^T W y)^2) + (1 - share) x y^T x.

    W is defined over features, so labels without a known pair are predicted too. Labels outside a document's shortlist
    are not predicted; the shortlist holds as many labels as are asked for, or more. An instance or a label without a
    known feature has no prediction.

    The presets have the authors' values per family of datasets; without one, those of ``amazon`` but for the
    share, which was chosen on LF-Debian-20K-dev. The authors' features are stemmed and leave out stop words; ours are
    those of TF-IDF, words and bigrams as they are, or stemmed with ``analyzer=english``. Their program trains on the
    shortlists alone. On the datasets of our boards ``iterations`` ends the training before ``tolerance`` does.
    """

    title = "ZestXML"
    supervision = "required"
    packages: ClassVar = {"numba": "numba"}
    presets: ClassVar = PRESETS["zestxml"]
    choices: ClassVar = CHOICES["zestxml"]

    links: Annotated[Positive, Doc("number of links kept per document feature, and per label feature", _PAPER)] = 40
    union: Annotated[
        Share, Doc("weight of the pairs with either feature in the strength of a link; chance has the rest", _PAPER)
    ] = 0.01
    direct_weight: Annotated[NonNegative, Doc("strength of the link of a feature to itself", _PAPER)] = 0.2
    shortlist: Annotated[
        Labels, Doc("number of labels per document on which W is trained; at least as many are ranked", _PAPER)
    ] = 100
    cost: Annotated[AboveZero, Doc("C of the SVM", _PAPER)] = 1.0
    iterations: Annotated[Positive, Doc("maximum number of passes of the SVM's solver", _PAPER)] = 20
    tolerance: Annotated[AboveZero, Doc("projected gradient at which the solver stops", _PAPER)] = 0.01
    share: Annotated[
        Share, Doc("share of the bilinear model in the score; TF-IDF has the rest", "LF-Debian-20K-dev")
    ] = 0.7
    max_df = 0.5

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        from scipy.sparse import identity

        from xmcbench.methods.zestxml.bilinear import Bilinear, one_shot

        assert pairs is not None, "supervision is required"
        self._features = self._shared_features(raw_X, raw_Y)
        labels = self._features.labels
        self._index = SparseIndex(labels)
        rows = np.flatnonzero(np.diff(pairs.indptr))
        known = pairs[rows]
        X = self._features.transform(raw_X.take(rows)) if len(rows) else labels[:0]
        direct = self.direct_weight * identity(labels.shape[1], np.float32, "csr")
        self._links = (one_shot(X, labels, known, self.links, self.union) + direct).tocsr()
        self._links.sort_indices()
        self._model = Bilinear(self._links, labels)
        # A pair that the shortlist misses is trained on too.
        candidates = (self._shortlist(X, self.shortlist).pairs(len(raw_Y)) + 2 * known).tocsr()
        candidates.sort_indices()
        passes, gradient = self._model.fit(
            X,
            candidates,
            candidates.data > 1.5,
            cost=self.cost,
            iterations=self.iterations,
            tolerance=self.tolerance,
            seed=self.seed,
        )
        self.notes["training_instances"] = len(rows)
        self.notes["links"] = int(self._links.nnz)
        self.notes["candidates"] = int(candidates.nnz)
        self.notes["pairs_in_the_shortlist"] = int((candidates.data > 2.5).sum())
        self.notes["solver"] = {"passes": passes, "largest_projected_gradient": gradient}

    def predict_batches(self, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        for batch in self._features.batches(raw_X):
            yield self._rank(batch, k)

    def _shortlist(self, X: csr_matrix, size: int) -> TopK:
        """The labels with the strongest links to each document."""
        parts = [
            self._index.search((X[start : start + _BATCH] @ self._links).tocsr(), size)
            for start in range(0, X.shape[0], _BATCH)
        ]
        return TopK.joined(parts, size)

    def _rank(self, X: csr_matrix, k: int) -> TopK:
        from scipy.sparse import csr_matrix

        from xmcbench.methods.sparse.products import pair_scores

        listed = self._shortlist(X, max(self.shortlist, k)).indices
        labels = listed[listed >= 0]
        starts = np.concatenate([[0], np.cumsum((listed >= 0).sum(axis=1))])
        margin = self._model.scores(X, starts, labels)
        scores = self.share * np.exp(-(np.maximum(0, 1 - margin) ** 2))
        scores += (1 - self.share) * pair_scores(X, self._features.labels, starts, labels)
        shape = len(listed), self._features.labels.shape[0]
        return TopK.from_scores(csr_matrix((scores.astype(np.float32), labels, starts), shape=shape), k)
