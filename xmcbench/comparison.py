"""Comparison of two rows on the same instances: differences of metrics with p-values, and what else differs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmcbench.errors import UsageError
from xmcbench.extras import data_frame
from xmcbench.metrics import METRICS, paired, protocol
from xmcbench.metrics.bounded import FEW_ROWS
from xmcbench.metrics.flips import LEVEL
from xmcbench.metrics.paired import Difference, holm
from xmcbench.output import document
from xmcbench.output.layout import format_table
from xmcbench.output.quantities import format_p
from xmcbench.plugins.registry import Registry
from xmcbench.records import Record, Staleness, Store, as_json
from xmcbench.records.record_json import differences
from xmcbench.records.selection import Conditions, Selected, choose
from xmcbench.runner.scoring import evaluations
from xmcbench.setting import Setting, seeds_of

if TYPE_CHECKING:
    import pandas as pd

#: Fields of a record that are part of the result; the seed of the cell is shown separately.
_RESULT = (
    *("key", "sha256", "metrics", "predictions", "ranks", "notes", "measured"),
    *("schema", "reason", "log", "checks", "artifacts"),
)


@dataclass(frozen=True, repr=False)
class Comparison:
    """The difference of two rows, first minus second.

    differences: metric -> difference, as fractions. adjusted: metric -> p-value after Holm's correction over the
    metrics; empty where the rows could not be paired, for the reason in ``unpaired``. instances: that were paired.
    apart: field of a record -> its values in the two rows. problems: of either row; it may be stale.
    """

    first: Selected
    second: Selected
    filter: str
    instances: int
    differences: Mapping[str, Difference]
    adjusted: Mapping[str, float]
    unpaired: str
    apart: Mapping[str, tuple[object, object]]
    problems: tuple[tuple[str, ...], tuple[str, ...]]

    def frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with one row per metric, as fractions."""
        lines = self.as_json()["metrics"].items()
        return data_frame({"metric": name, **figures} for name, figures in lines).set_index("metric")

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values; null for a test that was not made."""
        metrics = {
            name: {**_finite(difference._asdict()), "p_holm": self.adjusted.get(name)}
            for name, difference in self.differences.items()
        }
        return {
            "first": self.first.keys,
            "second": self.second.keys,
            "filter": self.filter,
            "instances": self.instances,
            "metrics": metrics,
            "problems": {"first": [*self.problems[0]], "second": [*self.problems[1]]},
            "apart": {place: [*values] for place, values in self.apart.items()},
        }

    def __str__(self) -> str:
        """The rows, the table of metrics, the verdict, and what else differs."""
        heads, lines = self._table()
        table = format_table(lines, heads, ("left", *["right"] * (len(heads) - 1)))
        return "\n\n".join([*self._before(), table, *self._after()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        heads, lines = self._table()
        before, after = (map(document.paragraph, parts) for parts in (self._before()[:-1], self._after()))
        return "".join([*before, document.table(self._before()[-1], heads, lines), *after])

    def _before(self) -> list[str]:
        """Return the rows, and what the table of metrics is about."""
        rows = zip("AB", (self.first, self.second), self.problems, strict=True)
        head = f"Percent; filter {self.filter}, metric protocol {protocol.VERSION}"
        head += f", paired over {self.instances:,} test instances." if self.adjusted else "."
        return ["\n".join(describe_row(*row) for row in rows), head]

    def _after(self) -> list[str]:
        lines = [f"  {place}: {_format(one)} | {_format(other)}" for place, (one, other) in self.apart.items()]
        verdict = f"not tested: the rows differ in their {self.unpaired}" if self.unpaired else self._verdict()
        return [verdict, "\n".join(["What differs:", *lines] if lines else ["Nothing else differs between the rows."])]

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Return the heads and the lines of the table of metrics."""
        lines = []
        for name in (metric for metric in METRICS if metric in self.differences):
            found = self.differences[name]
            figures = [f"{100 * found.first:.2f}", f"{100 * found.second:.2f}", f"{100 * found.delta:+.2f}"]
            if self.adjusted:
                interval = f"{100 * found.low:+.2f} to {100 * found.high:+.2f}"
                figures += [interval, format_p(found.p), format_p(self.adjusted[name])]
            lines.append([name, *figures])
        heads = ["Metric", "A", "B", "A - B", *(["95% interval", "p", "p (Holm)"] if self.adjusted else [])]
        return heads, lines

    def _verdict(self) -> str:
        are_few = self.instances < FEW_ROWS
        over_seeds = any(difference.over_seeds for difference in self.differences.values())
        over_rows = "test over instances" if are_few else "randomization test over instances"
        test = "test over instances and seeds" if over_seeds else over_rows
        found = [name for name, p in self.adjusted.items() if p < LEVEL]
        verdict = (
            f"Significant at the 5% level: {', '.join(found)}"
            if found
            else "No metric differs significantly at the 5% level"
        )
        lines = [f"{verdict} ({test}; Holm's correction over {len(self.adjusted)} metrics)."]
        if are_few:
            lines.append(
                f"With fewer than {FEW_ROWS} instances, a more cautious test is used, which seldom finds small "
                "differences significant."
            )
        if any(difference.about_runs for difference in self.differences.values()):
            lines.append(
                "The verdict is about these runs, not about the methods: a row has a single run, and another seed "
                "would change its results. To compare the methods, use several seeds on each side (--seed 0,1,2), and "
                "name a row by METHOD:VARIANT: a key is that of one seed."
            )
        return "\n".join(lines)


