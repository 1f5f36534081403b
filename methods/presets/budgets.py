"""Training budgets that several encoders share as presets.

A budget is a number of texts that are embedded with their gradients, equal for ICT, SimCSE, RTS and MACLR: every row's
name says it. What clusters and pseudo labels cost comes on top for MACLR: its record says how long it took.
"""

from __future__ import annotations

#: How the paper fine-tunes (MACLR, section 5.1), where that is not the default.
PAPER_FINETUNING: dict[str, object] = {"negatives": "all", "clip": None, "finetune_growth": "labels"}
#: Fine-tuning of a sentence encoder that is good already: gentle where few pairs are known, as a rate that is right for
#: thousands of pairs makes unseen labels worse where there are hundreds.
FINETUNING: dict[str, object] = {
    "finetune_steps": 60,
    "finetune_batch": 32,
    "finetune_rate": 2e-5,
    "finetune_full_rate": 5500,
}
#: ``quick`` and ``small``: from a checkpoint that is a sentence encoder already.
QUICK: dict[str, object] = {
    **FINETUNING,
    "instance_length": 64,
    "label_length": 32,
    "steps": 12,
    "batch": 32,
    "learning_rate": 2e-5,
    "finetune_steps": 5,
    "finetune_batch": 16,
}
SMALL: dict[str, object] = {**QUICK, "steps": 60, "finetune_steps": 60, "finetune_batch": 32}
#: ``hour``: an hour on two cores. Fine-tuning is short, so that a curve of seven ratios takes less than 1.5 times as
#: many steps as one run.
HOUR: dict[str, object] = {
    **FINETUNING,
    "instance_length": 128,
    "label_length": 32,
    "steps": 1600,
    "batch": 64,
    "learning_rate": 2e-5,
    "finetune_steps": 120,
    "finetune_batch": 64,
}
#: ``gpu``: for corpora of hundreds of thousands of documents, an hour or less on one.
GPU: dict[str, object] = {
    **FINETUNING,
    "steps": 6000,
    "batch": 256,
    "learning_rate": 2e-5,
    "finetune_steps": 500,
    "finetune_batch": 256,
    "finetune_rate": 1e-5,
}
#: ``scratch``: starts from the corpus alone. Rate and head were chosen on the training pairs of LF-Debian-20K: the same
#: training under the head ``paper``, whose inner products are large and saturate it, is far behind.
SCRATCH: dict[str, object] = {
    "backbone": "scratch:2x256",
    "mlm_steps": 500,
    "head": "native",
    "instance_length": 64,
    "label_length": 24,
    "steps": 400,
    "batch": 64,
    "learning_rate": 1e-3,
    "finetune_steps": 100,
    "finetune_batch": 64,
    "finetune_rate": 3e-4,
    "finetune_full_rate": 5500,
}

#: The presets of encoders that are trained without pairs.
BUDGETS: dict[str, dict[str, object]] = {"quick": QUICK, "small": SMALL, "hour": HOUR, "gpu": GPU, "scratch": SCRATCH}
