"""How well an encoder ranks known labels: what its settings are chosen by where pairs are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xmcbench.methods.encoder.encoding import encode
from xmcbench.methods.encoder.network import Encoder
from xmcbench.methods.encoder.tokens import TokenStore

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def label_retrieval(
    encoder: Encoder,
    instances: TokenStore,
    labels: TokenStore,
    pairs: csr_matrix,
    trained: csr_matrix,
    candidates: np.ndarray,
) -> float:
    """Mean reciprocal rank of the labels of ``pairs`` [N, L] among the ``candidates`` (int64, in order).

    A label's rank counts no other true label of the instance: neither of ``pairs`` nor of ``trained`` [N, L], the pairs
    that the encoder learned from, which would rank before it. A tie counts against it.
    """
    sides = []
    for store, rows in ((instances, np.arange(len(instances))), (labels, candidates)):
        vectors = np.empty((len(rows), encoder.width), np.float32)
        encode(encoder, store, vectors, rows)
        sides.append(vectors)
    wanted, learned = pairs[:, candidates].tocsr(), trained[:, candidates].tocsr()
    reciprocal = 0.0
    for row in range(len(instances)):
        true = wanted.indices[wanted.indptr[row] : wanted.indptr[row + 1]]
        known = learned.indices[learned.indptr[row] : learned.indptr[row + 1]]
        scores = sides[1] @ sides[0][row]
        others = np.sort(np.delete(scores, np.concatenate([true, known])))
        reciprocal += float((1 / (1 + len(others) - np.searchsorted(others, scores[true], "left"))).sum())
    return float(round(reciprocal / max(1, wanted.nnz), 5))
