"""Texts as bags of tokens with TF-IDF weights, and where the vectors of the tokens come from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xmcbench import Artifacts, Doc, Texts
from xmcbench.methods.words import vector_file
from xmcbench.methods.words.vocabulary import Vocabulary

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

#: What the parameter ``vectors`` of a method means.
VECTORS = Doc(
    "what the vectors of the tokens start from: random; glove: trained on the corpus; or a path: a file in GloVe's or "
    "word2vec's format, text or binary, plain or .gz"
)
#: Its values that are no paths, whatever the working directory holds.
NO_PATHS = ("random", "glove")
#: Texts whose bags, vectors and labels are computed at a time.
ROWS = 16_384
#: GloVe as the method ``glove`` trains it under its preset ``quick``.
_WINDOW, _EPOCHS, _RATE, _X_MAX, _ALPHA = 10, 25, 0.05, 10.0, 0.75


class Tokens:
    """The words of a corpus, and how much each weighs: idf = ln((N + 1) / (df + 1)) + 1."""

    def __init__(self, vocabulary: Vocabulary, idf: np.ndarray) -> None:
        """idf: float32 [V]."""
        self.vocabulary, self._idf = vocabulary, idf

    @classmethod
    def of(cls, corpora: list[Texts], min_count: int, max_words: int) -> Tokens:
        """The words that occur at least ``min_count`` times, the ``max_words`` most frequent of them."""
        vocabulary = Vocabulary.count(corpora, min_count, max_words, lowercase=True)
        frequency, texts = np.zeros(len(vocabulary), np.int64), 0
        for corpus in corpora:
            for batch in corpus.batches():
                codes, rows = vocabulary.codes(batch)
                met = np.unique(rows.astype(np.int64) * max(1, len(vocabulary)) + codes) % max(1, len(vocabulary))
                frequency += np.bincount(met, minlength=len(vocabulary))
            texts += len(corpus)
        return cls(vocabulary, (np.log((texts + 1) / (frequency + 1)) + 1).astype(np.float32))

    def bags(self, texts: Texts) -> csr_matrix:
        """The known words of each text, weighed by count x idf: CSR float32 [N, V], rows of the Euclidean length 1 but
        for those without a word. There is at least one column."""
        from scipy.sparse import csr_matrix, vstack

        width = max(1, len(self.vocabulary))
        parts = [csr_matrix((0, width), dtype=np.float32)]
        for batch in texts.batches():
            codes, rows = self.vocabulary.codes(batch)
            counts = csr_matrix((np.ones(len(codes), np.float32), (rows, codes)), shape=(len(batch), width))
            counts.sum_duplicates()
            counts.data *= self._idf[counts.indices]
            rows = np.repeat(np.arange(len(batch)), np.diff(counts.indptr))
            counts.data /= np.sqrt(np.bincount(rows, counts.data**2, len(batch)))[rows]
            parts.append(counts)
        return vstack(parts, format="csr", dtype=np.float32)

    def vectors(
        self,
        source: str,
        dimensions: int,
        corpora: list[Texts],
        artifacts: Artifacts,
        seed: int,
        notes: dict[str, Any] | None = None,
    ) -> np.ndarray:
        """Vectors that training starts from: float32 [V, dimensions], or as long as given ones, scaled to a mean length
        of 1. source: see ``VECTORS``. Words that a file lacks get random ones. notes: receive the facts about a given
        file. Raises UsageError where a file is bad or missing."""
        rng = np.random.default_rng(seed)
        if source not in NO_PATHS:
            path = Path(os.path.expanduser(source))
            words, given = vector_file.read(path, wanted={*self.vocabulary.words.to_pylist()})
            dimensions = given.shape[1]
            if notes is not None:
                origin = {"name": path.name, "source": "a local file", "sha256": vector_file.sha256(path)}
                notes["vectors"] = {**origin, "width": dimensions, "words": len(words)}
        vectors = rng.standard_normal((len(self.vocabulary), dimensions), np.float32) / np.float32(dimensions**0.5)
        if source == "glove":
            vectors = _scale(self._glove(dimensions, corpora, artifacts, seed))
        elif source != "random":
            import pyarrow as pa
            import pyarrow.compute as pc

            found = pc.index_in(self.vocabulary.words, value_set=pa.array(words, self.vocabulary.words.type))
            places = found.fill_null(-1).to_numpy(zero_copy_only=False)
            if words:
                vectors[places >= 0] = _scale(given)[places[places >= 0]]
        return vectors

    def _glove(self, dimensions: int, corpora: list[Texts], artifacts: Artifacts, seed: int) -> np.ndarray:
        """GloVe on the corpus, made once; random where no two words stand together."""
        from xmcbench.methods.words import glove as trainer
        from xmcbench.methods.words.glove import Cooccurrence

        def build(folder: Path) -> None:
            counts = Cooccurrence.of(self.vocabulary.stream(corpora), len(self.vocabulary), _WINDOW)
            if len(counts.counts):
                vectors, _ = trainer.train(counts, dimensions, _EPOCHS, _RATE, _X_MAX, _ALPHA, seed)
            else:
                vectors = np.random.default_rng(seed).standard_normal((len(self.vocabulary), dimensions), np.float32)
            np.save(folder / "vectors.npy", vectors)

        identity = {
            "texts": [corpus.digest for corpus in corpora],
            "words": len(self.vocabulary),
            "dimensions": dimensions,
            "seed": seed,
        }
        folder = artifacts.get("token-vectors", identity, build)
        vectors: np.ndarray = np.load(folder / "vectors.npy", allow_pickle=False)
        return vectors


def _scale(vectors: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(vectors, axis=1).mean() if len(vectors) else 1.0
    return (vectors / max(length, 1e-12)).astype(np.float32)
