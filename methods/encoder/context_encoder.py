"""The base class of encoders that learn from the context and the title of documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge, Interval, Unit

from xmcbench import Doc
from xmcbench.methods.encoder.pretrained_encoder import PretrainedEncoder

if TYPE_CHECKING:
    from xmcbench import Texts
    from xmcbench.methods.encoder.cloze import ContextPairs
    from xmcbench.methods.encoder.tower import Tower


class ContextEncoder(PretrainedEncoder):
    """An encoder that is trained on (context, title) pairs of documents (MACLR, section 4.2)."""

    min_sentences: Annotated[
        int,
        Ge(1),
        Unit("sentences"),
        Doc(
            "of the content of a document; those with fewer have no context and are left out; their number is noted",
            "MACLR's code",
        ),
    ] = 2
    title_dropout: Annotated[
        float,
        Interval(ge=0, le=1),
        Doc("probability that a sentence of the context loses the title's string", "MACLR's code"),
    ] = 0.9

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
        )
        self.notes["documents_without_a_context"] = drawn.left_out
        return drawn
