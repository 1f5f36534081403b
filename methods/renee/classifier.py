"""A classifier of all labels, whose logits are computed a part at a time, and its training with and without the
encoder."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import nn

from xmcbench import MethodError, progress
from xmcbench.methods.encoder.batches import Epochs
from xmcbench.methods.encoder.contrastive import TokenSource, embed_parts
from xmcbench.methods.encoder.hardware import DTYPES
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.training import DistributedContext, Task, TrainingPlan

#: Logits that exist at a time.
_LOGITS = 1 << 22


def start_weights(
    documents: np.ndarray, labels: np.ndarray, pairs: csr_matrix, text_weight: float, norm: float
) -> np.ndarray:
    """Weights of a classifier before its training, float32 [L, d] of length ``norm``: of each label the direction of
    the sum of its documents and ``text_weight`` times itself. documents: float32 [N, d], labels: float32 [L, d], of
    length 1. pairs: CSR [N, L]."""
    sums = pairs.T.astype(np.float32) @ documents + text_weight * labels
    lengths = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
    return (norm * sums / lengths).astype(np.float32)  # type: ignore[no-any-return]


class LabelClassifier(nn.Module):  # type: ignore[misc] # torch counts as untyped
    """A vector per label, trained by stochastic gradient descent with momentum on the sum of the binary
    cross-entropy over all labels. Both are buffers, no parameters: their gradient never exists as a whole, and the
    optimizer of the encoder leaves them alone."""

    weight: torch.Tensor
    velocity: torch.Tensor

    def __init__(self, start: np.ndarray, offset: float, momentum: float) -> None:
        """start: float32 [L, d]. A logit is an inner product less ``offset``."""
        super().__init__()
        self.offset, self.momentum = offset, momentum
        self.register_buffer("weight", torch.from_numpy(start.copy()))
        self.register_buffer("velocity", torch.zeros_like(self.weight))

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(
        self, vectors: torch.Tensor, true: csr_matrix, rate: float, dtype: torch.dtype = torch.float32
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Change the weights by one step. Returns the loss of each text, float32 [n], and the gradient of their sum
        with respect to the vectors, float32 [n, d], both as before the step. vectors: float32 [n, d]. true: binary CSR
        [n, L]. dtype: of the factors of matrix products."""
        pairs = true.tocoo()
        rows, columns = (torch.from_numpy(side.astype(np.int64)).to(vectors.device) for side in (pairs.row, pairs.col))
        losses, gradient = torch.zeros(len(vectors), device=vectors.device), torch.zeros_like(vectors)
        narrow, size = vectors.to(dtype), max(1, _LOGITS // len(vectors))
        for first in range(0, len(self.weight), size):
            weight, velocity = self.weight[first : first + size], self.velocity[first : first + size]
            factor = weight.to(dtype)
            logits = (narrow @ factor.T).float() - self.offset
            own = (columns >= first) & (columns < first + size)
            places = rows[own], columns[own] - first
            losses += nn.functional.softplus(logits).sum(dim=1)
            losses.index_add_(0, places[0], -logits[places])
            errors = logits.sigmoid_()
            errors[places] -= 1
            errors = errors.to(dtype)
            gradient += (errors @ factor).float()
            velocity.mul_(self.momentum).add_((errors.T @ narrow).float())
            weight.sub_(velocity, alpha=rate)
        return losses, gradient


def fit_on_frozen(
    classifier: LabelClassifier,
    vectors: np.ndarray,
    targets: csr_matrix,
    plan: TrainingPlan,
    batch: int,
    dropout: float,
    dtype: torch.dtype,
) -> list[list[float]]:
    """Train the classifier in place on vectors that stay as they are. Returns [step, mean loss] per epoch. vectors:
    float32 [P, d]; targets: binary CSR [P, L]. dropout: share of a vector's values that a step drops. Raises
    MethodError where a loss is NaN or infinite."""
    epochs, curve, losses = Epochs(len(vectors), batch, plan.seed), [], []
    for step in range(plan.steps):
        progress.steps(step, plan.steps)
        torch.manual_seed(int(np.random.SeedSequence([plan.seed, step, 31]).generate_state(1)[0]))
        rows = epochs(step)
        drawn = torch.from_numpy(vectors[rows]).to(classifier.weight.device)
        found, _ = classifier.step(nn.functional.dropout(drawn, dropout), targets[rows], plan.rate(step), dtype)
        losses.append(float(found.mean()))
        if not np.isfinite(losses[-1]):
            raise MethodError(
                f"the loss of the classifiers' step {step + 1} is NaN or infinite", "try a lower classifier_rate"
            )
        if step + 1 == plan.steps or epochs.epoch(step + 1) > epochs.epoch(step):
            curve.append([step + 1, round(sum(losses) / len(losses), 5)])
            losses = []
    return curve


class EndToEnd(Task):
    """Texts against all labels. The network has a ``LabelClassifier`` beside the encoder, and a step changes both: the
    classifier by its own rule, the encoder by the gradient of its vectors. An epoch has no text twice, and leaves out
    those that do not fill a batch."""

    def __init__(
        self,
        documents: TokenStore,
        labels: TokenStore,
        targets: csr_matrix,
        classifier_plan: TrainingPlan,
        batch: int,
        dropout: float,
    ) -> None:
        """documents: N texts. labels: L texts. targets: binary CSR [P, L], of the documents, and of the labels where P
        is N + L. classifier_plan: its rates are those of the classifier. batch: texts of a step, over all processes."""
        self._documents, self._labels, self._targets = documents, labels, targets
        self._plan, self._dropout = classifier_plan, dropout
        self._epochs = Epochs(targets.shape[0], batch, classifier_plan.seed)

    def losses(self, step: int, network: nn.Module, context: DistributedContext) -> dict[str, torch.Tensor]:
        drawn = self._epochs(step)
        own = context.local_slice(len(drawn))
        # Within the part of each process, documents come first, as their vectors do.
        drawn = np.sort(drawn.reshape(context.processes, -1), axis=1).ravel()
        rows, count = drawn[own], len(self._documents)
        parts: list[tuple[TokenSource, np.ndarray]] = [
            (self._documents, rows[rows < count]),
            (self._labels, rows[rows >= count] - count),
        ]
        vectors = nn.functional.dropout(torch.cat(embed_parts(network, parts, context.device)), self._dropout)
        encoder = getattr(network, "module", network)
        losses, gradient = encoder.classifier.step(
            context.gather(vectors.detach()), self._targets[drawn], self._plan.rate(step), DTYPES[encoder.precision]
        )
        # The value is that of the loss, and so is the gradient.
        moved = ((vectors - vectors.detach()) * gradient[own]).sum()
        return {"binary cross-entropy": (losses[own].sum() + moved) / len(rows)}
