"""One of several processes that share a batch of MACLR: writes its losses, gradients and clusters.

Started by test_maclr_processes.py.
"""

import sys
from pathlib import Path

import numpy as np
import torch


def gradients(folder, checkpoint, kind):
    """Losses and gradients of one step on the whole batch, as this process sees them after the exchange."""
    from accelerate import Accelerator

    from xmcbench.methods.encoder.network import open_encoder
    from xmcbench.methods.encoder.tokens import TokenStore
    from xmcbench.methods.encoder.training import Place
    from xmcbench.methods.maclr_stages.first_stage import FirstStage, Regularization, Sources
    from xmcbench.methods.maclr_stages.own_titles import OwnTitles
    from xmcbench.methods.maclr_stages.schedule import ClusterSchedule
    from xmcbench.methods.maclr_stages.second_stage import SecondStage

    accelerator = Accelerator(cpu=True)
    place = Place(accelerator)
    instances, labels = (TokenStore(Path(line), 0) for line in (folder / "stores.txt").read_text().split())
    network = open_encoder(checkpoint, "native", seed=0)
    if kind == "second":
        from scipy.sparse import load_npz

        # 7 instances on 2 processes: neither these nor their labels can be shared evenly.
        task = SecondStage(instances, labels, load_npz(folder / "pairs.npz"), 7, 0.5, seed=3)
    else:
        own = OwnTitles(np.arange(len(instances)) % 10, np.arange(len(labels)), 1)
        sources = Sources(instances, instances, instances, np.arange(len(instances)), labels, own)
        schedule, regularization = ClusterSchedule(9, 4, 1, 2), Regularization(5, 0.7, kind)
        task = FirstStage(sources, np.arange(29), schedule, regularization, 12, 0.5, seed=3)
    task.prepare(0, network, place)
    wrapped = accelerator.prepare_model(network) if place.processes > 1 else network
    losses = task.losses(1, wrapped, place)
    sum(losses.values()).backward()
    found = {f"gradient of {name}": each.grad.numpy() for name, each in network.named_parameters()}
    whole = {name: accelerator.reduce(each.detach(), "mean").numpy() for name, each in losses.items()}
    return whole | found | task.state()


if __name__ == "__main__":
    folder, checkpoint, kind = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    found = gradients(folder, checkpoint, kind)
    np.savez(folder / f"rank{torch.distributed.get_rank()}-{kind}.npz", **found)
    torch.distributed.destroy_process_group()
