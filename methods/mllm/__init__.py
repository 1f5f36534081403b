"""MLLM: labels whose names occur in a text, ranked by trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Interval

from xmcbench import Doc, Method, Texts, TopK
from xmcbench.methods.declarations import Instances, Positive, Several
from xmcbench.methods.mllm.matching import Terms, Thesaurus, Trees
from xmcbench.methods.words.analysis import Language, require_analyzer

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

#: Texts that are matched at a time.
_TEXTS = 1024
#: Less than any difference of two probabilities.
_TIE = 1e-9


class MLLM(Method):
    """Maui-like lexical matching (MLLM; Suominen, Inkinen and Lehtinen 2022), a backend of Annif after Maui (Medelyan
    2009).

    The candidates of a text are the labels of which a name, the title or one of the other names if there are any, has
    all its tokens in one sentence. Contents of labels are not read. Bagged decision trees rank the candidates by how
    often, where and by which name the text mentions them, by the training texts that name them and the pairs that have
    them, and by the broader labels, narrower labels and siblings among the candidates. Only candidates are predicted.

    The trees learn from the candidates of at most ``documents`` training texts, drawn by the seed. What is not known to
    be right is wrong there only where that can be known: the text and the label both have a known pair. Where all of
    these are right, or all wrong, the order is that of tf-idf, which also decides between equal probabilities.

    As in Annif 1.4, a name inside a longer one is a candidate too, and its ambiguity says so; a label is counted once
    in a sentence; and the frequency of a label in the pairs is one less than counted, because a text to be labeled is
    not among them. Annif learns from all candidates of all texts, leaves ties alone, and drops candidates of
    probability 0. Here siblings, counted once per parent that they share, take the place of SKOS collections, and
    related labels are left out, which no dataset has. Sentences end at lines and end marks, and the title is one; Annif
    has NLTK's splitter. Of several other names of a label in a sentence, the longest counts. Not its authors' code.
    """

    title = "MLLM"
    supervision = "required"
    packages: ClassVar = {"sklearn": "scikit-learn", "Stemmer": "PyStemmer", "bm25s": "bm25s", "numba": "numba"}

    analyzer: Annotated[
        Literal["icu", Language], Doc("tokens: Snowball stems of a language, without its stop words; icu: words by ICU")
    ] = "english"
    documents: Annotated[Instances, Doc("maximum number of training texts that the trees learn from")] = 20_000
    trees: Annotated[Positive, Doc("number of trees", "scikit-learn's BaggingClassifier")] = 10
    max_samples: Annotated[
        float, Interval(gt=0, le=1), Doc("number of candidates drawn per tree, as a share of all", "Annif 1.4")
    ] = 0.9
    min_samples_leaf: Annotated[Positive, Doc("minimum number of candidates in a leaf", "Annif 1.4")] = 20
    max_leaf_nodes: Annotated[Several, Doc("maximum number of leaves of a tree", "Annif 1.4")] = 1000

    def require(self) -> None:
        require_analyzer(self.analyzer)

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        """Index the names of the labels, count their candidates in the training texts, and train the trees."""
        assert pairs is not None, "supervision is required"
        self._thesaurus = Thesaurus(Terms(raw_Y, self.analyzer), raw_Y)
        known_pairs = np.bincount(pairs.indices, minlength=len(raw_Y))
        drawn = self._draw(np.diff(pairs.indptr) > 0)
        frequency = np.zeros(len(raw_Y), np.int64)
        labels, features, is_right = [np.empty(0, np.int64)], [], [np.empty(0, bool)]
        for start in range(0, len(raw_X), _TEXTS):
            found, known = self._thesaurus.candidates(raw_X[start : start + _TEXTS])
            frequency += np.bincount(found.indices, minlength=len(raw_Y))
            kept = np.repeat(drawn[start : start + _TEXTS], np.diff(found.indptr)) & (known_pairs[found.indices] > 0)
            labels.append(found.indices[kept])
            features.append(known[kept])
            is_right.append(np.isin(_cells(found)[kept], _cells(pairs[start : start + _TEXTS])))
        idf = np.log((len(raw_X) + 1) / (frequency + 1)) + 1
        self._of_labels = np.stack([frequency, np.maximum(known_pairs - 1, 0), idf], axis=1).astype(np.float32)
        self._trees = self._train(np.concatenate(labels), features, np.concatenate(is_right))

    def predict_batches(self, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        """The k most probable candidates of each text; fewer for one that names fewer labels."""
        for start in range(0, len(raw_X), _TEXTS):
            found, features = self._thesaurus.candidates(raw_X[start : start + _TEXTS])
            whole = self._add(found.indices, features)
            tfidf = whole[:, -1].astype(np.float64)
            # A leaf holds many candidates: tf-idf decides between equal probabilities.
            found.data = (self._trees.predict(whole) if self._trees else 0) + _TIE * tfidf / (1 + tfidf)
            yield TopK.from_scores(found, k)

    def _draw(self, has_pair: np.ndarray) -> np.ndarray:
        """Draw texts with a known pair that the trees learn from: bool [N], true for these."""
        rows = np.flatnonzero(has_pair)
        if len(rows) > self.documents:
            rows = np.random.default_rng(self.seed).choice(rows, self.documents, replace=False)
        drawn = np.zeros(len(has_pair), bool)
        drawn[rows] = True
        return drawn

    def _add(self, labels: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Return features of candidates, and those of their labels: frequencies in texts and in pairs, and tf-idf."""
        frequencies, idf = self._of_labels[labels, :2], self._of_labels[labels, 2:]
        return np.hstack([features, frequencies, features[:, :1] * idf])

    def _train(self, labels: np.ndarray, features: list[np.ndarray], is_right: np.ndarray) -> Trees | None:
        """Return the trained trees; None where only one kind of candidates is there to learn from."""
        from sklearn.ensemble import BaggingClassifier
        from sklearn.tree import DecisionTreeClassifier

        self.notes["candidates"] = {"learned from": len(is_right), "right": int(is_right.sum())}
        if len(set(is_right.tolist())) < 2:
            return None
        tree = DecisionTreeClassifier(min_samples_leaf=self.min_samples_leaf, max_leaf_nodes=self.max_leaf_nodes)
        samples = max(1, int(self.max_samples * len(is_right)))
        forest = BaggingClassifier(tree, n_estimators=self.trees, max_samples=samples, random_state=self.seed)
        forest.fit(self._add(labels, np.concatenate(features)), is_right)
        return Trees(forest.estimators_)


def _cells(matrix: csr_matrix) -> np.ndarray:
    """Return the numbers of the stored cells of a matrix, in their order: int64."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    cells: np.ndarray = rows * matrix.shape[1] + matrix.indices
    return cells
