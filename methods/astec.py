"""Astec: a bag encoder trained on clusters of labels, then a classifier for each label."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt, Interval, Le, Unit

from xmcbench import Doc, Method, TopK
from xmcbench.methods.deepxml.bags import VECTORS
from xmcbench.methods.dense.search import top_k, top_k_batches
from xmcbench.methods.neighbors.voting import voted

if TYPE_CHECKING:
    import torch
    from scipy.sparse import csr_matrix

    from xmcbench import Texts
    from xmcbench.methods.deepxml.bags import Bags

_PAPER = "DeepXML, sections 3 and 4"
#: Documents whose labels are compared at a time.
_BLOCK = 16_384


class Astec(Method):
    """A bag-of-token-vectors encoder with label classifiers (Dahiya et al., WSDM 2021; MACLR section 5, Astec).

    The encoder is trained to predict surrogate labels: balanced clusters of the labels by the mean TF-IDF features of
    their documents, smoothed by random walks over labels that occur together. The documents are then embedded once. A
    document's shortlist holds the labels whose mean document is nearest to it and those of the training documents
    nearest to it; its nearness to a label is the mean of the cosine with the mean document and of the share of these
    documents, by squared cosine, that have the label. On the shortlist and random labels one classifier a label is
    trained. The score of a label of the shortlist is fusion x sigma(classifier) + (1 - fusion) x sigma(nearness). The
    re-ranker is a second set of classifiers, whose negatives are the labels that this score ranks first; it adds its
    sigma to the score of a label.

    No text of a label is read, so a label without a known pair is never predicted. An instance without a known token
    has no prediction either; the notes give their number.

    Against the authors' code: there a residual block is trained with the classifiers, and the re-ranker trains an
    encoder of its own; here the encoder is frozen for both. Learning rates there are halved at set passes; here they
    fall linearly to a tenth. There shortlists come from HNSW at any size; here the search is exact up to 200,000 labels
    or documents.
    """

    title = "Astec"
    supervision = "required"
    described: ClassVar[tuple[str, ...]] = ("epochs",)
    needs: ClassVar = {"gpu": 1}
    packages: ClassVar = {"torch": "torch", "numba": "numba", "sklearn": "scikit-learn"}
    presets: ClassVar = {
        "paper": {
            "vectors": "glove",
            "dimensions": 512,
            "epochs": 20,
            "encoder_rate": 0.02,
            "classifier_rate": 5e-4,
            "neighbors": 500,
            "fusion": 0.1,
            "reranker": True,
        },
    }
    choices: ClassVar = {
        "paper": "DeepXML, sections 3 and 4, and its code; its token vectors are fastText's, ours "
        "are GloVe's, trained on the corpus"
    }

    vectors: Annotated[str, VECTORS] = "random"
    dimensions: Annotated[int, Ge(1), Doc("length of a vector; given ones have their own", "LF-Debian-20K-dev")] = 2048
    min_count: Annotated[int, Ge(1), Doc("minimum number of occurrences of a word in the vocabulary")] = 2
    max_words: Annotated[
        int, Ge(1), Unit("words"), Doc("maximum size of the vocabulary; the most frequent words are kept")
    ] = 500_000
    surrogates: Annotated[
        int,
        Ge(1),
        Le(65_536),
        Unit("clusters"),
        Doc("maximum number of clusters of labels; there are at most half as many as labels with a pair", _PAPER),
    ] = 65_536
    walk: Annotated[int, Ge(1), Unit("steps"), Doc("length of the random walk from each label", _PAPER)] = 50
    restart: Annotated[float, Interval(ge=0, le=1), Doc("probability that the walk returns to its label", _PAPER)] = 0.2
    walk_labels: Annotated[
        int, Ge(1), Unit("labels"), Doc("number of labels, the most visited, that a label is smoothed with", _PAPER)
    ] = 10
    dropout: Annotated[float, Interval(ge=0, lt=1), Doc("share of the summed vector that training drops", _PAPER)] = 0.5
    batch: Annotated[int, Ge(1), Unit("documents"), Doc("documents in a step of a training", _PAPER)] = 255
    epochs: Annotated[
        int, Ge(0), Doc("passes of the encoder's training over the documents with a pair", "LF-Debian-20K-dev")
    ] = 30
    learning_rate: Annotated[float, Gt(0), Doc("learning rate of the predictor of surrogate labels", _PAPER)] = 0.02
    encoder_rate: Annotated[
        float,
        Gt(0),
        Doc("learning rate of the encoder; at learning_rate the vectors of rare words fit noise", "LF-Debian-20K-dev"),
    ] = 2e-4
    shortlist: Annotated[
        int, Ge(1), Unit("labels"), Doc("labels with the nearest mean documents that are scored", _PAPER)
    ] = 500
    neighbors: Annotated[
        int, Ge(1), Unit("documents"), Doc("nearest training documents, whose labels are scored too")
    ] = 20
    negatives: Annotated[
        int, Ge(1), Unit("labels"), Doc("labels of the shortlist per document on which the classifiers are trained")
    ] = 100
    random_labels: Annotated[
        int, Ge(0), Unit("labels"), Doc("labels drawn at random per document on which they are trained too")
    ] = 10
    classifier_epochs: Annotated[
        int, Ge(0), Doc("passes of the classifiers' training over the documents with a pair", _PAPER)
    ] = 20
    classifier_rate: Annotated[
        float, Gt(0), Doc("learning rate of the classifiers' training; the paper has 5e-4", "LF-Debian-20K-dev")
    ] = 2e-4
    classifier_dropout: Annotated[
        float,
        Interval(ge=0, lt=1),
        Doc("share of a document's vector that the classifiers' training drops", "Astec's code"),
    ] = 0.5
    scale: Annotated[float, Gt(0), Doc("factor of the cosine of document and classifier", "LF-Debian-20K-dev")] = 20.0
    votes: Annotated[
        float, Interval(ge=0, le=1), Doc("share of the votes of the nearest documents in the nearness of a label")
    ] = 0.5
    fusion: Annotated[float, Interval(ge=0, le=1), Doc("share of the classifiers in the score")] = 0.1
    reranker: Annotated[
        bool, Doc("train classifiers once more, on the labels that the others rank first, and add their score", _PAPER)
    ] = False

    def describe(self) -> str:
        """The training budget."""
        return f"{self.epochs} epochs"

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        """Train the encoder, then the classifiers. Raises MethodError where a training diverges."""
        import torch

        from xmcbench.methods.deepxml.bags import Tokens
        from xmcbench.methods.deepxml.network import BagEncoder
        from xmcbench.methods.encoder.hardware import chosen_device

        assert pairs is not None, "supervision is required"
        self._device = chosen_device(self.compute.device)
        self._tokens = Tokens.of([raw_X, raw_Y], self.min_count, self.max_words)
        corpora = [raw_X, raw_Y]
        vectors = self._tokens.vectors(self.vectors, self.dimensions, corpora, self.artifacts, self.seed, self.notes)
        rows = np.flatnonzero(np.diff(pairs.indptr))
        self._seen = np.unique(pairs.indices)
        self.notes["tokens"] = len(self._tokens.vocabulary)
        self.notes["labels_with_a_classifier"] = len(self._seen)
        self.notes["computed"] = {"device": self._device}
        if not len(rows):
            return
        self._pairs = pairs[rows][:, self._seen]
        documents = self._tokens.bags(raw_X.take(rows))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self._encoder = BagEncoder(vectors, self.dropout).to(self._device)
            self._train_encoder(documents)
            self._documents = self._encoder.embed(documents)
            means = self._pairs.T.tocsr() @ self._documents
            self._means = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
            size = min(self.negatives, len(self._means))
            near = top_k(self._documents, self._means, size, device=self._device, seed=self.seed)
            self._classifiers = self._train_classifiers(near.indices, "classifiers")
            self._reranker = None
            if self.reranker:
                ranked = TopK.joined(self._ranked(self._documents, self.negatives), self.negatives, len(rows))
                self._reranker = self._train_classifiers(ranked.indices, "reranker")

    def predict_batches(self, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        """The k labels of the shortlist with the largest score."""
        bags = self._tokens.bags(raw_X)
        known = np.diff(bags.starts) > 0
        self.notes["instances_without_a_known_token"] = int((~known).sum())
        if not len(self._seen):
            yield TopK.joined([], k, len(raw_X))
            return
        start = 0
        for ranked in self._ranked(self._encoder.embed(bags), k):
            kept = known[start : start + len(ranked), None] & (ranked.indices >= 0)
            start += len(ranked)
            yield TopK(
                np.where(kept, self._seen[ranked.indices], -1).astype(np.int32),
                np.where(kept, ranked.scores, -np.inf).astype(np.float32),
            )

    def _ranked(self, queries: np.ndarray, k: int) -> Iterator[TopK]:
        """The k best seen labels of each query, by their places among the seen ones, batch by batch."""
        near = top_k(queries, self._documents, self.neighbors, device=self._device, seed=self.seed)
        size, start = min(max(self.shortlist, k), len(self._means)), 0
        for nearest in top_k_batches(queries, self._means, size, device=self._device, seed=self.seed):
            rows = slice(start, start + len(nearest))
            start += len(nearest)
            yield self._scored(queries[rows], TopK(near.indices[rows], near.scores[rows]), nearest, k)

    def _scored(self, queries: np.ndarray, near: TopK, nearest: TopK, k: int) -> TopK:
        """The k best labels of the shortlist. near: documents; nearest: labels by their means."""
        listed = self._shortlist(near, nearest)
        rows = np.repeat(np.arange(len(queries)), np.diff(listed.indptr))
        step = max(1, 16_000_000 // queries.shape[1])
        for start in range(0, listed.nnz, step):
            part = slice(start, start + step)
            own, labels = queries[rows[part]], listed.indices[part]
            nearness = (1 - self.votes) * _cosines(own, self._means[labels]) + self.votes * listed.data[part]
            score = self.fusion * self._certainty(own, self._classifiers[labels])
            score += (1 - self.fusion) * _sigmoid(nearness)
            if self._reranker is not None:
                score += self._certainty(own, self._reranker[labels])
            listed.data[part] = score
        return TopK.from_scores(listed, k)

    def _certainty(self, documents: np.ndarray, classifiers: np.ndarray) -> np.ndarray:
        return _sigmoid(self.scale * (_cosines(documents, classifiers) - 0.5))

    def _shortlist(self, near: TopK, nearest: TopK) -> csr_matrix:
        """The labels with the nearest means, and those of the nearest documents: CSR [N, seen labels] of the votes."""
        from scipy.sparse import coo_matrix

        votes = voted(near, self._pairs, power=2.0).tocoo()
        others = nearest.pairs(len(self._seen)).tocoo()
        rows, labels = np.concatenate([votes.row, others.row]), np.concatenate([votes.col, others.col])
        # Zeros stay: they are labels of the shortlist that no neighbor has.
        return coo_matrix((np.concatenate([votes.data, 0 * others.data]), (rows, labels)), shape=votes.shape).tocsr()

    def _train_encoder(self, documents: Bags) -> None:
        import torch
        from torch import nn

        from xmcbench.methods.deepxml.surrogate import surrogate_pairs
        from xmcbench.methods.deepxml.training import shuffled, train

        surrogates = surrogate_pairs(
            documents,
            self._pairs,
            len(self._tokens.vocabulary),
            clusters=self.surrogates,
            walk=self.walk,
            restart=self.restart,
            kept=self.walk_labels,
            seed=self.seed,
        )
        self.notes["surrogates"] = surrogates.shape[1]
        head = nn.Linear(self._encoder.residual.out_features, surrogates.shape[1]).to(self._device)
        # Each cluster starts at its own frequency. From 0 the first steps would push all outputs down at once, and the
        # vectors of all documents with them.
        share = torch.from_numpy(np.asarray(surrogates.mean(axis=0), np.float32).ravel())
        head.bias.data.copy_(torch.logit(share, eps=1e-6))

        def loss_of(rows: np.ndarray) -> torch.Tensor:
            logits = head(self._encoder(documents.take(rows)))
            true = torch.from_numpy(surrogates[rows].toarray()).to(self._device)
            return nn.functional.binary_cross_entropy_with_logits(logits, true, reduction="sum") / len(rows)

        batches = shuffled(len(documents), self.batch, self.seed)
        # One cluster of all labels teaches nothing.
        epochs = self.epochs if surrogates.shape[1] > 1 else 0
        curve = train(
            [(self._encoder, self.encoder_rate), (head, self.learning_rate)],
            batches,
            loss_of,
            epochs=epochs,
            seed=self.seed,
        )
        self.notes["encoder"] = {"losses": ["surrogate"], "curve": curve}

    def _train_classifiers(self, near: np.ndarray, name: str) -> np.ndarray:
        """Classifiers of the seen labels, trained on the labels ``near`` [N, n] each document, -1 for none."""
        import torch

        from xmcbench.methods.deepxml.classifiers import candidate_labels, trained_classifiers

        rng = np.random.default_rng(self.seed)
        size = near.shape[1]
        drawn = rng.integers(0, len(self._seen), (len(near), self.random_labels))
        for start in range(0, len(near), _BLOCK):
            block = drawn[start : start + _BLOCK]
            block[(block[:, :, None] == near[start : start + _BLOCK, None, :]).any(axis=2)] = -1
        candidates, true = candidate_labels(self._pairs, np.concatenate([near, drawn], axis=1), size, rng)

        def loss(cosines: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.binary_cross_entropy_with_logits(
                self.scale * (cosines - 0.5), positive.float(), reduction="sum"
            )

        trained, curve = trained_classifiers(
            self._documents,
            self._means,
            candidates,
            true,
            loss,
            batch=self.batch,
            epochs=self.classifier_epochs,
            rate=self.classifier_rate,
            dropout=self.classifier_dropout,
            seed=self.seed,
            device=self._device,
        )
        self.notes[name] = {"losses": [name], "curve": curve}
        return trained


def _cosines(documents: np.ndarray, labels: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.einsum("nd,nd->n", documents, labels)
    return found


def _sigmoid(values: np.ndarray) -> np.ndarray:
    found: np.ndarray = 1 / (1 + np.exp(-values))
    return found
