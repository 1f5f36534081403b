"""True pairs: which labels are right for which test rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.errors import DataError
from xmcbench.metrics import ranking

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix


@dataclass(frozen=True, eq=False)
class TruePairs:
    """The true pairs of a test set, row by row, each once.

    rows: int64 [P], the test row of each pair; never falls.
    labels: int64 [P], its label.
    instances: number of test rows N, with or without a true label.
    """

    rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    instances: int

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def of(cls, matrix: csr_matrix) -> TruePairs:
        """The non-zero entries of a sparse matrix [N, L]; what is stored twice counts once."""
        return cls(*ranking.pairs(matrix), instances=matrix.shape[0])

    def restrict(self, members: NDArray[np.bool_]) -> tuple[TruePairs, NDArray[np.bool_]]:
        """The pairs whose label is a member (bool [L]), and which pairs these are, bool [P].

        The number of test rows stays. Raises DataError when a pair's label is outside the group's labels.
        """
        if len(self) and self.labels.max() >= len(members):
            raise DataError(
                f"a group over {len(members)} labels does not fit true pairs with label {self.labels.max()}"
            )
        kept = members[self.labels]
        return TruePairs(self.rows[kept], self.labels[kept], self.instances), kept
