"""TF-IDF: inner product of word and bigram weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from xmcbench import Method
from xmcbench.methods.sparse.features import TfidfFeatures

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench import Texts, TopK


class Tfidf(Method):
    """Inner product of TF-IDF vectors of instance and label (MACLR section 4.1, baseline TF-IDF).

    The vectoriser is fitted on the training texts and the label texts; pairs are never looked at. A label that shares
    no feature with an instance is no prediction.

    vectorizer  whose recipe: ``sklearn`` (lower case, words of two letters and more) or ``pecos`` (the one of MACLR's
                TF-IDF pseudo labels: split on white space, case and punctuation kept)
                The default is the one that ranks the training pairs of LF-Debian-20K better (no filter but ``self``:
                P@1 38.3 against 33.2)
    ngrams      1: words; 2: words and bigrams
    max_df      a feature in more than this share of the texts is dropped
    """

    title = "TF-IDF"
    supervision = "unused"
    deterministic = True
    packages: ClassVar = {"sparse_dot_topn": "sparse-dot-topn"}
    presets: ClassVar = {
        "sklearn": {"vectorizer": "sklearn", "max_df": 1.0},
        "pecos": {"vectorizer": "pecos", "max_df": 0.98},
    }

    vectorizer: Literal["sklearn", "pecos"] = "sklearn"
    ngrams: Literal[1, 2] = 2
    max_df: float = 1.0

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        """Fit the vectoriser, or take it from the store. Raises UsageError where max_df is no share."""
        self._features = TfidfFeatures.shared(self.artifacts, raw_X, raw_Y, self.vectorizer, self.ngrams, self.max_df)

    def predict(self, raw_X: Texts, k: int = 100) -> TopK:
        """The k nearest labels of each text, by inner product."""
        return self._features.nearest(raw_X, k)