def compare(
    first: str,
    second: str,
    *,
    runs: str | Path = "runs",
    dataset: str | None = None,
    setting: str | None = None,
    ratio: float | None = None,
    by: str | None = None,
    seed: int | Sequence[int] | None = None,
    filter: str | None = None,  # noqa: A002 - the name of the flag
    force: bool = False,
    staleness: Staleness | None = None,
) -> Comparison:
    """Compare two rows of a runs folder by the ranks that are stored with their records.

    first, second: a method (``NAME``, ``NAME:VARIANT``, or ``NAME:`` for the row without a variant), the beginning of a
    record's key, or a record's file. dataset, setting, ratio, by, seed: choose among several results. filter:
    default is that of the records. force: put rows of different datasets or filters side by side, without a test.
    staleness: today's code, by which stale rows are named (default: that of the installed methods).

    Raises UsageError where the words name no row or several, or the rows cannot be paired; StorageError where ranks are
    missing.
    """
    chosen = Setting.optional(setting, ratio, by)
    seeds = None if seed is None else seeds_of(seed)
    judged = Registry().staleness(Path(runs)) if staleness is None else staleness
    one, other = choose(Store(Path(runs)), first, second, Conditions(dataset, chosen, seeds, judged))
    unpaired = obstacle(one, other, filter)
    if unpaired and not force:
        raise UsageError(f"the two rows differ in their {unpaired}", "`compare --force` shows them without a test")
    differences, instances, filter_name = _differences(one, other, filter, bool(unpaired))
    return Comparison(
        one,
        other,
        filter_name,
        instances,
        differences,
        {} if unpaired else holm({name: difference.p for name, difference in differences.items()}),
        unpaired,
        _apart(one.records, other.records),
        (judged.problems(one.records), judged.problems(other.records)),
    )


def obstacle(first: Selected, second: Selected, filter_name: str | None = None) -> str:
    """Return why the instances of two rows cannot be paired; empty if they can. filter_name: default is each row's."""
    one, other = first.records[0], second.records[0]
    if one.cell.dataset != other.cell.dataset:
        return f"datasets: {one.cell.dataset} and {other.cell.dataset}"
    if one.cell.dataset_sha256 != other.cell.dataset_sha256:
        return f"versions of {one.cell.dataset}"
    if filter_name is None and one.protocol.filter != other.protocol.filter:
        return f"filters: {one.protocol.filter} and {other.protocol.filter}"
    return ""


def _differences(
    first: Selected, second: Selected, filter_name: str | None, unpaired: bool
) -> tuple[dict[str, Difference], int, str]:
    """Return the difference of every metric, the number of instances, and the filter."""
    if unpaired:
        nan = float("nan")
        filters = [filter_name or row.records[0].protocol.filter for row in (first, second)]
        for row, name in zip((first, second), filters, strict=True):
            if any(name not in record.metrics for record in row.records):
                known = ", ".join(row.records[0].metrics)
                raise UsageError(f"{row.records[0].name} has no figures under the filter {name}", f"it has: {known}")
        one, other = (row.means(name) for row, name in zip((first, second), filters, strict=True))
        found = {
            name: Difference(one[name], other[name], one[name] - other[name], nan, nan, nan, False, False)
            for name in one
            if name in other
        }
        return found, 0, " and ".join(dict.fromkeys(filters))
    chosen = filter_name or first.records[0].protocol.filter
    constants = first.records[0].protocol.propensity
    scores = [evaluations(row.records, row.store, chosen, constants) for row in (first, second)]
    differences = paired.compare(
        *scores,
        matched=first.subsets == second.subsets and None not in first.subsets,
        deterministic=(first.deterministic, second.deterministic),
    )
    return differences, scores[0][0].scored, chosen


def describe_row(letter: str, row: Selected, problems: Sequence[str]) -> str:
    """Return a row in one line, and a line per problem."""
    record = row.records[0]
    where = f"{record.cell.dataset}, {record.cell.setting.title}"
    line = f"{letter}: {record.name}, {where}, seed {', '.join(map(str, row.seeds))}"
    return "\n".join([line, *(f"   {problem}" for problem in problems)])


def _finite(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: None if isinstance(figure, float) and math.isnan(figure) else figure for name, figure in values.items()
    }


def _apart(first: Sequence[Record], second: Sequence[Record]) -> dict[str, tuple[object, object]]:
    """Return the fields, but for results, in which two rows differ: field -> (one, other), for the first such seed."""
    found: dict[str, tuple[object, object]] = {}
    seeds = {record.cell.seed: record for record in second}
    both = [(record, seeds[record.cell.seed]) for record in first if record.cell.seed in seeds]
    for one, other in both or zip(first, second, strict=False):
        mine, theirs = as_json(one), as_json(other)
        for name in sorted(mine.keys() - {*_RESULT}):
            for place, *values in differences(mine[name], theirs[name], name):
                found.setdefault(place, (values[0], values[1]))
    found.pop("cell.seed", None)  # it is in the name of the row
    return {place: found[place] for place in sorted(found)}


def _format(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_format(part)}" for name, part in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_format, value)) or "none"
    text = str(value)
    # The start of a hash is enough for a reader.
    return f"{text[:12]}..." if len(text) == 64 else text
