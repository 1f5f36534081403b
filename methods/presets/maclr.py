"""Presets and ablation rows of MACLR."""

from __future__ import annotations

from collections.abc import Mapping

from xmcbench.methods.presets.budgets import GPU, HOUR, PAPER_FINETUNING, QUICK, SCRATCH, SMALL

#: The parameters that switch a component on, and the rows of the paper's ablation (its section 5.5) with an x for on.
COMPONENTS = ("adaptive_clustering", "label_regularization", "pseudo_encoder", "pseudo_tfidf")
_ROWS = {"1": "----", "2": "x---", "3": "-x--", "4": "xx--", "5": "xxx-", "6": "xx-x", "7": "xxxx"}

ABLATION: dict[str, Mapping[str, object]] = {
    row: dict(zip(COMPONENTS, (each == "x" for each in switches), strict=True)) for row, switches in _ROWS.items()
}

#: The paper's numbers that are not defaults, and what it omits: title removal, limits of gradient and negatives.
_PAPER: dict[str, object] = {
    "backbone": "bert-base-uncased",
    "head": "paper",
    "min_sentences": 1,
    "title_dropout": 0.0,
    **PAPER_FINETUNING,
}

#: The authors' code where it departs from the paper. Its clip of 1 comes after a division by 8 processes.
_CODE: dict[str, object] = {
    "backbone": "bert-base-uncased",
    "head": "paper",
    "precision": "fp16",
    "sentences": "punkt",
    "min_sentences": 2,
    "title_dropout": 0.9,
    "negatives": "all",
    "clip": 8.0,
    "batch": 128,
    "clusters": 2500,
    "kmeans_points": 1000,
    "twins": "cluster",
    "pseudo_top": 1,
    "pseudo_twice": True,
    "min_pseudo_score": 36.0,
    "pseudo_loss": "equation-2",
    "finetune_steps": 100_000,
    "finetune_batch": 128,
    "finetune_rate": 1e-5,
}

#: Where MACLR at our budgets departs from the paper. ``scratch`` does not take agreement: its encoder knows too little
#: after Stage I. It regularizes labels at the temperature of its other losses, which is better on both dev datasets.
_DEPARTURES: dict[str, object] = {
    "label_temperature": 0.15,
    "pseudo_own_title": False,
    "pseudo_recipe": "sklearn",
    "pseudo_mix": "agreement",
    "pseudo_top": 1,
    "pseudo_loss": "equation-2",
}


def _clusters(first: int, doubled_every: int, length: int) -> dict[str, object]:
    """K0, both periods, and the tokens that clusters depend on."""
    return {
        "clusters": first,
        "clusters_doubled_every": doubled_every,
        "clusters_updated_every": doubled_every,
        "cluster_length": length,
        "kmeans_restarts": 1,
    }


PRESETS: dict[str, Mapping[str, object]] = {
    "paper": _PAPER,
    "reference": _CODE,
    "quick": {**QUICK, **_DEPARTURES, "steps": 4, "pseudo_steps": 4, **_clusters(256, 2, 16)},
    "small": {**SMALL, **_DEPARTURES, "steps": 20, "pseudo_steps": 20, **_clusters(2048, 5, 32)},
    "hour": {**HOUR, **_DEPARTURES, "steps": 640, "pseudo_steps": 480, **_clusters(2048, 160, 32)},
    "gpu": {**GPU, **_DEPARTURES, "steps": 2560, "pseudo_steps": 2000, **_clusters(2048, 320, 128)},
    "scratch": {
        **SCRATCH,
        **_DEPARTURES,
        "label_temperature": 0.05,
        "pseudo_mix": "sum",
        "steps": 114,
        "pseudo_steps": 200,
        **_clusters(4096, 25, 32),
    },
}

#: Preset -> where its values come from: a source, or the commands by which they were chosen.
CHOICES = {
    "paper": "MACLR, section 5.1",
    "reference": "MACLR's code",
    "quick": "a budget of minutes on two cores; what departs from the paper, as in small",
    "small": "lf-debian-20k-dev and lf-yso-abstracts-dev, in the committed records: pseudo_mix, three seeds; "
    "label_temperature, pseudo_top, pseudo_loss, pseudo_own_title and pseudo_recipe, one run of each",
    "hour": "the values of small; nothing else was chosen",
    "gpu": "the values of small; nothing else was chosen",
    "scratch": "lf-debian-20k-dev and lf-yso-abstracts-dev, in the committed records: label_temperature, "
    "pseudo_top, the sources of pseudo labels and the two numbers of steps; the encoder and rate of ICT; "
    "pseudo_mix was not compared",
}
