"""Exact search shared by several machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from xmcbench import Artifacts, TopK
from xmcbench.methods.dense.search import is_exact, top_k_batches
from xmcbench.methods.dense.vectors import temporary_vectors
from xmcbench.methods.distributed.machines import Machines
from xmcbench.methods.distributed.processes import exchange

#: Products of two numbers from which machines share the queries: more work than the exchange. An estimate, not a
#: measurement.
WORTHWHILE = {"cpu": 10**12, "cuda": 10**14, "mps": 10**12}
#: Rows of an exchanged result that are read at a time.
_ROWS = 65_536


def search_on_machines(
    queries: np.ndarray,
    items: np.ndarray,
    k: int,
    *,
    artifacts: Artifacts,
    device: str,
    **options: Any,
) -> Iterator[TopK]:
    """Yield the batches of ``top_k_batches``, searched by ``processes`` GPUs and, if exact, by the other machines too.
    Each machine searches its share of the queries, and all exchange the results. HNSW is not shared: every machine
    needs the whole graph, and building it takes most of the time. Raises what ``top_k_batches`` raises, MethodError
    where another machine fails, and XmcbenchError where there is no room for the exchange beside the artifacts."""
    machines = Machines.here()

    def search(part: np.ndarray) -> Iterator[TopK]:
        return top_k_batches(part, items, k, device=device, **options)

    small = len(queries) * items.size < max(1, WORTHWHILE[device])
    if machines.count == 1 or small or not is_exact(len(items), device):
        yield from search(queries)
        return
    owned = np.array_split(np.arange(len(queries)), machines.count)

    def write(out: np.ndarray) -> None:
        mine = owned[machines.number]
        # Contiguous, also where there are none: a view, not a copy.
        first = int(mine[0]) if len(mine) else 0
        found = TopK.joined(search(queries[first : first + len(mine)]), k, len(mine))
        out[first : first + len(mine)] = np.hstack([found.indices, found.scores.view(np.int32)])
        exchange(machines, out, owned, f"search {queries.shape} {items.shape} {device}")

    with temporary_vectors(artifacts, (len(queries), 2 * k), np.dtype(np.int32), write) as both:
        for start in range(0, len(queries), _ROWS):
            rows = np.array(both[start : start + _ROWS])
            yield TopK(np.ascontiguousarray(rows[:, :k]), np.ascontiguousarray(rows[:, k:]).view(np.float32))
