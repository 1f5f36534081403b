"""Nearest items by inner product: exact up to a stated size, HNSW above it.

Exact search is FAISS's flat scan on the CPU, a matrix product of numpy where FAISS is not installed, and a blocked
matrix product with top-k on a GPU. All only propose candidates. Scores are then recomputed pair by pair in a fixed
order of summation, so that equal vectors have equal scores, and results do not depend on the engine, the number of
threads or the block size. A row whose top k depends on the rounding of the scan is scanned a second time.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from xmcbench import MethodError, TopK

if TYPE_CHECKING:
    import torch

#: Items above which a search on the CPU is approximate. Two cores compare about 10^5 queries of 384 dimensions
#: with as many items in 2 minutes; beyond that, building and querying an HNSW index is cheaper.
EXACT_UP_TO = 200_000
#: Candidates fetched beyond k, to correct the rounding of the scan.
MARGIN = 16
#: HNSW: links of a node (FAISS's default), and how many nodes it looks at to place a new one (twice FAISS's default).
LINKS, EF_CONSTRUCTION = 32, 80
#: Queries on which the recall of the approximate search is measured.
SAMPLE = 200
#: Relative rounding error that is allowed to a float32 scan, as a multiple of |query| x |item|.
TOLERANCE = 1e-5
#: Floats that a block of scores or of gathered items may hold.
_BLOCK = 32_000_000
#: Queries that are scored against a block of items at a time where FAISS is not used.
_ROWS = 1024


def top_k(queries: np.ndarray, items: np.ndarray, k: int, **options: Any) -> TopK:
    """Return the k items with the largest inner product per query: all that ``top_k_batches`` yields."""
    return TopK.joined(top_k_batches(queries, items, k, **options), k, len(queries))


def top_k_batches(
    queries: np.ndarray, items: np.ndarray, k: int, *, notes: dict[str, object] | None = None, **options: Any
) -> Iterator[TopK]:
    """Yield the k items with the largest inner product per query, ties by lower item number, batch by batch. queries:
    [N, d]; items: [L, d]; float32 or float16, memory maps too: both are read block by block. device: ``cuda``, or else
    the CPU, which uses HNSW for more than ``exact_up_to`` items. processes: GPUs that share the queries.
    ``notes["search"]`` receives the index used and, for HNSW, its recall on queries drawn by ``seed``. Padded where L <
    k. Raises MethodError where a vector is not finite."""
    search = Index(items, **options).search(k)
    yield from search.batches(queries)
    if notes is not None:
        notes["search"] = search.note()


def regroup(batches: Iterable[TopK], rows: int) -> Iterator[TopK]:
    """The same predictions in batches of so many rows, but for the last one, which can have fewer."""
    rest: TopK | None = None
    for batch in batches:
        whole = TopK.joined([rest, batch], batch.k) if rest else batch
        full = len(whole) // rows * rows
        for start in range(0, full, rows):
            yield TopK(whole.indices[start : start + rows], whole.scores[start : start + rows])
        rest = TopK(whole.indices[full:], whole.scores[full:])
    if rest:
        yield rest


def renumber(found: TopK, labels: np.ndarray, known: np.ndarray) -> TopK:
    """Return predictions by the numbers of all labels, for the queries that are known; the others have none. labels:
    int [S], their numbers by those of ``found``. known: bool, a query each."""
    kept = known[:, None] & (found.indices >= 0)
    numbers = np.where(kept, labels[found.indices], -1).astype(np.int32)
    return TopK(numbers, np.where(kept, found.scores, -np.inf).astype(np.float32))


class Index:
    """Items that are searched more than once, or by some queries at a time: an HNSW graph is built once."""

    def __init__(
        self,
        items: np.ndarray,
        *,
        device: str = "cpu",
        processes: int = 1,
        exact_up_to: int = EXACT_UP_TO,
        seed: int = 0,
    ) -> None:
        """The arguments are those of ``top_k_batches``. Raises MethodError where an item is not finite."""
        self.items, self.devices, self.seed = _searchable(items), _devices(device, processes), seed
        self.largest = _finite_norm(self.items)
        self.graph: Any = None if is_exact(len(items), device, exact_up_to) else _hnsw(self.items)

    def search(self, k: int) -> Search:
        """A search for the k nearest items, whose queries come in one part or several."""
        return Search(self, k)


class Search:
    """The k items of an index with the largest inner product, for queries that come in one part or several."""

    def __init__(self, index: Index, k: int) -> None:
        self._index, self.k = index, k
        self._rng = np.random.default_rng(index.seed)
        # Of the sample: what it was drawn by, the items that were found, and those that exact search finds.
        self._drawn, self._hits, self._true = np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)

    def batches(self, queries: np.ndarray) -> Iterator[TopK]:
        """Yield the batches of ``top_k_batches`` for these queries. Raises what it raises."""
        queries, index = _searchable(queries), self._index
        _finite_norm(queries)
        if index.graph is None:
            yield from _exact_on(index.devices, queries, index.items, self.k, index.largest)
        else:
            yield from self._approximate(queries)

    def note(self) -> dict[str, object]:
        """The method used: the index and, for HNSW, its recall on a sample of all queries so far; JSON values."""
        if self._index.graph is None:
            return {"index": "exact", "items": len(self._index.items)}
        return {
            "index": "HNSW",
            "items": len(self._index.items),
            "links": LINKS,
            "ef_construction": EF_CONSTRUCTION,
            "ef_search": self._width,
            "recall": round(int(self._hits.sum()) / max(1, int(self._true.sum())), 4),
            "recall_queries": len(self._drawn),
        }

    @property
    def _width(self) -> int:
        """Number of nodes of the graph that a query looks at."""
        return max(2 * self.k, 128)

    def _approximate(self, queries: np.ndarray) -> Iterator[TopK]:
        index, k = self._index, self.k
        sampled, drawn, kept = self._sample(len(queries))
        found, step = [np.empty((0, k), np.int32)], max(1, _BLOCK // max(k, index.items.shape[1]))
        for start in range(0, len(queries), step):
            block = _wide(queries[start : start + step])
            # In each block: the graph may be searched for another k between two.
            index.graph.hnsw.efSearch = self._width
            _, candidates = index.graph.search(block, k)
            ranked = TopK.ranked(candidates, pair_scores(block, index.items, candidates))
            found.append(ranked.indices[sampled[(sampled >= start) & (sampled < start + len(block))] - start])
            yield ranked
        exact = TopK.joined(_exact(queries[sampled], index.items, k, "cpu", index.largest), k, len(sampled))
        both = zip(exact.indices, np.concatenate(found), strict=True)
        hits = np.array([len(np.intersect1d(a[a >= 0], b)) for a, b in both], np.int64)
        self._drawn = np.concatenate([self._drawn[kept], drawn])
        self._hits = np.concatenate([self._hits[kept], hits])
        self._true = np.concatenate([self._true[kept], (exact.indices >= 0).sum(axis=1)])

    def _sample(self, queries: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draw a number per query; of all queries, those with the smallest numbers are the sample.
        Returns the queries that enter it, in order, their numbers, and which of the sample so far stay."""
        numbers = self._rng.random(queries)
        both = np.concatenate([self._drawn, numbers])
        kept = np.zeros(len(both), bool)
        kept[np.argsort(both, kind="stable")[:SAMPLE]] = True
        sampled = np.flatnonzero(kept[len(self._drawn) :])
        return sampled, numbers[sampled], kept[: len(self._drawn)]


