"""Presets of AttentionXML."""

from __future__ import annotations

PRESETS: dict[str, dict[str, object]] = {
    "quick": {"vectors": "random", "epochs": 5},
    "small": {},
    "paper": {
        "dimensions": 300,
        "length": 500,
        "hidden": 512,
        "connected": 512,
        "connected_second": 256,
        "height": 3,
        "branches": 8,
        "leaf": 8,
        "beam": 160,
        "batch": 200,
        "epochs": 10,
        "learning_rate": 1e-3,
        "trees": 3,
    },
}
#: Preset -> where its values come from: a source, or the commands by which they were chosen.
CHOICES = {
    "paper": "what the paper has for Amazon-670K; its GloVe vectors are those of 840B words of the Web, which the "
    "parameter vectors reads from their file",
    "quick": "a budget of minutes on two cores; nothing was chosen",
    "small": (
        "xmcbench run --dataset lf-debian-20k-dev --setting full --methods attentionxml:small\n"
        "xmcbench run --dataset lf-debian-20k-dev --setting full --methods attentionxml:small "
        "--set attentionxml.learning_rate=0.001"
    ),
}
