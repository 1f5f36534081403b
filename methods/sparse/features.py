"""The TF-IDF features of a dataset, made once and shared by all methods and cells with the same parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from annotated_types import Interval

from xmcbench import Artifacts, Doc, Method, Texts, TopK, usable_cores
from xmcbench.methods.distributed.threads import in_threads
from xmcbench.methods.label_text import LABEL_TEXT, LabelPart, read_labels
from xmcbench.methods.sparse.ngrams import NgramTfidf, Recipe
from xmcbench.methods.sparse.search import SparseIndex
from xmcbench.methods.words.analysis import ANALYZER, ROWS, Analyzer, analyze, require_analyzer

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy.sparse import csr_matrix

    from xmcbench.methods.words.vocabulary import Tokens

#: A letter (U+A66E) that no text needs: it stands for what a vectorizer would take for the end of a word.
_MARK = "\N{CYRILLIC LETTER MULTIOCULAR O}"
#: Terms that every vectorizer keeps whole.
_PLAIN = r"^[\p{L}\p{N}_]{2,}$"


class TfidfFeatures:
    """A vectorizer fitted on the training texts and the label texts, and the vectors of the labels."""

    def __init__(self, vectorizer: NgramTfidf, labels: csr_matrix, analyzer: Analyzer | None = None) -> None:
        """labels: CSR float32 [L, features]. analyzer: of the terms; None for the words of the vectorizer's recipe."""
        self.vectorizer, self.labels, self._analyzer = vectorizer, labels, analyzer

    @classmethod
    def shared(
        cls,
        artifacts: Artifacts,
        raw_X: Texts,
        raw_Y: Texts,
        recipe: Recipe,
        ngrams: int,
        max_df: float,
        analyzer: Analyzer | None = None,
    ) -> TfidfFeatures:
        """Return the features of these texts, from the store, or made and stored. ngrams: 1 for words, 2 for pairs of
        words too, which n-grams of characters never make. max_df: features in a larger share of the texts are
        dropped."""
        from scipy.sparse import load_npz, save_npz

        terms = 1 if analyzer == "characters" else ngrams
        identity = {
            "instances": raw_X.digest,
            "labels": raw_Y.digest,
            "recipe": recipe,
            "ngrams": terms,
            "max_df": max_df,
            **({"analyzer": analyzer} if analyzer else {}),
        }

        def build(folder: Path) -> None:
            corpora: Iterable[Texts] = (raw_X, raw_Y)
            if analyzer:
                corpora = (_in_memory(batch) for texts in corpora for batch in _analyze_batches(texts, analyzer))
            vectorizer = NgramTfidf.fit(corpora, recipe, terms, max_df)
            vectorizer.save(folder)
            save_npz(folder / "labels.npz", cls(vectorizer, None, analyzer).transform(raw_Y), compressed=False)

        folder = artifacts.get("analyzed-tfidf" if analyzer else "tfidf", identity, build)
        return cls(NgramTfidf.load(folder, recipe), load_npz(folder / "labels.npz"), analyzer)

    def batches(self, texts: Texts) -> Iterator[csr_matrix]:
        """Return the vectors of the texts, batch by batch: CSR float32 [rows of the batch, features]."""
        arrays = _analyze_batches(texts, self._analyzer) if self._analyzer else texts.batches()
        yield from in_threads(self.vectorizer.transform, arrays, usable_cores())

    def transform(self, texts: Texts) -> csr_matrix:
        """Return the vectors of at least one text in one piece: CSR float32 [len(texts), features]."""
        from scipy.sparse import vstack

        return vstack(list(self.batches(texts)), format="csr")

    def nearest(self, texts: Texts, k: int) -> Iterator[TopK]:
        """Return the k labels with the largest inner product per text, batch by batch."""
        yield from map(partial(SparseIndex(self.labels).search, k=k), self.batches(texts))


class FeatureMethod(Method):
    """A method that reads texts as TF-IDF features, and the parameters of these."""

    vectorizer: Annotated[
        Recipe,
        Doc(
            "whose recipe: sklearn (lower case, words of two letters and more) or pecos (the one of MACLR's TF-IDF "
            "pseudo labels: split on white space, case and punctuation kept)",
            "the training pairs of LF-Debian-20K",
        ),
    ] = "sklearn"
    ngrams: Annotated[Literal[1, 2], Doc("1: words; 2: words and bigrams")] = 2
    max_df: Annotated[float, Interval(gt=0, le=1), Doc("a feature in more than this share of the texts is dropped")] = (
        1.0
    )
    analyzer: Annotated[Analyzer | None, ANALYZER] = None
    label_text: Annotated[LabelPart, LABEL_TEXT] = "title"

    def require(self) -> None:
        require_analyzer(self.analyzer)

    def _shared_features(self, raw_X: Texts, raw_Y: Texts) -> TfidfFeatures:
        labels = read_labels(raw_Y, self.label_text)
        return TfidfFeatures.shared(
            self.artifacts, raw_X, labels, self.vectorizer, self.ngrams, self.max_df, self.analyzer
        )


def _analyze_batches(texts: Texts, analyzer: Analyzer) -> Iterator[pa.Array]:
    """Return the terms of each text, with spaces between them, batch by batch."""
    for batch in texts.batches(ROWS):
        yield write_terms(analyze(batch, analyzer))


def write_terms(tokens: Tokens) -> pa.Array:
    """Return tokens as texts that every recipe splits into the same terms: Arrow ``large_string`` [texts]. Single
    characters, and terms with combining marks or punctuation, are spelled with a letter that texts do not have."""
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = pc.match_substring_regex(tokens.words, pattern=_PLAIN).to_pylist()
    spelled = [
        word if kept and _MARK not in word else _spell(word)
        for word, kept in zip(tokens.words.to_pylist(), plain, strict=True)
    ]
    ends = np.cumsum(np.bincount(tokens.rows, minlength=tokens.texts))
    terms = pa.array(spelled, pa.large_string()).take(pa.array(tokens.codes))
    lists = pa.LargeListArray.from_arrays(pa.array(np.concatenate([[0], ends]).astype(np.int64)), terms)
    return pc.binary_join(lists, pa.scalar(" ", pa.large_string()))


def _spell(word: str) -> str:
    """Spell signs that are neither letters nor digits by their number between two marks; mark a single sign."""
    signs = [sign if sign.isalnum() and sign != _MARK else f"{_MARK}{ord(sign):x}{_MARK}" for sign in word]
    return "".join(signs) + (_MARK if len(word) == 1 and signs[0] == word else "")


def _in_memory(batch: pa.Array) -> Texts:
    import pyarrow as pa

    blank = pa.repeat(pa.scalar("", pa.large_string()), len(batch))
    return Texts(pa.table({"uid": blank, "title": batch, "content": blank}))
