"""From the root of a tree down to the labels: which nodes are kept on a level, and which are scored on the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from scipy.sparse import csr_matrix

from xmcbench import TopK
from xmcbench.methods.attentionxml.network import AttentionNetwork, Sequences

#: Floats of the largest intermediate results of the texts that are scored at a time.
_FLOATS = 32_000_000
#: Texts that are scored at a time, at most.
_TEXTS = 512


def count_kept_nodes(children: Sequence[csr_matrix], beam: int, k: int) -> list[int]:
    """Numbers of nodes of each level that a prediction of k labels keeps: ``beam``, or more where it has too few
    labels. children: of each level, binary CSR [nodes above, nodes]. The last number is that of the labels."""
    needed = [min(k, children[-1].shape[1])]
    for below in reversed(children[1:]):
        fewest = np.cumsum(np.sort(np.diff(below.indptr)))
        # So many of the nodes with the fewest children have enough of them, whichever nodes are kept.
        enough = int(np.searchsorted(fewest, needed[0])) + 1
        needed.insert(0, min(max(beam, enough), len(fewest)))
    return needed


def child_table(children: csr_matrix) -> np.ndarray:
    """The children of each node as a rectangle, int64 [nodes above, most children], filled up with -1."""
    sizes = np.diff(children.indptr)
    there = np.arange(sizes.max(initial=0)) < sizes[:, None]
    found = np.full(there.shape, -1, np.int64)
    found[there] = children.indices
    return found


def rank_nodes(
    network: AttentionNetwork, texts: Sequences, below: np.ndarray | None, above: TopK | None, kept: int
) -> TopK:
    """Return the ``kept`` nodes of a level with the largest probability along their path; scores are its logarithm.
    above: the result for the level above, below: the ``child_table`` between the two; None for the first level."""
    width = network.nodes if above is None or below is None else above.k * below.shape[1]
    longest = int(texts.lengths.max(initial=1))
    floats = width * (2 * longest + 2 * network.attention.embedding_dim)
    step = max(1, min(_TEXTS, _FLOATS // floats))
    training = network.training
    network.eval()
    with torch.inference_mode():
        parts = [
            _rank(network, texts, np.arange(start, min(start + step, len(texts))), below, above, kept)
            for start in range(0, len(texts), step)
        ]
    network.train(training)
    return TopK.joined(parts, kept)


def _rank(
    network: AttentionNetwork,
    texts: Sequences,
    rows: np.ndarray,
    below: np.ndarray | None,
    above: TopK | None,
    kept: int,
) -> TopK:
    if above is None or below is None:
        nodes, logs = np.broadcast_to(np.arange(network.nodes), (len(rows), network.nodes)), np.zeros(1, np.float32)
        logits = network(*texts.pad(rows))
    else:
        parents = above.indices[rows]
        nodes = np.where(parents[:, :, None] >= 0, below[parents], -1).reshape(len(rows), -1)
        logs = np.repeat(above.scores[rows], below.shape[1], axis=1)
        candidates = torch.from_numpy(nodes.clip(min=0)).to(network.output.weight.device)
        logits = network(*texts.pad(rows), candidates)
    logs = logs + torch.nn.functional.logsigmoid(logits).cpu().numpy()
    found = TopK.ranked(nodes, logs)
    return TopK(found.indices[:, :kept], found.scores[:, :kept])


def rank_labels(
    networks: Sequence[AttentionNetwork], children: Sequence[csr_matrix], texts: Sequences, beam: int, k: int
) -> csr_matrix:
    """The k best labels of a tree that the beam reaches: CSR float32 [n, L] of the products of the probabilities.
    networks, children: of each level, from the root down. Products are above 0, so that each of them is stored."""

    found: TopK | None = None
    kept = count_kept_nodes(children, beam, k)
    for place, (network, level) in enumerate(zip(networks, children, strict=True)):
        found = rank_nodes(network, texts, child_table(level) if place else None, found, kept[place])
    assert found is not None, "a tree has a level"
    rows, places = np.nonzero(found.indices >= 0)
    products = np.maximum(np.exp(found.scores[rows, places]), np.finfo(np.float32).tiny)
    return csr_matrix((products, (rows, found.indices[rows, places])), shape=(len(texts), children[-1].shape[1]))


def mean_scores(scores: Iterable[csr_matrix]) -> csr_matrix:
    """The mean over the trees; a label that a tree does not rank has 0 there."""
    parts = list(scores)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total / np.float32(len(parts))
