"""Presets of RTS."""

from __future__ import annotations

from xmcbench.methods.presets.budgets import BUDGETS

PRESETS: dict[str, dict[str, object]] = {
    "wikipedia": {"min_words": 80, "max_words": 160, "batch": 256},
    **BUDGETS,
}
#: Preset -> where its values come from: a source, or the commands by which they were chosen.
CHOICES = {
    "wikipedia": "Zhang et al. 2022, for LF-WikiSeeAlso-320K and LF-Wikipedia-500K",
    "quick": "a budget of minutes on two cores; nothing was chosen",
    "small": "the values of ICT, so that the two are compared at equal budgets; nothing was chosen",
    "hour": "the values of ICT, so that the two are compared at equal budgets; nothing was chosen",
    "gpu": "the values of ICT, so that the two are compared at equal budgets; nothing was chosen",
    "scratch": "the values of ICT, so that the two are compared at equal budgets; nothing was chosen",
}
