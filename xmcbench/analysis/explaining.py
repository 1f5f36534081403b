"""Finding where two rows differ, from the ranks that are stored with their records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.analysis import attributes, words
from xmcbench.analysis.explanation import Explanation, Moved, TrueLabel
from xmcbench.analysis.rankings import first_labels
from xmcbench.comparison import Comparison, compare
from xmcbench.errors import UnknownName, UsageError
from xmcbench.metrics import METRICS, Scores
from xmcbench.metrics.slices import contrasts
from xmcbench.runner.rescoring import evaluations

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xmcbench.data import Dataset
    from xmcbench.records import Standing, Truth
    from xmcbench.records.selection import Selected


def explain(
    first: str,
    second: str,
    *,
    metric: str = "P@1",
    instances: int = 5,
    runs: str | Path = "runs",
    dataset: str | None = None,
    setting: str | None = None,
    ratio: float | None = None,
    by: str | None = None,
    seed: Sequence[int] | None = None,
    filter: str | None = None,  # noqa: A002 - the name of the flag
    standing: Standing | None = None,
) -> Explanation:
    """Where two rows of a runs folder differ, from the ranks that are stored with their records.

    metric: one of the protocol. instances: how many are listed for each direction. The other arguments are those of
    ``compare``. Texts come from the dataset where it is on this machine in the version of the records, rankings from
    stored predictions where the runs folder has them; slices and ranks need neither.

    Raises UnknownName for a metric, and what ``compare`` raises.
    """
    if metric not in METRICS:
        raise UnknownName("metric", metric, METRICS)
    if instances < 0:
        raise UsageError(f"--instances {instances} must not be negative")
    comparison = compare(
        first,
        second,
        runs=runs,
        dataset=dataset,
        setting=setting,
        ratio=ratio,
        by=by,
        seed=seed,
        filter=filter,
        standing=standing,
    )
    if metric not in comparison.differences:
        raise UsageError(f"the rows have no {metric}")
    one, other = comparison.first, comparison.second
    truth = one.store.truth(one.records[0])
    loaded, note = _loaded(one, dataset)
    common = words.common_words(loaded.labels.titles) if loaded else frozenset()
    seen = _seen((one, other), truth)
    scores = [_scores(row, comparison) for row in (one, other)]
    # Of each scored instance, mean over the runs, float64 [scored]; their mean is the row's value.
    values = [np.asarray(np.mean([run.contributions(metric) for run in runs], axis=0)) for runs in scores]
    differences = values[0] - values[1]
    grouped = attributes.of_labels(truth, seen)
    if loaded:
        grouped += attributes.of_texts(truth, loaded.test, loaded.labels, common)
    slices = {name: members for each in grouped for name, members in each.slices().items()}
    ranks = [_ranks(row, comparison.filter) for row in (one, other)]
    scored = attributes.scored_rows(truth.pairs)
    # Equal differences are ordered by how far the true labels moved.
    gains = [np.bincount(truth.pairs.rows, _gain(each), truth.pairs.instances)[scored] for each in ranks]
    order = np.lexsort((scored, -(gains[0] - gains[1]), -differences))
    better = [place for place in order[:instances] if differences[place] > 0]
    order = np.lexsort((scored, gains[0] - gains[1], differences))
    worse = [place for place in order[:instances] if differences[place] < 0]
    describe = _Describer(comparison, truth, loaded, common, ranks, values, seen)
    return Explanation(
        comparison,
        metric,
        contrasts(differences, slices, weights=scores[0][0].weights(metric)),
        tuple(describe(int(scored[place]), int(place)) for place in better),
        tuple(describe(int(scored[place]), int(place)) for place in worse),
        note,
    )


@dataclass(frozen=True, eq=False)
class _Describer:
    """Describes instances, from everything that is known of the two rows."""

    comparison: Comparison
    truth: Truth
    dataset: Dataset | None
    common: frozenset[str]
    ranks: Sequence[NDArray[np.uint8]]
    values: Sequence[NDArray[np.float64]]
    seen: Sequence[NDArray[np.bool_]]

    def __call__(self, row: int, place: int) -> Moved:
        """The instance in a row of the test set, and its place among those that are scored."""
        start, end = np.searchsorted(self.truth.pairs.rows, [row, row + 1])
        data = self.dataset
        text = data.test[row] if data else ""
        labels = []
        for pair in range(start, end):
            label = int(self.truth.pairs.labels[pair])
            title = data.labels.titles[label] if data else ""
            labels.append(
                TrueLabel(
                    label,
                    title,
                    int(self.truth.frequency[label]),
                    all(bool(each[label]) for each in self.seen) if self.seen else None,
                    _of_pair(self.ranks[0], pair),
                    _of_pair(self.ranks[1], pair),
                    words.shared(text, title, self.common) if data else None,
                )
            )
        one, other = (
            first_labels(each.records[0], each.store, data, row, self.comparison.filter) if data else None
            for each in (self.comparison.first, self.comparison.second)
        )
        uid = data.test.uids[row] if data else str(row)
        first, second = (float(each[place]) for each in self.values)
        return Moved(row, uid, text, first, second, tuple(labels), (one, other))


def _loaded(row: Selected, given: str | None) -> tuple[Dataset | None, str]:
    """The dataset of a row in the version of its records; None and the reason where it is not on this machine."""
    from xmcbench.data.catalog import load_dataset, locate

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


def _scores(row: Selected, comparison: Comparison) -> list[Scores]:
    return evaluations(row.records, row.store, comparison.filter, comparison.first.records[0].protocol.propensity)


def _ranks(row: Selected, filter_name: str) -> NDArray[np.uint8]:
    """The rank of every true pair in each run, uint8 [runs, pairs]."""
    truth = row.store.truth(row.records[0])
    return np.stack([row.store.ranks(record, truth).by_filter[filter_name] for record in row.records])


def _seen(rows: Sequence[Selected], truth: Truth) -> list[NDArray[np.bool_]]:
    """The labels with a known pair in each run that was given pairs and looks at them, bool [L] each."""
    given = [row for row in rows if row.records[0].method.supervision != "unused" and row.records[0].subset]
    return [row.store.ranks(record, truth).seen for row in given for record in row.records]


def _of_pair(ranks: NDArray[np.uint8], pair: int) -> tuple[int, ...]:
    """The rank of one pair in each run."""
    return tuple(int(rank) for rank in ranks[:, pair])


def _gain(ranks: NDArray[np.uint8]) -> NDArray[np.float64]:
    """The mean reciprocal rank of each pair over the runs."""
    return np.asarray(np.where(ranks > 0, 1 / np.maximum(ranks, 1.0), 0.0).mean(axis=0))
