"""SentBERT: a pre-trained sentence encoder."""

from __future__ import annotations

from typing import ClassVar

from xmcbench.methods.encoder.budgets import FINETUNING, PAPER_FINETUNING
from xmcbench.methods.encoder.dual_encoder import DualEncoder

#: Training instances held out from training: what values are chosen on.
_DEV = "xmcbench run --dataset lf-debian-20k-dev --setting fs --ratio 0.01 --methods sentbert"


class SentBERT(DualEncoder):
    """A Sentence-BERT model under its own pooling (Reimers and Gurevych 2019; MACLR section 5.1).

    MACLR names no checkpoint, so it is a parameter. The preset ``paper`` takes the first published one, trained on
    natural-language inference, which matches its low precision there; ``quick`` takes all-MiniLM-L6-v2, which is
    available without the hub. With pairs it is fine-tuned on them, with the paper's numbers for its own method at 1% of
    the labels.
    """

    title = "SentBERT"
    presets: ClassVar = {
        "paper": {"backbone": "sentence-transformers/bert-base-nli-mean-tokens", **PAPER_FINETUNING},
        "quick": {**FINETUNING, "instance_length": 128, "finetune_steps": 10},
        "small": {**FINETUNING, "instance_length": 128, "finetune_steps": 60},
    }
    choices: ClassVar = {
        "paper": "the first checkpoint that Sentence-BERT published; fine-tuned as MACLR, section 5.1",
        "quick": "a budget of minutes on two cores; nothing was chosen",
        "small": (
            f"{_DEV}:small\n"
            f"{_DEV}:small --set sentbert.finetune_rate=5e-6\n"
            f"{_DEV}:small --set sentbert.finetune_rate=5e-5"
        ),
    }
