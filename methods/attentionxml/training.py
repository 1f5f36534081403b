"""The training of the network of a level: Adam at a constant rate, and the mean of the weights of the last epochs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch.optim.swa_utils import AveragedModel

from xmcbench import TopK
from xmcbench.methods.attentionxml.network import AttentionNetwork
from xmcbench.methods.attentionxml.sequences import Sequences
from xmcbench.methods.deepxml import training as loop
from xmcbench.methods.label_tree.shortlist import shortlist
from xmcbench.methods.label_tree.tree import Level


def level_loss(
    network: AttentionNetwork,
    texts: Sequences,
    level: Level,
    guessed: TopK | None,
    size: int,
    seed: int,
    rows: np.ndarray,
) -> torch.Tensor:
    """Mean over these texts of the binary cross-entropy, summed over their nodes (You et al., NeurIPS 2019, section 3).

    guessed: for each text, the nodes of the level above that are ranked first. Its nodes are then at most ``size``: its
    own, their siblings, and what is below the guesses, the best guess first; among equals as many as are drawn. None:
    all nodes of the level.

    The paper takes the mean over the nodes too. Adam's step does not depend on the scale of a loss, unless gradients
    become as small as its epsilon.
    """
    words, lengths = texts.padded(rows)
    device = network.output.weight.device
    if guessed is None:
        true = level.labels[rows].toarray() > 0
        kept = np.ones(true.shape, bool)
        logits = network(words, lengths)
    else:
        part = Level(level.children, level.labels[rows])
        nodes, shares = shortlist(part, TopK(guessed.indices[rows], guessed.scores[rows]), size, seed)
        true, kept = shares > 0, nodes >= 0
        # Padding looks up a node of the same text: any other would move, by its momentum, though its gradient is 0.
        logits = network(words, lengths, torch.from_numpy(np.where(kept, nodes, nodes[:, :1])).to(device))
    costs = torch.nn.functional.binary_cross_entropy_with_logits(
        logits, torch.from_numpy(true).to(device, logits.dtype), reduction="none"
    )
    return (costs * torch.from_numpy(kept).to(device)).sum() / len(rows)


def train(
    network: AttentionNetwork,
    loss_of: Callable[[np.ndarray], torch.Tensor],
    rows: int,
    *,
    batch: int,
    epochs: int,
    rate: float,
    averaged: int,
    seed: int,
) -> list[list[float]]:
    """Train in place on all ``rows`` in each epoch. Returns [step, mean loss] per epoch.

    loss_of: the loss of the rows of a step. averaged: the weights become the mean of those at the ends of this many of
    the last epochs (stochastic weight averaging); with 0 or 1 they are the last ones. Raises MethodError where a loss
    is NaN or infinite.
    """
    mean = AveragedModel(network) if averaged > 1 and epochs else None

    def average(epoch: int) -> None:
        if mean is not None and epoch >= epochs - averaged:
            mean.update_parameters(network)

    batches = loop.shuffled(rows, batch, seed)
    curve = loop.train(
        [(network, rate)], batches, loss_of, epochs=epochs, seed=seed, schedule=loop.constant, after_epoch=average
    )
    if mean is not None:
        network.load_state_dict(mean.module.state_dict())
    return curve
