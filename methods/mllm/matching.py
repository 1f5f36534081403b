"""Terms of labels, the sentences that contain them, the features of candidates, and the trees that rank by these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xmcbench import Texts, arrow
from xmcbench.methods.words.analysis import Analyzer, analyze, split_sentences

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy.sparse import csr_matrix

#: Names that are analyzed at a time.
_NAMES = 65_536


@dataclass(frozen=True)
class Matches:
    """Labels that sentences name: arrays with a value per match, by sentence and label. sentences, labels: int.
    preferred: bool, by the title of the label. sizes: int, tokens of the term. ambiguity: other labels of the sentence
    whose terms have these tokens too."""

    sentences: np.ndarray
    labels: np.ndarray
    preferred: np.ndarray
    sizes: np.ndarray
    ambiguity: np.ndarray


class Terms:
    """Titles and other names of labels as sets of tokens; those of a label follow each other, the best first. Thousands
    of labels may share a name: each set is kept once."""

    def __init__(self, raw_Y: Texts, analyzer: Analyzer) -> None:
        """Analyze the names of labels. A name without tokens is no term."""
        import pyarrow as pa
        from scipy.sparse import csr_matrix

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
        self.labels, self.preferred = labels[order], preferred[order]
        bounds = zip(sets.indptr[order], sets.indptr[order + 1], strict=True)
        tokens = [sets.indices[start:end].tobytes() for start, end in bounds]
        number = {own: place for place, own in enumerate(dict.fromkeys(tokens))}
        self._set_of = np.array([number[own] for own in tokens], np.int32)
        _, first = np.unique(self._set_of, return_index=True)
        self.sets, self.sizes = sets[order[first]], sizes[order[first]]
        ones, places = np.ones(len(self), np.float32), np.arange(len(self))
        self._terms = csr_matrix((ones, (self._set_of, places)), (len(first), len(self)))
        self._filed = self._file()
        self._containing = self.find_contained(self.sets).T.tocsr()

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
        """Return the sets of terms all of whose tokens are in a set: binary CSR float32 [sets, sets of terms]."""
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

        from xmcbench.methods.sparse.products import pair_scores

        found = self.find_contained(self.token_sets(pa.array(sentences, pa.large_string()))) @ self._terms
        found.sort_indices()
        rows = np.repeat(np.arange(len(sentences)), np.diff(found.indptr))
        labels = self.labels[found.indices]
        # Only the first term of each label stays.
        found.data[1:] = (np.diff(rows) > 0) | (np.diff(labels) > 0)
        found.eliminate_zeros()
        rows, terms = np.repeat(np.arange(len(sentences)), np.diff(found.indptr)), found.indices
        sets = self._set_of[terms]
        # The terms of a sentence that contain each of its terms, which contains itself.
        containing = pair_scores((found @ self._terms.T).tocsr(), self._containing, found.indptr, sets)
        ambiguity = containing.astype(np.int64) - 1
        return Matches(rows, self.labels[terms], self.preferred[terms], self.sizes[sets], ambiguity)

    def _all_words(self, texts: pa.Array) -> list[str]:
        parts = (texts[start : start + _NAMES] for start in range(0, len(texts), _NAMES))
        return [word for part in parts for word in analyze(part, self._analyzer).words.to_pylist()]

    def _file(self) -> csr_matrix:
        """File each set under the token that the fewest sets have: binary CSR float32 [tokens, sets]."""
        from scipy.sparse import csr_matrix

        frequency = np.bincount(self.sets.indices, minlength=self.sets.shape[1])
        sets = np.repeat(np.arange(len(self.sizes)), self.sizes)
        order = np.lexsort((self.sets.indices, frequency[self.sets.indices], sets))
        rarest = self.sets.indices[order][self.sets.indptr[:-1]]
        ones = np.ones(len(rarest), np.float32)
        return csr_matrix((ones, (rarest, np.arange(len(rarest)))), shape=self.sets.shape[::-1])


class Thesaurus:
    """Terms of labels, and which labels are broader than others."""

    def __init__(self, terms: Terms, raw_Y: Texts) -> None:
        """Read the parents that are labels."""
        from scipy.sparse import csr_matrix

        self.terms = terms
        number = {uid: label for label, uid in enumerate(raw_Y.uids)}
        above = getattr(raw_Y, "parents", [()] * len(raw_Y))
        known = {(label, number[uid]) for label, uids in enumerate(above) for uid in uids if uid in number}
        edges = np.array(sorted(edge for edge in known if edge[0] != edge[1]), np.int64).reshape(-1, 2)
        size = (len(raw_Y), len(raw_Y))
        self._broader = csr_matrix((np.ones(len(edges), np.float32), edges.T), shape=size)
        self._narrower = self._broader.T.tocsr()

    def candidates(self, texts: Texts) -> tuple[csr_matrix, np.ndarray]:
        """Return the labels that texts name, binary CSR float32 [texts, L], and the features of each, float32
        [candidates, 11]: share of sentences that name it, of these by its title, mean tokens and ambiguity, first and
        last of them and what is between, as shares of the text's length, this length in sentences, and the shares of
        the candidates that are broader, narrower, and siblings."""
        from scipy.sparse import csr_matrix

        pairs = zip(texts.titles, texts.contents, strict=True)
        documents = [[*split_sentences(title), *split_sentences(content)] for title, content in pairs]
        lengths = np.array([len(sentences) for sentences in documents], np.int64)
        matches = self.terms.match([sentence for sentences in documents for sentence in sentences])
        document = np.repeat(np.arange(len(documents)), lengths)[matches.sentences]
        place = matches.sentences - (np.cumsum(lengths) - lengths)[document]
        order = np.lexsort((place, matches.labels, document))
        document, label, place = document[order], matches.labels[order], place[order]
        starts = np.flatnonzero((np.diff(document, prepend=-1) > 0) | (np.diff(label, prepend=-1) != 0))
        counts = np.diff(starts, append=len(order))
        length = lengths[document[starts]]
        values = np.stack([matches.preferred[order], matches.sizes[order], matches.ambiguity[order]])
        means = np.add.reduceat(values.astype(np.float64), starts, axis=1) / counts
        first, last = place[starts], place[starts + counts - 1]
        ends = np.searchsorted(document[starts], np.arange(len(documents) + 1))
        found = csr_matrix(
            (np.ones(len(starts), np.float32), label[starts], ends), (len(texts), self._broader.shape[0])
        )
        related = self._relate(found)
        columns = [counts / length, *means, first / length, last / length, (last - first) / length, length, *related]
        return found, np.stack(columns, axis=1).astype(np.float32)

    def _relate(self, found: csr_matrix) -> list[np.ndarray]:
        """Return the shares of a text's candidates that are broader, narrower, and siblings, per candidate."""
        from xmcbench.methods.sparse.products import pair_scores

        places = found.indptr, found.indices
        broader = pair_scores(found, self._broader, *places)
        narrower = pair_scores(found, self._narrower, *places)
        # Below its parents, a candidate finds itself as often as it has parents.
        below = pair_scores(found @ self._broader, self._broader, *places)
        siblings = below - np.diff(self._broader.indptr)[found.indices]
        sizes = np.diff(found.indptr)
        return [counts / np.repeat(sizes, sizes) for counts in (broader, narrower, siblings)]


