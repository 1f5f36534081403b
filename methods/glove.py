"""GloVe: texts as means of word vectors."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from xmcbench import Doc, Method, Texts, TopK, UsageError
from xmcbench.methods.declarations import AboveZero, Positive, Words
from xmcbench.methods.dense.search import renumber, top_k_batches
from xmcbench.methods.presets import CHOICES, PRESETS
from xmcbench.methods.words import vector_file
from xmcbench.methods.words.vocabulary import Vocabulary, WordVectors

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

#: Prefix of ``vectors`` that are downloaded by gensim.
_DOWNLOAD = "gensim:"
_PAPER = "GloVe, section 4.2"


class GloVe(Method):
    """Mean of the word vectors of a text, compared by inner product (MACLR section 5, baseline GloVe).

    The vectors are trained on the co-occurrence counts of the training texts and the label texts (Pennington, Socher
    and Manning, EMNLP 2014), or given. Pairs are not used. A word is a run of letters and digits.

    A label without a known word is never predicted; an instance without one has no prediction. Both are counted in
    the notes.

    A weak baseline, as in the paper. If instances and labels share words, even random word vectors do better in such a
    mean: they are a random projection of the bag of words, which trained vectors blur.

    For training, ``paper`` has the values of Pennington et al., section 4.2; ``quick`` has fewer epochs and an x_max
    for small corpora, as in the authors' example (10 for text8).
    """

    title = "GloVe"
    supervision = "unused"
    packages: ClassVar = {"numba": "numba"}
    presets: ClassVar = PRESETS["glove"]
    choices: ClassVar = CHOICES["glove"]

    vectors: Annotated[
        str,
        Doc("corpus: train them; a path: a file in GloVe's or word2vec's format; gensim:NAME: a download of gensim"),
    ] = "corpus"
    normalize: Annotated[bool, Doc("cosine instead of the inner product of the means")] = True
    lowercase: Annotated[bool, Doc("compare words in lower case; not for given vectors that know capitals")] = True
    max_words: Annotated[
        Words, Doc("size of the vocabulary: the most frequent words of the corpus, or the first of the file", _PAPER)
    ] = 400_000
    dimensions: Annotated[Positive, Doc("length of a vector; given ones have their own", _PAPER)] = 300
    window: Annotated[Words, Doc("maximum distance of words that co-occur", _PAPER)] = 10
    min_count: Annotated[
        Positive, Doc("minimum number of occurrences of a word in the vocabulary", "the authors' program")
    ] = 5
    x_max: Annotated[AboveZero, Doc("a count weighs (count / x_max)^alpha, at most 1", "the authors' demo")] = 10.0
    alpha: Annotated[AboveZero, Doc("see x_max", _PAPER)] = 0.75
    learning_rate: Annotated[AboveZero, Doc("learning rate of AdaGrad", _PAPER)] = 0.05
    epochs: Annotated[Positive, Doc("passes over the counts")] = 25

    def inputs(self) -> Mapping[str, Path | str]:
        if self.vectors.startswith(_DOWNLOAD):
            return {"vectors": vector_file.download_path(self.vectors.removeprefix(_DOWNLOAD))}
        return super().inputs()

    def pretrain(self, raw_X: Texts, raw_Y: Texts) -> dict[str, np.ndarray]:
        """Train the vectors: ``word_bytes`` (uint8), ``word_ends`` (int64), ``vectors`` (float32 [V, dimensions]).
        Nothing where vectors are given: a file is known by its content, not by the path in the parameters. Raises
        UsageError where the texts have no two words to learn from, MethodError where the training diverges."""
        if self.vectors != "corpus":
            return {}
        from xmcbench.methods.words import glove as trainer
        from xmcbench.methods.words.glove import Cooccurrence

        corpora = [raw_X, raw_Y]
        vocabulary = Vocabulary.count(corpora, self.min_count, self.max_words, self.lowercase)
        counts = Cooccurrence.of(vocabulary.stream(corpora), len(vocabulary), self.window)
        if not len(counts.counts):
            raise UsageError(
                f"no two of the {len(vocabulary)} words that occur at least {self.min_count} times are in one text",
                "lower glove.min_count, or give vectors",
            )
        vectors, losses = trainer.train(
            counts, self.dimensions, self.epochs, self.learning_rate, self.x_max, self.alpha, self.seed
        )
        self.notes["cooccurrences"] = len(counts.counts)
        self.notes["loss"] = [round(loss, 6) for loss in losses]
        return WordVectors(vocabulary, vectors).arrays()

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        """Embed the labels. Raises UsageError if no label has a known word or a file of vectors is invalid."""
        origin: dict[str, object] = {}
        if self.vectors != "corpus":
            origin, arrays = self._read_given()
        else:
            arrays = self.pretrained or self.pretrain(raw_X, raw_Y)
        self._words = WordVectors.from_arrays(arrays, self.lowercase)
        width = int(self._words.vectors.shape[1])
        if origin:
            self.notes["vectors"] = {**origin, "width": width}
        self.notes["words"] = len(self._words.vocabulary)
        self.notes["dimensions"] = width
        labels, known = self._words.embed(raw_Y, self.normalize)
        if not known.any():
            raise UsageError(
                f"none of the {len(self._words.vocabulary)} words with a vector occurs in a label text",
                "vectors of another language, or in capitals (glove.lowercase=false)?",
            )
        self._known = np.flatnonzero(known).astype(np.int32)
        self._labels = labels[known]
        self.notes["labels_without_a_known_word"] = int((~known).sum())

    def predict_batches(self, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        """The k labels with the largest inner product (or cosine) per text."""
        queries, known = self._words.embed(raw_X, self.normalize)
        self.notes["instances_without_a_known_word"] = int((~known).sum())
        start = 0
        for found in top_k_batches(queries, self._labels, k, seed=self.seed, notes=self.notes):
            yield renumber(found, self._known, known[start : start + len(found)])
            start += len(found)

    def _read_given(self) -> tuple[dict[str, object], dict[str, np.ndarray]]:
        """Return the origin of the given vectors, and the vectors of the file, which is read once for all cells."""
        name = self.vectors.removeprefix(_DOWNLOAD)
        path = vector_file.download(name) if name != self.vectors else Path(os.path.expanduser(name))
        digest = vector_file.sha256(path)
        called, source = (path.name, "a local file") if name == self.vectors else (name, "gensim-data")
        origin: dict[str, object] = {"name": called, "source": source, "sha256": digest}

        def build(folder: Path) -> None:
            import pyarrow as pa

            words, vectors = vector_file.read(path, self.max_words)
            vocabulary = Vocabulary(pa.array(words, pa.large_string()), self.lowercase)
            np.savez(folder / "vectors.npz", **WordVectors(vocabulary, vectors).arrays())

        identity = {"sha256": digest, "max_words": self.max_words}
        with np.load(self.artifacts.get("word-vectors", identity, build) / "vectors.npz", allow_pickle=False) as arrays:
            return origin, {name: arrays[name] for name in arrays.files}
