"""Stage II: self-training on pseudo pairs (MACLR section 4.3), and ways to make it robust to wrong ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from xmcbench import TopK
from xmcbench.methods.encoder.batches import Epochs
from xmcbench.methods.encoder.contrastive import ContrastiveTask, Negatives, Vectors, View, contrastive_loss, in_batch
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.maclr.pseudo_pairs import OwnTitles, PseudoPairs

#: Equation 3 with the pairs of the same instance as positives, as in the paper; equation 2, as in its authors' code.
PairLoss = Literal["equation-3", "equation-2"]


def draw_visited(documents: int, held_out: np.ndarray, most: int, seed: int) -> np.ndarray:
    """The documents that a training of ``most`` draws can see, in order, int64: only these need pseudo labels.
    documents: how many there are; held_out: rows that it must not see. Of more than ``most``, that many are drawn."""
    rows = np.setdiff1d(np.arange(documents), held_out)
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng([seed, 5]).choice(rows, most, replace=False))


@dataclass(frozen=True)
class HardNegatives:
    """Labels that are hard to tell from a pair's: ``count`` per pair, drawn from the ranks first .. last (from 1).
    ranking: of the instances' labels. labels: how many there are in all."""

    ranking: TopK
    labels: int
    count: int
    first: int
    last: int

    def draw(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The labels for the pairs of these instances, int64: ``count`` each. Where ranks are empty, any label."""
        window = self.ranking.indices[rows, self.first - 1 : self.last]
        lacking = max(0, self.count - window.shape[1])  # the ranking ends before the window does
        window = np.pad(window, ((0, 0), (0, lacking)), constant_values=-1)
        places = rng.random(window.shape).argsort(axis=1)[:, : self.count]
        found = np.take_along_axis(window, places, 1).astype(np.int64)
        any_label = rng.integers(self.labels, size=found.shape)
        return np.where(found >= 0, found, any_label).ravel()  # type: ignore[no-any-return]


class SecondStage(ContrastiveTask):
    """Batches of N pseudo pairs under equation 3 or equation 2. With few pairs of each instance, a batch drawn from
    many rarely contains two pairs of the same instance: equation 3 is then almost the same as equation 2."""

    def __init__(
        self,
        instances: TokenStore,
        labels: TokenStore,
        pairs: PseudoPairs,
        batch: int,
        temperature: float,
        seed: int,
        *,
        loss: PairLoss = "equation-3",
        negatives: Negatives = "all",
        own_titles: OwnTitles | None = None,
        hard: HardNegatives | None = None,
        margin: float | None = None,
    ) -> None:
        """pairs: at least one; batch: pairs of a step, over all processes. negatives: ``untrue`` leaves out other
        pseudo labels of the instance, and with own_titles its title; ``all`` leaves out pseudo labels only as hard
        negatives. margin: labels that score within it of the pair's label are no negatives."""
        self._instances, self._labels, self._pairs, self._temperature = instances, labels, pairs, temperature
        self._loss, self._negatives, self._own_titles = loss, negatives, own_titles
        self._hard, self._margin, self._seed = hard, margin, seed
        self._matrix = pairs.matrix()
        self._epochs = Epochs(len(pairs), batch, seed)

    def draw(self, step: int) -> dict[str, View]:
        """Instance and label of the step's pairs, and their hard negatives."""
        drawn = self._epochs(step)
        rows = self._pairs.rows[drawn]
        views = {"instance": View(self._instances, rows), "label": View(self._labels, self._pairs.columns[drawn])}
        if self._hard:
            rng = np.random.default_rng([self._seed, step, 6])
            views["hard"] = View(self._labels, self._hard.draw(rows, rng))
        return views

    def compare(self, step: int, views: Mapping[str, View], vectors: Mapping[str, Vectors]) -> dict[str, torch.Tensor]:
        """Each instance against the labels of all pairs, and the hard negatives of all."""
        instances = vectors["instance"]
        rows, labels = views["instance"].rows, views["label"].rows
        own_rows = rows[instances.first : instances.first + len(instances.local)]
        candidates = vectors["label"].gathered
        if "hard" in views:
            labels = np.concatenate([labels, views["hard"].rows])
            candidates = torch.cat([candidates, vectors["hard"].gathered])
        logits, own = in_batch(instances.local, candidates, instances.first, self._temperature)
        positive = own
        if self._loss == "equation-3":
            same = np.zeros(logits.shape, bool)
            same[:, : len(rows)] = own_rows[:, None] == rows
            positive = torch.from_numpy(same).to(logits.device)
        ignored = torch.zeros_like(own)
        if self._negatives == "untrue":
            known = self._pseudo(own_rows, labels)
            if self._own_titles is not None:
                known |= self._own_titles.same(own_rows[:, None], labels)
            ignored |= torch.from_numpy(known).to(logits.device)
        elif "hard" in views:
            known = self._pseudo(own_rows, views["hard"].rows)
            ignored[:, len(rows) :] |= torch.from_numpy(known).to(logits.device)
        if self._margin is not None:
            pair = logits.detach()[own][:, None]
            ignored |= logits.detach() > pair - self._margin / self._temperature
        return {"pseudo pairs": contrastive_loss(logits, positive, ignored)}

    def _pseudo(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return where labels are pseudo labels of instances: bool [len(rows), len(labels)]."""
        return np.asarray(self._matrix[rows][:, labels].toarray() > 0)


class SoftTargets(ContrastiveTask):
    """Listwise distillation: an instance's scores over its first labels are to be those of the teacher. Labels of other
    instances of the batch are candidates with the target 0, so that a whole list cannot move away."""

    def __init__(
        self,
        instances: TokenStore,
        labels: TokenStore,
        teacher: TopK,
        batch: int,
        temperature: float,
        seed: int,
        *,
        length: int,
        sharpness: float,
    ) -> None:
        """teacher: a ranking of the instances' labels; batch: instances of a step, over all processes. length: labels
        of a list. sharpness: what the teacher's scores are divided by before the softmax that makes targets of them."""
        self._instances, self._labels, self._temperature = instances, labels, temperature
        self._lists = teacher.indices[:, :length]
        listed = self._lists >= 0
        scores = np.where(listed, teacher.scores[:, :length].astype(np.float64), 0.0)
        self._rows = np.flatnonzero(listed.all(1) & (teacher.k >= length))
        shares = np.exp((scores - scores[:, :1]) / sharpness, where=listed, out=np.zeros(scores.shape))
        self._targets = (shares / np.maximum(shares.sum(1, keepdims=True), 1e-12)).astype(np.float32)
        self._epochs = Epochs(len(self._rows), batch, seed)

    def __len__(self) -> int:
        """Instances with a whole list."""
        return len(self._rows)

    def draw(self, step: int) -> dict[str, View]:
        """The step's instances, and the labels of their lists, one list after the other."""
        rows = self._rows[self._epochs(step)]
        labels = self._lists[rows].ravel().astype(np.int64)
        return {"instance": View(self._instances, rows), "label": View(self._labels, labels)}

    def compare(self, step: int, views: Mapping[str, View], vectors: Mapping[str, Vectors]) -> dict[str, torch.Tensor]:
        """Cross-entropy between the teacher's shares and the encoder's."""
        instances, labels = vectors["instance"], vectors["label"]
        rows = views["instance"].rows[instances.first : instances.first + len(instances.local)]
        length = self._lists.shape[1]
        logits = instances.local @ labels.gathered.T / self._temperature
        places = (instances.first + np.arange(len(rows)))[:, None] * length + np.arange(length)
        target = np.zeros(logits.shape, np.float32)
        np.put_along_axis(target, places, self._targets[rows], 1)
        # A label of the own list that is in another list too is one candidate, not two.
        again = (views["label"].rows[None, None] == self._lists[rows][:, :, None]).any(1)
        np.put_along_axis(again, places, False, 1)
        logits = logits.masked_fill(torch.from_numpy(again).to(logits.device), -torch.inf)
        shares = torch.log_softmax(logits, 1).masked_fill(torch.from_numpy(again).to(logits.device), 0.0)
        return {"pseudo pairs": -(torch.from_numpy(target).to(logits.device) * shares).sum(1).mean()}