def is_exact(items: int, device: str, exact_up_to: int = EXACT_UP_TO) -> bool:
    """Return whether ``top_k`` compares a query with every one of so many items."""
    return device.startswith("cuda") or items <= exact_up_to or not find_spec("faiss")


def _devices(device: str, processes: int) -> list[str]:
    """Return the devices of an exact search: the GPUs of ``cuda``, else the CPU."""
    if not device.startswith("cuda"):
        return ["cpu"]
    return [device] if processes == 1 else [f"cuda:{number}" for number in range(processes)]


def _searchable(vectors: np.ndarray) -> np.ndarray:
    """Vectors in one piece, as float32 unless they are float16, which a scan widens block by block."""
    return np.ascontiguousarray(vectors, np.float16 if vectors.dtype == np.float16 else np.float32)


def _wide(vectors: np.ndarray) -> np.ndarray:
    """The vectors as float32; no copy where they are."""
    return vectors.astype(np.float32, copy=False)


def _exact_on(devices: Sequence[str], queries: np.ndarray, items: np.ndarray, k: int, largest: float) -> Iterator[TopK]:
    """Exact search, the queries dealt out to the devices."""
    if len(devices) == 1:
        yield from _exact(queries, items, k, devices[0], largest)
        return
    # Threads, not processes: products on a GPU, and the scores of pairs by numpy, leave the interpreter free, while
    # a process would take seconds to start and need a copy of the items.
    with ThreadPoolExecutor(len(devices)) as pool:
        shares = np.array_split(queries, len(devices))
        yield from pool.map(
            lambda share, device: TopK.joined(_exact(share, items, k, device, largest), k, len(share)), shares, devices
        )


