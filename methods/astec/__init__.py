"""Astec: an encoder trained on clusters of labels, shortlists of near labels, then a classifier per label."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge, Le, Unit

from xmcbench import Doc, Method, Texts, TopK
from xmcbench.methods.astec.shortlist import Ranking, Shortlists, cosines
from xmcbench.methods.declarations import AboveZero, Documents, Labels, Natural, Positive, Share, ShareBelowOne, Words
from xmcbench.methods.deepxml.bags import NO_PATHS, ROWS, VECTORS
from xmcbench.methods.dense.search import renumber
from xmcbench.methods.presets import CHOICES, PRESETS

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


_PAPER = "DeepXML, sections 3 and 4"


class Astec(Method):
    """A bag-of-token-vectors encoder with label classifiers (Dahiya et al., WSDM 2021; MACLR section 5, Astec).

    The encoder is trained to predict surrogate labels: balanced clusters of the labels by the mean TF-IDF features of
    their documents, smoothed by random walks over labels that occur together. The documents are then embedded once. A
    document's shortlist holds the labels whose mean document is nearest to it and those of the training documents
    nearest to it; its nearness to a label is (1 - votes) x the cosine with the mean document + votes x the share of
    these documents, by squared cosine, that have the label. One classifier a label is trained on the nearest labels of
    each shortlist, on random ones, and on the documents' own; there a document is not its own neighbor. Of more than
    ``negatives`` own labels of a document, as many are drawn, once. The score of a label of the shortlist is fusion x
    sigma(classifier) + (1 - fusion) x sigma(nearness). The re-ranker is a second set of classifiers, whose negatives
    are the labels of the shortlist that this score ranks first; it adds its sigma to the score of a label.

    The texts of labels only count toward the vocabulary and the weights and vectors of its words, so a label without a
    known pair is never predicted. An instance without a known token has no prediction either; the notes give their
    number.

    Against the authors' code: there a residual block is trained with the classifiers, which drops part of its branch,
    and the re-ranker trains an encoder of its own; here the encoder is frozen for both, and part of the document's
    vector is dropped. The re-ranker has as many passes as the classifiers, and their rate; in the paper it has 15, and
    in the code a rate of 0.001. The vector of a document has length 1, for the surrogate labels too. A classifier is a
    vector of length 1 that starts at the mean document of its label and has no bias; its logit is scale x
    (cosine - 0.5). Learning rates there are halved at set passes. Here a rate is the same within a pass, and from one
    to the next it falls by 0.9 / passes of what it was at first.

    Shortlists there come from HNSW at any size, with 100 links a node, 300 nodes looked at to place a new one, and 400
    in a search. Here the search is exact up to 200,000 labels or documents. Beyond, on CPU, HNSW has 32 links and looks
    at 80 nodes to place a new one; a search looks at twice as many as it returns, 128 at least.
    """

    title = "Astec"
    supervision = "required"
    described: ClassVar[tuple[str, ...]] = ("epochs",)
    needs: ClassVar = {"gpu": 1}
    packages: ClassVar = {"torch": "torch", "numba": "numba"}
    presets: ClassVar = PRESETS["astec"]
    choices: ClassVar = CHOICES["astec"]

    vectors: Annotated[str, VECTORS] = "random"
    dimensions: Annotated[Positive, Doc("length of a vector; given ones have their own", "LF-Debian-20K-dev")] = 2048
    min_count: Annotated[Positive, Doc("minimum number of occurrences of a word in the vocabulary")] = 2
    max_words: Annotated[Words, Doc("maximum size of the vocabulary; the most frequent words are kept")] = 500_000
    surrogates: Annotated[
        int,
        Ge(1),
        Le(65_536),
        Unit("clusters"),
        Doc("maximum clusters; at most half of the labels with a pair", _PAPER),
    ] = 65_536
    walk: Annotated[int, Ge(1), Unit("steps"), Doc("length of the random walk from each label", _PAPER)] = 50
    restart: Annotated[Share, Doc("probability that the walk returns to its label", _PAPER)] = 0.2
    walk_labels: Annotated[Labels, Doc("number of labels, the most visited, that a label is smoothed with", _PAPER)] = (
        10
    )
    dropout: Annotated[ShareBelowOne, Doc("share of the summed vector that training drops", _PAPER)] = 0.5
    batch: Annotated[Documents, Doc("documents in a step of a training", _PAPER)] = 255
    epochs: Annotated[
        Natural, Doc("passes of the encoder's training over the documents with a pair", "LF-Debian-20K-dev")
    ] = 30
    learning_rate: Annotated[AboveZero, Doc("learning rate of the predictor of surrogate labels", _PAPER)] = 0.02
    encoder_rate: Annotated[
        AboveZero, Doc("learning rate of the encoder; at learning_rate, rare words fit noise", "LF-Debian-20K-dev")
    ] = 2e-4
    shortlist: Annotated[Labels, Doc("labels with the nearest mean documents that are scored", _PAPER)] = 500
    neighbors: Annotated[Documents, Doc("nearest training documents, whose labels are scored too")] = 20
    negatives: Annotated[
        Labels, Doc("labels of the shortlist per document, and own ones, on which the classifiers are trained")
    ] = 100
    random_labels: Annotated[
        int, Ge(0), Unit("labels"), Doc("labels drawn at random per document on which they are trained too")
    ] = 10
    classifier_epochs: Annotated[
        Natural, Doc("passes of the classifiers' training over the documents with a pair", _PAPER)
    ] = 20
    classifier_rate: Annotated[
        AboveZero, Doc("learning rate of the classifiers' training; the paper has 5e-4", "LF-Debian-20K-dev")
    ] = 2e-4
    classifier_dropout: Annotated[
        ShareBelowOne, Doc("share of a document's vector that the classifiers' training drops", "LF-Debian-20K-dev")
    ] = 0.5
    scale: Annotated[AboveZero, Doc("factor of the cosine of document and classifier", "LF-Debian-20K-dev")] = 20.0
    votes: Annotated[Share, Doc("share of the votes of the nearest documents in the nearness of a label")] = 0.5
    fusion: Annotated[Share, Doc("share of the classifiers in the score")] = 0.1
    reranker: Annotated[
        bool, Doc("train classifiers once more, on the labels that the others rank first, and add their score", _PAPER)
    ] = False

    def describe(self) -> str:
        return f"{self.epochs} epochs"

    def inputs(self) -> Mapping[str, Path | str]:
        return {} if self.vectors in NO_PATHS else super().inputs()

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        import torch

        from xmcbench.methods.deepxml.bags import Tokens
        from xmcbench.methods.deepxml.network import BagEncoder
        from xmcbench.methods.encoder.hardware import choose_device

        assert pairs is not None, "supervision is required"
        self._device = choose_device(self.compute.device)
        self._tokens = Tokens.of([raw_X, raw_Y], self.min_count, self.max_words)
        corpora = [raw_X, raw_Y]
        vectors = self._tokens.vectors(self.vectors, self.dimensions, corpora, self.artifacts, self.seed, self.notes)
        rows = np.flatnonzero(np.diff(pairs.indptr))
        self._seen = np.unique(pairs.indices)
        self._classifiers: list[np.ndarray] = []
        self.notes["tokens"] = len(self._tokens.vocabulary)
        self.notes["labels_with_a_classifier"] = len(self._seen)
        self.notes["computed"] = {"device": self._device}
        if not len(rows):
            return
        known = pairs[rows][:, self._seen]
        documents = self._tokens.bags(raw_X.take(rows))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self._encoder = BagEncoder(vectors, self.dropout).to(self._device)
            self._train_encoder(documents, known)
            embedded = self._encoder.embed(documents)
            sizes = self.shortlist, self.neighbors, self.votes
            self._near = Shortlists(embedded, known, *sizes, device=self._device, seed=self.seed)
            self._train_classifiers("classifiers")
            if self.reranker:
                self._train_classifiers("reranker")

    def predict_batches(self, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        ranking = Ranking(self._near, k) if len(self._seen) else None
        unknown = 0
        for start in range(0, len(raw_X), ROWS):
            bags = self._tokens.bags(raw_X[start : start + ROWS])
            known = np.diff(bags.indptr) > 0
            unknown += int((~known).sum())
            if ranking is None:
                yield TopK.joined([], k, bags.shape[0])
                continue
            yield renumber(ranking.of(self._encoder.embed(bags), self._score), self._seen, known)
        self.notes["instances_without_a_known_token"] = unknown
        if ranking is not None:
            self.notes["search"] = ranking.notes()

    def _score(self, documents: np.ndarray, labels: np.ndarray, nearness: np.ndarray) -> np.ndarray:
        """The score of pairs of a document and a seen label by what is trained so far; before that, the nearness."""
        if not self._classifiers:
            return nearness
        first, *others = (
            _sigmoid(self.scale * (cosines(documents, classifiers[labels]) - 0.5)) for classifiers in self._classifiers
        )
        score: np.ndarray = self.fusion * first + (1 - self.fusion) * _sigmoid(nearness)
        for other in others:
            score = score + other
        return score

    def _train_encoder(self, documents: csr_matrix, pairs: csr_matrix) -> None:
        from xmcbench.methods.astec.training import surrogate_pairs, train_encoder

        walk: dict[str, Any] = {"walk": self.walk, "restart": self.restart, "kept": self.walk_labels}
        surrogates = surrogate_pairs(documents, pairs, clusters=self.surrogates, **walk, seed=self.seed)
        rates = self.encoder_rate, self.learning_rate
        sizes = self.batch, self.epochs
        curve = train_encoder(self._encoder, documents, surrogates, rates, *sizes, self.seed, self._device)
        self.notes["surrogates"] = surrogates.shape[1]
        self.notes["encoder"] = {"losses": ["surrogate"], "curve": curve}

    def _train_classifiers(self, name: str) -> None:
        """Train one more classifier a label, on the labels of the shortlist that the score so far ranks first."""
        from xmcbench.methods.astec.training import train_classifiers

        size = min(self.negatives, len(self._seen))
        ranked, said = self._near.rank_documents(size, self._score)
        near = self._near
        trained, curve = train_classifiers(
            *(near.documents, near.means, near.pairs, ranked),
            random_labels=self.random_labels,
            scale=self.scale,
            batch=self.batch,
            epochs=self.classifier_epochs,
            rate=self.classifier_rate,
            dropout=self.classifier_dropout,
            seed=self.seed,
            device=self._device,
        )
        self._classifiers.append(trained)
        self.notes[name] = {"losses": [name], "curve": curve, "search": said}


def _sigmoid(values: np.ndarray) -> np.ndarray:
    from scipy.special import expit

    found: np.ndarray = expit(values)
    return found
