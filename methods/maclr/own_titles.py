"""Labels that repeat an instance's own title: where instances are labels too, the item itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xmcbench.methods.encoder.tokens import TokenStore


@dataclass(frozen=True)
class OwnTitles:
    """Which labels read like an instance's title.

    titles: int64 [N], labels: int64 [L]; a title and a label with the same number are the same text, -1 is a title
    that no label has. most: how many labels read like one title at most.
    """

    titles: np.ndarray
    labels: np.ndarray
    most: int

    @classmethod
    def of(cls, titles: TokenStore, labels: TokenStore) -> OwnTitles:
        """Texts are the same when their tokens are, both cut at the same length."""
        numbers: dict[bytes, int] = {}
        of_labels = np.fromiter(
            (numbers.setdefault(labels[row].tobytes(), len(numbers)) for row in range(len(labels))),
            np.int64,
            len(labels),
        )
        of_titles = np.fromiter((numbers.get(titles[row].tobytes(), -1) for row in range(len(titles))), np.int64)
        counts = np.bincount(of_labels, minlength=1)[of_titles[of_titles >= 0]]
        return cls(of_titles, of_labels, int(counts.max(initial=0)))

    def same(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Whether a label is an instance's own title: bool, the shape that ``rows`` and ``labels`` broadcast to."""
        return self.titles[rows] == self.labels[labels]  # type: ignore[no-any-return]

    def of_rows(self, rows: np.ndarray) -> OwnTitles:
        """The same for the instances ``rows`` only, renumbered."""
        return OwnTitles(self.titles[rows], self.labels, self.most)
