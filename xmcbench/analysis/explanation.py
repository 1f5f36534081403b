"""Where two rows differ: the slices of test instances in which, and the instances that moved most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xmcbench.analysis import attributes, words
from xmcbench.analysis.rankings import first_labels
from xmcbench.comparison import LEVEL, Comparison, compare, described
from xmcbench.errors import UnknownName, UsageError
from xmcbench.metrics import METRICS, protocol
from xmcbench.metrics.slices import LEAST_ROWS, Contrast, contrasts
from xmcbench.output.layout import laid_out
from xmcbench.runner.rescoring import evaluations

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xmcbench.data import Dataset
    from xmcbench.records import Standing, Truth
    from xmcbench.records.selection import Selected

#: Slices shown in a terminal and on a page; all of them are in the JSON document.
SHOWN_SLICES = 12
#: True labels of an instance shown in a terminal.
_SHOWN_LABELS = 6


@dataclass(frozen=True)
class TrueLabel:
    """A true label of an instance.

    first, second: its rank in each run of a row, 0 where it is not among the first 100. frequency: its training pairs.
    seen: whether it has a pair among those that all runs were given; None where none was given a pair. shared: words in
    common with the text; None without texts.
    """

    label: int
    text: str
    frequency: int
    seen: bool | None
    first: tuple[int, ...]
    second: tuple[int, ...]
    shared: tuple[str, ...] | None


@dataclass(frozen=True)
class Moved:
    """A test instance on which the rows differ.

    row: its position among the test instances. first, second: the metric, means over the runs. rankings: the first
    labels that each row's first run predicts, as texts; None where its predictions are not in the runs folder.
    """

    row: int
    uid: str
    text: str
    first: float
    second: float
    labels: tuple[TrueLabel, ...]
    rankings: tuple[tuple[str, ...] | None, tuple[str, ...] | None]

    @property
    def difference(self) -> float:
        """First minus second."""
        return self.first - self.second


@dataclass(frozen=True)
class Explanation:
    """Where two rows differ in one metric, first minus second.

    slices: name -> contrast, the clearest first. better, worse: instances on which the first row is better, and worse,
    those that moved most first. note: what could not be used, and why.
    """

    comparison: Comparison
    metric: str
    slices: dict[str, Contrast]
    better: tuple[Moved, ...]
    worse: tuple[Moved, ...]
    note: str

    @property
    def found(self) -> list[str]:
        """The slices that differ from the other instances at the 5% level, after Holm's correction."""
        return [name for name, each in self.slices.items() if each.adjusted < LEVEL]

    def as_json(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {
            "first": self.comparison.first.keys,
            "second": self.comparison.second.keys,
            "filter": self.comparison.filter,
            "metric": self.metric,
            "overall": self.comparison.as_json()["metrics"][self.metric],
            "found": self.found,
            "slices": {name: each._asdict() for name, each in self.slices.items()},
            "better": [asdict(each) for each in self.better],
            "worse": [asdict(each) for each in self.worse],
            "note": self.note,
        }

    def facts(self) -> list[str]:
        """The two rows, the overall difference and the verdict on slices, a paragraph each."""
        whole = self.comparison.differences[self.metric]
        rows = zip("AB", (self.comparison.first, self.comparison.second), self.comparison.problems, strict=True)
        parts = ["\n".join(described(*row) for row in rows)]
        interval = f"95% interval {100 * whole.low:+.2f} to {100 * whole.high:+.2f}, p {whole.p:.4f}"
        parts.append(
            f"{self.metric}: A {100 * whole.first:.2f}, B {100 * whole.second:.2f}, A - B {100 * whole.delta:+.2f} "
            f"({interval}) over {self.comparison.instances:,} test instances; filter {self.comparison.filter}, metric "
            f"protocol {protocol.VERSION}."
        )
        if self.found:
            verdict = f"The difference is unlike that of the other instances in: {'; '.join(self.found)}."
        elif self.slices:
            verdict = "In no slice is the difference unlike that of the other instances at the 5% level."
        else:
            verdict = f"No slice has {LEAST_ROWS} instances inside and outside, so none was tested."
        about = f"Permutation test, Holm's correction over {len(self.slices)} slices"
        if whole.about_runs or whole.over_seeds:
            about += "; about these runs, other seeds may differ elsewhere"
        parts.append(f"{verdict} ({about}.)" if self.slices else verdict)
        return [*parts, *([self.note] if self.note else [])]

    def slice_lines(self) -> list[list[str]]:
        """The clearest slices as texts: name, instances, A - B inside and outside in points, p, p after Holm."""
        return [
            [
                name,
                f"{each.rows:,}",
                f"{100 * each.inside:+.2f}",
                f"{100 * each.outside:+.2f}",
                f"{each.p:.4f}",
                f"{each.adjusted:.4f}",
            ]
            for name, each in [*self.slices.items()][:SHOWN_SLICES]
        ]

    def __str__(self) -> str:
        """The facts, the clearest slices, and the instances that moved most."""
        parts = self.facts()
        if self.slices:
            heads = ["Slice", "instances", "A - B", "elsewhere", "p", "p (Holm)"]
            aligned = ("left", *["right"] * (len(heads) - 1))
            parts.append(laid_out(self.slice_lines(), heads, aligned))
        for head, moved in (("A is better", self.better), ("B is better", self.worse)):
            if moved:
                parts.append("\n\n".join([f"Instances on which {head}, by {self.metric}:", *map(_block, moved)]))
        return "\n\n".join(parts)


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
    values = [_values(row, comparison, metric) for row in (one, other)]
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
        contrasts(differences, slices),
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
    from xmcbench.data import load_dataset

    cell = row.records[0].cell
    try:
        dataset = load_dataset(given or cell.dataset)
    except UsageError as error:  # there is none of this name; records can be explained without it
        return None, f"Without texts: {error}"
    if dataset.digest != cell.dataset_sha256:
        return None, f"Without texts: {dataset.name} on this machine is another version than that of the records."
    return dataset, ""


def _values(row: Selected, comparison: Comparison, metric: str) -> NDArray[np.float64]:
    """The metric of each scored instance, mean over the runs, float64 [scored]; its mean is the row's value."""
    scores = evaluations(row.records, row.store, comparison.filter, comparison.first.records[0].protocol.propensity)
    mean = np.mean([each.per_instance[metric] for each in scores], axis=0)
    attainable = scores[0].attainable.get(metric)
    return np.asarray(mean if attainable is None else mean / attainable.mean())


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


def _block(moved: Moved) -> str:
    """An instance in a terminal."""
    lines = [f"  {moved.uid}  A {100 * moved.first:.1f}, B {100 * moved.second:.1f}"]
    if moved.text:
        lines.append(f"    text: {_cut(moved.text, 200)}")
    # Those that moved most come first.
    shown = sorted(moved.labels, key=lambda label: -abs(_reciprocal(label.first) - _reciprocal(label.second)))
    for label in shown[:_SHOWN_LABELS]:
        lines.append(f"    true: {_cut(label.text, 80) or f'label {label.label}'} ({', '.join(label_facts(label))})")
    if len(shown) > _SHOWN_LABELS:
        lines.append(f"    and {len(shown) - _SHOWN_LABELS} other true labels")
    for letter, ranking in zip("AB", moved.rankings, strict=True):
        if ranking is not None:
            lines.append(f"    {letter}: {'; '.join(_cut(each, 60) for each in ranking)}")
    return "\n".join(lines)


def label_facts(label: TrueLabel) -> list[str]:
    """What is known of a true label, in words."""
    facts = [f"rank in A {_shown(label.first)}, in B {_shown(label.second)}"]
    known = {None: "", True: ", seen", False: ", unseen"}[label.seen]
    facts.append(f"{label.frequency:,} training pair{'' if label.frequency == 1 else 's'}{known}")
    if label.shared is not None:
        facts.append(f"shares {', '.join(label.shared)}" if label.shared else "shares no word")
    return facts


def _reciprocal(ranks: Sequence[int]) -> float:
    return sum(1 / rank for rank in ranks if rank) / len(ranks)


def _shown(ranks: Sequence[int]) -> str:
    return "/".join(str(rank) if rank else ">100" for rank in ranks)


def _cut(text: str, length: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= length else f"{flat[: length - 4].rstrip()} ..."
