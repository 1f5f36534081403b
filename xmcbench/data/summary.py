"""Statistics of a dataset: counts, lengths, frequencies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from xmcbench.data.dataset import Dataset
    from xmcbench.texts import Column


def statistics(dataset: Dataset) -> dict[str, float]:
    """Counts and means of a dataset, by name.

    The counts of ``Dataset.counts``; labels per training and test instance, training instances per label; words
    (separated by whitespace) per title and content of the instances, and per label; the number of labels without a
    training pair, and of test pairs with such a label.
    """
    train, test = dataset.train_pairs(), dataset.test_pairs()
    frequency = np.bincount(train.indices, minlength=train.shape[1])
    instances = len(dataset.train) + len(dataset.test)
    title_words, content_words = (
        _words(getattr(dataset.train, column)) + _words(getattr(dataset.test, column))
        for column in ("titles", "contents")
    )
    return {
        **dataset.counts(),
        "labels_per_train_instance": train.nnz / len(dataset.train),
        "labels_per_test_instance": test.nnz / len(dataset.test),
        "train_instances_per_label": train.nnz / len(dataset.labels),
        "words_per_title": title_words / instances,
        "words_per_content": content_words / instances,
        "words_per_label": _words(dataset.labels.titles) / len(dataset.labels),
        "labels_without_train_pair": int((frequency == 0).sum()),
        "test_pairs_of_labels_without_train_pair": int((frequency[test.indices] == 0).sum()),
    }


def _words(column: Column) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(pc.count_substring_regex(column.to_arrow(), r"\S+")).as_py() or 0)
