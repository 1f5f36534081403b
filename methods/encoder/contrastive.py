"""Contrastive tasks: several views of a batch are embedded together and compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from xmcbench.methods.encoder.hardware import TOKENS
from xmcbench.methods.encoder.losses import contrastive_loss, in_batch
from xmcbench.methods.encoder.tokens import TokenStore, by_length, padded
from xmcbench.methods.encoder.training import DistributedContext

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


@dataclass(frozen=True)
class View:
    """Texts that a step embeds: rows of a token store, in the order of the whole batch."""

    store: TokenStore
    rows: np.ndarray


@dataclass(frozen=True)
class Vectors:
    """The embeddings of a view. local: this process's rows, [b, d]; gathered: those of all processes, [B, d], in the
    order of the view; first: the position of the first local row among them."""

    local: torch.Tensor
    gathered: torch.Tensor
    first: int


class ContrastiveTask(ABC):
    """A task that draws named views, the same on every process, and compares their vectors.

    The rows of a step follow from (seed, step) alone, so every process knows the whole batch and embeds its part.
    """

    @abstractmethod
    def draw(self, step: int) -> dict[str, View]:
        """The views of a step. A text in two views is embedded twice, with different dropout."""

    @abstractmethod
    def compare(self, step: int, views: Mapping[str, View], vectors: Mapping[str, Vectors]) -> dict[str, torch.Tensor]:
        """The losses of this process's rows, by name."""

    def prepare(self, step: int, network: nn.Module, context: DistributedContext) -> None:  # noqa: B027 - most tasks have no schedule
        """Nothing is due between steps."""

    def state(self) -> dict[str, np.ndarray]:
        """No state."""
        return {}

    def resume(self, state: Mapping[str, np.ndarray]) -> None:  # noqa: B027 - most tasks have no state
        """Nothing to restore."""

    def losses(self, step: int, network: nn.Module, context: DistributedContext) -> dict[str, torch.Tensor]:
        """Embed all views of the step in one call and compare them."""
        views = self.draw(step)
        shares = {name: context.local_slice(len(view.rows)) for name, view in views.items()}
        own = embedded(network, [(view.store, view.rows[shares[name]]) for name, view in views.items()], context.device)
        vectors = {
            name: Vectors(part, context.gather(part), shares[name].start) for name, part in zip(views, own, strict=True)
        }
        return self.compare(step, views, vectors)


def embedded(
    network: nn.Module, parts: list[tuple[TokenStore, np.ndarray]], device: torch.device
) -> list[torch.Tensor]:
    """The vectors [rows, d] of each part, with gradients.

    Texts are first sorted into batches of similar length, so there is little padding.
    """
    texts = [store[row] for store, rows in parts for row in rows]
    pad = parts[0][0].pad
    batches = by_length(np.array([len(each) for each in texts]), 2 * TOKENS[device.type])
    ids, masks = [], []
    for batch in batches:
        tokens, real = padded([texts[place] for place in batch], pad)
        ids.append(torch.from_numpy(tokens).to(device, non_blocking=True))
        masks.append(torch.from_numpy(real).to(device, non_blocking=True))
    vectors = network(ids, masks)
    back = np.empty(len(texts), np.int64)
    back[np.concatenate(batches)] = np.arange(len(texts))
    restored = vectors[torch.from_numpy(back).to(device)]
    return list(restored.split([len(rows) for _, rows in parts]))


class Epochs:
    """Rows in random order, each once per epoch; the rows of a step are a function of its number."""

    def __init__(self, rows: int, batch: int, seed: int) -> None:
        """rows: how many there are; batch: rows of a step, at most ``rows``."""
        self.rows, self.batch, self._seed = rows, min(batch, rows), seed
        self._epoch, self._order = -1, np.empty(0, np.int64)

    def __call__(self, step: int) -> np.ndarray:
        """The rows of a step, counted from 0: int64 [batch], all different.

        The last rows of an epoch are left out if they do not fill a batch.
        """
        epoch, place = divmod(step, self.rows // self.batch)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, np.random.default_rng([self._seed, epoch]).permutation(self.rows)
        return self._order[place * self.batch : (place + 1) * self.batch]


class TwoViews(ContrastiveTask):
    """The in-batch contrastive loss between two texts of the same row: equation 2 of MACLR.

    ICT: context and title of a document. SimCSE: the document and itself, under two dropout masks.
    """

    def __init__(self, anchors: TokenStore, positives: TokenStore, batch: int, temperature: float, seed: int) -> None:
        """anchors, positives: n texts each, row by row; batch: rows of a step, over all processes."""
        self._anchors, self._positives, self._temperature = anchors, positives, temperature
        self._epochs = Epochs(len(anchors), batch, seed)

    def draw(self, step: int) -> dict[str, View]:
        """Both texts of the step's rows."""
        rows = self._epochs(step)
        return {"anchor": View(self._anchors, rows), "positive": View(self._positives, rows)}

    def compare(self, step: int, views: Mapping[str, View], vectors: Mapping[str, Vectors]) -> dict[str, torch.Tensor]:
        """Each anchor against the positives of all rows."""
        anchors, positives = vectors["anchor"], vectors["positive"]
        return {
            "contrastive": contrastive_loss(
                *in_batch(anchors.local, positives.gathered, anchors.first, self._temperature)
            )
        }


class KnownPairs(ContrastiveTask):
    """The in-batch contrastive loss on known pairs; other true labels of the same instance are not negatives."""

    def __init__(
        self,
        instances: TokenStore,
        labels: TokenStore,
        pairs: csr_matrix,
        batch: int,
        temperature: float,
        seed: int,
    ) -> None:
        """pairs: binary CSR [N, L]; instances: N texts; labels: L texts; batch: pairs of a step, over all processes."""
        pairs = pairs.tocsr()
        self._instances, self._labels, self._pairs, self._temperature = instances, labels, pairs, temperature
        self._rows = np.repeat(np.arange(pairs.shape[0]), np.diff(pairs.indptr))
        self._columns = pairs.indices.astype(np.int64)
        self._epochs = Epochs(pairs.nnz, batch, seed)

    def draw(self, step: int) -> dict[str, View]:
        """Instance and label of the step's pairs."""
        drawn = self._epochs(step)
        return {
            "anchor": View(self._instances, self._rows[drawn]),
            "positive": View(self._labels, self._columns[drawn]),
        }

    def compare(self, step: int, views: Mapping[str, View], vectors: Mapping[str, Vectors]) -> dict[str, torch.Tensor]:
        """Each instance against the labels of all pairs, except its other true labels."""
        anchors, labels = vectors["anchor"], vectors["positive"]
        rows = views["anchor"].rows[anchors.first : anchors.first + len(anchors.local)]
        true = self._pairs[rows][:, views["positive"].rows].toarray() > 0
        logits, own = in_batch(anchors.local, labels.gathered, anchors.first, self._temperature)
        return {"contrastive": contrastive_loss(logits, own, torch.from_numpy(true).to(logits.device))}
