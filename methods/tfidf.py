"""TF-IDF: inner product of word and bigram weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from xmcbench import Texts, TopK
from xmcbench.methods.presets import CHOICES, PRESETS
from xmcbench.methods.sparse.features import FeatureMethod

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class Tfidf(FeatureMethod):
    """Inner product of TF-IDF vectors of instance and label (MACLR section 5.1, baseline TF-IDF).

    The vectorizer is fitted on the training texts and the label texts; pairs are not used. A label that shares
    no feature with an instance is not a prediction.
    """

    title = "TF-IDF"
    supervision = "unused"
    deterministic = True
    packages: ClassVar = {"numba": "numba"}
    presets: ClassVar = PRESETS["tfidf"]
    choices: ClassVar = CHOICES["tfidf"]

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        self._features = self._shared_features(raw_X, raw_Y)

    def predict_batches(self, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        return self._features.nearest(raw_X, k)
