"""ICT: the inverse cloze task, a document's context against its title."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from xmcbench import UsageError
from xmcbench.methods.encoder.budgets import SCRATCH, SMALL
from xmcbench.methods.encoder.dual_encoder import DualEncoder

if TYPE_CHECKING:
    import numpy as np

    from xmcbench import Texts
    from xmcbench.methods.encoder.cloze import ContextPairs


class ICT(DualEncoder):
    """The inverse cloze task on the corpus (Lee et al. 2019; MACLR sections 4.2 and 5.1, its ablation's row 1).

    The context of a document is to find the document's title among those of the batch: the in-batch contrastive loss
    (equation 2). With pairs it is fine-tuned on them.

    steps, batch, learning_rate  of the training; documents of a step over all processes
    least_sentences   documents whose content has fewer sentences have no context and are left out; their number stands
                      in the notes
    title_taken_out   probability that a sentence of the context loses the title's string, as in MACLR's code
    """

    title = "ICT"
    presets: ClassVar = {
        "paper": {"backbone": "bert-base-uncased", "head": "paper", "steps": 100_000, "batch": 256},
        "quick": {
            "instance_length": 96,
            "label_length": 32,
            "steps": 30,
            "batch": 32,
            "learning_rate": 2e-5,
            "finetune_steps": 20,
            "finetune_batch": 32,
            "finetune_rate": 2e-5,
        },
        "small": SMALL,
        "scratch": SCRATCH,
    }

    steps: int = 100_000
    batch: int = 256
    learning_rate: float = 1e-5
    least_sentences: int = 2
    title_taken_out: float = 0.9

    def describe(self) -> str:
        """The backbone and the training budget."""
        return f"{super().describe()}, {self.steps} steps of {self.batch}"

    def pretrain(self, raw_X: Texts, raw_Y: Texts) -> dict[str, np.ndarray]:
        """Train on (context, title) pairs; returns the encoder's weights by name."""
        from xmcbench.methods.encoder.contrastive import TwoViews
        from xmcbench.methods.encoder.training import Plan

        self._open(raw_X, raw_Y)
        drawn = self._context_pairs(raw_X)
        task = TwoViews(drawn.contexts, drawn.titles, self.batch, self._scale, self.seed)
        plan = Plan(self.steps, self.learning_rate, self.warmup, seed=self.seed)
        identity = {"kind": "inverse cloze", "instances": raw_X.digest, "pairs": drawn.contexts.folder.name}
        self._train("training", task, plan, identity, self.batch)
        return self._encoder.weights()

    def _context_pairs(self, raw_X: Texts) -> ContextPairs:
        from xmcbench.methods.encoder.cloze import context_pairs

        drawn = context_pairs(
            self.artifacts,
            raw_X,
            self._tokenizer,
            context_length=min(self.instance_length, self._longest),
            title_length=min(self.label_length, self._longest),
            least_sentences=self.least_sentences,
            title_taken_out=self.title_taken_out,
            seed=self.seed,
        )
        self.notes["documents_without_a_context"] = drawn.left_out
        return drawn

    def _least(self) -> dict[str, int]:
        return {"steps": 0, "batch": 2, "least_sentences": 1}

    def _check(self) -> None:
        super()._check()
        if not 0 <= self.title_taken_out <= 1:
            value = f"{type(self).__name__}.title_taken_out = {self.title_taken_out}"
            raise UsageError(f"{value} is no probability", "it lies in [0, 1]")
