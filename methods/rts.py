"""RTS: segments of a document that are drawn at random are close to its title and to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge, Unit

from xmcbench import Doc, Texts, UsageError
from xmcbench.methods.declarations import AboveZero, Steps, Words
from xmcbench.methods.encoder.pretrained_encoder import PretrainedEncoder
from xmcbench.methods.presets import CHOICES, PRESETS

if TYPE_CHECKING:
    from xmcbench.methods.encoder.tower import Tower

_PAPER = "Zhang et al. 2022"


class RTS(PretrainedEncoder):
    """Random text segments on the corpus (Zhang et al., Findings of EMNLP 2022).

    Documents are split again for every epoch. A pair is a title or a label and itself, a title and a segment of its
    document, or two segments of a document; the other pairs of the batch are negatives (InfoNCE over cosines). With
    pairs it is fine-tuned on them.

    Segments, batch, temperature and highest learning rate are the paper's for LF-Amazon-131K. The encoder, lengths,
    warm-up and gradient limit are those of the other encoders here; the paper trains for 10 epochs, and its learning
    rate falls to a tenth, where ours falls to zero. The preset ``wikipedia`` has its longer segments.
    """

    title = "RTS"
    presets: ClassVar = PRESETS["rts"]
    choices: ClassVar = CHOICES["rts"]

    steps: Annotated[Steps, Doc("number of steps of the training without pairs")] = 10_000
    batch: Annotated[int, Ge(2), Unit("pairs"), Doc("pairs per step, over all processes", _PAPER)] = 384
    learning_rate: Annotated[AboveZero, Doc("highest learning rate", _PAPER)] = 5e-5
    min_words: Annotated[Words, Doc("minimum length of a segment", _PAPER)] = 40
    max_words: Annotated[Words, Doc("maximum length of a segment", _PAPER)] = 80

    def require(self) -> None:
        """Raise UsageError where no segment has as many words as it needs, and as other encoders do."""
        if self.max_words < self.min_words:
            raise UsageError(
                f"rts.max_words = {self.max_words} is less than min_words = {self.min_words}", "choose a larger one"
            )
        super().require()

    def _train(self, tower: Tower, raw_X: Texts, raw_Y: Texts) -> None:
        """Train on segments, titles and labels."""
        from xmcbench.methods.encoder.segments import RandomSegments, SegmentCorpus

        lengths = tower.limit(self.instance_length), tower.limit(self.label_length)
        corpus = SegmentCorpus(raw_X, raw_Y, tower.tokenizers, lengths)
        words = self.min_words, self.max_words
        task = RandomSegments(corpus, words, self.batch, tower.temperature, self.seed)
        identity = {"kind": "random segments", "instances": raw_X.digest, "labels": raw_Y.digest, "words": list(words)}
        self._train_on(tower, "training", task, self._plan(self.steps, self.learning_rate), identity)
