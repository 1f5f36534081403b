"""The network of a level: word vectors, a bidirectional LSTM, an attention for each node, layers that nodes share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class AttentionNetwork(nn.Module):  # type: ignore[misc] # torch counts as untyped
    """Sequences of words in, a logit for each (sequence, node) out (You et al., NeurIPS 2019, section 3).

    With the states h_i of the LSTM, node j attends to position i of a text with a_ij = softmax_i(h_i . w_j), and sees
    m_j = sum_i a_ij h_i. The layers behind it have the same weights for all nodes, so that nodes differ in w_j alone.

    The gradients of the word vectors and of the w_j are sparse: a step costs what its words and nodes cost.
    """

    def __init__(
        self, vectors: np.ndarray, nodes: int, hidden: int, connected: Sequence[int], dropouts: tuple[float, float]
    ) -> None:
        """vectors: float32 [V, d], V at least 1, where the word vectors start. nodes: K. hidden: width of the LSTM in
        each direction. connected: widths of the fully connected layers, one at least. dropouts: the share of the word
        vectors, and of the states of the LSTM, that training drops.
        """
        super().__init__()
        self.words = nn.Embedding.from_pretrained(torch.from_numpy(vectors.copy()), freeze=False, sparse=True)
        self.lstm = nn.LSTM(vectors.shape[1], hidden, batch_first=True, bidirectional=True)
        self.attention = nn.Embedding(nodes, 2 * hidden, sparse=True)
        widths = [2 * hidden, *connected]
        self.connected = nn.ModuleList([nn.Linear(*each) for each in pairwise(widths)])
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
        """Let the output begin at the logit of a share: that of the nodes that a text has, on the first level.

        From 0, the first steps would do nothing but push all outputs down.
        """
        nn.init.constant_(self.output.bias, float(torch.logit(torch.tensor(share), eps=1e-6)))

    def forward(self, words: np.ndarray, lengths: np.ndarray, nodes: torch.Tensor | None = None) -> torch.Tensor:
        """The logits of each text for its nodes, [n, m], or for all K of them, [n, K], where none are given.

        words: int64 [n, T], what is beyond a text's length counts nothing. lengths: int64 [n], each from 1 to T. nodes:
        int64 [n, m].
        """
        states = self._states(words, lengths)
        device = states.device
        if nodes is None:
            vectors = self.attention(torch.arange(self.nodes, device=device))[None]
        else:
            # Each node is looked up once: a gradient with a row for every occurrence would be many times as large.
            each, places = torch.unique(nodes, return_inverse=True)
            vectors = self.attention(each)[places]
        scores = vectors @ states.transpose(1, 2)
        padding = torch.arange(states.shape[1], device=device) >= torch.from_numpy(lengths).to(device)[:, None]
        attention = scores.masked_fill(padding[:, None], -torch.inf).softmax(dim=2)
        # The first layer is linear and the attention sums to 1: W (sum_i a_ij h_i) + b = sum_i a_ij (W h_i + b). On the
        # right the layer is computed for each position, not for each node, of which there are more.
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
