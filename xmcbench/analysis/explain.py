"""Find where two rows differ, from the ranks that are stored with their records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from xmcbench.analysis import attributes
from xmcbench.analysis.explanation import Explanation, Moved, TrueLabel
from xmcbench.analysis.rankings import first_labels
from xmcbench.comparison import Comparison
from xmcbench.data import Dataset
from xmcbench.data.catalog import load_dataset, locate
from xmcbench.errors import UnknownName, UsageError
from xmcbench.metrics import METRICS
from xmcbench.metrics.slices import contrasts
from xmcbench.records import Truth
from xmcbench.records.selection import Selected
from xmcbench.runner.scoring import evaluations


def explain(comparison: Comparison, metric: str = "P@1", instances: int = 5, dataset: str | None = None) -> Explanation:
    """Explain the difference of two compared rows, from the ranks that are stored with their records.

    metric: one of the protocol. instances: how many are listed per direction. dataset: its place, if it is not
    found by its name. Texts come from the dataset where it is on this machine in the version of the records, rankings
    from stored predictions where the runs folder has them; slices and ranks need neither.

    Raises UnknownName for a metric, UsageError.
    """
    if metric not in METRICS:
        raise UnknownName("metric", metric, METRICS)
    if instances < 0:
        raise UsageError(f"--instances {instances} must not be negative")
    if metric not in comparison.differences:
        raise UsageError(f"the rows have no {metric}")
    rows = (comparison.first, comparison.second)
    truth, constants = rows[0].store.truth(rows[0].records[0]), rows[0].records[0].protocol.propensity
    data, note = load_texts(rows[0], dataset)
    common = attributes.common_words(data.labels.titles) if data else frozenset()
    seen = _find_seen(rows, truth)
    scores = [evaluations(row.records, row.store, comparison.filter, constants) for row in rows]
    # Of each scored instance, mean over the runs, float64 [scored]; their mean is the row's value.
    values = [np.asarray(np.mean([run.contributions(metric) for run in runs], axis=0)) for runs in scores]
    differences = values[0] - values[1]
    slices = attributes.of_labels(truth, seen)
    if data:
        slices |= attributes.of_texts(truth, data.test, data.labels, common)
    # Of every true pair in each run, uint8 [runs, pairs].
    ranks = [
        np.stack([row.store.ranks(record, truth).by_filter[comparison.filter] for record in row.records])
        for row in rows
    ]
    scored = np.flatnonzero(truth.pairs.lengths)
    # Equal differences are ordered by how far the true labels moved.
    gains = [np.bincount(truth.pairs.rows, _gain(of_row), truth.pairs.instances)[scored] for of_row in ranks]

    def describe(row: int, place: int) -> Moved:
        """Describe the instance in a row of the test set, by its place among those that are scored."""
        start, end = np.searchsorted(truth.pairs.rows, [row, row + 1])
        text, uid = (data.test[row], data.test.uids[row]) if data else ("", str(row))
        labels = []
        for pair in range(start, end):
            label = int(truth.pairs.labels[pair])
            title = data.labels.titles[label] if data else ""
            known = all(bool(of_run[label]) for of_run in seen) if seen else None
            first, second = (tuple(of_row[:, pair].tolist()) for of_row in ranks)
            shared = attributes.shared_words(text, title, common) if data else None
            labels.append(TrueLabel(label, title, int(truth.frequency[label]), known, first, second, shared))
        one, other = (
            first_labels(selected.records[0], selected.store, data, row, comparison.filter) if data else None
            for selected in rows
        )
        first_value, second_value = (float(of_row[place]) for of_row in values)
        return Moved(row, uid, text, first_value, second_value, tuple(labels), (one, other))

    moved = []
    for sign in (-1, 1):
        order = np.lexsort((scored, sign * (gains[0] - gains[1]), sign * differences))
        places = [place for place in order[:instances] if sign * differences[place] < 0]
        moved.append(tuple(describe(int(scored[place]), int(place)) for place in places))
    found = contrasts(differences, slices, weights=scores[0][0].weights(metric))
    return Explanation(comparison, metric, found, moved[0], moved[1], note)


def load_texts(row: Selected, given: str | None) -> tuple[Dataset | None, str]:
    """Load the dataset of a row in the version of its records; None and the reason where it is not on this machine."""
    cell = row.records[0].cell
    try:
        problem = locate(given or cell.dataset).problem
    except UsageError as error:  # there is none of this name; records can be explained without it
        problem = str(error)
    if problem:
        return None, f"Without texts: {problem}"
    dataset = load_dataset(given or cell.dataset)
    if dataset.digest != cell.dataset_sha256:
        return None, f"Without texts: {dataset.name} on this machine is another version than that of the records."
    return dataset, ""


def _find_seen(rows: Sequence[Selected], truth: Truth) -> list[NDArray[np.bool_]]:
    """Return the labels with a known pair in each run that was given pairs and looks at them, bool [L] each."""
    given = [row for row in rows if row.records[0].method.supervision != "unused" and row.records[0].subset]
    return [row.store.ranks(record, truth).seen for row in given for record in row.records]


def _gain(ranks: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the mean reciprocal rank of each pair over the runs."""
    return np.asarray(np.where(ranks > 0, 1 / np.maximum(ranks, 1.0), 0.0).mean(axis=0))
