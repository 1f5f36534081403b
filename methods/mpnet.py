"""MPNet: the paraphrase model of sentence-transformers."""

from __future__ import annotations

from typing import ClassVar

from xmcbench.methods.encoder.budgets import FINETUNING, PAPER_FINETUNING
from xmcbench.methods.encoder.dual_encoder import DualEncoder


class MPNet(DualEncoder):
    """paraphrase-mpnet-base-v2 with its mean pooling (Song et al. 2020; MACLR section 5.1, Paraphrase MPNet).

    The weights come from the hub or its cache. With pairs it is fine-tuned on them.
    """

    title = "MPNet"
    presets: ClassVar = {
        "paper": PAPER_FINETUNING,
        "quick": {**FINETUNING, "instance_length": 128, "finetune_steps": 10, "finetune_batch": 16},
        "small": {**FINETUNING, "instance_length": 128, "finetune_steps": 60, "finetune_batch": 16},
    }
    choices: ClassVar = {
        "paper": "the checkpoint that MACLR, section 5.1, names; fine-tuned as MACLR",
        "quick": "a budget of minutes on two cores; nothing was chosen",
        "small": "the values of SentBERT with half the batch, for a larger encoder; nothing was chosen",
    }

    backbone = "sentence-transformers/paraphrase-mpnet-base-v2"
