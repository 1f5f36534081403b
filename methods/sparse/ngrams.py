"""TF-IDF of words and bigrams by scikit-learn's or by PECOS's recipe, on Arrow's native kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from xmcbench import Texts, arrow, usable_cores
from xmcbench.methods.distributed.threads import in_threads
from xmcbench.methods.words.analysis import ROWS, Analyzer, analyze
from xmcbench.methods.words.vocabulary import Tokens

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix

#: Texts whose words a thread counts at a time.
_ROWS = 16_384
#: Bigrams that a thread sorts at a time.
_SORTED = 2_000_000

#: Recipes of features.
Recipe = Literal["sklearn", "pecos"]


class NgramTfidf:
    """Words and bigrams weighted by TF-IDF. ``sklearn`` gives the vectors of scikit-learn's TfidfVectorizer: lower
    case, words of two letters, digits or underscores and more; features in more than ``max_df`` of the documents
    dropped; idf = ln((N + 1) / (df + 1)) + 1; L2 norm 1. Characters are lowered one by one, so that a Greek final sigma
    and a dotted capital I differ. ``pecos`` gives the vectors of PECOS by the recipe of MACLR's TF-IDF pseudo labels
    (amzn/pecos issue 206): case and punctuation kept; words and bigrams as two blocks; idf = max(ln(N / (df + 1)), 0);
    L2 norm 1 of each block, then of the whole. PECOS splits on spaces only; here any ASCII whitespace separates words,
    such as the TAB behind a title."""

    def __init__(
        self,
        recipe: Recipe,
        words: pa.Array,
        word_idf: NDArray[np.float32],
        bigrams: NDArray[np.int64],
        bigram_idf: NDArray[np.float32],
        analyzer: Analyzer | None = None,
    ) -> None:
        """words: every word of the training texts; the position is its code. word_idf: float32, 0 where a word is no
        feature. bigrams: int64, code of the left word x number of words + code of the right one, rising. bigram_idf:
        float32. analyzer: of the words; None for those of the recipe."""
        self._recipe, self._words, self._word_idf, self._analyzer = recipe, words, word_idf, analyzer
        self._bigrams, self._bigram_idf = bigrams, bigram_idf
        self._idf = np.concatenate([word_idf, bigram_idf])

    @property
    def features(self) -> int:
        """Columns of what ``transform`` returns: one per word, then one per bigram."""
        return len(self._idf)

    @classmethod
    def fit(
        cls, corpora: Iterable[Texts], recipe: Recipe, ngrams: int, max_df: float, analyzer: Analyzer | None = None
    ) -> NgramTfidf:
        """Learn words, bigrams (where ``ngrams`` is 2) and their idf in one pass over the texts. max_df: share of the
        documents, 0..1."""
        batches = (batch for texts in corpora for batch in texts.batches(ROWS if analyzer else _ROWS))
        count = partial(_document_frequencies, recipe=recipe, ngrams=ngrams, analyzer=analyzer)
        counted = list(in_threads(count, batches, usable_cores()))
        documents = sum(part.texts for part in counted)
        words, word_df, codes = _merge_words(counted)
        bigrams, bigram_df = _merge_bigrams(counted, codes, len(words))
        word_idf = _idf(word_df, recipe, documents, max_df)
        bigram_idf = _idf(bigram_df, recipe, documents, max_df)
        kept = bigram_idf > 0
        return cls(recipe, words, word_idf, bigrams[kept], bigram_idf[kept], analyzer)

    def transform_batches(self, texts: Texts) -> Iterator[csr_matrix]:
        """Yield ``transform`` of texts, batch by batch."""
        batches = texts.batches(ROWS) if self._analyzer else texts.batches()
        yield from in_threads(self.transform, batches, usable_cores())

    def transform(self, batch: pa.Array) -> csr_matrix:
        """TF-IDF of an Arrow array of texts: CSR float32 [len(batch), features], columns of a row rising. A text
        without a known feature is an empty row."""
        import pyarrow.compute as pc

        tokens = _tokens(batch, self._recipe, self._analyzer)
        known = arrow.to_numpy(pc.fill_null(pc.index_in(tokens.words, value_set=self._words), arrow.scalar(-1)))
        words = np.where((known >= 0) & (self._word_idf[known] > 0), known, -1) if len(self._words) else known
        rows, columns = tokens.rows, words[tokens.codes]
        if len(self._bigrams):
            pairs = _Bigrams.of(tokens)
            left, right = known[pairs.left], known[pairs.right]
            keys = np.where((left >= 0) & (right >= 0), left.astype(np.int64) * len(self._words) + right, -1)
            place = np.minimum(np.searchsorted(self._bigrams, keys), len(self._bigrams) - 1)
            found = np.where(self._bigrams[place] == keys, place + len(self._words), -1)
            rows, columns = np.concatenate([rows, pairs.rows]), np.concatenate([columns, pairs.repeat(found)])
        kept = columns >= 0
        counts = _counts(rows[kept], columns[kept], (len(batch), self.features))
        return self._weigh(counts)

    def _weigh(self, counts: csr_matrix) -> csr_matrix:
        values = counts.data * self._idf[counts.indices]
        row = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        if self._recipe == "pecos":
            block = 2 * row + (counts.indices >= len(self._words))
            values /= _norms(values, block, 2 * counts.shape[0])[block]
        values /= _norms(values, row, counts.shape[0])[row]
        counts.data = values.astype(np.float32)
        return counts

    def save(self, folder: Path) -> None:
        """Write ``words.arrow`` and ``weights.npz`` into ``folder``."""
        import pyarrow as pa

        table = pa.table({"word": self._words})
        with pa.OSFile(str(folder / "words.arrow"), "wb") as stream, pa.ipc.new_file(stream, table.schema) as file:
            file.write_table(table)
        np.savez(folder / "weights.npz", word_idf=self._word_idf, bigrams=self._bigrams, bigram_idf=self._bigram_idf)

    @classmethod
    def load(cls, folder: Path, recipe: Recipe, analyzer: Analyzer | None = None) -> NgramTfidf:
        """Read what ``save`` wrote after a ``fit`` by this recipe and analyzer."""
        import pyarrow as pa

        with pa.memory_map(str(folder / "words.arrow")) as source:
            words = pa.ipc.open_file(source).read_all()["word"].combine_chunks()
        with np.load(folder / "weights.npz", allow_pickle=False) as arrays:
            return cls(recipe, words, arrays["word_idf"], arrays["bigrams"], arrays["bigram_idf"], analyzer)


def _tokens(batch: pa.Array, recipe: Recipe, analyzer: Analyzer | None) -> Tokens:
    if analyzer:
        return analyze(batch, analyzer)
    if recipe == "pecos":
        return Tokens.of(batch)
    return Tokens.of(batch, r"[^\p{L}\p{N}_]+", lowercase=True, min_length=2)


@dataclass(frozen=True)
class _Bigrams:
    """The distinct bigrams of a batch, and where they occur. left, right: the words of each bigram, by their codes in
    the batch. rows: the text of each occurrence, bigram by bigram, rising within one. starts: where those of each
    bigram begin."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    rows: NDArray[np.signedinteger[Any]]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, tokens: Tokens) -> _Bigrams:
        inside = tokens.rows[:-1] == tokens.rows[1:]
        bits = len(tokens.words).bit_length()
        keys = (tokens.codes[:-1].astype(np.int64) << bits | tokens.codes[1:])[inside]
        keys, order = _in_order(keys, 2 * bits)
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        distinct = keys[starts]
        return cls(distinct >> bits, distinct & ((1 << bits) - 1), tokens.rows[:-1][inside][order], starts)

    def repeat(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The value of each distinct bigram, repeated for its occurrences."""
        return np.repeat(values, np.diff(self.starts, append=len(self.rows)))

    def document_frequency(self) -> NDArray[np.int32]:
        """In how many texts each distinct bigram occurs."""
        first = np.diff(self.rows, prepend=-1) != 0
        first[self.starts] = True
        return np.add.reduceat(first, self.starts, dtype=np.int32) if len(first) else np.empty(0, np.int32)


@dataclass(frozen=True)
class _Counted:
    """In how many documents of a batch each of its words and bigrams stands. Words by their codes in the batch."""

    texts: int
    words: pa.Array
    word_df: NDArray[np.signedinteger[Any]]
    left: NDArray[np.signedinteger[Any]]
    right: NDArray[np.signedinteger[Any]]
    bigram_df: NDArray[np.signedinteger[Any]]


def _document_frequencies(batch: pa.Array, recipe: Recipe, ngrams: int, analyzer: Analyzer | None) -> _Counted:
    tokens = _tokens(batch, recipe, analyzer)
    counts = _counts(tokens.rows, tokens.codes, (tokens.texts, len(tokens.words)))
    word_df = np.bincount(counts.indices, minlength=len(tokens.words)).astype(np.int32)
    if ngrams < 2:
        none = np.empty(0, np.int32)
        return _Counted(tokens.texts, tokens.words, word_df, none, none, none)
    bigrams = _Bigrams.of(tokens)
    # Codes of a batch fit in 32 bits: what is kept of every batch until the end stays small.
    left, right = bigrams.left.astype(np.int32), bigrams.right.astype(np.int32)
    return _Counted(tokens.texts, tokens.words, word_df, left, right, bigrams.document_frequency())


def _counts(rows: NDArray[np.int64], columns: NDArray[np.int64], shape: tuple[int, int]) -> csr_matrix:
    """Count each column in each row: CSR float32 with rising columns."""
    from scipy.sparse import coo_matrix

    counts = coo_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=shape).tocsr()
    counts.sum_duplicates()
    return counts


def _merge_words(counted: list[_Counted]) -> tuple[pa.Array, NDArray[np.int64], list[NDArray[np.int64]]]:
    """Return all words by first occurrence, their document frequency, and the codes of each batch's words."""
    import pyarrow as pa

    if not counted:
        return pa.array([], pa.large_string()), np.empty(0, np.int64), []
    encoded = pa.concat_arrays([part.words for part in counted]).dictionary_encode()
    codes = arrow.to_numpy(encoded.indices)
    frequency = np.bincount(codes, np.concatenate([part.word_df for part in counted]), len(encoded.dictionary))
    ends = np.cumsum([len(part.words) for part in counted])[:-1]
    return encoded.dictionary, frequency.astype(np.int64), np.split(codes, ends)


def _merge_bigrams(
    counted: list[_Counted], codes: list[NDArray[np.int64]], words: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All bigrams as rising int64 keys, and their document frequency. They are sorted in parts, each of the bigrams
    that begin with a range of words: sorting all at once takes four times the memory of what the batches counted."""
    begins = np.zeros(words, np.int64)
    for code, counts in zip(codes, counted, strict=True):
        begins += np.bincount(code[counts.left], minlength=words)
    # A part ends before the word with which it would have too many, but has at least one.
    ends = np.flatnonzero(np.diff(np.cumsum(begins) // _SORTED, append=-1))
    keys: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    frequencies: list[NDArray[Any]] = [np.empty(0, np.int32)]
    between = partial(_bigrams_between, counted, codes, words)
    for part, frequency in in_threads(between, pairwise([-1, *ends.tolist()]), usable_cores()):
        keys.append(part)
        frequencies.append(frequency)
    return np.concatenate(keys), np.concatenate(frequencies)


def _bigrams_between(
    counted: list[_Counted], codes: list[NDArray[np.int64]], words: int, ends: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The bigrams whose left word has a code above one end up to the other: rising keys, and their frequency."""
    after, last = ends
    parts, frequencies = [], []
    for code, part in zip(codes, counted, strict=True):
        left = code[part.left]
        inside = np.flatnonzero((left > after) & (left <= last))
        parts.append(left[inside].astype(np.int64) * words + code[part.right[inside]])
        frequencies.append(part.bigram_df[inside])
    keys, frequency = np.concatenate(parts), np.concatenate(frequencies)
    keys, order = _in_order(keys, 2 * words.bit_length())
    frequency = frequency[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[first], np.add.reduceat(frequency, first) if len(first) else frequency


def _in_order(keys: NDArray[np.int64], bits: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Keys of so many bits in rising order, and the place where each was; equal ones stay in their order. Keys with
    their places in the bits below are sorted in a third of the time of numpy's argsort."""
    below = len(keys).bit_length()
    if bits + below > 63:
        order = np.argsort(keys, kind="stable")
        return keys[order], order
    both = keys << below | np.arange(len(keys))
    both.sort()
    return both >> below, both & ((1 << below) - 1)


def _idf(frequency: NDArray[np.int64], recipe: Recipe, documents: int, max_df: float) -> NDArray[np.float32]:
    """float32; 0 for a term that is not a feature: too frequent, or in no document (a token that was left out)."""
    if recipe == "sklearn":
        most = max_df * documents
        idf = np.log((documents + 1.0) / (frequency + 1.0)) + 1
    else:
        most = np.floor(max_df * documents + 0.5)
        idf = np.maximum(np.log(max(1, documents) / (frequency + 1.0)), 0)
    return np.where((frequency > 0) & (frequency <= most), idf, 0).astype(np.float32)


def _norms(values: NDArray[np.float32], group: NDArray[np.int64], groups: int) -> NDArray[np.float64]:
    """L2 norm of each group of values; 1 where it is next to nothing, as in PECOS."""
    squares = np.bincount(group, values * values, groups)
    norms: NDArray[np.float64] = np.sqrt(np.where(squares < np.finfo(np.float32).eps, 1, squares))
    return norms
