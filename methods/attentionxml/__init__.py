"""AttentionXML: a network with an attention per node on every level of a shallow tree of labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Unit

from xmcbench import Doc, Method, Texts, TopK
from xmcbench.methods.declarations import AboveZero, Documents, Natural, Positive, ShareBelowOne, Words
from xmcbench.methods.deepxml.bags import NO_PATHS, VECTORS
from xmcbench.methods.presets import CHOICES, PRESETS

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench.methods.attentionxml.network import AttentionNetwork, Sequences
    from xmcbench.methods.label_tree.tree import Level

_PAPER = "AttentionXML, section 4 and Table 2"
#: Texts whose labels are ranked at a time.
_ROWS = 16_384


class AttentionXML(Method):
    """An attention over words per node of a shallow label tree (You et al., NeurIPS 2019).

    Labels are clustered by the mean TF-IDF features of their instances into a tree with few levels. Each level has a
    network: word vectors, a bidirectional LSTM over the words in their order, and, per node, an attention over the
    positions of the text, and layers with the same weights for all nodes, which say how probable it is that a label of
    the text is below the node. The first level is trained on all of its nodes; each further level on those of the text,
    their siblings, and those below the nodes that the level above ranks first, by binary cross-entropy. It starts from
    the network of the level above, except for the attention. The last level is the labels.

    A prediction follows ``beam`` nodes from level to level, more where these do not have k labels. The score of a label
    is the product of the probabilities along its path, and with several trees the mean of those among the first k of
    each tree.

    No text of a label is read, so a label without a known pair is never predicted. Instances without a pair, or without
    a known word, are not trained on, and the latter have no prediction; how many there are is in the notes. All of it
    runs in one process, whatever ``--processes`` says.

    The defaults train in 24 minutes on one core with the 10,379 documents of LF-Debian-20K-dev and the 14,547 labels
    that they have. In that time the paper's learning rate is too low. Against the paper, texts are cut at 64 words,
    not 500, the network is narrower, the tree has one level above the labels, and there is one tree. At any size,
    unknown words are left out, the first level starts at the share of its nodes that texts have, and word vectors are
    scaled to a mean length of 1.
    """

    title = "AttentionXML"
    supervision = "required"
    described: ClassVar[tuple[str, ...]] = ("epochs", "trees")
    needs: ClassVar = {"gpu": 1}
    packages: ClassVar = {"torch": "torch", "numba": "numba"}
    presets: ClassVar = PRESETS["attentionxml"]
    choices: ClassVar = CHOICES["attentionxml"]

    vectors: Annotated[str, VECTORS] = "glove"
    dimensions: Annotated[Positive, Doc("length of a word vector; given ones have their own")] = 128
    min_count: Annotated[Positive, Doc("minimum number of occurrences of a word in the vocabulary")] = 2
    max_words: Annotated[Words, Doc("maximum size of the vocabulary; the most frequent words are kept", _PAPER)] = (
        500_000
    )
    length: Annotated[Words, Doc("known words of a text that are read; the tree is built on all of them")] = 64
    height: Annotated[int, Ge(0), Unit("levels"), Doc("levels of the tree above that of the labels, at most")] = 1
    branches: Annotated[
        Literal[2, 4, 8, 16, 32, 64, 128], Doc("children of a node above the leaves, at a height of 2 or more; K")
    ] = 32
    leaf: Annotated[int, Ge(2), Unit("labels"), Doc("maximum size of a cluster of labels; the paper's M")] = 32
    beam: Annotated[
        int, Ge(1), Unit("nodes"), Doc("nodes of a level, those ranked first, whose children are scored; the paper's C")
    ] = 16
    hidden: Annotated[Positive, Doc("width of the LSTM in each direction")] = 128
    connected: Annotated[Positive, Doc("width of the fully connected layer")] = 128
    connected_second: Annotated[
        int | None, Ge(1), Doc("width of a second fully connected layer; none: there is one")
    ] = None
    word_dropout: Annotated[ShareBelowOne, Doc("share of the word vectors that training drops", _PAPER)] = 0.2
    state_dropout: Annotated[ShareBelowOne, Doc("share of the states of the LSTM that training drops", _PAPER)] = 0.5
    batch: Annotated[Documents, Doc("documents in a step of a training")] = 64
    epochs: Annotated[Natural, Doc("passes of the training of each level over the documents with a pair", _PAPER)] = 10
    averaged_epochs: Annotated[
        Natural, Doc("number of last epochs whose weights are averaged (stochastic weight averaging); 0 or 1: none")
    ] = 5
    learning_rate: Annotated[AboveZero, Doc("learning rate, the same in all steps; the paper has 0.001")] = 3e-3
    trees: Annotated[Positive, Doc("number of trees whose scores are averaged; the paper has 3")] = 1

    def describe(self) -> str:
        return f"{self.epochs} epochs" + (f", {self.trees} trees" if self.trees > 1 else "")

    def inputs(self) -> Mapping[str, Path | str]:
        return {} if self.vectors in NO_PATHS else super().inputs()

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        """Build the trees and train their networks level by level. Raises MethodError where a training diverges."""
        import torch

        from xmcbench.methods.attentionxml.network import Sequences
        from xmcbench.methods.deepxml.bags import Tokens
        from xmcbench.methods.encoder.hardware import choose_device
        from xmcbench.methods.label_tree.tree import shallow_levels

        assert pairs is not None, "supervision is required"
        self._device = choose_device(self.compute.device)
        tokens = Tokens.of([raw_X], self.min_count, self.max_words)
        self._vocabulary = tokens.vocabulary
        vectors = tokens.vectors(self.vectors, self.dimensions, [raw_X], self.artifacts, self.seed, self.notes)
        rows = np.flatnonzero(np.diff(pairs.indptr))
        bags = tokens.bags(raw_X.take(rows))
        known = np.flatnonzero(np.diff(bags.indptr))
        bags, rows = bags[known], rows[known]
        self._seen = np.unique(pairs[rows].indices)
        self._trees: list[tuple[list[AttentionNetwork], list[csr_matrix]]] = []
        self.notes["tokens"] = len(self._vocabulary)
        self.notes["training_instances"] = len(rows)
        self.notes["labels_with_a_classifier"] = len(self._seen)
        self.notes["computed"] = {"device": self._device}
        if not len(rows):
            return
        texts = Sequences.of(raw_X.take(rows), self._vocabulary, self.length)
        own = pairs[rows][:, self._seen]
        with torch.random.fork_rng(devices=[]):
            for tree in range(self.trees):
                seed = int(np.random.SeedSequence([self.seed, tree]).generate_state(1)[0])
                found = shallow_levels(bags, own, branches=self.branches, leaf=self.leaf, height=self.height, seed=seed)
                networks = self._train_tree(vectors, texts, found, seed, f"tree {tree + 1}, " if self.trees > 1 else "")
                self._trees.append((networks, [level.children for level in found]))

    def predict_batches(self, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        from xmcbench.methods.attentionxml.network import Sequences

        unknown = 0
        for start in range(0, len(raw_X), _ROWS):
            texts = Sequences.of(raw_X[start : start + _ROWS], self._vocabulary, self.length)
            unknown += int((texts.lengths == 0).sum())
            yield self._predict_texts(texts, k)
        self.notes["instances_without_a_known_token"] = unknown

    def _predict_texts(self, texts: Sequences, k: int) -> TopK:
        from xmcbench.methods.attentionxml.network import mean_scores, rank_labels

        found = np.full((len(texts), k), -1, np.int32), np.full((len(texts), k), -np.inf, np.float32)
        known = np.flatnonzero(texts.lengths)
        if self._trees and len(known):
            some = texts.take(known)
            scores = mean_scores(
                rank_labels(networks, children, some, self.beam, k) for networks, children in self._trees
            )
            ranked = TopK.from_scores(scores, k)
            found[0][known] = np.where(ranked.indices >= 0, self._seen[ranked.indices], -1)
            found[1][known] = ranked.scores
        return TopK(*found)

    def _train_tree(
        self, vectors: np.ndarray, texts: Sequences, levels: list[Level], seed: int, prefix: str
    ) -> list[AttentionNetwork]:
        """The networks of a tree, from the root down."""
        import torch

        from xmcbench.methods.attentionxml.network import AttentionNetwork, child_table, level_loss, rank_nodes, train

        torch.manual_seed(seed)
        connected = [self.connected] + ([self.connected_second] if self.connected_second else [])
        dropouts = self.word_dropout, self.state_dropout
        networks: list[AttentionNetwork] = []
        guessed = below = None
        for place, level in enumerate(levels):
            network = AttentionNetwork(vectors, level.clusters, self.hidden, connected, dropouts)
            if networks:
                network.start_from(networks[-1])
                below = child_table(level.children)
            else:
                network.start_at(float((level.labels > 0).mean()))
            network.to(self._device)
            size = level.clusters if below is None else min(level.clusters, self.beam * below.shape[1])
            loss = partial(level_loss, network, texts, level, guessed, size, seed)
            curve = train(
                network,
                loss,
                len(texts),
                batch=self.batch,
                epochs=self.epochs,
                rate=self.learning_rate,
                averaged=self.averaged_epochs,
                seed=seed + place,
            )
            note = {"losses": ["binary cross-entropy"], "curve": curve, "nodes": level.clusters, "shortlist": size}
            self.notes[f"{prefix}level {place + 1}"] = note
            networks.append(network)
            if level is not levels[-1]:
                guessed = rank_nodes(network, texts, below, guessed, min(self.beam, level.clusters))
        return networks
