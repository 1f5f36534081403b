"""MPNet: the paraphrase model of sentence-transformers."""

from __future__ import annotations

from typing import ClassVar

from xmcbench.methods.encoder.dual_encoder import DualEncoder
from xmcbench.methods.presets import CHOICES, PRESETS


class MPNet(DualEncoder):
    """paraphrase-mpnet-base-v2 with its mean pooling (Song et al. 2020; MACLR section 5.1, Paraphrase MPNet).

    The weights come from the hub or its cache. With pairs it is fine-tuned on them.
    """

    title = "MPNet"
    presets: ClassVar = PRESETS["mpnet"]
    choices: ClassVar = CHOICES["mpnet"]

    backbone = "sentence-transformers/paraphrase-mpnet-base-v2"
