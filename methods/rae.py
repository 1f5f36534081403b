"""RAE: a dual encoder whose predictions come from a memory of labels and known pairs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from xmcbench import Doc, Texts, TopK, load_arrays, save_arrays
from xmcbench.methods.declarations import AboveZero, Positive, Probability
from xmcbench.methods.encoder.dual_encoder import DualEncoder
from xmcbench.methods.presets import CHOICES, PRESETS

if TYPE_CHECKING:
    from pathlib import Path

    from scipy.sparse import csr_matrix

#: The file of the instances' vectors and labels, beside a kept encoder.
_INSTANCES = "instances.safetensors"
#: Texts whose keys are weighed at a time.
_ROWS = 4096
#: Exponent of a weight at least; that of -745 is 0.
_LOWEST = -700


class RAE(DualEncoder):
    """Retrieval-augmented encoder (RAE-XMC; Wang et al., 2025, arXiv:2502.10615): PEFA over a trained tower.

    The vectors of labels and of training instances with a pair are the keys of one memory. A text weighs its nearest
    keys by a softmax over its similarities, divided by the temperature of the training. The score of a label is
    (1 - ``mix``) times its own weight, plus ``mix`` times the weights of the instances that have it.

    Our encoder is fine-tuned on the pairs like the other dual encoders here, by the in-batch loss of MACLR. Theirs has
    a decoupled contrastive loss, mined negatives, and other instances as negatives. They take the nearest keys of both
    kinds together, from HNSW; we take as many of each kind, so that enough labels are ranked. Written from a
    description of the method, not from its authors' code, which is not public.
    """

    title = "RAE"
    supervision = "required"
    described: ClassVar[tuple[str, ...]] = ("backbone", "finetune_steps", "finetune_batch")
    presets: ClassVar = PRESETS["rae"]
    choices: ClassVar = CHOICES["rae"]

    temperature: Annotated[
        AboveZero, Doc("divisor of cosines, in training and over the memory; inner products are not divided", "RAE-XMC")
    ] = 0.04
    keys: Annotated[Positive, Doc("number of nearest labels, and of nearest training instances", "RAE-XMC")] = 200
    mix: Annotated[Probability, Doc("weight of the instances; labels have the rest")] = 0.5

    def describe(self) -> str:
        return f"{super().describe()}, {self.finetune_steps} steps of {self.finetune_batch}"

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        """Train the encoder, and embed labels and instances. Raises what ``DualEncoder.fit`` raises."""
        super().fit(raw_X, raw_Y, pairs)
        assert pairs is not None, "supervision is required"
        rows = np.flatnonzero(np.diff(pairs.indptr))
        self._known, self._instances = pairs[rows], np.empty((0, self._labels.shape[1]), self._dtype)
        if len(rows):
            tokens = self._tower.instance_tokens(raw_X.take(rows), self.instance_length)
            self._instances = self._tower.embed(tokens, dtype=self._dtype)

    def predict_batches(self, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        """The k labels with the largest weight in the memory per text."""
        from xmcbench.methods.dense.search import regroup

        tower, found = self._tower, dict[str, object]()
        tokens = tower.instance_tokens(raw_X, self.instance_length)
        self.notes["cut_instances"] = tokens.at_the_limit
        with tower.embeddings(tokens, dtype=self._dtype) as vectors:
            labels = regroup(tower.nearest(vectors, self._labels, max(k, self.keys), self.notes), _ROWS)
            if not len(self._instances):
                yield from (TopK(near.indices[:, :k], near.scores[:, :k]) for near in labels)
                return
            instances = regroup(tower.nearest(vectors, self._instances, self.keys, found), _ROWS)
            for near in zip(labels, instances, strict=True):
                yield aggregate(*near, self._known, tower.temperature, self.mix, k)
        self.notes["search of instances"] = found["search"]

    def save(self, folder: Path) -> None:
        """Write what ``DualEncoder.save`` does, and the vectors of the instances with their labels."""
        super().save(folder)
        known = {"labels": self._known.indices, "ends": self._known.indptr}
        save_arrays(folder / _INSTANCES, {"vectors": self._instances, **known})

    def load(self, folder: Path) -> None:
        from scipy.sparse import csr_matrix

        super().load(folder)
        kept = load_arrays(folder / _INSTANCES)
        ones, self._instances = np.ones(len(kept["labels"]), np.float32), kept["vectors"]
        shape = len(self._instances), len(self._labels)
        self._known = csr_matrix((ones, kept["labels"], kept["ends"]), shape)


def aggregate(labels: TopK, instances: TopK, known: csr_matrix, temperature: float, mix: float, k: int) -> TopK:
    """Rank labels by the weights of the nearest labels and instances of each text. known: pairs of the instances,
    binary CSR. The weights of a text are not divided by their sum, which no order depends on. A score is the logarithm
    of a weight: weights far below the largest would all be 0 in float32."""
    from scipy.sparse import csr_matrix

    largest = np.maximum(labels.scores[:, 0], instances.scores[:, 0])[:, None].astype(np.float64)

    def weights(near: TopK, share: float, columns: int) -> csr_matrix:
        rows, places = np.nonzero(near.indices >= 0)
        # A weight of 0 would be no entry of the sum below, and its label no candidate.
        values = share * np.exp(np.maximum((near.scores - largest) / temperature, _LOWEST))
        return csr_matrix((values[rows, places], (rows, near.indices[rows, places])), (len(near), columns))

    total = (weights(labels, 1 - mix, known.shape[1]) + weights(instances, mix, known.shape[0]) @ known).tocsr()
    total.data = np.log(np.maximum(total.data, np.finfo(np.float64).tiny))
    # Labels of one near instance differ by their own texts alone, which may be nothing in float32.
    return TopK.from_scores(total, k)
