"""Choice of hyperparameters: the best row of each method on a dataset of held-out instances."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import hypot
from typing import TYPE_CHECKING, Any

from xmcbench.errors import UnknownName, UsageError
from xmcbench.leaderboard.groups import group_by
from xmcbench.leaderboard.rows import Estimate, Row, rows
from xmcbench.metrics import METRICS
from xmcbench.output.quantities import format_count
from xmcbench.plugins.description import DEFAULT_PRESET
from xmcbench.storage.canonical import canonical_json

if TYPE_CHECKING:
    from xmcbench.data import Dataset
    from xmcbench.records import Cell
    from xmcbench.results import Results


@dataclass(frozen=True)
class Choice:
    """The best of a method's rows by one metric. rows: how many were compared.

    close: how many other rows are no further from it than the half-width of the 95% interval of the difference.
    parameters: those in which the rows differ or that are not of the best one's preset, with the values of the best.
    preset: of the best one; empty where it has none, or that which a run takes without being asked.
    """

    dataset: str
    setting: str
    method: str
    name: str
    metric: str
    figure: Estimate
    rows: int
    close: int
    parameters: Mapping[str, object]
    preset: str = ""

    def __str__(self) -> str:
        figure, width = 100 * self.figure.value, 100 * self.figure.half_width
        close = f", {self.close} of the others within the interval" if self.close else ""
        values = (shlex.quote(f"{self.method}.{name}={value}") for name, value in self.parameters.items())
        preset = [f"--methods {self.method}:{self.preset}"] if self.preset else []
        flags = " ".join([*preset, *(f"--set {value}" for value in values)])
        rows = format_count(self.rows, "row")
        return (
            f"best {self.metric} of {rows} of {self.method} on {self.dataset}, {self.setting}: "
            f"{self.name}, {figure:.2f} ±{width:.1f}{close}" + (f"; select it with {flags}" if flags else "")
        )

    def as_json(self) -> dict[str, Any]:
        """Return the choice as JSON values; figures are fractions."""
        fields = ("dataset", "setting", "method", "preset", "name", "metric", "rows")
        said = {name: getattr(self, name) for name in fields}
        return {**said, "close": self.close, "value": self.figure.value, "parameters": dict(self.parameters)}


def check_choosable(metric: str, datasets: Iterable[Dataset]) -> None:
    """Raise UnknownName for an unknown metric, and UsageError for a dataset whose test labels are for testing."""
    if metric not in METRICS:
        raise UnknownName("metric", metric, METRICS)
    for dataset in datasets:
        if not dataset.card.is_for_choosing:
            raise UsageError(
                f"--best would choose by the test labels of {dataset.name}",
                "choose on held-out training instances: --dev 0.1, or a dataset such as lf-debian-20k-dev",
            )


def choices(results: Results, metric: str) -> list[Choice]:
    """Return the best row of each method in each dataset and setting, by the mean over seeds.

    A row is not chosen if a seed has no result. Of equal rows the first in the table is taken.
    """
    found = []
    for part in results.parts():
        for records in group_by(part.records, lambda record: record.cell.method).values():
            made = [row for row in rows(records, part.filter) if metric in row.figures and not row.problems]
            if made:
                presets = part.staleness.presets.get(records[0].cell.method, {})
                found.append(_choose(records[0].cell, metric, made, presets))
    return found


def _choose(cell: Cell, metric: str, made: list[Row], presets: Mapping[str, Mapping[str, object]]) -> Choice:
    """Return the best of a method's rows. presets: with their values today, the defaults under ""."""
    best = max(made, key=lambda row: row.figures[metric].value)
    figure = best.figures[metric]
    others = [row.figures[metric] for row in made if row is not best]
    close = sum(figure.value - other.value <= hypot(figure.half_width, other.half_width) for other in others)
    defaults = presets.get("", {})  # a cell lacks parameters that were added later
    # As they were given: what identifies a row has the content of a file in place of its name.
    given = [{**defaults, **row.records[0].values} for row in made]
    values = {**defaults, **best.records[0].values}
    preset = best.facts.preset if best.facts.preset in presets else ""
    base = presets.get(preset, {})
    named = {part.partition("=")[0] for part in best.records[0].method.changes}
    # A name lacks changes of the parameters that its method describes.
    changed = {name for name in values if not _has_equal(base, values, name)} if base else named
    chosen = {
        name: value
        for name, value in values.items()
        if name in changed or not all(_has_equal(other, values, name) for other in given)
    }
    row = cell.dataset, cell.setting.title, cell.method, best.name
    return Choice(*row, metric, figure, len(made), close, chosen, "" if preset == DEFAULT_PRESET else preset)


def _has_equal(one: Mapping[str, object], other: Mapping[str, object], name: str) -> bool:
    return canonical_json(one.get(name)) == canonical_json(other.get(name))
