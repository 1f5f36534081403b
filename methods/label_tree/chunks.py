"""Classifiers of a level of a tree, in chunks for a beam search. Imports numba: import it late."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numba
import numpy as np

from xmcbench import usable_cores
from xmcbench.methods.distributed.threads import in_threads

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix, csr_matrix


@dataclass(frozen=True)
class Chunks:
    """The classifiers of all children of a node stand together, ordered by feature (Etter et al., WWW 2022).

    first, children: the nodes below node p are ``children[first[p]:first[p + 1]]``. features, starts: the features of
    chunk p are ``features[starts[p]:starts[p + 1]]``, rising. ends: the weights of the feature at place f are those
    from ``ends[f]`` to ``ends[f + 1]``: ``places``, int32, the child in its chunk, and ``weights``.
    """

    first: np.ndarray
    children: np.ndarray
    starts: np.ndarray
    features: np.ndarray
    ends: np.ndarray
    places: np.ndarray
    weights: np.ndarray
    width: int

    @classmethod
    def of(cls, svms: csr_matrix, members: csc_matrix) -> Chunks:
        """Order classifiers. svms: CSR float32 [nodes, features]. members: CSC [nodes, nodes above]."""
        parents = np.repeat(np.arange(members.shape[1]), np.diff(members.indptr))
        place = np.arange(len(parents)) - members.indptr[parents]
        ordered = svms[members.indices].tocoo()
        order = np.lexsort((ordered.row, ordered.col, parents[ordered.row]))
        rows, columns = ordered.row[order], ordered.col[order].astype(np.int32)
        above = parents[rows]
        new = np.flatnonzero(np.r_[True, (above[1:] != above[:-1]) | (columns[1:] != columns[:-1])][: len(rows)])
        return cls(
            members.indptr,
            members.indices,
            np.searchsorted(above[new], np.arange(members.shape[1] + 1)),
            columns[new],
            np.append(new, len(rows)),
            place[rows].astype(np.int32),
            ordered.data[order],
            svms.shape[1],
        )

    @property
    def widest(self) -> int:
        """The most children of a node."""
        return int(np.diff(self.first).max())

    def best(
        self, queries: csr_matrix, nodes: np.ndarray, scores: np.ndarray, count: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the best nodes below those of a beam: int32 [n, count], -1 for none, and their scores, float32.

        queries: CSR float32 [n, features]. nodes, scores: the beam, [n, b]. A score is that of the node above times
        exp(-max(0, 1 - margin)^3).
        """
        there = nodes >= 0
        beam, above = nodes[there], scores[there]
        rows = np.repeat(np.arange(len(nodes)), there.sum(axis=1))
        lengths = np.diff(self.first)[beam]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        margins = np.zeros(ends[-1], np.float32)
        order = np.argsort(beam, kind="stable")
        chunk = np.searchsorted(beam[order], np.arange(len(self.first)))
        product = (
            (queries.indptr, queries.indices, queries.data),
            (self.starts, self.features, self.ends, self.places, self.weights),
            (chunk, rows[order], ends[order]),
            self.width,
            margins,
        )
        cores = usable_cores()
        list(in_threads(partial(_multiply, *product, cores), range(cores), cores))
        found = np.full((len(nodes), count), -1, np.int32), np.full((len(nodes), count), -np.inf, np.float32)
        pairs = np.searchsorted(rows, np.arange(len(nodes) + 1))
        choice = (self.first, self.children), (pairs, beam, above, ends), margins, *found
        list(in_threads(partial(_select, *choice, cores), range(cores), cores))
        return found


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def _multiply(queries, chunks, beam, width, margins, step, own):  # type: ignore[no-untyped-def]
    query_starts, query_features, query_values = queries
    starts, features, ends, places, weights = chunks
    chunk, rows, offsets = beam
    # One chunk at a time is spread out, so that each feature of a query costs one look-up.
    where = np.full(width, -1, np.int64)
    for parent in range(own, len(starts) - 1, step):
        for place in range(starts[parent], starts[parent + 1]):
            where[features[place]] = place
        for pair in range(chunk[parent], chunk[parent + 1]):
            row, offset = rows[pair], offsets[pair]
            for feature in range(query_starts[row], query_starts[row + 1]):
                place = where[query_features[feature]]
                if place >= 0:
                    for entry in range(ends[place], ends[place + 1]):
                        margins[offset + places[entry]] += query_values[feature] * weights[entry]
        for place in range(starts[parent], starts[parent + 1]):
            where[features[place]] = -1


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def _select(level, beam, margins, nodes, scores, step, own):  # type: ignore[no-untyped-def]
    first, children = level
    pairs, parents, above, ends = beam
    for row in range(own, len(nodes), step):
        begin, end = ends[pairs[row]], ends[pairs[row + 1]]
        found, node = np.empty(end - begin, np.float32), np.empty(end - begin, np.int32)
        for pair in range(pairs[row], pairs[row + 1]):
            for child in range(ends[pair], ends[pair + 1]):
                loss = max(0.0, 1.0 - margins[child])
                found[child - begin] = above[pair] * np.exp(-(loss**3))
                node[child - begin] = children[first[parents[pair]] + child - ends[pair]]
        best = np.argsort(-found, kind="mergesort")[: nodes.shape[1]]
        for place in range(len(best)):
            nodes[row, place], scores[row, place] = node[best[place]], found[best[place]]
