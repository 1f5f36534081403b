"""Terms of labels, and the sentences that contain them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xmcbench import Texts, arrow
from xmcbench.methods.words.analysis import Analyzer, analyze

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy.sparse import csr_matrix

#: Names that are analyzed at a time.
_NAMES = 65_536


@dataclass(frozen=True)
class Matches:
    """Labels that sentences name: arrays with a value for each match, by sentence and label.

    sentences, labels: int. preferred: bool, by the title of the label. sizes: int, tokens of the term. ambiguity:
    other labels of the sentence whose terms have these tokens too.
    """

    sentences: np.ndarray
    labels: np.ndarray
    preferred: np.ndarray
    sizes: np.ndarray
    ambiguity: np.ndarray


class Terms:
    """Titles and other names of labels as sets of tokens; those of a label follow each other, the best first."""

    def __init__(self, raw_Y: Texts, analyzer: Analyzer) -> None:
        """Analyze the names of labels. A name without tokens is no term."""
        import pyarrow as pa

        self._analyzer = analyzer
        alternatives = getattr(raw_Y, "alternatives", [()] * len(raw_Y))
        names = [(title, *other) for title, other in zip(raw_Y.titles, alternatives, strict=True)]
        counts = np.array([len(own) for own in names], np.int64)
        labels = np.repeat(np.arange(len(names)), counts)
        preferred = np.diff(labels, prepend=-1) > 0
        texts = pa.array([name for own in names for name in own], pa.large_string())
        self._words = pa.array([], pa.large_string())
        self._words = pa.array(sorted(set(self._all_words(texts))), pa.large_string())
        sets = self.token_sets(texts)
        sizes = np.diff(sets.indptr)
        # The title first, then the longest: of the names of a label in a sentence, the first one counts.
        order = np.lexsort((-sizes, ~preferred, labels))
        order = order[sizes[order] > 0]
        self.sets, self.sizes, self.labels, self.preferred = sets[order], sizes[order], labels[order], preferred[order]
        self._filed = self._file()
        self._contained = self.find_contained(self.sets)

    def __len__(self) -> int:
        return len(self.labels)

    def token_sets(self, texts: pa.Array) -> csr_matrix:
        """Return the tokens of texts that terms have: binary CSR float32 [texts, tokens]."""
        from pyarrow import compute
        from scipy.sparse import coo_matrix, csr_matrix, vstack

        parts = [csr_matrix((0, len(self._words)), dtype=np.float32)]
        for start in range(0, len(texts), _NAMES):
            tokens = analyze(texts[start : start + _NAMES], self._analyzer)
            known = compute.index_in(tokens.words, value_set=self._words)
            codes = arrow.to_numpy(compute.fill_null(known, arrow.scalar(-1)))[tokens.codes]
            rows, codes = tokens.rows[codes >= 0], codes[codes >= 0]
            ones = np.ones(len(codes), np.float32)
            parts.append(coo_matrix((ones, (rows, codes)), (tokens.texts, len(self._words))).tocsr())
        sets = vstack(parts, format="csr")
        sets.sum_duplicates()
        sets.data[:] = 1
        return sets

    def find_contained(self, sets: csr_matrix) -> csr_matrix:
        """Return the terms all of whose tokens are in a set: binary CSR float32 [sets, terms]."""
        from xmcbench.methods.sparse.products import pair_scores

        found = (sets @ self._filed).tocsr()
        found.sort_indices()
        overlap = pair_scores(sets, self.sets, found.indptr, found.indices)
        found.data = (overlap == self.sizes[found.indices]).astype(np.float32)
        found.eliminate_zeros()
        return found

    def match(self, sentences: list[str]) -> Matches:
        """Find the labels that each sentence names."""
        import pyarrow as pa

        found = self.find_contained(self.token_sets(pa.array(sentences, pa.large_string())))
        rows = np.repeat(np.arange(len(sentences)), np.diff(found.indptr))
        labels = self.labels[found.indices]
        # Only the first term of each label stays.
        found.data[1:] = (np.diff(rows) > 0) | (np.diff(labels) > 0)
        found.eliminate_zeros()
        # Each term contains itself, so that the terms of the product are those of the sentence and others.
        containing = (found @ self._contained).multiply(found).tocsr()
        containing.sort_indices()
        rows, terms = np.repeat(np.arange(len(sentences)), np.diff(found.indptr)), found.indices
        ambiguity = containing.data.astype(np.int64) - 1
        return Matches(rows, self.labels[terms], self.preferred[terms], self.sizes[terms], ambiguity)

    def _all_words(self, texts: pa.Array) -> list[str]:
        parts = (texts[start : start + _NAMES] for start in range(0, len(texts), _NAMES))
        return [word for part in parts for word in analyze(part, self._analyzer).words.to_pylist()]

    def _file(self) -> csr_matrix:
        """File each term under the token that the fewest terms have: binary CSR float32 [tokens, terms]."""
        from scipy.sparse import csr_matrix

        frequency = np.bincount(self.sets.indices, minlength=self.sets.shape[1])
        terms = np.repeat(np.arange(len(self)), self.sizes)
        order = np.lexsort((self.sets.indices, frequency[self.sets.indices], terms))
        rarest = self.sets.indices[order][self.sets.indptr[:-1]]
        ones = np.ones(len(self), np.float32)
        return csr_matrix((ones, (rarest, np.arange(len(self)))), shape=self.sets.shape[::-1])
