"""Contrastive tasks: several views of a batch are embedded together and compared."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import nn

from xmcbench.methods.encoder.batches import BalancedEpochs, Epochs, pad_texts, split_step
from xmcbench.methods.encoder.cloze import ContextPairs
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.training import DistributedContext, Task


def contrastive_loss(logits: torch.Tensor, positive: torch.Tensor, ignored: torch.Tensor | None = None) -> torch.Tensor:
    """Mean over the anchors of -1/|P(i)| sum over p in P(i) of log softmax_i(p): equation 3 of MACLR, divided by N.
    logits: [n, m], anchor against candidate. positive: bool [n, m], P(i), at least one a row. ignored: bool [n, m],
    candidates that are neither positive nor negative for this anchor and are left out of its denominator; positives
    always stay. With one positive a row this is equation 2, the in-batch contrastive loss."""
    if ignored is not None:
        logits = logits.masked_fill(ignored & ~positive, -torch.inf)
    shares = torch.log_softmax(logits, dim=1).masked_fill(~positive, 0.0)
    return -(shares.sum(1) / positive.sum(1)).mean()


def in_batch(
    anchors: torch.Tensor, candidates: torch.Tensor, first: int, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of this process's anchors against all candidates, and the mask of each anchor's positive. anchors: [n, d];
    candidates: [m, d]; anchor i belongs to candidate ``first`` + i. Returns logits, inner products over the
    temperature, and bool, [n, m] both."""
    logits = anchors @ candidates.T / temperature
    own = torch.zeros_like(logits, dtype=torch.bool)
    own.diagonal(first).fill_(True)
    return logits, own


def triplet_loss(
    cosines: torch.Tensor,
    own: torch.Tensor,
    true: torch.Tensor,
    margin: float,
    hardest: int,
    sharpness: float | None = None,
) -> torch.Tensor:
    """Mean over anchors of the mean hinge ``margin`` - positive + negative over their hardest negatives. cosines: float
    [n, m]; own: bool [n, m], the positive of each anchor; true: bool [n, m], not negatives. hardest: how many negatives
    of an anchor count, those with the largest cosines. An anchor without any costs nothing. sharpness: weigh these by a
    softmax over the cosine divided by it; a negative whose hinge is 0 has 0 in the place of its cosine."""
    positive = cosines[own][:, None]
    negative, _ = cosines.masked_fill(true | own, -torch.inf).topk(min(hardest, cosines.shape[1]), dim=1)
    there = negative > -torch.inf
    negative = negative.masked_fill(~there, 0.0)
    hinge = torch.relu(margin - positive + negative) * there
    if sharpness is None:
        return (hinge.sum(dim=1) / there.sum(dim=1).clamp(min=1)).mean()
    weights = torch.softmax(negative / sharpness * (hinge > 0), dim=1)
    return (weights * hinge).sum(dim=1).mean()


#: Which other labels of a batch are negatives of an instance: all of them, as in the paper and its authors' code, or
#: all but those that are known not to be: its other true or pseudo labels and, in MACLR's stages, labels that repeat
#: its title.
Negatives = Literal["all", "untrue"]


class TokenSource(Protocol):
    """Texts as tokens, by number."""

    @property
    def pad(self) -> int:
        """The number that fills a batch up."""

    def __getitem__(self, row: int, /) -> np.ndarray:
        """Token numbers of one text."""


@dataclass(frozen=True)
class View:
    """Texts that a step embeds: rows of a token store, in the order of the whole batch."""

    store: TokenSource
    rows: np.ndarray


@dataclass(frozen=True)
class Vectors:
    """The embeddings of a view. local: this process's rows, [b, d]; gathered: those of all processes, [B, d], in the
    order of the view; first: the position of the first local row among them."""

    local: torch.Tensor
    gathered: torch.Tensor
    first: int


