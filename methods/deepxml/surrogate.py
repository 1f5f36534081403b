"""Astec's surrogate labels: clusters of labels that occur together. Imports numba: import it late."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from xmcbench.methods.deepxml.bags import Bags
from xmcbench.methods.kernels import kernel
from xmcbench.methods.label_tree.tree import cluster_evenly, of_length_1


def surrogate_pairs(
    documents: Bags, pairs: csr_matrix, tokens: int, *, clusters: int, walk: int, restart: float, kept: int, seed: int
) -> csr_matrix:
    """The clusters that each document's labels lie in: binary CSR float32 [N, K]. pairs: binary CSR [N, L], every label
    with a pair. tokens: size of the vocabulary. K is the largest power of two that is neither above ``clusters`` nor
    above half of the labels, and at least 1."""
    # An empty vocabulary gives every document and label the same features, all zero.
    shape = len(documents), max(1, tokens)
    features = csr_matrix((documents.weights, documents.tokens, documents.starts), shape=shape)
    means = of_length_1((pairs.T @ features).tocsr())
    smoothed = (count_visits(pairs, walk, restart, kept, seed) @ means).tocsr()
    most = max(1, min(clusters, pairs.shape[1] // 2))
    cluster = cluster_evenly(smoothed, 1 << (most.bit_length() - 1), seed)
    ones = np.ones(len(cluster), np.float32)
    shape = pairs.shape[1], int(cluster.max()) + 1
    found = (pairs @ csr_matrix((ones, (np.arange(len(cluster)), cluster)), shape=shape)).tocsr()
    found.data[:] = 1
    return found


def count_visits(pairs: csr_matrix, steps: int, restart: float, kept: int, seed: int) -> csr_matrix:
    """Frequencies by which a random walk over the pairs visits each label: CSR float32 [L, L], rows that sum to 1.
    pairs: binary CSR [N, L]. From a label the walk goes to one of its documents and on to one of that document's
    labels, or with probability ``restart`` back to its start. Of ``steps`` visits, the ``kept`` most visited labels
    stay."""

    by_label = pairs.T.tocsr()
    labels = pairs.shape[1]
    columns, values = np.zeros((labels, kept), np.int32), np.zeros((labels, kept), np.float32)
    _walk(
        (pairs.indptr, pairs.indices),
        (by_label.indptr, by_label.indices),
        steps,
        restart,
        np.random.default_rng(seed).integers(0, 2**31, labels),
        columns,
        values,
    )
    values /= values.sum(axis=1, keepdims=True)
    rows = np.repeat(np.arange(labels), kept)
    found = csr_matrix((values.ravel(), (rows, columns.ravel())), shape=(labels, labels))
    found.eliminate_zeros()
    return found


@kernel()
def _walk(pairs, by_label, steps, restart, seeds, columns, values):  # type: ignore[no-untyped-def]
    starts, labels = pairs
    label_starts, documents = by_label
    kept = columns.shape[1]
    visits = np.zeros(len(seeds), np.int64)
    met = np.empty(steps, np.int64)
    for label in range(len(seeds)):
        np.random.seed(seeds[label])
        size, here = 0, label
        for _ in range(steps):
            first, last = label_starts[here], label_starts[here + 1]
            if np.random.random() < restart or first == last:
                here = label
            else:
                document = documents[np.random.randint(first, last)]
                here = labels[np.random.randint(starts[document], starts[document + 1])]
            if visits[here] == 0:
                met[size] = here
                size += 1
            visits[here] += 1
        known = np.sort(met[:size])
        order = np.argsort(-visits[known], kind="mergesort")[:kept]
        for place in range(len(order)):
            columns[label, place] = known[order[place]]
            values[label, place] = visits[known[order[place]]]
        visits[known] = 0
