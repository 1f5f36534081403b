"""Presets of SimCSE."""

from __future__ import annotations

from xmcbench.methods.presets.budgets import BUDGETS, PAPER_FINETUNING

#: Training instances held out from training: what values are chosen on.
_DEV = "xmcbench run --dataset lf-debian-20k-dev --setting ez --methods simcse"

PRESETS: dict[str, dict[str, object]] = {
    "paper": {"backbone": "bert-base-uncased", "head": "cls", **PAPER_FINETUNING, "clip": 1.0},
    **BUDGETS,
}
#: Preset -> where its values come from: a source, or the commands by which they were chosen.
CHOICES = {
    "paper": "Gao et al. 2021, appendix A, for BERT-base",
    "quick": "a budget of minutes on two cores; nothing was chosen",
    "small": (
        f"{_DEV}:small\n{_DEV}:small --set simcse.learning_rate=1e-5\n{_DEV}:small --set simcse.learning_rate=5e-5"
    ),
    "hour": "the values of ICT, so that the two are compared at equal budgets; nothing was chosen",
    "gpu": "the values of ICT, so that the two are compared at equal budgets; nothing was chosen",
    "scratch": "the values of ICT, so that the two are compared at equal budgets; nothing was chosen",
}
