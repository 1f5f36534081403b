"""Trees of linear classifiers: trained and searched level by level. Imports numba: import it late."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.sparse import csc_matrix, csr_matrix, hstack

from xmcbench import TopK, usable_cores
from xmcbench.methods.distributed.threads import in_threads
from xmcbench.methods.kernels import kernel
from xmcbench.methods.label_tree.tree import label_tree

#: Passes of coordinate descent at most, and the projected gradient at which it stops: those of PECOS.
_PASSES, _TOLERANCE = 100, 0.1


def linear_svms(
    X: csr_matrix,
    positives: csc_matrix,
    members: csc_matrix,
    instances: csc_matrix,
    *,
    cost: float,
    threshold: float,
    seed: int,
) -> csr_matrix:
    """Return a linear SVM with L2 loss per cluster of a level: CSR float32 [K, features + 1], the bias last. X: CSR
    float32 [N, features]. positives: CSC [N, K], instances of each cluster. members: CSC [K, P], clusters below each of
    the level above. instances: CSC [N, P], on which the clusters below are trained. Minimizes |w|^2 / 2 + cost sum
    max(0, 1 - y w x)^2 by dual coordinate descent (Hsieh et al., ICML 2008), a seed per cluster; weights below the
    threshold are dropped. A cluster that all of its instances have gets the margin 1."""
    cores = usable_cores()
    rows, columns, weights = [], [], []
    for parent in range(members.shape[1]):
        clusters = members.indices[members.indptr[parent] : members.indptr[parent + 1]]
        trained = np.sort(instances.indices[instances.indptr[parent] : instances.indptr[parent + 1]])
        below = X[trained]
        features, local = np.unique(below.indices, return_inverse=True)
        signs = np.full((len(clusters), len(trained)), -1.0)
        for place, cluster in enumerate(clusters):
            own = positives.indices[positives.indptr[cluster] : positives.indptr[cluster + 1]]
            signs[place, np.isin(trained, own, assume_unique=True)] = 1.0
        found = np.zeros((len(clusters), len(features) + 1), np.float32)
        task = (below.indptr, local, below.data), signs, cost, seed + clusters.astype(np.int64), found
        list(in_threads(partial(_descend, *task, cores), range(cores), cores))
        children, kept = np.nonzero(np.abs(found) >= threshold if threshold else found)
        rows.append(clusters[children])
        columns.append(np.append(features, X.shape[1])[kept])
        weights.append(found[children, kept])
    shape = (members.shape[0], X.shape[1] + 1)
    whole = csr_matrix((np.concatenate(weights), (np.concatenate(rows), np.concatenate(columns))), shape=shape)
    whole.sort_indices()
    return whole


# Threads of our own and not numba's: a kernel for those takes four times as long to compile.
@kernel(nogil=True)
def _descend(vectors, signs, cost, seeds, weights, step, first):  # type: ignore[no-untyped-def]
    starts, features, values = vectors
    instances, bias = len(starts) - 1, weights.shape[1] - 1
    squares = np.ones(instances)  # of the bias
    for row in range(instances):
        for place in range(starts[row], starts[row + 1]):
            squares[row] += values[place] * values[place]
    diagonal = 0.5 / cost
    for cluster in range(first, len(weights), step):
        own = signs[cluster]
        if own.min() > 0:
            weights[cluster, bias] = 1.0
            continue
        np.random.seed(seeds[cluster])  # numba's own generator: NumPy's global one is not touched
        alphas, found = np.zeros(instances), np.zeros(bias + 1)
        for _ in range(_PASSES):
            worst = 0.0
            for row in np.random.permutation(instances):
                score = found[bias]
                for place in range(starts[row], starts[row + 1]):
                    score += found[features[place]] * values[place]
                gradient = own[row] * score - 1 + diagonal * alphas[row]
                if alphas[row] == 0 and gradient >= 0:
                    continue
                worst = max(worst, abs(gradient))
                new = max(alphas[row] - gradient / (squares[row] + diagonal), 0.0)
                step = (new - alphas[row]) * own[row]
                alphas[row] = new
                found[bias] += step
                for place in range(starts[row], starts[row + 1]):
                    found[features[place]] += step * values[place]
            if worst <= _TOLERANCE:
                break
        weights[cluster] = found


@dataclass(frozen=True)
class Chunks:
    """The classifiers of all children of a node stand together, ordered by feature (Etter et al., WWW 2022). first,
    children: the nodes below node p are ``children[first[p]:first[p + 1]]``. features, starts: the features of chunk p
    are ``features[starts[p]:starts[p + 1]]``, rising. ends: the weights of the feature at place f are those from
    ``ends[f]`` to ``ends[f + 1]``: ``places``, int32, the child in its chunk, and ``weights``."""

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
        exp(-max(0, 1 - margin)^3)."""
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


