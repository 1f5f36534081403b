"""TF-IDF as scikit-learn computes it: its own TfidfVectorizer, stored without pickle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xmcbench import MethodError, Texts

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import TfidfVectorizer


class ScikitTfidf:
    """Lower case, words of two and more letters, words and bigrams as one block, idf = ln((N + 1) / (df + 1)) + 1."""

    def __init__(self, vectorizer: TfidfVectorizer) -> None:
        """vectorizer: fitted."""
        self._vectorizer = vectorizer

    @classmethod
    def fit(cls, corpora: Iterable[Texts], ngrams: int, max_df: float) -> ScikitTfidf:
        """Learn the vocabulary and its idf. Raises MethodError where no text holds a word that may be a feature."""
        vectorizer = _vectorizer(ngrams, max_df=max_df)
        try:
            vectorizer.fit(_every(corpora))
        except ValueError as error:
            raise MethodError(
                f"scikit-learn finds no feature in these texts: {error}", "are the texts empty?"
            ) from error
        return cls(vectorizer)

    def transform(self, batch: pa.Array) -> csr_matrix:
        """TF-IDF of an Arrow array of texts: CSR float32 [len(batch), features]."""
        return self._vectorizer.transform(batch.to_pylist()).tocsr()

    def save(self, folder: Path) -> None:
        """Write ``terms.arrow`` and ``idf.npy`` into ``folder``."""
        import pyarrow as pa

        table = pa.table({"term": pa.array(self._vectorizer.get_feature_names_out(), pa.large_string())})
        with pa.OSFile(str(folder / "terms.arrow"), "wb") as stream, pa.ipc.new_file(stream, table.schema) as file:
            file.write_table(table)
        np.save(folder / "idf.npy", self._vectorizer.idf_)

    @classmethod
    def load(cls, folder: Path) -> ScikitTfidf:
        """Read what ``save`` wrote."""
        import pyarrow as pa

        with pa.memory_map(str(folder / "terms.arrow")) as source:
            terms = pa.ipc.open_file(source).read_all()["term"].to_pylist()
        # The n-grams to look for follow from the terms: no word holds a space.
        ngrams = max(term.count(" ") for term in terms) + 1
        vectorizer = _vectorizer(ngrams, vocabulary={term: column for column, term in enumerate(terms)})
        vectorizer.idf_ = np.load(folder / "idf.npy", allow_pickle=False)
        return cls(vectorizer)


def _vectorizer(ngrams: int, **options: object) -> TfidfVectorizer:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(ngram_range=(1, ngrams), dtype=np.float32, **options)


def _every(corpora: Iterable[Texts]) -> Iterator[str]:
    for texts in corpora:
        yield from texts
