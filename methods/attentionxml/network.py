"""The network of a level, the sequences of words that it reads, its training, and the search from level to level."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.optim.swa_utils import AveragedModel

from xmcbench import Texts, TopK
from xmcbench.methods.deepxml import network as loop
from xmcbench.methods.label_tree.tree import Level, shortlist
from xmcbench.methods.words.vocabulary import Vocabulary


@dataclass(frozen=True)
class Sequences:
    """n texts: the known words of text i, in order, are ``words[starts[i]:starts[i + 1]]``. starts: int64 [n + 1].
    words: int32, their numbers in the vocabulary."""

    starts: np.ndarray
    words: np.ndarray

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of(cls, texts: Texts, vocabulary: Vocabulary, length: int) -> Sequences:
        """The first ``length`` known words of each text. Unknown words leave no gap."""
        sizes, words = [np.zeros(1, np.int64)], [np.empty(0, np.int32)]
        for batch in texts.batches():
            codes, rows = vocabulary.codes(batch)
            counts = np.bincount(rows, minlength=len(batch))
            places = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
            sizes.append(np.minimum(counts, length))
            words.append(codes[places < length])
        return cls(np.cumsum(np.concatenate(sizes)), np.concatenate(words))

    @property
    def lengths(self) -> np.ndarray:
        """Number of words of each text, int64 [n]."""
        return np.diff(self.starts)

    def take(self, rows: np.ndarray) -> Sequences:
        """The texts of these rows, in that order."""
        lengths = self.lengths[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(starts[-1]) + np.repeat(self.starts[:-1][rows] - starts[:-1], lengths)
        return Sequences(starts, self.words[places])

    def pad(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The words of these texts, int64 [m, longest], and how many each text has, int64 [m]. Beyond its end, a text
        has its last word: padding looks up no word that the text does not have."""
        lengths = self.lengths[rows]
        within = np.minimum(np.arange(lengths.max(initial=0)), lengths[:, None] - 1)
        return self.words[self.starts[:-1][rows][:, None] + within].astype(np.int64), lengths


class AttentionNetwork(nn.Module):  # type: ignore[misc] # torch counts as untyped
    """Sequences of words in, a logit per (sequence, node) out (You et al., NeurIPS 2019, section 3). With the
    states h_i of the LSTM, node j attends to position i of a text with a_ij = softmax_i(h_i . w_j), and sees m_j =
    sum_i a_ij h_i. The layers behind it have the same weights for all nodes, so that nodes differ in w_j alone. The
    gradients of the word vectors and of the w_j are sparse: a step costs what its words and nodes cost."""

    def __init__(
        self, vectors: np.ndarray, nodes: int, hidden: int, connected: Sequence[int], dropouts: tuple[float, float]
    ) -> None:
        """Start from word vectors, float32 [V, d] with V at least 1. nodes: K. hidden: width of the LSTM in each
        direction. connected: widths of the fully connected layers. dropouts: of word vectors and of states."""
        super().__init__()
        self.words = nn.Embedding.from_pretrained(torch.from_numpy(vectors.copy()), freeze=False, sparse=True)
        self.lstm = nn.LSTM(vectors.shape[1], hidden, batch_first=True, bidirectional=True)
        self.attention = nn.Embedding(nodes, 2 * hidden, sparse=True)
        widths = [2 * hidden, *connected]
        self.connected = nn.ModuleList([nn.Linear(*sizes) for sizes in pairwise(widths)])
        self.output = nn.Linear(widths[-1], 1)
        self.dropouts = nn.ModuleList([nn.Dropout(share) for share in dropouts])
        for layer in (self.attention, *self.connected, self.output):
            nn.init.xavier_uniform_(layer.weight)

    @property
    def nodes(self) -> int:
        """K."""
        return int(self.attention.num_embeddings)

    def start_from(self, above: AttentionNetwork) -> None:
        """Take all weights but the attention from the network of the level above (section 3)."""
        kept = {name: value for name, value in above.state_dict().items() if not name.startswith("attention.")}
        self.load_state_dict({**self.state_dict(), **kept})

    def start_at(self, share: float) -> None:
        """Let the output begin at the logit of a share: that of the nodes that a text has, on the first level. From 0,
        the first steps would only push all outputs down."""
        nn.init.constant_(self.output.bias, float(torch.logit(torch.tensor(share), eps=1e-6)))

    def forward(self, words: np.ndarray, lengths: np.ndarray, nodes: torch.Tensor | None = None) -> torch.Tensor:
        """The logits of each text for its nodes, [n, m], or for all K, [n, K], without nodes. words: int64 [n, T].
        lengths: int64 [n], from 1 to T. nodes: int64 [n, m]."""
        states = self._states(words, lengths)
        device = states.device
        if nodes is None:
            vectors = self.attention(torch.arange(self.nodes, device=device))[None]
        else:
            # Each node is looked up once: a gradient with a row for every occurrence would be many times as large.
            distinct, places = torch.unique(nodes, return_inverse=True)
            vectors = self.attention(distinct)[places]
        scores = vectors @ states.transpose(1, 2)
        padding = torch.arange(states.shape[1], device=device) >= torch.from_numpy(lengths).to(device)[:, None]
        attention = scores.masked_fill(padding[:, None], -torch.inf).softmax(dim=2)
        # The first layer is linear and the attention sums to 1: W (sum_i a_ij h_i) + b = sum_i a_ij (W h_i + b). On the
        # right the layer is computed per position, not per node, of which there are more.
        hidden = torch.relu(attention @ self.connected[0](states))
        for layer in self.connected[1:]:
            hidden = torch.relu(layer(hidden))
        logits: torch.Tensor = self.output(hidden).squeeze(2)
        return logits

    def _states(self, words: np.ndarray, lengths: np.ndarray) -> torch.Tensor:
        """The states of the LSTM, [n, T, 2 x hidden]; the backward direction begins at the end of each text."""
        device = self.output.weight.device
        vectors = self.dropouts[0](self.words(torch.from_numpy(words).to(device)))
        packed = pack_padded_sequence(vectors, torch.from_numpy(lengths), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=words.shape[1])
        kept: torch.Tensor = self.dropouts[1](states)
        return kept


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
    guessed: per text, the nodes of the level above that rank first. Its nodes are then at most ``size``: its own,
    their siblings, and those below the guesses, the best guess first, ties drawn. None: all nodes of the level. The
    paper's mean over the nodes only scales the loss, which Adam's step does not depend on."""
    words, lengths = texts.pad(rows)
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
    """Train in place on all ``rows`` in each epoch. Returns [step, mean loss] per epoch. Raises MethodError if it
    diverges. loss_of: the loss of the rows of a step. averaged: last epochs whose weights are averaged; 0 or 1:
    none."""
    mean = AveragedModel(network) if averaged > 1 and epochs else None

    def average(epoch: int) -> None:
        if mean is not None and epoch >= epochs - averaged:
            mean.update_parameters(network)

    batches = loop.shuffle(rows, batch, seed)
    curve = loop.train(
        [(network, rate)], batches, loss_of, epochs=epochs, seed=seed, schedule=loop.constant, after_epoch=average
    )
    if mean is not None:
        network.load_state_dict(mean.module.state_dict())
    return curve


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