class ContrastiveTask(Task):
    """A task that draws named views, the same on every process, and compares their vectors. The rows of a step follow
    from (seed, step) alone, so every process knows the whole batch and embeds its part."""

    #: Divisor of inner products.
    _temperature: float = 1.0
    #: Views that processes need not share evenly. Such a view is filled up with its own rows; the copies are cut off
    #: before anything is compared. A process then holds fewer rows than another: they are not averaged over.
    uneven: ClassVar[tuple[str, ...]] = ()

    @property
    def texts(self) -> int:
        """Texts that a step embeds."""
        return sum(len(view.rows) for view in self.draw(0).values())

    @abstractmethod
    def draw(self, step: int) -> dict[str, View]:
        """The views of a step. A text in two views is embedded twice, with different dropout."""

    def compare(self, step: int, views: Mapping[str, View], vectors: Mapping[str, Vectors]) -> dict[str, torch.Tensor]:
        """Return the losses of this process's rows, by name: here, each anchor against the positives of all rows."""
        anchors, positives = vectors["anchor"], vectors["positive"]
        logits, own = in_batch(anchors.local, positives.gathered, anchors.first, self._temperature)
        return {"contrastive": contrastive_loss(logits, own)}

    def losses(self, step: int, network: nn.Module, context: DistributedContext) -> dict[str, torch.Tensor]:
        """Embed all views of the step in one call and compare them."""
        views = self.draw(step)
        parts, starts = [], []
        for name, view in views.items():
            if name not in self.uneven:
                context.local_slice(len(view.rows))
            part = -(-len(view.rows) // context.processes)
            starts.append(min(context.rank * part, len(view.rows)))
            filled = np.resize(view.rows, part * context.processes)
            parts.append((view.store, filled[context.rank * part : (context.rank + 1) * part]))
        vectors = {}
        for name, own, start in zip(views, embed_parts(network, parts, context.device), starts, strict=True):
            rows = len(views[name].rows)
            vectors[name] = Vectors(own[: rows - start], context.gather(own)[:rows], start)
        return self.compare(step, views, vectors)


def embed_parts(
    network: nn.Module, parts: list[tuple[TokenSource, np.ndarray]], device: torch.device
) -> list[torch.Tensor]:
    """The vectors [rows, d] of each part, with gradients, computed in batches of similar length."""
    texts = [store[row] for store, rows in parts for row in rows]
    pad = parts[0][0].pad
    cached = getattr(getattr(network, "module", network), "cached_tokens", None)
    batches = split_step(np.array([len(text) for text in texts]), device.type, cached)
    ids, masks = [], []
    at_once = device.type == "cuda"  # elsewhere the copy could be of memory that is already used again
    for batch in batches:
        tokens, real = pad_texts([texts[place] for place in batch], pad)
        ids.append(torch.from_numpy(tokens).to(device, non_blocking=at_once))
        masks.append(torch.from_numpy(real).to(device, non_blocking=at_once))
    vectors = network(ids, masks)
    back = np.empty(len(texts), np.int64)
    back[np.concatenate(batches)] = np.arange(len(texts))
    restored = vectors[torch.from_numpy(back).to(device)]
    return list(restored.split([len(rows) for _, rows in parts]))


class TwoViews(ContrastiveTask):
    """The in-batch contrastive loss between two texts of the same row: equation 2 of MACLR. ICT: context and title of a
    document. SimCSE: the document and itself, under two dropout masks."""

    def __init__(self, anchors: TokenStore, positives: TokenStore, batch: int, temperature: float, seed: int) -> None:
        """anchors, positives: n texts each, row by row; batch: rows of a step, over all processes."""
        self._anchors, self._positives, self._temperature = anchors, positives, temperature
        self._epochs = Epochs(len(anchors), batch, seed)

    def draw(self, step: int) -> dict[str, View]:
        rows = self._epochs(step)
        return {"anchor": View(self._anchors, rows), "positive": View(self._positives, rows)}


class InverseCloze(TwoViews):
    """Equation 2 between context and title of a document (ICT); sentences lose the title at random."""

    def __init__(
        self, drawn: ContextPairs, batch: int, temperature: float, seed: int, used: np.ndarray | None = None
    ) -> None:
        """batch: documents of a step, over all processes; used: numbers of the pairs to train on, int [m], or all."""
        super().__init__(drawn.contexts, drawn.titles, batch, temperature, seed)
        self._drawn, self._used = drawn, np.arange(len(drawn.contexts)) if used is None else used
        self._epochs = Epochs(len(self._used), batch, seed)

    def draw(self, step: int) -> dict[str, View]:
        rows = self._used[self._epochs(step)]
        contexts = self._drawn.visit(self._epochs.epoch(step))
        return {"anchor": View(contexts, rows), "positive": View(self._drawn.titles, rows)}


class KnownPairs(ContrastiveTask):
    """The in-batch contrastive loss on known pairs."""

    def __init__(
        self,
        instances: TokenStore,
        labels: TokenStore,
        pairs: csr_matrix,
        batch: int,
        temperature: float,
        seed: int,
        negatives: Negatives = "untrue",
        balanced: bool = False,
    ) -> None:
        """pairs: binary CSR [N, L]; instances: N texts; labels: L texts; batch: pairs of a step, over all processes.
        negatives: other labels of the batch that count. balanced: draw each label once before any comes again."""
        pairs = pairs.tocsr()
        self._instances, self._labels, self._pairs, self._temperature = instances, labels, pairs, temperature
        self._rows = np.repeat(np.arange(pairs.shape[0]), np.diff(pairs.indptr))
        self._columns = pairs.indices.astype(np.int64)
        self._negatives = negatives
        self._epochs = BalancedEpochs(self._columns, batch, seed) if balanced else Epochs(pairs.nnz, batch, seed)

    def draw(self, step: int) -> dict[str, View]:
        drawn = self._epochs(step)
        return {
            "anchor": View(self._instances, self._rows[drawn]),
            "positive": View(self._labels, self._columns[drawn]),
        }

    def compare(self, step: int, views: Mapping[str, View], vectors: Mapping[str, Vectors]) -> dict[str, torch.Tensor]:
        anchors, labels = vectors["anchor"], vectors["positive"]
        logits, own = in_batch(anchors.local, labels.gathered, anchors.first, self._temperature)
        if self._negatives == "all":
            return {"contrastive": contrastive_loss(logits, own)}
        rows = views["anchor"].rows[anchors.first : anchors.first + len(anchors.local)]
        true = self._pairs[rows][:, views["positive"].rows].toarray() > 0
        return {"contrastive": contrastive_loss(logits, own, torch.from_numpy(true).to(logits.device))}


class Replayed(ContrastiveTask):
    """A task, and another one beside it that keeps what was learned before: its loss is added with a weight."""

    def __init__(self, task: ContrastiveTask, replayed: ContrastiveTask, weight: float) -> None:
        """weight: what the loss of ``replayed`` counts."""
        self._task, self._replayed, self._weight = task, replayed, weight

    @property
    def batch(self) -> int:
        """Rows of a step of the task itself."""
        return self._task.batch

    def share(self, processes: int) -> None:
        self._task.share(processes)
        self._replayed.share(processes)

    def draw(self, step: int) -> dict[str, View]:
        replayed = {f"replayed {name}": view for name, view in self._replayed.draw(step).items()}
        return {**self._task.draw(step), **replayed}

    def compare(self, step: int, views: Mapping[str, View], vectors: Mapping[str, Vectors]) -> dict[str, torch.Tensor]:
        losses = self._task.compare(step, views, vectors)
        own = {name: _below(values, "replayed ") for name, values in (("views", views), ("vectors", vectors))}
        again = self._replayed.compare(step, own["views"], own["vectors"])  # type: ignore[arg-type]
        return {**losses, **{f"replayed {name}": self._weight * loss for name, loss in again.items()}}


def _below(named: Mapping[str, object], prefix: str) -> dict[str, object]:
    return {name.removeprefix(prefix): value for name, value in named.items() if name.startswith(prefix)}
