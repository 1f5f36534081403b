"""Presets and ablation rows of MACLR."""

from __future__ import annotations

from collections.abc import Mapping

from xmcbench.methods.encoder.budgets import SCRATCH, SMALL

#: The parameters that switch a component on, and the rows of the paper's ablation (its section 5.5) with an x for on.
COMPONENTS = ("adaptive_clustering", "label_regularization", "pseudo_encoder", "pseudo_tfidf")
_ROWS = {"1": "----", "2": "x---", "3": "-x--", "4": "xx--", "5": "xxx-", "6": "xx-x", "7": "xxxx"}

ABLATION: dict[str, Mapping[str, object]] = {
    row: dict(zip(COMPONENTS, (each == "x" for each in switches), strict=True)) for row, switches in _ROWS.items()
}

#: Where MACLR at a small budget departs from the paper. Chosen on the training pairs of LF-Debian-20K: scikit-learn's
#: TF-IDF is the better teacher, and labels that are no positives of each other leave the order among them alone.
_DEPARTURES: dict[str, object] = {
    "label_temperature": 0.15,
    "pseudo_own_title": False,
    "pseudo_loss": "apart",
    "pseudo_recipe": "sklearn",
}

#: Training instances held out from training: what the values of ``small`` were chosen on.
_DEV = "xmcbench run --dataset lf-debian-20k-dev --setting ez --methods maclr:small"

CHOICES: dict[str, str] = {
    "paper": "MACLR, section 5.1",
    "reference": "MACLR's code",
    "quick": "a budget of minutes on two cores; what departs from the paper, as in small",
    "small": (
        f"{_DEV}\n"
        f"{_DEV} --set maclr.pseudo_loss=several\n"
        f"{_DEV} --set maclr.pseudo_loss=single\n"
        f"{_DEV} --set maclr.pseudo_recipe=pecos\n"
        f"{_DEV} --set maclr.pseudo_own_title=true\n"
        f"{_DEV} --set maclr.label_temperature=0.05\n"
        f"{_DEV} --set maclr.label_temperature=0.5"
    ),
    "scratch": "the encoder and rate of ICT, and the values of small; nothing else was chosen",
}

PRESETS: dict[str, Mapping[str, object]] = {
    "paper": {"backbone": "bert-base-uncased", "head": "paper"},
    "reference": {
        "backbone": "bert-base-uncased",
        "head": "paper",
        "batch": 128,
        "clusters": 2500,
        "twins": "cluster",
        "pseudo_top": 1,
        "min_pseudo_score": 36.0,
        "pseudo_loss": "single",
        "finetune_steps": 100_000,
        "finetune_batch": 128,
        "finetune_rate": 1e-5,
    },
    "quick": {
        "instance_length": 64,
        "label_length": 32,
        "steps": 20,
        "pseudo_steps": 10,
        "batch": 32,
        "learning_rate": 2e-5,
        "clusters": 256,
        "clusters_doubled_every": 5,
        "clusters_updated_every": 5,
        "cluster_length": 16,
        "kmeans_restarts": 1,
        **_DEPARTURES,
        "finetune_steps": 15,
        "finetune_batch": 32,
        "finetune_rate": 2e-5,
    },
    "small": {
        **SMALL,
        **_DEPARTURES,
        "steps": 40,
        "pseudo_steps": 20,
        "clusters": 2048,
        "clusters_doubled_every": 10,
        "clusters_updated_every": 10,
        "cluster_length": 32,
        "kmeans_restarts": 1,
    },
    "scratch": {
        **SCRATCH,
        **_DEPARTURES,
        "steps": 200,
        "pseudo_steps": 200,
        "clusters": 4096,
        "clusters_doubled_every": 50,
        "clusters_updated_every": 50,
        "cluster_length": 32,
        "kmeans_restarts": 1,
    },
    "gpu": {
        "steps": 3000,
        "pseudo_steps": 1500,
        "learning_rate": 2e-5,
        "clusters": 512,
        "clusters_doubled_every": 300,
        "clusters_updated_every": 300,
        **_DEPARTURES,
        "finetune_steps": 500,
        "finetune_rate": 1e-5,
    },
}
