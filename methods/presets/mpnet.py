"""Presets of MPNet."""

from __future__ import annotations

from xmcbench.methods.presets.budgets import FINETUNING, PAPER_FINETUNING

PRESETS: dict[str, dict[str, object]] = {
    "paper": PAPER_FINETUNING,
    "quick": {**FINETUNING, "instance_length": 128, "finetune_steps": 10, "finetune_batch": 16},
    "small": {**FINETUNING, "instance_length": 128, "finetune_steps": 60, "finetune_batch": 16},
}
#: Preset -> where its values come from: a source, or the commands by which they were chosen.
CHOICES = {
    "paper": "the checkpoint that MACLR, section 5.1, names; fine-tuned as MACLR",
    "quick": "a budget of minutes on two cores; nothing was chosen",
    "small": "the values of SentBERT with half the batch, for a larger encoder; nothing was chosen",
}