class Trees:
    """The trees of a scikit-learn ensemble as arrays, which can be kept."""

    def __init__(self, estimators: Sequence[Any]) -> None:
        """Read fitted decision trees of two classes, which those of an ensemble are even if a sample lacks one."""
        trees = [estimator.tree_ for estimator in estimators]
        sizes = [tree.node_count for tree in trees]
        self._roots = np.cumsum([0, *sizes[:-1]])
        nodes = np.arange(sum(sizes))

        def children(name: str) -> np.ndarray:
            own = np.concatenate([getattr(tree, name) for tree in trees])
            # A leaf leads to itself.
            return np.where(own < 0, nodes, own + np.repeat(self._roots, sizes))

        self._left, self._right = children("children_left"), children("children_right")
        self._feature = np.maximum(np.concatenate([tree.feature for tree in trees]), 0)
        self._threshold = np.concatenate([tree.threshold for tree in trees])
        values = np.concatenate([tree.value[:, 0] for tree in trees])
        self._probability = values[:, 1] / values.sum(axis=1)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Return the mean probability of the second class over the trees, per row of features: float64 [rows]."""
        rows = np.arange(len(features))[:, None]
        nodes = np.tile(self._roots, (len(features), 1))
        while True:
            is_left = features[rows, self._feature[nodes]] <= self._threshold[nodes]
            following = np.where(is_left, self._left[nodes], self._right[nodes])
            if np.array_equal(following, nodes):
                probabilities: np.ndarray = self._probability[nodes].mean(axis=1)
                return probabilities
            nodes = following
