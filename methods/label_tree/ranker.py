"""PECOS's tree of linear classifiers over given features."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from xmcbench import TopK, usable_cores
from xmcbench.methods.label_tree.tree import label_tree, quiet_pecos

if TYPE_CHECKING:
    from pecos.xmc.xlinear.model import XLinearModel
    from scipy.sparse import csr_matrix


class LinearRanker:
    """Ranks the labels that have a training pair; the others have no classifier and are never predicted."""

    def __init__(self, seen: np.ndarray, model: XLinearModel | None) -> None:
        """seen: int [S], the labels that the columns of the model stand for, rising. model: None if there are none."""
        self._seen, self._model = seen, model

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
    ) -> LinearRanker:
        """Build the tree and train a linear SVM at each node against the teacher-forcing negatives.

        X: CSR float32 [N, features]; None where N is 0. pairs: binary CSR [N, L], at least one in each row. cost: C of
        the SVM. threshold: weights below it are dropped.
        """
        seen = np.unique(pairs.indices)
        if not len(seen):
            return cls(seen, None)
        by_label = pairs[:, seen].tocsc().astype(np.float32)
        with TemporaryDirectory() as folder, quiet_pecos():
            from pecos.xmc.xlinear.model import XLinearModel

            XLinearModel.train(
                X,
                by_label,
                C=label_tree(X, by_label, nr_splits=nr_splits, max_leaf_size=max_leaf_size, seed=seed),
                nr_splits=nr_splits,
                solver_type="L2R_L2LOSS_SVC_DUAL",
                negative_sampling_scheme="tfn",
                Cp=cost,
                Cn=cost,
                threshold=threshold,
                threads=usable_cores(),
            ).save(folder)
            # A model that only predicts multiplies a query with all children of a node at once. PECOS makes one from
            # files only.
            return cls(seen, XLinearModel.load(folder, is_predict_only=True))

    @property
    def labels(self) -> int:
        """How many labels have a classifier."""
        return len(self._seen)

    def search(self, X: csr_matrix, k: int, beam_size: int) -> TopK:
        """The k best labels that the beam reaches; fewer if fewer labels have a classifier.

        Scores are PECOS's: the product over the path of exp(-max(0, 1 - margin)^3), 0..1. Among labels that are equal
        at the k-th place PECOS decides, the same way in every run.
        """
        if self._model is None:
            return TopK.from_rows(np.zeros(X.shape[0] + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), k)
        with quiet_pecos():
            found = self._model.predict(X, beam_size=beam_size, only_topk=min(k, self.labels), threads=usable_cores())
        return TopK.from_rows(found.indptr, self._seen[found.indices], found.data, k)