def _exact(queries: np.ndarray, items: np.ndarray, k: int, device: str, largest: float) -> Iterator[TopK]:
    """Candidates from a scan, scores by pairs, and a second scan of rows that are too close to call."""
    kept, fetched = min(k, len(items)), min(k + MARGIN, len(items))
    if not len(queries) or not kept:
        yield TopK.joined([], k, len(queries))
        return
    scan = _cpu_scan if device == "cpu" else partial(_torch_scan, device=device)
    for start, candidates in scan(queries, items, fetched):
        block = _wide(queries[start : start + len(candidates)])
        ranked = TopK.ranked(candidates, pair_scores(block, items, candidates))
        indices, scores = ranked.indices[:, :kept].copy(), ranked.scores[:, :kept].copy()
        if fetched < len(items):
            slack = TOLERANCE * largest * np.linalg.norm(block, axis=1)
            for row in np.flatnonzero(scores[:, -1] - ranked.scores[:, -1] <= slack):
                indices[row], scores[row] = _rescan(block[row], items, kept, slack[row])
        yield TopK.joined([TopK(indices, scores)], k)


def _cpu_scan(queries: np.ndarray, items: np.ndarray, fetched: int) -> Iterator[tuple[int, np.ndarray]]:
    """Pairs of (first row, candidates int [rows, fetched]), by FAISS without a copy of the items, else by numpy. Items
    in float16, and all of them for numpy, are taken a block at a time, and the best of the blocks are merged."""
    if find_spec("faiss"):
        largest, step = _largest_by_faiss, max(1, _BLOCK // max(fetched, items.shape[1]))
        width = max(fetched, _BLOCK // items.shape[1]) if items.dtype == np.float16 else len(items)
    else:
        largest, step, width = _largest_by_numpy, _ROWS, max(fetched, _BLOCK // _ROWS)
    for start in range(0, len(queries), step):
        block = _wide(queries[start : start + step])
        best, candidates = np.empty((len(block), 0), np.float32), np.empty((len(block), 0), np.int64)
        for first in range(0, len(items), width):
            part = _wide(items[first : first + width])
            scores, found = largest(block, part, min(fetched, len(part)))
            best, candidates = np.hstack([best, scores]), np.hstack([candidates, found + first])
            if best.shape[1] > fetched:
                kept = np.argpartition(-best, fetched - 1, axis=1)[:, :fetched]
                best, candidates = np.take_along_axis(best, kept, 1), np.take_along_axis(candidates, kept, 1)
        yield start, candidates


def _largest_by_faiss(queries: np.ndarray, items: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    import faiss

    found: tuple[np.ndarray, np.ndarray] = faiss.knn(queries, items, count, metric=faiss.METRIC_INNER_PRODUCT)
    return found


def _largest_by_numpy(queries: np.ndarray, items: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    scores = queries @ items.T
    found = np.argpartition(-scores, count - 1, axis=1)[:, :count]
    return np.take_along_axis(scores, found, 1), found


def _torch_scan(queries: np.ndarray, items: np.ndarray, fetched: int, device: str) -> Iterator[tuple[int, np.ndarray]]:
    """Blocked matrix product and top-k, the items a block at a time so that neither side must fit as a whole."""
    import torch

    width = max(fetched, _BLOCK // _ROWS)
    whole = _to(items, device) if device != "cpu" and _fits(items, device) else None
    for start in range(0, len(queries), _ROWS):
        block = _to(queries[start : start + _ROWS], device).float()
        best = torch.empty((len(block), 0), device=device)
        numbers = torch.empty((len(block), 0), dtype=torch.int64, device=device)
        for first in range(0, len(items), width):
            part = whole[first : first + width] if whole is not None else _to(items[first : first + width], device)
            scores, found = (block @ part.float().T).topk(min(fetched, len(part)), dim=1)
            best, order = torch.cat([best, scores], 1).topk(min(fetched, best.shape[1] + scores.shape[1]), dim=1)
            numbers = torch.cat([numbers, found + first], 1).gather(1, order)
        yield start, numbers.cpu().numpy()


def _to(array: np.ndarray, device: str) -> torch.Tensor:
    import torch

    with warnings.catch_warnings():
        # A memory map can be read-only, and nothing is written to it.
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(array).to(device)


def _fits(items: np.ndarray, device: str) -> bool:
    import torch

    free, _ = torch.cuda.mem_get_info(device)
    return bool(items.nbytes < free // 2)


def pair_scores(queries: np.ndarray, items: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Inner product of each query with its candidates: float32 [N, c]; candidates: int [N, c], -1 for none."""
    scores = np.empty(candidates.shape, np.float32)
    step = max(1, _BLOCK // max(1, candidates.shape[1] * items.shape[1]))
    for start in range(0, len(queries), step):
        rows = slice(start, start + step)
        # einsum sums every pair in the same order, which a matrix product does not.
        scores[rows] = np.einsum("nd,ncd->nc", _wide(queries[rows]), _wide(items[candidates[rows]]))
    return scores


def _rescan(query: np.ndarray, items: np.ndarray, kept: int, slack: float) -> tuple[np.ndarray, np.ndarray]:
    """The first ``kept`` of one query, all items within rounding of the last place scored pair by pair."""
    if not query.any():
        return np.arange(kept, dtype=np.int32), np.zeros(kept, np.float32)
    step = max(1, _BLOCK // items.shape[1])
    rough = np.concatenate([_wide(part) @ query for part in _blocks(items, step)])
    close = np.flatnonzero(rough >= np.partition(rough, -kept)[-kept] - slack)
    scores = np.concatenate([pair_scores(query[None], items, part[None]) for part in _blocks(close, step)], axis=1)
    ranked = TopK.ranked(close[None], scores)
    return ranked.indices[0, :kept], ranked.scores[0, :kept]


def _hnsw(items: np.ndarray) -> Any:
    """A graph of the items, an index of FAISS."""
    import faiss

    index: Any = faiss.IndexHNSWFlat(items.shape[1], LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = EF_CONSTRUCTION
    threads = faiss.omp_get_max_threads()
    # Several threads link the nodes in random order: two runs would differ.
    faiss.omp_set_num_threads(1)
    try:
        for part in _blocks(items, max(1, _BLOCK // items.shape[1])):
            index.add(_wide(part))
    finally:
        faiss.omp_set_num_threads(threads)
    return index


def _finite_norm(vectors: np.ndarray) -> float:
    """Largest Euclidean length. Raises MethodError where a value is not finite."""
    step = max(1, _BLOCK // max(1, vectors.shape[1]))
    squares = [np.einsum("nd,nd->n", block, block).max() for block in map(_wide, _blocks(vectors, step))]
    largest = float(np.sqrt(np.max(squares, initial=0.0)))
    if not np.isfinite(largest):
        raise MethodError("an embedding is NaN or infinite", "a diverged training? check the loss")
    return largest


def _blocks(vectors: np.ndarray, step: int) -> Iterator[np.ndarray]:
    for start in range(0, len(vectors), step):
        yield vectors[start : start + step]
