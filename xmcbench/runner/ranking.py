"""From predictions to the ranks of the true pairs.

Its source is recorded with the ranks (``ranks_digest``): if it changes, they are made again from the predictions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.metrics import TruePairs, label_frequency, true_ranks
from xmcbench.records import Ranks, Truth

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench.data import Dataset
    from xmcbench.topk import TopK


def rank(parts: Iterable[TopK], dataset: Dataset, truth: Truth, known: csr_matrix | None) -> tuple[Ranks, int]:
    """Return the ranks of the true pairs among predictions [n_test, k], under every filter the dataset has.

    parts: the predictions, in consecutive blocks of rows. known: the pairs that the method was given, which show which
    labels were seen. Also returns the number of rows without a prediction.
    """
    removed = {name: dataset.filter(name) for name in dataset.filters}
    found: dict[str, list[np.ndarray]] = {name: [np.empty(0, np.uint8)] for name in removed}
    first = empty = 0
    for part in parts:
        last = first + len(part)
        begin, end = np.searchsorted(truth.pairs.rows, (first, last))
        pairs = TruePairs(truth.pairs.rows[begin:end] - first, truth.pairs.labels[begin:end], len(part))
        for name, matrix in removed.items():
            found[name].append(true_ranks(part.indices, pairs, None if matrix is None else matrix[first:last]))
        empty += int((part.indices[:, 0] < 0).sum())  # best first: a row without a first prediction has none
        first = last
    seen = label_frequency(known) > 0 if known is not None else np.zeros(len(truth.frequency), bool)
    return Ranks({name: np.concatenate(ranks) for name, ranks in found.items()}, seen), empty