@kernel(nogil=True)
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


@kernel(nogil=True)
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


#: Nodes that are scored at a time, at most.
_BLOCK = 20_000_000


class TreeRanker:
    """Ranks the labels that have a training pair; the others have no classifier and are never predicted. The model of
    XR-Linear (Yu et al., JMLR 2022): a linear SVM at each node, trained on the instances of its parent, and a beam
    search."""

    def __init__(self, seen: np.ndarray, levels: list[Chunks]) -> None:
        """seen: int [S], the labels that the leaves stand for, rising. levels: the classifiers, from the root down."""
        self._seen, self._levels = seen, levels

    @classmethod
    def train(
        cls,
        X: csr_matrix | None,
        pairs: csr_matrix,
        *,
        nr_splits: int,
        max_leaf_size: int,
        cost: float,
        threshold: float,
        seed: int,
    ) -> TreeRanker:
        """Build the tree and train a linear SVM at each node. X: CSR float32 [N, features]; None where N is 0. pairs:
        binary CSR [N, L], at least one in each row. cost: C of the SVM. threshold: weights below it are dropped."""
        seen = np.unique(pairs.indices)
        if not len(seen) or X is None:
            return cls(seen, [])
        positives = pairs[:, seen].tocsc().astype(np.float32)
        tree = label_tree(X, positives, nr_splits=nr_splits, max_leaf_size=max_leaf_size, seed=seed)
        found = []
        for members in reversed(tree):
            above = (positives @ members).tocsc()
            svms = linear_svms(X, positives, members, above, cost=cost, threshold=threshold, seed=seed)
            found.append(Chunks.of(svms, members))
            positives = above
        return cls(seen, found[::-1])

    @property
    def labels(self) -> int:
        """Number of labels with a classifier."""
        return len(self._seen)

    def search(self, X: csr_matrix, k: int, beam_size: int) -> TopK:
        """Return the k best labels that the beam reaches; fewer if fewer labels have a classifier. Scores are those of
        PECOS: the product over the path of exp(-max(0, 1 - margin)^3), 0..1. X: CSR float32 [n, features]."""
        if not self._levels:
            return TopK.joined([], k, X.shape[0])
        queries = hstack([X, np.ones((X.shape[0], 1), np.float32)], format="csr", dtype=np.float32)
        step = max(1, _BLOCK // (beam_size * max(level.widest for level in self._levels)))
        parts = []
        for start in range(0, X.shape[0], step):
            block = queries[start : start + step]
            nodes, scores = np.zeros((block.shape[0], 1), np.int32), np.ones((block.shape[0], 1), np.float32)
            for level in self._levels:
                count = min(k, self.labels) if level is self._levels[-1] else beam_size
                nodes, scores = level.best(block, nodes, scores, count)
            found = nodes >= 0
            starts = np.concatenate([[0], np.cumsum(found.sum(axis=1))])
            parts.append(TopK.from_rows(starts, self._seen[nodes[found]], scores[found], k))
        return TopK.joined(parts, k)
