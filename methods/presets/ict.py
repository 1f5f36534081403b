"""Presets of ICT."""

from __future__ import annotations

from xmcbench.methods.presets.budgets import BUDGETS, PAPER_FINETUNING

#: Training instances held out from training: what values are chosen on.
_DEV = "xmcbench run --dataset lf-debian-20k-dev --setting ez --methods ict"

PRESETS: dict[str, dict[str, object]] = {
    "paper": {
        "backbone": "bert-base-uncased",
        "head": "paper",
        "min_sentences": 1,
        "title_dropout": 0.0,
        **PAPER_FINETUNING,
    },
    **BUDGETS,
}
#: Preset -> where its values come from: a source, or the commands by which they were chosen.
CHOICES = {
    "paper": "MACLR, section 5.1",
    "quick": "a budget of minutes on two cores; nothing was chosen",
    "small": (f"{_DEV}:small\n{_DEV}:small --set ict.learning_rate=1e-5\n{_DEV}:small --set ict.learning_rate=5e-5"),
    "hour": "the rate of small; nothing else was chosen",
    "gpu": "for large corpora; the rate of small, nothing else was chosen",
    "scratch": (f"{_DEV}:scratch\n{_DEV}:scratch --set ict.learning_rate=3e-4\n{_DEV}:scratch --set ict.head=paper"),
}
