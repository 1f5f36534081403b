"""One of several processes that share a batch: writes losses, gradients and state of each kind of task.

Started by test_processes.py.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import load_npz


def gradients(folder, checkpoint, kind):
    """Losses and gradients of one step on the whole batch, as this process sees them after the exchange."""

    from xmcbench.methods.encoder.opening import open_encoder
    from xmcbench.methods.encoder.training import DistributedContext

    context = DistributedContext.of("cpu")
    accelerator = context.accelerator
    network, task = open_encoder(checkpoint, "native", seed=0), _task(folder, kind)
    task.prepare(0, network, context)
    wrapped = accelerator.prepare_model(network) if context.processes > 1 else network
    losses = task.losses(1, wrapped, context)
    sum(losses.values()).backward()
    found = {f"gradient of {name}": parameter.grad.numpy() for name, parameter in network.named_parameters()}
    whole = {name: accelerator.reduce(loss.detach(), "mean").numpy() for name, loss in losses.items()}
    return whole | found | task.state()


def _task(folder, kind):
    from xmcbench import TopK
    from xmcbench.methods.encoder.cloze import ContextPairs
    from xmcbench.methods.encoder.contrastive import KnownPairs, Replayed, TwoViews
    from xmcbench.methods.encoder.tokens import TokenStore
    from xmcbench.methods.maclr.first_stage import ClusterSchedule, FirstStage, Regularization, Sources
    from xmcbench.methods.maclr.pseudo_pairs import OwnTitles, PseudoPairs
    from xmcbench.methods.maclr.second_stage import HardNegatives, SecondStage, SoftTargets

    instances, labels = (TokenStore(Path(line), 0) for line in (folder / "stores.txt").read_text().split())
    if kind == "views":
        return TwoViews(instances, instances, 12, 0.05, seed=3)
    if kind == "pairs":
        return KnownPairs(instances, labels, load_npz(folder / "pairs.npz"), 12, 0.05, seed=3)
    ranking = TopK.from_scores(np.random.default_rng(0).random((len(instances), len(labels))), 8)
    if kind == "pseudo pairs":
        known = load_npz(folder / "pairs.npz").tocoo()
        pairs, hard = PseudoPairs(known.row, known.col, known.shape), HardNegatives(ranking, len(labels), 1, 3, 8)
        return SecondStage(instances, labels, pairs, 12, 0.5, seed=3, negatives="untrue", hard=hard, margin=0.01)
    if kind == "soft targets":
        return SoftTargets(instances, labels, ranking, 8, 0.5, seed=3, length=3, sharpness=0.2)
    if kind == "replayed":
        known = KnownPairs(instances, labels, load_npz(folder / "pairs.npz"), 12, 0.05, seed=3, balanced=True)
        return Replayed(known, TwoViews(instances, instances, 8, 0.05, seed=3), 0.5)
    own = OwnTitles(np.arange(len(instances)) % 10, np.arange(len(labels)), 1)
    drawn = ContextPairs(instances, instances, np.arange(len(instances)), 0, 1)
    sources = Sources(drawn, instances, labels, own)
    schedule, regularization = ClusterSchedule(9, 4, 1, 2), Regularization(5, 0.7, kind.removesuffix(" twins"))
    return FirstStage(sources, np.arange(29), schedule, regularization, 12, 0.5, seed=3)


if __name__ == "__main__":
    folder, checkpoint, kinds = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    torch.set_num_threads(1)
    for kind in kinds:
        found = gradients(folder, checkpoint, kind)
        np.savez(folder / f"{kind} {torch.distributed.get_rank()}.npz", **found)
    torch.distributed.destroy_process_group()
