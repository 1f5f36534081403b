"""A shallow and wide tree of labels: few levels, with many nodes below each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xmcbench.methods.label_tree.tree import Level, label_tree, levels

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix, csr_matrix


def shallow_levels(
    X: csr_matrix, pairs: csr_matrix, *, branches: int, leaf: int, height: int, seed: int
) -> list[Level]:
    """The levels of a tree, the labels last (You et al., NeurIPS 2019, section 3).

    Labels are halved by balanced 2-means on the mean features of their instances until a cluster has ``leaf`` labels
    at most. Of the binary tree, the clusters that hold the labels are kept, and upwards from them every level with a
    ``branches``-th as many clusters, ``height`` levels in all; fewer where the binary tree is not as high.

    X: CSR float32 [N, features]. pairs: binary CSR [N, L], at least one in each row and column. branches: a power of 2.
    """
    binary = label_tree(X, pairs.tocsc().astype(np.float32), nr_splits=2, max_leaf_size=leaf, seed=seed)
    last, step = len(binary) - 1, branches.bit_length() - 1
    kept = [place for place in (last - 1 - step * number for number in range(height)) if place >= 0][::-1]
    chain = [_members(binary, place, above) for above, place in zip([-1, *kept], [*kept, last], strict=True)]
    return levels(chain, pairs, 1, max(each.shape[0] for each in chain))


def _members(binary: list[csc_matrix], place: int, above: int) -> csc_matrix:
    """Which clusters of level ``above`` those of level ``place`` are in: CSC float32; -1 is the root."""
    found = binary[place]
    for between in range(place - 1, above, -1):
        found = found @ binary[between]
    return found.tocsc()
