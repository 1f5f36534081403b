"""One of several processes that share a batch: writes its loss and gradients. Started by test_processes.py."""

import sys
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import load_npz


def gradients(folder, checkpoint, kind, batch):
    """Loss and gradients of one step on the whole batch, as this process sees them after the exchange."""
    from accelerate import Accelerator

    from xmcbench.methods.encoder.contrastive import KnownPairs, TwoViews
    from xmcbench.methods.encoder.network import open_encoder
    from xmcbench.methods.encoder.tokens import TokenStore
    from xmcbench.methods.encoder.training import Place

    accelerator = Accelerator(cpu=True)
    place = Place(accelerator)
    instances, labels = (TokenStore(Path(line), 0) for line in (folder / "stores.txt").read_text().split())
    network = open_encoder(checkpoint, "native", seed=0)
    if kind == "pairs":
        task = KnownPairs(instances, labels, load_npz(folder / "pairs.npz"), batch, 0.05, seed=3)
    else:
        task = TwoViews(instances, instances, batch, 0.05, seed=3)
    wrapped = accelerator.prepare_model(network) if place.processes > 1 else network
    loss = sum(task.losses(1, wrapped, place).values())
    loss.backward()
    found = {name: each.grad.numpy() for name, each in network.named_parameters()}
    return {"loss": accelerator.reduce(loss.detach(), "mean").numpy(), **found}


if __name__ == "__main__":
    folder, checkpoint, kind, batch = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    torch.set_num_threads(1)
    found = gradients(folder, checkpoint, kind, batch)
    rank = torch.distributed.get_rank()
    np.savez(folder / f"rank{rank}-{kind}.npz", **found)
    torch.distributed.destroy_process_group()
