"""Presets of NGAME."""

from __future__ import annotations

from xmcbench.methods.presets.budgets import FINETUNING, GPU, HOUR, QUICK, SMALL

#: Values of a shared budget that are about pairs.
_OF_PAIRS = (*FINETUNING, "instance_length", "label_length")


def _budget(values: dict[str, object], **own: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if name in _OF_PAIRS} | own


PRESETS: dict[str, dict[str, object]] = {
    "quick": _budget(QUICK, classifier_epochs=2),
    "small": _budget(SMALL),
    "hour": _budget(HOUR, finetune_steps=1600),
    "gpu": _budget(GPU),
}
#: Preset -> where its values come from: a source, or the commands by which they were chosen.
CHOICES = {
    "quick": "a budget of minutes on two cores; nothing was chosen",
    "small": "the fine-tuning of ICT; the classifiers:\n"
    "xmcbench run --dataset lf-debian-20k-dev --setting full --methods ngame:small\n"
    "xmcbench run --dataset lf-debian-20k-dev --setting full --methods ngame:small "
    "--set ngame.classifier_dropout=0.5\n"
    "xmcbench run --dataset lf-debian-20k-dev --setting full --methods ngame:small --set ngame.d=3\n"
    "xmcbench run --dataset lf-debian-20k-dev --setting full --methods ngame:small --set ngame.fusion=0.5",
    "hour": "the fine-tuning of ICT, for longer; nothing else was chosen",
    "gpu": "the fine-tuning of ICT; nothing else was chosen",
}
