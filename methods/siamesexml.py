"""SiameseXML: one bag encoder for documents and labels, then a classifier per label."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from xmcbench import Doc, Method, Texts, TopK
from xmcbench.methods.declarations import (
    AboveZero,
    Documents,
    Labels,
    Natural,
    Positive,
    Probability,
    Share,
    ShareBelowOne,
    Words,
)
from xmcbench.methods.deepxml.bags import NO_PATHS, ROWS, VECTORS
from xmcbench.methods.presets import CHOICES, PRESETS

if TYPE_CHECKING:
    import torch
    from scipy.sparse import csr_matrix

_PAPER = "SiameseXML, section 5 and its code"


class SiameseXML(Method):
    """A Siamese bag-of-token-vectors encoder with label classifiers (Dahiya et al., ICML 2021; MACLR section 5).

    The encoder is trained on batches of labels: each with one of its documents, drawn again in each epoch, against the
    documents of the batch that are most like it and not its own, by the probabilistic contrastive loss. The documents
    are then embedded once, each is given those of its nearest labels that have a known pair, and one classifier a label
    is trained on these and on the document's own labels with the same loss, starting from the label's own embedding. Of
    more than ``shortlist`` own labels, as many are drawn. The nearest labels are found among all labels, so with few
    known pairs hardly any is left, and classifiers have hardly any negatives. A step of that training has 256
    documents.

    The score of a label is (1 - fusion) x cosine with its embedding + fusion x cosine with its classifier. A label
    without a known pair has its embedding for a classifier, so every label with a known token can be predicted. An
    instance or a label without a known token has no prediction; both are counted in the notes. All of it runs in one
    process, whatever ``--processes`` says.

    Against the paper and its code: there a shortlist is searched for by HNSW at any size, and only its labels are
    scored. Here all labels are scored; above 200,000 labels on CPU, HNSW finds those with the largest scores. There
    classifiers are trained on all labels of a document. The code starts them from the embeddings of labels smoothed by
    random walks over labels that occur together, trains a residual block with them, which drops part of its branch, and
    adds sigmoids of the two cosines; here the label's own embedding, no block, dropout of the document's vector, and
    the cosines themselves. In both trainings the learning rate is the same within an epoch, and from one
    to the next it falls by 0.9 / epochs of what it was at first.
    """

    title = "SiameseXML"
    supervision = "required"
    described: ClassVar[tuple[str, ...]] = ("epochs", "batch")
    needs: ClassVar = {"gpu": 1}
    packages: ClassVar = {"torch": "torch", "numba": "numba"}
    presets: ClassVar = PRESETS["siamesexml"]
    choices: ClassVar = CHOICES["siamesexml"]

    vectors: Annotated[str, VECTORS] = "random"
    dimensions: Annotated[Positive, Doc("length of a vector; given ones have their own", _PAPER)] = 512
    min_count: Annotated[Positive, Doc("minimum number of occurrences of a word in the vocabulary")] = 2
    max_words: Annotated[Words, Doc("maximum size of the vocabulary; the most frequent words are kept")] = 500_000
    dropout: Annotated[
        ShareBelowOne, Doc("share of the summed vector that training drops; the code has 0", "LF-Debian-20K-dev")
    ] = 0.5
    batch: Annotated[
        Labels, Doc("maximum number of labels in a step of the encoder's training; the paper has 4,095")
    ] = 1024
    epochs: Annotated[Natural, Doc("passes of the encoder's training over the labels with a pair", _PAPER)] = 50
    learning_rate: Annotated[AboveZero, Doc("learning rate of the encoder's training", _PAPER)] = 0.01
    negatives: Annotated[Documents, Doc("negatives of a label in a step: the most similar ones", _PAPER)] = 2
    c: Annotated[Probability, Doc("probability of a pair at cosine 1", _PAPER)] = 0.9
    d: Annotated[AboveZero, Doc("how fast the probability of a pair falls with the cosine", _PAPER)] = 1.5
    shortlist: Annotated[
        Labels, Doc("nearest labels of a document; classifiers are trained on those that have a pair")
    ] = 100
    classifier_epochs: Annotated[
        Natural, Doc("passes of the classifiers' training over the documents with a pair", _PAPER)
    ] = 20
    classifier_rate: Annotated[
        AboveZero, Doc("learning rate of the classifiers' training; the paper has 2e-4", "LF-Debian-20K-dev")
    ] = 5e-4
    classifier_dropout: Annotated[
        ShareBelowOne, Doc("share of a document's vector that the classifiers' training drops", "LF-Debian-20K-dev")
    ] = 0.5
    classifier_c: Annotated[Probability, Doc("c, for the classifiers", _PAPER)] = 0.75
    classifier_d: Annotated[AboveZero, Doc("d, for the classifiers", _PAPER)] = 3.0
    threshold: Annotated[
        ShareBelowOne, Doc("a wrong label less probable costs nothing; the code has 0.1393", "LF-Debian-20K-dev")
    ] = 0.05
    fusion: Annotated[Share, Doc("share of the classifiers in the score", "LF-Debian-20K-dev")] = 0.75

    def describe(self) -> str:
        return f"{self.epochs} epochs of {self.batch}"

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
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self._encoder = BagEncoder(vectors, self.dropout).to(self._device)
            rows = np.flatnonzero(np.diff(pairs.indptr))
            known, labels = pairs[rows], self._tokens.bags(raw_Y)
            documents = self._tokens.bags(raw_X.take(rows)) if len(rows) else labels[rows]
            if len(rows):
                self._train_encoder(documents, labels, known)
            embedded = self._encoder.embed(labels)
            classifiers = self._classifiers(documents, embedded, known) if len(rows) else embedded
        self._labels = (1 - self.fusion) * embedded + self.fusion * classifiers
        self._known = np.diff(labels.indptr) > 0
        self.notes["tokens"] = len(self._tokens.vocabulary)
        self.notes["labels_without_a_known_token"] = int((~self._known).sum())
        self.notes["computed"] = {"device": self._device}

    def predict_batches(self, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        from xmcbench.methods.dense.search import Index, renumber

        labels = np.flatnonzero(self._known).astype(np.int32)
        search = Index(self._labels[labels], device=self._device, seed=self.seed).search(k)
        unknown = 0
        for start in range(0, len(raw_X), ROWS):
            bags = self._tokens.bags(raw_X[start : start + ROWS])
            known = np.diff(bags.indptr) > 0
            unknown += int((~known).sum())
            if not len(labels):
                yield TopK.joined([], k, bags.shape[0])
                continue
            found = TopK.joined(search.batches(self._encoder.embed(bags)), k, bags.shape[0])
            yield renumber(found, labels, known)
        self.notes["instances_without_a_known_token"] = unknown
        self.notes["search"] = search.note()

    def _train_encoder(self, documents: csr_matrix, labels: csr_matrix, pairs: csr_matrix) -> None:
        import torch

        from xmcbench.methods.deepxml.classifiers import contrastive_loss, select_products
        from xmcbench.methods.deepxml.network import shuffle, train

        by_label = pairs.T.tocsr()
        seen = np.flatnonzero(np.diff(by_label.indptr))
        rng = np.random.default_rng(self.seed)

        def loss_of(places: np.ndarray) -> torch.Tensor:
            drawn = seen[places]
            starts, sizes = by_label.indptr[drawn], np.diff(by_label.indptr)[drawn]
            positives = by_label.indices[starts + rng.integers(0, sizes)]
            anchors, others = self._encoder(labels[drawn]), self._encoder(documents[positives])
            true = torch.from_numpy(by_label[drawn][:, positives].toarray() > 0).to(self._device)
            with torch.no_grad():
                every = anchors @ others.T
                hardest, places_of = every.masked_fill(true, -torch.inf).topk(min(self.negatives, len(drawn)), dim=1)
            rows = torch.arange(len(drawn), device=self._device)[:, None]
            chosen = torch.cat([rows, places_of], dim=1)
            kept = torch.cat([torch.ones_like(rows, dtype=torch.bool), hardest > -torch.inf], dim=1)
            positive = (chosen == rows)[kept]
            cosines = select_products(every, anchors, others, rows.expand_as(chosen)[kept], chosen[kept])
            return contrastive_loss(cosines, positive, self.c, self.d) / len(drawn)

        curve = train(
            [(self._encoder, self.learning_rate)],
            shuffle(len(seen), self.batch, self.seed),
            loss_of,
            epochs=self.epochs,
            seed=self.seed,
        )
        self.notes["encoder"] = {"losses": ["contrastive"], "curve": curve}

    def _classifiers(self, documents: csr_matrix, labels: np.ndarray, pairs: csr_matrix) -> np.ndarray:
        from functools import partial

        from xmcbench.methods.deepxml.classifiers import contrastive_loss, train_on_nearest

        trained, self.notes["classifiers"] = train_on_nearest(
            self._encoder.embed(documents),
            labels,
            pairs,
            partial(contrastive_loss, c=self.classifier_c, d=self.classifier_d, threshold=self.threshold),
            self.shortlist,
            epochs=self.classifier_epochs,
            rate=self.classifier_rate,
            dropout=self.classifier_dropout,
            seed=self.seed,
            device=self._device,
        )
        return trained
