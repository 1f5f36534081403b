"""SimCSE, unsupervised: a document and itself under two dropout masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge, Unit

from xmcbench import Doc, Texts
from xmcbench.methods.declarations import AboveZero, Steps
from xmcbench.methods.encoder.pretrained_encoder import PretrainedEncoder
from xmcbench.methods.presets import CHOICES, PRESETS

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench.methods.encoder.tower import Tower


class SimCSE(PretrainedEncoder):
    """Unsupervised SimCSE on the corpus (Gao et al. 2021; MACLR section 5.1).

    Each training document is embedded twice, under two dropout masks; the other documents of the batch are negatives
    (InfoNCE over cosines). A dense layer with tanh follows the pooled vector in this training only; fine-tuning works
    on the vectors that are ranked by. The published recipe takes [CLS] of BERT-base; ``quick`` trains with the pooling
    of its checkpoint. Lengths and warm-up of the preset ``paper`` are those of the other encoders here, and its number
    of steps is ours.
    """

    title = "SimCSE"
    presets: ClassVar = PRESETS["simcse"]
    choices: ClassVar = CHOICES["simcse"]
    _projection: ClassVar[bool] = True

    steps: Annotated[Steps, Doc("number of steps of the training without pairs")] = 10_000
    batch: Annotated[
        int, Ge(2), Unit("documents"), Doc("documents per step, over all processes", "SimCSE, appendix A: BERT-base")
    ] = 64
    learning_rate: Annotated[AboveZero, Doc("highest learning rate", "SimCSE, appendix A, for BERT-base")] = 3e-5

    def _train(self, tower: Tower, raw_X: Texts, raw_Y: Texts) -> None:
        """Train on the documents alone."""
        from xmcbench.methods.encoder.contrastive import TwoViews

        documents = tower.instance_tokens(raw_X, self.instance_length)
        task = TwoViews(documents, documents, self.batch, tower.temperature, self.seed)
        identity = {"kind": "two dropouts", "instances": raw_X.digest}
        self._train_on(tower, "training", task, self._plan(self.steps, self.learning_rate), identity)

    def _finetune(self, tower: Tower, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix) -> None:
        tower.encoder.projection = None
        super()._finetune(tower, raw_X, raw_Y, pairs)
