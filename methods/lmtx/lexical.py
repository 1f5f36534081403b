"""A judge that knows no language: the cosine of TF-IDF."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from xmcbench import Artifacts, Texts
from xmcbench.methods.rerank.judgments import Pair

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class LexicalJudge:
    """Scores a document and a label by the cosine of their words and bigrams, weighted by TF-IDF over a corpus."""

    def __init__(self, artifacts: Artifacts, raw_X: Texts, raw_Y: Texts) -> None:
        """Learn the weights of words from documents and labels, or take them from the store."""
        from xmcbench.methods.sparse.features import TfidfFeatures

        self._vectorizer = TfidfFeatures.shared(artifacts, raw_X, raw_Y, "sklearn", 2, 1.0).vectorizer
        self.counts: dict[str, int] = {}
        self.identity = f"cosine of TF-IDF, {raw_X.digest} {raw_Y.digest}"

    def judge(self, pairs: Sequence[Pair]) -> Iterator[tuple[int, float]]:
        """Yield the position of a pair and its score, 0 to 1."""
        documents, labels = (self._vectors(side) for side in zip(*pairs, strict=True))
        cosines = np.asarray(documents.multiply(labels).sum(axis=1)).ravel()
        yield from enumerate(cosines.astype(np.float32).tolist())

    def _vectors(self, texts: Sequence[str]) -> csr_matrix:
        import pyarrow as pa

        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        vectors = self._vectorizer.transform(pa.array([*places], pa.large_string()))
        return vectors[[places[text] for text in texts]]
