"""One of several machines that share their work: the same script on each. Started by test_processes.py."""

import os
import signal
import sys
from pathlib import Path

import numpy as np

from xmcbench import Artifacts, Texts
from xmcbench.methods.distributed import processes
from xmcbench.methods.encoder.contrastive import TwoViews
from xmcbench.methods.encoder.encoding import embeddings
from xmcbench.methods.encoder.opening import open_encoder, open_tokenizer
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.tower import train_shared
from xmcbench.methods.encoder.training import TrainingPlan

WORDS = ("apple", "bridge", "candle", "desert", "engine")


class Killed(TwoViews):
    """A task that ends its process at a step."""

    at = None

    def prepare(self, step, network, context):
        if step == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


def run(root, checkpoint, killed_at=None):
    """Train twice, one after the other, with a checkpoint after each step; the weights of both, and their notes.

    Among the weights are the vectors of more texts by the last of them, and the labels that are nearest to each.
    """
    artifacts = Artifacts(Path(root))
    texts = Texts.from_lists([f"the {a} likes {b}" for a in ("apple", "bridge", "candle") for b in ("red", "green")])
    store = TokenStore.of(artifacts, texts, open_tokenizer(Path(checkpoint)), 16)
    weights, notes = {}, []
    for seed in (5, 6):
        encoder = open_encoder(Path(checkpoint), "native", seed=0)
        task = Killed(store, store, 4, 0.05, seed)
        task.at = killed_at
        notes.append(
            train_shared(artifacts, encoder, task, TrainingPlan(6, 1e-3, seed=seed, checkpoint_s=0.0), {}, "cpu")
        )
        weights |= {f"{seed}/{name}": array for name, array in encoder.weights().items()}
    return weights | embed(artifacts, encoder, checkpoint), notes


def embed(artifacts, encoder, checkpoint):
    """The vectors of texts in several batches."""
    lines = [f"the {a} sees {b} and {c}" * 3 for a in WORDS for b in WORDS for c in WORDS]
    store = TokenStore.of(artifacts, Texts.from_lists(lines), open_tokenizer(Path(checkpoint)), 32)
    with embeddings(artifacts, encoder, store, identity={}) as vectors:
        return {"vectors": vectors}


if __name__ == "__main__":
    root, checkpoint, killed_at = sys.argv[1:]
    processes.WORTHWHILE["cpu"] = 0
    weights, notes = run(root, checkpoint, int(killed_at) if killed_at else None)
    resumed = [note["resumed_at"] for note in notes]
    np.savez(Path(root, "end.npz"), **weights, processes=notes[0]["processes"], resumed=resumed)
