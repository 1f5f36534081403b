"""SentBERT: a pre-trained sentence encoder."""

from __future__ import annotations

from typing import ClassVar

from xmcbench.methods.encoder.dual_encoder import DualEncoder
from xmcbench.methods.presets import CHOICES, PRESETS


class SentBERT(DualEncoder):
    """A Sentence-BERT model under its own pooling (Reimers and Gurevych 2019; MACLR section 5.1).

    MACLR names no checkpoint, so it is a parameter. The preset ``paper`` takes the first published one, trained on
    natural-language inference, which matches its low precision there; ``quick`` takes all-MiniLM-L6-v2, which is
    available without the hub. With pairs it is fine-tuned on them, with the paper's numbers for its own method at 1% of
    the labels.
    """

    title = "SentBERT"
    presets: ClassVar = PRESETS["sentbert"]
    choices: ClassVar = CHOICES["sentbert"]
