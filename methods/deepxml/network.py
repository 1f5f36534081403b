"""The bag encoder, and the training loop of it and of other networks with tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import nn

from xmcbench import MethodError, progress


def decay(epoch: int, epochs: int) -> float:
    """The share of a rate that an epoch has: 1 in the first one, less by 0.9 / epochs in each further one."""
    return 1 - 0.9 * epoch / epochs


def constant(epoch: int, epochs: int) -> float:
    """The whole rate in each epoch."""
    return 1.0


def train(
    parts: Sequence[tuple[nn.Module, float]],
    batches: Callable[[int], list[np.ndarray]],
    loss_of: Callable[[np.ndarray], torch.Tensor],
    *,
    epochs: int,
    seed: int,
    schedule: Callable[[int, int], float] = decay,
    after_epoch: Callable[[int], None] | None = None,
) -> list[list[float]]:
    """Train the parts of a network in place, each at its own rate. Returns [step, mean loss] per epoch. batches: the
    rows of each step of an epoch, by its number. loss_of: the mean loss of a step's rows. schedule: share of the rates
    in an epoch, by its number and that of epochs. after_epoch: called with its number. Raises MethodError where a loss
    is not finite."""
    optimizers: list[tuple[torch.optim.Optimizer, float]] = []
    for part, rate in parts:
        tables = [
            weights for module in part.modules() if _is_table(module) for weights in module.parameters(recurse=False)
        ]
        held = {id(weights) for weights in tables}
        dense = [weights for weights in part.parameters() if id(weights) not in held]
        optimizers += [(torch.optim.SparseAdam(tables, rate), rate)] if tables else []
        optimizers += [(torch.optim.Adam(dense, rate), rate)] if dense else []
        part.train()
    curve: list[list[float]] = []
    step, steps = 0, epochs * len(batches(0))
    for epoch in range(epochs):
        # A different dropout in each epoch, the same in every run.
        torch.manual_seed(int(np.random.SeedSequence([seed, epoch]).generate_state(1)[0]))
        for optimizer, rate in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * schedule(epoch, epochs)
        losses = []
        for rows in batches(epoch):
            loss = loss_of(rows)
            if not torch.isfinite(loss):
                raise MethodError(f"the loss of step {step + 1} is NaN or infinite", "try a lower learning rate")
            for optimizer, _ in optimizers:
                optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            for optimizer, _ in optimizers:
                optimizer.step()
            losses.append(float(loss.detach()))
            step += 1
            progress.steps(step, steps)
        curve.append([step, round(sum(losses) / len(losses), 5)])
        if after_epoch is not None:
            after_epoch(epoch)
    for part, _ in parts:
        part.eval()
    return curve


def _is_table(module: nn.Module) -> bool:
    return isinstance(module, nn.Embedding) and module.sparse


def shuffle(rows: int, batch: int, seed: int) -> Callable[[int], list[np.ndarray]]:
    """All rows in a random order of each epoch, cut into batches of about equal size."""

    def batches(epoch: int) -> list[np.ndarray]:
        order = np.random.default_rng([seed, epoch]).permutation(rows)
        return np.array_split(order, max(1, -(-rows // batch)))

    return batches


#: Texts that are embedded at a time.
_BATCH = 8192


class BagEncoder(nn.Module):  # type: ignore[misc] # torch counts as untyped
    """Bags in, float32 vectors of length 1 out (Dahiya et al., WSDM 2021, section 3). The gradient of the table of
    token vectors is sparse: a step costs what its tokens cost."""

    def __init__(self, vectors: np.ndarray, dropout: float) -> None:
        """vectors: float32 [V, d]."""
        super().__init__()
        table = torch.from_numpy(vectors.copy()) if len(vectors) else torch.zeros(1, vectors.shape[1])
        self.table = nn.Embedding.from_pretrained(table, freeze=False, sparse=True)
        self.dropout = nn.Dropout(dropout)
        self.residual = nn.Linear(vectors.shape[1], vectors.shape[1])
        # It starts from next to nothing: the token vectors mean something already.
        nn.init.normal_(self.residual.weight, std=0.01 / vectors.shape[1] ** 0.5)
        nn.init.zeros_(self.residual.bias)

    def forward(self, bags: csr_matrix) -> torch.Tensor:
        """The vectors of the texts, float32 [n, d]; zero for a text without a known token. bags: CSR float32 [n, V]."""
        device = self.residual.weight.device
        # Each token is looked up once: a gradient with a row for every occurrence would be many times as large.
        tokens, places = np.unique(bags.indices.astype(np.int64), return_inverse=True)
        summed = nn.functional.embedding_bag(
            torch.from_numpy(places).to(device),
            self.table(torch.from_numpy(tokens).to(device)),
            torch.from_numpy(bags.indptr[:-1].astype(np.int64)).to(device),
            mode="sum",
            per_sample_weights=torch.from_numpy(bags.data).to(device),
        )
        known = torch.from_numpy(np.diff(bags.indptr) > 0).to(device)
        hidden = self.dropout(torch.relu(summed))
        vectors = hidden + torch.relu(self.residual(hidden))
        return nn.functional.normalize(vectors, dim=1) * known[:, None]

    def embed(self, bags: csr_matrix) -> np.ndarray:
        """The vectors without dropout and gradients: float32 [n, d]."""
        training = self.training
        self.eval()
        with torch.inference_mode():
            parts = [self(bags[start : start + _BATCH]).cpu().numpy() for start in range(0, bags.shape[0], _BATCH)]
        self.train(training)
        return np.concatenate(parts) if parts else np.empty((0, self.residual.out_features), np.float32)
