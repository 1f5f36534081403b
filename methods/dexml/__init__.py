"""DEXML: a dual encoder trained against all labels, or against many hard ones."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge, Unit

from xmcbench import Doc
from xmcbench.methods.declarations import AboveZero, Labels, Positive
from xmcbench.methods.encoder.dual_encoder import DualEncoder
from xmcbench.methods.presets import CHOICES, PRESETS

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench.methods.encoder.contrastive import ContrastiveTask
    from xmcbench.methods.encoder.tokens import TokenStore

_CODE = "its code, configs/dual-encoder.yaml"


class DEXML(DualEncoder):
    """A dual encoder trained against all labels, without classifiers (Gupta et al., ICLR 2024).

    The loss is a softmax over labels per known label of a document, and its denominator leaves out the document's
    other known labels: no label has to push another true one away. ``loss=top-k`` asks instead that the labels be among
    the k best. A step compares its documents with all labels, or, with ``pool=hard``, with one known label of each
    document and labels drawn from the nearest ones of each. The pool may have far more texts than fit into memory with
    their activations: ``cached_tokens`` embeds as many tokens at a time, and computes their activations again.

    Against the paper and its code: all known labels of a document in the pool are positives, while the code draws one
    of them, or k for top-k. Hard negatives are drawn from the beginning, and their ranks are found again after
    ``mined_every`` steps; in the code the first epochs have none. Labels that would be in a pool twice are replaced by
    random ones. The weights do not decay.

    Several processes train the encoder and embed texts; the first one searches for hard negatives.
    """

    title = "DEXML"
    supervision = "required"
    described: ClassVar[tuple[str, ...]] = ("backbone", "finetune_steps", "finetune_batch", "pool")
    presets: ClassVar = PRESETS["dexml"]
    choices: ClassVar = CHOICES["dexml"]

    temperature: Annotated[AboveZero, Doc("divisor of cosines in training; inner products are not divided", _CODE)] = (
        0.05
    )
    loss: Annotated[
        Literal["decoupled", "top-k"], Doc("decoupled: softmax without the document's other labels; top-k: SoftTop-k")
    ] = "decoupled"
    top_k: Annotated[Positive, Doc("k of SoftTop-k", _CODE)] = 5
    top_k_sharpness: Annotated[AboveZero, Doc("factor of the logits in SoftTop-k", _CODE)] = 2.0
    pool: Annotated[
        Literal["all", "hard"], Doc("all: every label, in each step; hard: labels of the batch and their neighbors")
    ] = "all"
    hard_negatives: Annotated[Labels, Doc("number of hard negatives drawn per document of a step", _CODE)] = 1
    shortlist: Annotated[
        Labels, Doc("number of nearest labels from which the hard negatives of a document are drawn", _CODE)
    ] = 100
    mined_every: Annotated[
        int, Ge(1), Unit("steps"), Doc("number of steps after which the nearest labels are found again")
    ] = 500

    def require(self) -> None:
        super().require()
        self._refuse_batch_options("compares documents with a pool")

    def describe(self) -> str:
        return f"{super().describe()}, {self.finetune_steps} steps of {self.finetune_batch}, {self.pool} labels"

    def _pairs_task(
        self, instances: TokenStore, labels: TokenStore, pairs: csr_matrix, temperature: float
    ) -> tuple[ContrastiveTask, dict[str, object]]:
        from xmcbench.methods.dexml.pool import HardNegatives, LabelPool, decoupled_softmax, soft_top_k

        mining = self.hard_negatives, self.shortlist, self.mined_every
        hard = HardNegatives(*mining) if self.pool == "hard" else None
        top = partial(soft_top_k, k=self.top_k, sharpness=self.top_k_sharpness)
        task = LabelPool(
            instances,
            labels,
            pairs,
            self.finetune_batch,
            temperature,
            self.seed,
            top if self.loss == "top-k" else decoupled_softmax,
            hard,
        )
        loss = [self.loss, *([self.top_k, self.top_k_sharpness] if self.loss == "top-k" else [])]
        return task, {"kind": "label pool", "loss": loss, "hard": list(mining) if hard else None}
