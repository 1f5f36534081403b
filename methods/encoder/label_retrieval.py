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
    encoder: Encoder, instances: TokenStore, labels: TokenStore, pairs: csr_matrix, candidates: np.ndarray
) -> float:
    """Mean reciprocal rank of the labels of ``pairs`` [N, L] among the ``candidates`` (int64, in order).

    A label's rank counts no other true label of the instance; a tie counts against it.
    """
    sides = []
    for store, rows in ((instances, np.arange(len(instances))), (labels, candidates)):
        vectors = np.empty((len(rows), encoder.width), np.float32)
        encode(encoder, store, vectors, rows)
        sides.append(vectors)
    scores = sides[0] @ sides[1].T
    true = pairs[:, candidates].toarray() > 0
    others = np.where(true, -np.inf, scores)
    rows, places = np.nonzero(true)
    ranks = 1 + (others[rows] >= scores[rows, places][:, None]).sum(1)
    return round(float((1 / ranks).mean()), 5)
