"""The closed vocabularies of a dataset: its counts and its filters."""

from __future__ import annotations

from typing import Literal

#: none: no prediction is removed; self: the test instance itself, where it is a label too; file: the reciprocal pairs
#: in the dataset's filter file.
Filter = Literal["none", "self", "file"]

#: Training instances, test instances, labels, and the (instance, label) pairs of either side.
Count = Literal["train", "test", "labels", "train_pairs", "test_pairs"]
