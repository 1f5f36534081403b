"""Training budgets that several encoders share as presets: a few minutes per row on two cores."""

from __future__ import annotations

#: ``small``: starts from a checkpoint that is already a sentence encoder.
SMALL: dict[str, object] = {
    "instance_length": 64,
    "label_length": 32,
    "steps": 60,
    "batch": 32,
    "learning_rate": 2e-5,
    "finetune_steps": 60,
    "finetune_batch": 32,
    "finetune_rate": 2e-5,
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
}
