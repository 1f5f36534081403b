"""ICT: the inverse cloze task, a document's context against its title."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from xmcbench.methods.encoder.budgets import BUDGETS, PAPER_FINETUNING
from xmcbench.methods.encoder.context_encoder import ContextEncoder

if TYPE_CHECKING:
    from xmcbench import Texts
    from xmcbench.methods.encoder.tower import Tower


#: Training instances held out from training: what values are chosen on.
_DEV = "xmcbench run --dataset lf-debian-20k-dev --setting ez --methods ict"


class ICT(ContextEncoder):
    """The inverse cloze task on the corpus (Lee et al. 2019; MACLR sections 4.2 and 5.1, its ablation's row 1).

    The context of a document is matched with its title among those of the batch: the in-batch contrastive loss
    (equation 2). With pairs it is fine-tuned on them.
    """

    title = "ICT"
    presets: ClassVar = {
        "paper": {
            "backbone": "bert-base-uncased",
            "head": "paper",
            "min_sentences": 1,
            "title_dropout": 0.0,
            **PAPER_FINETUNING,
        },
        **BUDGETS,
    }
    choices: ClassVar = {
        "paper": "MACLR, section 5.1",
        "quick": "a budget of minutes on two cores; nothing was chosen",
        "small": (
            f"{_DEV}:small\n{_DEV}:small --set ict.learning_rate=1e-5\n{_DEV}:small --set ict.learning_rate=5e-5"
        ),
        "hour": "the rate of small; nothing else was chosen",
        "gpu": "for large corpora; the rate of small, nothing else was chosen",
        "scratch": (
            f"{_DEV}:scratch\n{_DEV}:scratch --set ict.learning_rate=3e-4\n{_DEV}:scratch --set ict.head=paper"
        ),
    }

    def _train(self, tower: Tower, raw_X: Texts, raw_Y: Texts) -> None:
        """Train on (context, title) pairs, which texts without a content need not have where nothing is trained."""
        from xmcbench.methods.encoder.contrastive import InverseCloze

        if not self.steps:
            return
        drawn = self._context_pairs(tower, raw_X)
        task = InverseCloze(drawn, self.batch, tower.temperature, self.seed)
        identity = {"kind": "inverse cloze", "instances": raw_X.digest, "pairs": drawn.contexts.folder.name}
        self.notes["training"] = tower.train(task, self._plan(self.steps, self.learning_rate), identity, self.batch)
