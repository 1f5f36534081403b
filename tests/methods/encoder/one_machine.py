"""One of several machines that train together: the same script on each. Started by test_machines.py."""

import os
import signal
import sys
from pathlib import Path

import numpy as np

from xmcbench import Artifacts, Texts
from xmcbench.methods.encoder.contrastive import TwoViews
from xmcbench.methods.encoder.network import open_encoder, open_tokenizer
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.trained import trained
from xmcbench.methods.encoder.training import TrainingPlan


class Killed(TwoViews):
    """A task that ends its process at a step."""

    at = None

    def prepare(self, step, network, context):
        if step == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


def run(root, checkpoint, killed_at=None):
    """Train twice, one after the other, with a checkpoint after each step; the weights of both, and their notes."""
    artifacts = Artifacts(Path(root))
    texts = Texts.from_lists([f"the {a} likes {b}" for a in ("apple", "bridge", "candle") for b in ("red", "green")])
    store = TokenStore.of(artifacts, texts, open_tokenizer(Path(checkpoint)), 16)
    weights, notes = {}, []
    for seed in (5, 6):
        encoder = open_encoder(Path(checkpoint), "native", seed=0)
        task = Killed(store, store, 4, 0.05, seed)
        task.at = killed_at
        notes.append(trained(artifacts, encoder, task, TrainingPlan(6, 1e-3, seed=seed, checkpoint_s=0.0), {}, "cpu"))
        weights |= {f"{seed}/{name}": each for name, each in encoder.weights().items()}
    return weights, notes


if __name__ == "__main__":
    root, checkpoint, killed_at = sys.argv[1:]
    weights, notes = run(root, checkpoint, int(killed_at) if killed_at else None)
    resumed = [note["resumed_at"] for note in notes]
    np.savez(Path(root, "end.npz"), **weights, processes=notes[0]["processes"], resumed=resumed)
