"""The base classes of encoders that train on the corpus before they see pairs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Unit

from xmcbench import Doc, Texts
from xmcbench.methods.declarations import AboveZero, NonNegative, Share, Steps
from xmcbench.methods.encoder.dual_encoder import DualEncoder
from xmcbench.methods.label_text import read_labels

if TYPE_CHECKING:
    from xmcbench.methods.encoder.cloze import ContextPairs
    from xmcbench.methods.encoder.contrastive import ContrastiveTask
    from xmcbench.methods.encoder.tower import Tower
    from xmcbench.methods.encoder.training import TrainingPlan


class PretrainedEncoder(DualEncoder):
    """A dual encoder with a pre-training on texts only, which all ratios and settings share."""

    described: ClassVar[tuple[str, ...]] = ("backbone", "steps", "batch")
    #: The parameters that decide how long the training without pairs takes.
    _budget: ClassVar[tuple[str, ...]] = ("steps",)

    steps: Annotated[Steps, Doc("number of steps of the training without pairs", "MACLR, section 5.1")] = 100_000
    batch: Annotated[
        int, Ge(2), Unit("documents"), Doc("documents per step, over all processes", "MACLR, section 5.1: 8 x 32")
    ] = 256
    learning_rate: Annotated[AboveZero, Doc("highest learning rate", "MACLR, section 5.1")] = 1e-5

    def describe(self) -> str:
        """The backbone and the training budget, in steps and in texts embedded: what rows of one budget share."""
        return f"{super().describe()}, {self._steps_in_words()}, {_in_thousands(self._passes())} texts"

    def _steps_in_words(self) -> str:
        return f"{self.steps} steps of {self.batch}"

    def _passes(self) -> int:
        """Texts that the training without pairs embeds, with their gradients, where the corpus fills its batches: two a
        row."""
        return 2 * self.steps * self.batch

    def pretrain(self, raw_X: Texts, raw_Y: Texts) -> dict[str, np.ndarray]:
        """Train on the texts; returns the changed weights by name."""
        raw_Y = read_labels(raw_Y, self.label_text)
        tower = self._open(raw_X, raw_Y)
        self._texts = 0
        self._train(tower, raw_X, raw_Y)
        self.notes["budget"] = {"texts": self._texts, "parameters": list(self._budget)}
        return tower.encoder.weights()

    @abstractmethod
    def _train(self, tower: Tower, raw_X: Texts, raw_Y: Texts) -> None:
        """Train the tower in place, and note its history."""

    def _train_on(
        self, tower: Tower, name: str, task: ContrastiveTask, plan: TrainingPlan, identity: Mapping[str, object]
    ) -> None:
        """Train the tower on a task without pairs, count its texts, and note its history under a name."""
        self.notes[name] = tower.train(task, plan, identity, self.batch)
        self._texts += plan.steps * task.texts


def _in_thousands(count: int) -> str:
    return str(count) if count < 1000 else f"{count / 1000:.3g}K" if count < 1_000_000 else f"{count / 1e6:.3g}M"


class ContextEncoder(PretrainedEncoder):
    """An encoder that is trained on (context, title) pairs of documents (MACLR, section 4.2)."""

    packages: ClassVar = {**PretrainedEncoder.packages, "nltk": "nltk"}

    min_sentences: Annotated[
        int,
        Ge(1),
        Unit("sentences"),
        Doc("minimum length of a content that is a context; 1 where most are shorter", "MACLR's code"),
    ] = 2
    title_dropout: Annotated[
        Share, Doc("probability that a sentence loses the title's string, drawn at each visit", "MACLR's code")
    ] = 0.9
    sentences: Annotated[
        Literal["regex", "punkt"], Doc("how contents are split; Punkt learns from the contents", "MACLR's code: NLTK")
    ] = "regex"
    finetune_replay: Annotated[
        NonNegative, Doc("weight of the loss on (context, title) pairs beside that on the known pairs; 0: none")
    ] = 0.0

    def _context_pairs(self, tower: Tower, raw_X: Texts) -> ContextPairs:
        from xmcbench.methods.encoder.cloze import context_pairs

        drawn = context_pairs(
            tower.artifacts,
            raw_X,
            tower.tokenizers,
            context_length=tower.limit(self.instance_length),
            title_length=tower.limit(self.label_length),
            min_sentences=self.min_sentences,
            title_dropout=self.title_dropout,
            seed=self.seed,
            sentences=self.sentences,
        )
        self.notes["documents_without_a_context"] = drawn.left_out
        if drawn.min_sentences != self.min_sentences:
            self.notes["sentences_of_a_context"] = drawn.min_sentences
        return drawn

    def _beside(
        self, tower: Tower, raw_X: Texts, task: ContrastiveTask, identity: dict[str, object]
    ) -> tuple[ContrastiveTask, dict[str, object]]:
        """The (context, title) pairs beside the known ones, where they are replayed."""
        return self._replay(tower, raw_X, task, identity, self.finetune_batch, self.finetune_replay, self.seed)

    def _replay(
        self,
        tower: Tower,
        raw_X: Texts,
        task: ContrastiveTask,
        identity: dict[str, object],
        batch: int,
        weight: float,
        seed: int,
        held_out: np.ndarray | None = None,
    ) -> tuple[ContrastiveTask, dict[str, object]]:
        """A task with ICT beside it, and its identity. seed: of the order of ICT's documents. held_out: unseen
        documents, int."""
        from xmcbench.methods.encoder.contrastive import InverseCloze, Replayed

        if not weight:
            return task, identity
        drawn = self._context_pairs(tower, raw_X)
        left_out = np.isin(drawn.rows, [] if held_out is None else held_out)
        replayed = InverseCloze(drawn, batch, tower.temperature, seed, np.flatnonzero(~left_out))
        said = [drawn.contexts.folder.name, weight, int(left_out.sum())]
        return Replayed(task, replayed, weight), {**identity, "replayed": said}
