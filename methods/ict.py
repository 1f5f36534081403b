"""ICT: the inverse cloze task, a document's context against its title."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from xmcbench import Texts
from xmcbench.methods.encoder.pretrained_encoder import ContextEncoder
from xmcbench.methods.presets import CHOICES, PRESETS

if TYPE_CHECKING:
    from xmcbench.methods.encoder.tower import Tower


class ICT(ContextEncoder):
    """The inverse cloze task on the corpus (Lee et al. 2019; MACLR sections 4.2 and 5.1, its ablation's row 1).

    The context of a document is matched with its title among those of the batch: the in-batch contrastive loss
    (equation 2). With pairs it is fine-tuned on them.
    """

    title = "ICT"
    presets: ClassVar = PRESETS["ict"]
    choices: ClassVar = CHOICES["ict"]

    def _train(self, tower: Tower, raw_X: Texts, raw_Y: Texts) -> None:
        """Train on (context, title) pairs, which texts without a content need not have where nothing is trained."""
        from xmcbench.methods.encoder.contrastive import InverseCloze

        if not self.steps:
            return
        drawn = self._context_pairs(tower, raw_X)
        task = InverseCloze(drawn, self.batch, tower.temperature, self.seed)
        identity = {"kind": "inverse cloze", "instances": raw_X.digest, "pairs": drawn.contexts.folder.name}
        self._train_on(tower, "training", task, self._plan(self.steps, self.learning_rate), identity)
