"""SimCSE, unsupervised: a document and itself under two dropout masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from xmcbench.methods.encoder.budgets import SCRATCH, SMALL
from xmcbench.methods.encoder.dual_encoder import DualEncoder

if TYPE_CHECKING:
    import numpy as np

    from xmcbench import Texts


class SimCSE(DualEncoder):
    """Unsupervised SimCSE on the corpus (Gao et al. 2021; MACLR section 5.1).

    Each training document is embedded twice, under two dropout masks; the other documents of the batch are negatives
    (InfoNCE over cosines). A dense layer with tanh stands above the pooled vector in training only. The published
    recipe takes [CLS] of BERT-base; ``quick`` trains the pooling that its checkpoint was made for.

    steps, batch, learning_rate  of the training; documents of a step over all processes
    """

    title = "SimCSE"
    presets: ClassVar = {
        "paper": {"backbone": "bert-base-uncased", "head": "cls"},
        "quick": {
            "instance_length": 96,
            "steps": 20,
            "batch": 32,
            "finetune_steps": 20,
            "finetune_batch": 32,
            "finetune_rate": 2e-5,
        },
        "small": SMALL,
        "scratch": SCRATCH,
    }
    _projection: ClassVar[bool] = True

    head: Literal["native", "cls", "paper"] = "native"
    steps: int = 10_000
    batch: int = 64
    learning_rate: float = 3e-5

    def describe(self) -> str:
        """The backbone and the training budget."""
        return f"{super().describe()}, {self.steps} steps of {self.batch}"

    def pretrain(self, raw_X: Texts, raw_Y: Texts) -> dict[str, np.ndarray]:
        """Train on the documents alone; returns the encoder's weights by name."""
        from xmcbench.methods.encoder.contrastive import TwoViews
        from xmcbench.methods.encoder.training import Plan

        self._open(raw_X, raw_Y)
        documents = self._tokens(raw_X, self.instance_length)
        task = TwoViews(documents, documents, self.batch, self._scale, self.seed)
        plan = Plan(self.steps, self.learning_rate, self.warmup, seed=self.seed)
        self._train("training", task, plan, {"kind": "two dropouts", "instances": raw_X.digest}, self.batch)
        return self._encoder.weights()

    def _least(self) -> dict[str, int]:
        return {"steps": 0, "batch": 2}
