"""Renee: an encoder and a classifier of all labels, trained together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from xmcbench import Doc, Texts, pairs_digest
from xmcbench.methods.declarations import AboveZero, Natural, NonNegative, Positive, ShareBelowOne
from xmcbench.methods.encoder.dual_encoder import LabelSearch
from xmcbench.methods.presets import CHOICES, PRESETS

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench.methods.encoder.tokens import TokenStore
    from xmcbench.methods.encoder.tower import Tower
    from xmcbench.methods.renee.classifier import LabelClassifier

_DEV = "LF-Debian-20K-dev"
_CODE = "its code, main.py"


class Renee(LabelSearch):
    """An encoder and a classifier of all labels, trained together (Jain et al., MLSys 2023).

    Each label has a vector, and the loss is the sum over all labels of the binary cross-entropy of their inner products
    with the vector of a document. Logits and their gradient are computed for a part of the labels at a time, and the
    loss is not differentiated by torch: its gradient with respect to a logit is the probability less the truth. The
    classifier learns by stochastic gradient descent with momentum, the encoder by Adam. Label texts are training
    documents too, each with its own label (``label_texts``). All labels are trained, with or without a known pair.

    Against the paper and its code: there the classifier starts from random numbers. Here a label starts from the
    direction of its documents' vectors and its own text's, and is first trained on the vectors of the untrained encoder
    (``frozen_epochs``), which costs little as these are computed once. The vectors of texts have length 1, a logit has
    an ``offset``, and the learning rates fall linearly. The weights do not decay. Several processes share the encoder's
    texts; each has the whole classifier, and trains it alike. There labels are divided among them. There the encoder
    starts from NGAME's for short texts; here it is the backbone.

    Vectors are compared by cosine, so a head with inner products is refused.
    """

    title = "Renee"
    supervision = "required"
    needs_cosine: ClassVar = True
    described: ClassVar[tuple[str, ...]] = ("backbone", "frozen_epochs", "epochs", "batch")
    presets: ClassVar = PRESETS["renee"]
    choices: ClassVar = CHOICES["renee"]

    label_texts: Annotated[bool, Doc("train on the texts of labels too", "Renee, section 6.1.2")] = True
    frozen_epochs: Annotated[
        Natural, Doc("passes of the classifier's training over the texts before the encoder is trained")
    ] = 4
    epochs: Annotated[Natural, Doc("passes over the texts in which both are trained", "Renee, table 15")] = 100
    batch: Annotated[Positive, Doc("texts per step, over all processes", "Renee, table 15")] = 512
    learning_rate: Annotated[AboveZero, Doc("highest learning rate of the encoder", "Renee, table 15")] = 1e-5
    classifier_rate: Annotated[AboveZero, Doc("highest learning rate of the classifier", "Renee, table 15")] = 0.05
    momentum: Annotated[ShareBelowOne, Doc("momentum of the classifier's training", _CODE)] = 0.9
    dropout: Annotated[
        ShareBelowOne, Doc("share of a text's vector that training drops", "Renee, table 15: 0.7 to 0.85")
    ] = 0.7
    temperature: Annotated[AboveZero, Doc("1 / the length of a label's vector at the start", "SimCSE, section 3")] = (
        0.05
    )
    offset: Annotated[
        NonNegative, Doc("taken off each logit: most labels are wrong for a text from the start", _DEV)
    ] = 12.0
    text_weight: Annotated[
        AboveZero, Doc("weight of the label's text at the start; each of its documents has 1", _DEV)
    ] = 4.0

    def describe(self) -> str:
        return f"{super().describe()}, {self.frozen_epochs} + {self.epochs} epochs of {self.batch}"

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        """Train the classifier, then both. Raises Unavailable if the weights are not available, UsageError where the
        network compares by inner product, MethodError if a training diverges."""
        assert pairs is not None, "supervision is required"
        self._tower = tower = self._open(raw_X, raw_Y)
        rows = np.flatnonzero(np.diff(pairs.indptr))
        labels = tower.label_tokens(raw_Y, self.label_length)
        self.notes["cut_labels"] = labels.at_the_limit
        texts, known = tower.embed(labels, shared=True), pairs[rows]
        weights = texts / self.temperature
        if len(rows):
            documents = tower.instance_tokens(raw_X.take(rows), self.instance_length)
            classifier = self._classifier(tower, documents, texts, known)
            if self.epochs:
                self._train_both(tower, classifier, documents, labels, known, (raw_X.digest, raw_Y.digest))
            weights = classifier.weight.cpu().numpy()
        self._labels = weights.astype(self.stored_as)

    def _classifier(self, tower: Tower, documents: TokenStore, texts: np.ndarray, pairs: csr_matrix) -> LabelClassifier:
        """The classifier, trained on the vectors of the encoder as it is. texts: vectors of the labels."""
        from xmcbench.methods.encoder.hardware import DTYPES
        from xmcbench.methods.renee.classifier import LabelClassifier, fit_on_frozen, start_weights

        vectors = tower.embed(documents, shared=True)
        start = start_weights(vectors, texts, pairs, self.text_weight, 1 / self.temperature)
        classifier: LabelClassifier = LabelClassifier(start, self.offset, self.momentum).to(tower.device)
        if self.frozen_epochs:
            targets = self._targets(pairs)
            plan = self._plan(self._steps(targets, self.frozen_epochs), self.classifier_rate)
            trained_on = np.concatenate([vectors, texts]) if self.label_texts else vectors
            options = self.batch, self.dropout, DTYPES[tower.encoder.precision]
            curve = fit_on_frozen(classifier, trained_on, targets, plan, *options)
            self.notes["classifier"] = {"losses": ["binary cross-entropy"], "curve": curve}
        return classifier

    def _train_both(
        self,
        tower: Tower,
        classifier: LabelClassifier,
        documents: TokenStore,
        labels: TokenStore,
        pairs: csr_matrix,
        digests: tuple[str, str],
    ) -> None:
        """Train encoder and classifier in place."""
        from xmcbench.methods.renee.classifier import EndToEnd

        targets = self._targets(pairs)
        steps = self._steps(targets, self.epochs)
        plan = self._plan(steps, self.classifier_rate)
        task = EndToEnd(documents, labels, targets, plan, self.batch, self.dropout)
        identity = {
            "kind": "all labels",
            "texts": digests,
            "pairs": pairs_digest(targets.indptr, targets.indices),
            "classifier": [plan.identity(), self.dropout, self.momentum, self.offset],
        }
        # Among the weights of the encoder, those of the classifier are kept and restored with them.
        tower.encoder.add_module("classifier", classifier)
        try:
            self.notes["fine-tuning"] = tower.train(
                task, self._plan(steps, self.learning_rate), identity, self.batch, keep=False
            )
        finally:
            del tower.encoder.classifier

    def _targets(self, pairs: csr_matrix) -> csr_matrix:
        """The labels of each text that is trained on: those of documents, then those of label texts, their own."""
        from scipy.sparse import identity, vstack

        own = [identity(pairs.shape[1], np.float32)] if self.label_texts else []
        return vstack([pairs.astype(np.float32), *own], format="csr")

    def _steps(self, targets: csr_matrix, epochs: int) -> int:
        """Steps of these epochs, each without the texts that do not fill a batch."""
        texts = int(targets.shape[0])
        return epochs * (texts // min(self.batch, texts))
