"""The canary of the protocol: ranks of fixed predictions under every filter, and all figures from them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from xmcbench.errors import StorageError
from xmcbench.metrics import TruePairs
from xmcbench.metrics.protocol import DEPTH
from xmcbench.records.equivalence import METRICS, RANKS
from xmcbench.records.ranks import Truth
from xmcbench.records.staleness import metrics_digest, ranks_digest
from xmcbench.runner.figures import figures
from xmcbench.runner.ranking import rank
from xmcbench.storage.atomic import write_json
from xmcbench.storage.reading import read_bytes
from xmcbench.topk import TopK

#: The file of the stored outcome.
PROTOCOL = "protocol.json"
#: Test instances, labels, true pairs and removed pairs of each instance, and training instances.
_ROWS, _LABELS, _PAIRS, _REMOVED, _TRAINING = 400, 300, 3, 2, 900
#: Constants of propensities. Sums differ in their last digits between two builds of numpy.
_PROPENSITY, _TOLERANCE = (0.55, 1.5), 1e-9


class ProtocolOutcome(Struct, frozen=True, forbid_unknown_fields=True):
    """Filter -> ranks of the true pairs, and filter -> metric or group and metric -> value, low, high."""

    ranks: dict[str, str]
    figures: dict[str, dict[str, list[float]]]


class StoredProtocol(Struct, frozen=True, forbid_unknown_fields=True):
    """The stored outcome, and the sources of ranks and metrics that gave it, by name."""

    sources: dict[str, str]
    outcome: ProtocolOutcome

    @classmethod
    def read(cls, file: Path) -> StoredProtocol:
        """Read a file of ``store_protocol``. Raises StorageError."""
        try:
            return msgspec.json.decode(read_bytes(file), type=cls)
        except (OSError, ValueError) as error:
            raise StorageError(f"cannot read {file}: {error}", "xmcbench confirm --store ranks,metrics") from error


def protocol_sources() -> dict[str, str]:
    """Return the sources of today's code of ranks and of metrics, by name."""
    return {RANKS: ranks_digest(), METRICS: metrics_digest()}


def run_protocol() -> ProtocolOutcome:
    """Rank fixed predictions, with gaps and under three filters, and evaluate the ranks."""
    rng = np.random.default_rng(0)
    order = rng.random((_ROWS, _LABELS)).argsort(axis=1).astype(np.int32)
    rows = np.repeat(np.arange(_ROWS), _PAIRS)
    labels = np.sort(order[:, :_PAIRS], axis=1).ravel()
    predicted = rng.random((_ROWS, _LABELS)).argsort(axis=1).astype(np.int32)[:, : DEPTH + _REMOVED]
    predicted[rng.random(_ROWS) < 0.05] = -1  # no prediction at all
    scores = np.broadcast_to(-np.arange(predicted.shape[1], dtype=np.float32), predicted.shape)
    found = TopK(predicted, np.where(predicted < 0, -np.inf, scores).astype(np.float32))
    truth = Truth(
        TruePairs(rows, labels.astype(np.int64), _ROWS), rng.integers(0, 40, _LABELS).astype(np.int64), _TRAINING
    )
    filters = {name: _matrix(order, first) for name, first in (("self", _PAIRS), ("file", _PAIRS + _REMOVED))}
    dataset: Any = SimpleNamespace(filters=("none", *filters), filter=filters.get)
    halves = (TopK(found.indices[part], found.scores[part]) for part in (slice(0, 150), slice(150, _ROWS)))
    known = _matrix(order, 0)
    ranks, _ = rank(halves, dataset, truth, known)
    values: dict[str, dict[str, list[float]]] = {}
    for name, scored in figures(ranks, truth, _PROPENSITY).items():
        for group, of_group in {"": scored, **scored.views}.items():
            for metric, value in of_group.values.items():
                values.setdefault(name, {})[f"{group} {metric}".strip()] = [value, *of_group.intervals[metric]]
    return ProtocolOutcome(
        {name: " ".join(map(str, by_filter.tolist())) for name, by_filter in ranks.by_filter.items()}, values
    )


def compare_protocol(stored: ProtocolOutcome, new: ProtocolOutcome) -> dict[str, list[str]]:
    """Return the differences, a line each, for ranks and for metrics."""
    other = [f"ranks under the filter {name}" for name in stored.ranks if stored.ranks[name] != new.ranks.get(name)]
    changed = [
        f"{metric} under the filter {name}: {value[0]:.6f} has changed"
        for name, metrics in stored.figures.items()
        for metric, value in metrics.items()
        if not np.allclose(value, new.figures.get(name, {}).get(metric, np.nan), rtol=_TOLERANCE, atol=_TOLERANCE)
    ]
    return {RANKS: other, METRICS: changed}


def store_protocol(file: Path) -> None:
    """Write today's outcome and sources. Raises StorageError."""
    write_json(file, msgspec.to_builtins(StoredProtocol(protocol_sources(), run_protocol())))


def _matrix(order: np.ndarray, first: int) -> Any:
    """Return two labels of every row, binary CSR float32 [rows, labels]."""
    from scipy.sparse import csr_matrix

    columns = order[:, first : first + _REMOVED].ravel()
    starts = np.arange(0, len(columns) + 1, _REMOVED)
    return csr_matrix((np.ones(len(columns), np.float32), columns, starts), shape=(len(order), order.shape[1]))
