"""A training that a test kills: run as a script it ends itself with SIGKILL at a step; imported it runs through."""

import os
import signal
import sys
from pathlib import Path


def run(artifacts_root, checkpoint, killed_at=None):
    """Train for 120 steps, two a point of the loss curve, with a checkpoint after each; returns weights and note."""
    import torch

    from xmcbench import Artifacts, Texts
    from xmcbench.methods.encoder.contrastive import TwoViews
    from xmcbench.methods.encoder.opening import open_encoder, open_tokenizer
    from xmcbench.methods.encoder.tokens import TokenStore
    from xmcbench.methods.encoder.tower import train_shared
    from xmcbench.methods.encoder.training import TrainingPlan

    class Killed(TwoViews):
        def prepare(self, step, network, context):
            if step == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)

    torch.set_num_threads(1)  # numba sets the number anew in a process where it has compiled in parallel
    artifacts = Artifacts(Path(artifacts_root))
    texts = Texts.from_lists([f"the {a} likes {b}" for a in ("apple", "bridge", "candle") for b in ("red", "green")])
    store = TokenStore.of(artifacts, texts, open_tokenizer(Path(checkpoint)), 16)
    encoder = open_encoder(Path(checkpoint), "native", seed=0, projection=True)
    plan = TrainingPlan(120, 1e-3, seed=5, checkpoint_s=0.0)
    note = train_shared(artifacts, encoder, Killed(store, store, 4, 0.05, 5), plan, {"kind": "test"}, "cpu")
    return encoder.weights(), note


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], int(sys.argv[3]))
