"""Ranks: where the true pairs stand among the predictions. Every metric follows from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xmcbench.errors import MethodError
from xmcbench.metrics import filters, ranking
from xmcbench.metrics.protocol import DEPTH

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix

    from xmcbench.metrics.true_pairs import TruePairs


def true_ranks(predicted: NDArray[np.int32], pairs: TruePairs, removed: csr_matrix | None = None) -> NDArray[np.uint8]:
    """The rank of every true pair among its row's predictions, uint8 [P]: 1 to 100, 0 where it is not among them.

    ``predicted`` [N, k] are label ids, best first, -1 where there is none. The filter ``removed`` [N, L] is applied
    before the cut at 100. Raises MethodError when the predictions are of another number of rows, DataError when the
    filter is.
    """
    if predicted.ndim != 2 or len(predicted) != pairs.instances:
        raise MethodError(
            f"predictions have the shape {predicted.shape}, the truth has {pairs.instances} rows",
            "predict(raw_X, k) returns one row of labels for each instance",
        )
    top = predicted if removed is None else filters.remove(predicted, removed)
    hits = ranking.find(top[:, :DEPTH], pairs.rows, pairs.labels)
    ranks = np.zeros(len(pairs), np.uint8)  # has room for ranks up to 255
    ranks[hits.pair] = hits.rank + 1
    return ranks
