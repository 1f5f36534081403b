"""The base class of encoders that learn from the context and the title of documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge, Interval, Unit

from xmcbench import Doc
from xmcbench.methods.encoder.pretrained_encoder import PretrainedEncoder

if TYPE_CHECKING:
    import numpy as np

    from xmcbench import Texts
    from xmcbench.methods.encoder.cloze import ContextPairs
    from xmcbench.methods.encoder.contrastive import ContrastiveTask
    from xmcbench.methods.encoder.tower import Tower


class ContextEncoder(PretrainedEncoder):
    """An encoder that is trained on (context, title) pairs of documents (MACLR, section 4.2)."""

    packages: ClassVar = {**PretrainedEncoder.packages, "nltk": "nltk"}

    min_sentences: Annotated[
        int,
        Ge(1),
        Unit("sentences"),
        Doc(
            "minimum length of a content; documents with fewer have no context and are left out, as the record notes",
            "MACLR's code",
        ),
    ] = 2
    title_dropout: Annotated[
        float,
        Interval(ge=0, le=1),
        Doc(
            "probability that a sentence of the context loses the title's string, drawn again at each visit of the "
            "document; the paper has no such rule",
            "MACLR's code",
        ),
    ] = 0.9
    sentences: Annotated[
        Literal["regex", "punkt"],
        Doc(
            "how contents are split: by a regular expression, or by Punkt as NLTK has it, learned from the contents "
            "themselves, as its English model comes with no package",
            "MACLR's code: NLTK",
        ),
    ] = "regex"
    finetune_replay: Annotated[
        float,
        Ge(0),
        Doc(
            "weight of the loss on (context, title) pairs beside that on the known pairs, on as many documents a step; "
            "0: none"
        ),
    ] = 0.0

    def _context_pairs(self, tower: Tower, raw_X: Texts) -> ContextPairs:
        from xmcbench.methods.encoder.cloze import context_pairs

        drawn = context_pairs(
            tower.artifacts,
            raw_X,
            tower.tokenizers,
            context_length=tower.fitting(self.instance_length),
            title_length=tower.fitting(self.label_length),
            min_sentences=self.min_sentences,
            title_dropout=self.title_dropout,
            seed=self.seed,
            sentences=self.sentences,
        )
        self.notes["documents_without_a_context"] = drawn.left_out
        return drawn

    def _beside(
        self, tower: Tower, raw_X: Texts, task: ContrastiveTask, identity: dict[str, object]
    ) -> tuple[ContrastiveTask, dict[str, object]]:
        """The (context, title) pairs beside the known ones, where they are replayed."""
        return self._replayed(tower, raw_X, task, identity, self.finetune_batch, self.finetune_replay, self.seed)

    def _replayed(
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
        """A task with ICT beside it, and its identity.

        seed: of the order of ICT's documents. held_out: documents that it does not see, int.
        """
        import numpy as np

        from xmcbench.methods.encoder.contrastive import InverseCloze, Replayed

        if not weight:
            return task, identity
        drawn = self._context_pairs(tower, raw_X)
        left_out = np.isin(drawn.rows, [] if held_out is None else held_out)
        replayed = InverseCloze(drawn, batch, tower.temperature, seed, np.flatnonzero(~left_out))
        said = [drawn.contexts.folder.name, weight, int(left_out.sum())]
        return Replayed(task, replayed, weight), {**identity, "replayed": said}
