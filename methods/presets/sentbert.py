"""Presets of SentBERT."""

from __future__ import annotations

from xmcbench.methods.presets.budgets import FINETUNING, PAPER_FINETUNING

#: Training instances held out from training: what values are chosen on.
_DEV = "xmcbench run --dataset lf-debian-20k-dev --setting fs --ratio 0.01 --methods sentbert"

PRESETS: dict[str, dict[str, object]] = {
    "paper": {"backbone": "sentence-transformers/bert-base-nli-mean-tokens", **PAPER_FINETUNING},
    "quick": {**FINETUNING, "instance_length": 128, "finetune_steps": 10},
    "small": {**FINETUNING, "instance_length": 128, "finetune_steps": 60},
}
#: Preset -> where its values come from: a source, or the commands by which they were chosen.
CHOICES = {
    "paper": "the first checkpoint that Sentence-BERT published; fine-tuned as MACLR, section 5.1",
    "quick": "a budget of minutes on two cores; nothing was chosen",
    "small": (
        f"{_DEV}:small\n{_DEV}:small --set sentbert.finetune_rate=5e-6\n{_DEV}:small --set sentbert.finetune_rate=5e-5"
    ),
}
