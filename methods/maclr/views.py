"""Views whose number of rows is not a multiple of the number of processes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import nn

from xmcbench.methods.encoder.contrastive import ContrastiveTask, Vectors, embedded
from xmcbench.methods.encoder.training import DistributedContext


class UnevenTask(ContrastiveTask):
    """A contrastive task with views that the processes cannot share evenly, such as the labels of a step.

    Such a view is filled up with rows of its own; the copies are cut off before anything is compared. A process then
    holds fewer rows than another, so only what is named ``even`` may be averaged over: its rows must be a multiple.
    """

    even: ClassVar[tuple[str, ...]] = ()

    def losses(self, step: int, network: nn.Module, context: DistributedContext) -> dict[str, torch.Tensor]:
        """Embed all views of the step in one call and compare them."""
        views = self.draw(step)
        parts, starts = [], []
        for name, view in views.items():
            if name in self.even:
                context.local_slice(len(view.rows))
            part = -(-len(view.rows) // context.processes)
            starts.append(min(context.rank * part, len(view.rows)))
            filled = np.resize(view.rows, part * context.processes)
            parts.append((view.store, filled[context.rank * part : (context.rank + 1) * part]))
        vectors = {}
        for name, own, start in zip(views, embedded(network, parts, context.device), starts, strict=True):
            rows = len(views[name].rows)
            vectors[name] = Vectors(own[: rows - start], context.gather(own)[:rows], start)
        return self.compare(step, views, vectors)
