"""TF-IDF: inner product of word and bigram weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Interval

from xmcbench import Method
from xmcbench.methods.presets.tfidf import CHOICES, PRESETS
from xmcbench.methods.sparse.analyzed import AnalyzedFeatures
from xmcbench.methods.sparse.features import MAX_DF, NGRAMS, VECTORIZER
from xmcbench.methods.sparse.search import PACKAGES
from xmcbench.methods.words.analysis import ANALYZER, Analyzer, require_analyzer

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench import Texts, TopK


class Tfidf(Method):
    """Inner product of TF-IDF vectors of instance and label (MACLR section 4.1, baseline TF-IDF).

    The vectorizer is fitted on the training texts and the label texts; pairs are not used. A label that shares
    no feature with an instance is not a prediction.
    """

    title = "TF-IDF"
    supervision = "unused"
    deterministic = True
    packages: ClassVar = PACKAGES
    presets: ClassVar = PRESETS
    choices: ClassVar = CHOICES

    vectorizer: Annotated[Literal["sklearn", "pecos"], VECTORIZER] = "sklearn"
    ngrams: Annotated[Literal[1, 2], NGRAMS] = 2
    max_df: Annotated[float, Interval(gt=0, le=1), MAX_DF] = 1.0
    analyzer: Annotated[Analyzer | None, ANALYZER] = None

    def require(self) -> None:
        """Raise Unavailable where the analyzer needs a package that is not installed."""
        require_analyzer(self.analyzer)

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        """Fit the vectorizer, or take it from the store."""
        self._features = AnalyzedFeatures.shared(
            self.artifacts, raw_X, raw_Y, self.vectorizer, self.ngrams, self.max_df, self.analyzer
        )

    def predict_batches(self, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        """The k nearest labels of each text, by inner product."""
        return self._features.nearest(raw_X, k)
