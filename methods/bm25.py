"""BM25: the labels as a search index, the instances as queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np

from xmcbench import Doc, Method, Texts, TopK, arrow, usable_cores
from xmcbench.methods.declarations import NonNegative, Share
from xmcbench.methods.distributed.threads import in_threads
from xmcbench.methods.label_text import LABEL_TEXT, LabelPart, read_labels
from xmcbench.methods.presets import CHOICES, PRESETS
from xmcbench.methods.sparse.search import SparseIndex
from xmcbench.methods.words.analysis import (
    ANALYZER,
    ROWS,
    Analyzer,
    analyze,
    number_terms,
    rename_words,
    require_analyzer,
    stop_words,
)
from xmcbench.methods.words.vocabulary import Tokens

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy.sparse import csr_matrix


class BM25(Method):
    """BM25 over the label texts, with the instance as the query (bm25s; Lu 2024, arXiv:2407.03618).

    Not in MACLR's tables. bm25s scores every term of every label when it builds its index; the sum over the terms of
    a query is then a sparse product, so that the scores are those of ``bm25s.BM25.retrieve`` without a dense row for
    each query. Pairs and training texts are not used: document frequencies are those of the labels.

    A label that shares no term with the instance, or only terms whose weight is 0 (``robertson``: those of half of the
    labels; ``atire``: of all), is not a prediction. An instance without a term has none, and a label without a term is
    never one. The variants of BM25 that score absent terms as well (BM25L, BM25+) are left out. With an ``analyzer``,
    ``stemmer`` and ``stopwords`` have no effect.
    """

    title = "BM25"
    supervision = "unused"
    deterministic = True
    packages: ClassVar = {"bm25s": "bm25s", "Stemmer": "PyStemmer", "numba": "numba"}
    presets: ClassVar = PRESETS["bm25"]
    choices: ClassVar = CHOICES["bm25"]

    variant: Annotated[
        Literal["lucene", "robertson", "atire"], Doc("formula of idf and term frequency", "Kamphuis et al., ECIR 2020")
    ] = "lucene"
    k1: Annotated[NonNegative, Doc("saturation of the term frequency", "bm25s")] = 1.5
    b: Annotated[Share, Doc("share of the length normalization", "bm25s")] = 0.75
    stemmer: Annotated[Literal["english"] | None, Doc("Snowball stems, or none")] = "english"
    stopwords: Annotated[Literal["english"] | None, Doc("words left out, or none")] = "english"
    analyzer: Annotated[Analyzer | None, ANALYZER] = None
    label_text: Annotated[LabelPart, LABEL_TEXT] = "title"

    def require(self) -> None:
        require_analyzer(self.analyzer)

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        import bm25s
        from scipy.sparse import csc_matrix, csr_matrix

        ids, words = number_terms(map(self._analyze, self._batches(read_labels(raw_Y, self.label_text))))
        terms = sorted(words)
        self._terms = {term: number for number, term in enumerate(terms)}
        if not terms:
            self._index = SparseIndex(csr_matrix((len(raw_Y), 0), dtype=np.float32))
            return
        renumbered = {number: self._terms[term] for term, number in words.items()}
        scorer = bm25s.BM25(k1=self.k1, b=self.b, method=self.variant)
        corpus = [[renumbered[number] for number in label] for label in ids]
        scorer.index((corpus, self._terms), create_empty_token=False, show_progress=False)
        scores = (scorer.scores["data"], scorer.scores["indices"], scorer.scores["indptr"])
        self._index = SparseIndex(csc_matrix(scores, shape=(len(raw_Y), len(terms))).tocsr())

    def predict_batches(self, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        """Return the k labels with the highest BM25 score of every text."""
        for queries in in_threads(self._count_terms, self._batches(raw_X), usable_cores()):
            yield self._index.search(queries, k)

    def _batches(self, texts: Texts) -> Iterator[pa.Array]:
        return texts.batches(ROWS) if self.analyzer else texts.batches()

    def _analyze(self, batch: pa.Array) -> Tokens:
        if self.analyzer:
            return analyze(batch, self.analyzer)
        return _split_as_bm25s(batch, self.stemmer, self.stopwords)

    def _count_terms(self, batch: pa.Array) -> csr_matrix:
        """Return counts of the index's terms in each text: CSR float32 [len(batch), terms]."""
        from scipy.sparse import coo_matrix

        tokens = self._analyze(batch)
        number = np.array([self._terms.get(word, -1) for word in tokens.words.to_pylist()], np.int64)
        columns = number[tokens.codes]
        known = columns >= 0
        counts = np.ones(int(known.sum()), np.float32)
        shape = (len(batch), len(self._terms))
        queries = coo_matrix((counts, (tokens.rows[known], columns[known])), shape=shape).tocsr()
        queries.sum_duplicates()
        return queries


def _split_as_bm25s(batch: pa.Array, stemmer: str | None, stopwords: str | None) -> Tokens:
    """Return the tokens of ``bm25s.tokenize``: lower case, words of two letters, digits or underscores and more.

    bm25s looks at every token of every text in Python; here Python sees each distinct word of the batch once.
    """
    import Stemmer

    # By Python, as in bm25s: Arrow lowers one character at a time, and knows no final sigma.
    lowered = arrow.from_strings(text.lower() for text in batch.to_pylist())
    tokens = Tokens.of(lowered, r"[^\p{L}\p{N}_]+")
    words = tokens.words.to_pylist()
    stems = Stemmer.Stemmer(stemmer).stemWords(words) if stemmer else words
    left_out = stop_words("english") if stopwords else ()
    names = [stem if len(word) > 1 and word not in left_out else "" for word, stem in zip(words, stems, strict=True)]
    return rename_words(tokens, names)
