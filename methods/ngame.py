"""NGAME: an encoder trained on batches of documents that are alike, then a classifier per label."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Unit

from xmcbench import Doc, Texts
from xmcbench.methods.declarations import AboveZero, Documents, Labels, Natural, Probability, Share, ShareBelowOne
from xmcbench.methods.encoder.dual_encoder import DualEncoder
from xmcbench.methods.presets import CHOICES, PRESETS

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench.methods.encoder.contrastive import ContrastiveTask
    from xmcbench.methods.encoder.tokens import TokenStore
    from xmcbench.methods.encoder.tower import Tower

_PAPER = "NGAME, section 3"


class NGAME(DualEncoder):
    """A dual encoder with negatives mined by batches, and label classifiers (Dahiya et al., WSDM 2023).

    Documents are clustered by their vectors, again as these change, and a batch takes whole clusters: the labels of the
    other documents are then hard negatives, found without a search. Afterwards the documents are embedded once, each is
    given those of its nearest labels that have a known pair, and one classifier a label is trained on these and on the
    document's own labels by the probabilistic loss of SiameseXML, starting from the label's own vector. Of more than
    ``shortlist`` own labels, as many are drawn, once. The nearest labels are found among all labels, so with few known
    pairs hardly any is left, and classifiers have hardly any negatives. A step of that training has at most 256
    documents. Its learning rate is the same within an epoch, and from one to the next it falls by 0.9 / epochs of what
    it was at first.

    The score of a label is (1 - fusion) x cosine with its vector + fusion x cosine with its classifier. A label without
    a known pair has its vector for a classifier.

    Vectors are compared by cosine in training, so a head with inner products is refused there. Several processes train
    the encoder and embed texts. One process trains the classifiers, on every machine.
    """

    title = "NGAME"
    supervision = "required"
    needs_cosine: ClassVar = True
    described: ClassVar[tuple[str, ...]] = ("backbone", "finetune_steps", "finetune_batch")
    presets: ClassVar = PRESETS["ngame"]
    choices: ClassVar = CHOICES["ngame"]

    pair_loss: Annotated[
        Literal["triplet", "contrastive"], Doc("triplet: a hinge, as in the paper; contrastive: MACLR's equation 2")
    ] = "triplet"
    margin: Annotated[AboveZero, Doc("margin of the hinge", _PAPER)] = 0.3
    hardest: Annotated[
        Labels, Doc("hardest labels of the batch in a document's hinge; one drawn several times counts as often")
    ] = 10
    cluster_size: Annotated[Documents, Doc("maximum size of a cluster")] = 8
    clusters_updated_every: Annotated[
        int, Ge(1), Unit("steps"), Doc("steps until documents are clustered again, when the next pass over them begins")
    ] = 100
    shortlist: Annotated[
        Labels, Doc("nearest labels of a document; classifiers are trained on those that have a pair")
    ] = 100
    classifier_epochs: Annotated[Natural, Doc("passes of the classifiers' training over the documents with a pair")] = (
        20
    )
    classifier_rate: Annotated[AboveZero, Doc("learning rate of the classifiers' training", "LF-Debian-20K-dev")] = 5e-4
    classifier_dropout: Annotated[
        ShareBelowOne, Doc("share of a document's vector that the classifiers' training drops", "LF-Debian-20K-dev")
    ] = 0.7
    c: Annotated[Probability, Doc("probability of a pair at cosine 1, for the classifiers")] = 0.75
    d: Annotated[AboveZero, Doc("how fast the probability of a pair falls with the cosine", "LF-Debian-20K-dev")] = 5.0
    fusion: Annotated[Share, Doc("share of the classifiers in the score", "LF-Debian-20K-dev")] = 1.0

    def require(self) -> None:
        super().require()
        self._refuse_batch_options("draws its batches from clusters")

    def describe(self) -> str:
        return f"{super().describe()}, {self.finetune_steps} steps of {self.finetune_batch}"

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        """Train the encoder, then the classifiers. Raises what ``DualEncoder.fit`` raises."""
        super().fit(raw_X, raw_Y, pairs)
        assert pairs is not None, "supervision is required"
        rows = np.flatnonzero(np.diff(pairs.indptr))
        if len(rows) and self.classifier_epochs and self.fusion:
            labels = _unit(self._labels)
            trained = self._classifiers(self._tower, raw_X.take(rows), labels, pairs[rows])
            self._labels = ((1 - self.fusion) * labels + self.fusion * trained).astype(self._dtype)

    def _pairs_task(
        self, instances: TokenStore, labels: TokenStore, pairs: csr_matrix, temperature: float
    ) -> tuple[ContrastiveTask, dict[str, object]]:
        from xmcbench.methods.encoder.clustering import ClusteredPairs, Mining, PairLoss

        mining = self.cluster_size, self.clusters_updated_every
        loss = self.pair_loss, self.margin, self.hardest
        task = ClusteredPairs(
            instances, labels, pairs, self.finetune_batch, Mining(*mining), PairLoss(*loss, temperature), self.seed
        )
        return task, {"kind": "clustered pairs", "mining": list(mining), "loss": list(loss)}

    def _classifiers(self, tower: Tower, known: Texts, labels: np.ndarray, pairs: csr_matrix) -> np.ndarray:
        from xmcbench.methods.deepxml.classifiers import contrastive_loss, train_on_nearest

        documents = _unit(tower.embed(tower.instance_tokens(known, self.instance_length)))
        trained, self.notes["classifiers"] = train_on_nearest(
            documents,
            labels,
            pairs,
            partial(contrastive_loss, c=self.c, d=self.d),
            self.shortlist,
            epochs=self.classifier_epochs,
            rate=self.classifier_rate,
            dropout=self.classifier_dropout,
            seed=self.seed,
            device=tower.device,
        )
        return trained


def _unit(vectors: np.ndarray) -> np.ndarray:
    """The vectors, scaled to length 1: float32."""
    wide = vectors.astype(np.float32)
    unit: np.ndarray = wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-12)
    return unit
