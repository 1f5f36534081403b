"""Coverage curves: a metric against the share of labels, or of pairs, that are known (the MACLR paper's Figure 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from xmcbench.leaderboard.canvas import DAGGER
from xmcbench.leaderboard.groups import group_by, group_rows
from xmcbench.leaderboard.names import names
from xmcbench.leaderboard.tables import Table, text_table
from xmcbench.metrics import protocol
from xmcbench.metrics.seeds import half_width
from xmcbench.output import escaping
from xmcbench.records import Cell, Record, Staleness


@dataclass(frozen=True)
class CoveragePoint:
    """A metric at one ratio, as a fraction: mean, lowest and highest over the seeds, and the half-width of the 95%
    interval over test instances and seeds, as in tables."""

    value: float
    low: float
    high: float
    half_width: float
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class CoverageLine:
    """One row's points by ratio, or by budget. A flat line belongs to a method that never looks at pairs: it has one
    point, for all ratios, under the first of them. ``marks``: notes on the points, such as that some are stale."""

    name: str
    flat: bool
    points: Mapping[float, CoveragePoint]
    marks: tuple[str, ...] = ()

    def at(self, ratio: float) -> CoveragePoint | None:
        """Return the point at a ratio, if there is one."""
        return next(iter(self.points.values())) if self.flat else self.points.get(ratio)

    @property
    def label(self) -> str:
        """The name, with a dagger if there are marks."""
        return f"{self.name}{DAGGER}" if self.marks else self.name


@dataclass(frozen=True)
class Curve:
    """The lines of one metric on one dataset. ``missing``: expected points without a result, one line each."""

    dataset: str
    by: str
    metric: str
    filter: str
    ratios: tuple[float, ...]
    lines: tuple[CoverageLine, ...]
    missing: tuple[str, ...]

    @property
    def stem(self) -> str:
        """The name of its files: dataset, what is drawn, metric."""
        return f"{self.dataset.lower()}-{self.by}-{self.metric.lower().replace('@', '')}"

    @property
    def marks(self) -> dict[str, list[str]]:
        """Note -> the names of the lines that it is about."""
        marks = dict.fromkeys(mark for line in self.lines for mark in line.marks)
        return {mark: [line.name for line in self.lines if mark in line.marks] for mark in marks}


def curve(
    records: Iterable[Record],
    by: str,
    metric: str,
    filter_name: str,
    ratios: Sequence[float] | None = None,
    expected: Sequence[tuple[Cell, str]] = (),
    staleness: Staleness | None = None,
) -> Curve | None:
    """The curve of the records of one dataset; None if there is nothing to draw.

    With ``ratios`` every row that has a point is drawn. Without, they are those of the records, and a row that looks
    at pairs needs two points; there is a curve only if such a row has a few-shot one. ``expected``: cells that should
    be there, each with the name of its row if no record has one, besides the seeds and ratios of the lines themselves.
    ``staleness``: today's code, by which stale rows are marked.
    """
    groups: dict[str, tuple[str, list[tuple[float, Record]]]] = {}
    dataset = ""
    by_row = group_rows(records)
    called = {cell.row: name for cell, name in expected} | names(by_row)
    for key, group in by_row.items():
        dataset = group[0].cell.dataset
        done = [record for record in group if record.ok and metric in record.metrics[filter_name].values]
        groups[key] = (
            str(group[0].method.supervision),
            [(record.cell.setting.share, record) for record in done if record.cell.setting.by in (None, by)],
        )
    used = {ratio for supervision, placed in groups.values() if supervision != "unused" for ratio, _ in placed}
    grid = tuple(sorted(used) if ratios is None else ratios)
    lines: dict[str, CoverageLine] = {}
    needed = {(cell.row, cell.setting.share, cell.seed) for cell, _ in expected}
    for key in sorted(groups, key=called.__getitem__):
        supervision, placed = groups[key]
        flat = supervision == "unused"
        points = over_seeds([(ratio, record) for ratio, record in placed if flat or ratio in grid], metric, filter_name)
        if flat and points:
            first = min(points)
            points = {grid[0] if grid else first: points[first]}
        if not points or (ratios is None and not flat and len(points) < 2):
            continue
        marks = (staleness or Staleness()).problems(record for _, record in placed)
        lines[key] = CoverageLine(called[key], flat, points, marks)
        seeds = {seed for point in points.values() for seed in point.seeds}
        if not flat:
            whole = {ratio for ratio, record in placed if record.seedless}  # no other seed changes the point
            needed |= {
                (key, ratio, seed)
                for ratio in grid
                if ratio not in whole and (ratio or supervision != "required")
                for seed in seeds
            }
    shaped = any(0 < ratio < 1 for line in lines.values() if not line.flat for ratio in line.points)
    if not lines or (ratios is None and not shaped):
        return None
    return Curve(dataset, by, metric, filter_name, grid, tuple(lines.values()), _gaps(needed, lines, called))


def table(made: Curve) -> Table:
    """The points of a curve as a table: one row per line, one column per ratio, with the lowest and highest seed."""
    lines = []
    for line in made.lines:
        cells = []
        for ratio in made.ratios:
            point = line.at(ratio)
            spread = f" ({100 * point.low:.2f} to {100 * point.high:.2f})" if point and point.low < point.high else ""
            cells.append(f"{100 * point.value:.2f}{spread}" if point else "")
        lines.append((line.label, cells, 0))
    caption = f"{made.metric} on {made.dataset}, in percent, by share of the {made.by}s; filter {made.filter}"
    return text_table(made.stem, caption, "Method", [f"{100 * ratio:g}%" for ratio in made.ratios], lines)


def as_csv(made: Curve) -> str:
    """The points of a curve, in percent, one per line; a flat line is repeated for every ratio."""
    figures = ("value", "lowest_seed", "highest_seed", "half_width")
    lines = [["dataset", "by", "ratio", "method", "metric", *figures, "seeds", "filter", "protocol", "marks"]]
    for line in made.lines:
        for ratio in made.ratios:
            if point := line.at(ratio):
                values = [f"{100 * value:.4f}" for value in (point.value, point.low, point.high, point.half_width)]
                seeds = " ".join(map(str, point.seeds))
                head = [made.dataset, made.by, f"{ratio:g}", line.name, made.metric]
                lines.append([*head, *values, seeds, made.filter, str(protocol.VERSION), " ".join(line.marks)])
    return escaping.csv_file(lines)


def over_seeds(placed: Iterable[tuple[float, Record]], metric: str, filter_name: str) -> dict[float, CoveragePoint]:
    """Return the point of each position, in their order, from the records that have it."""
    points = {}
    for x, group in sorted(group_by(placed, lambda pair: pair[0]).items()):
        records = [record for _, record in group]
        scores = [record.metrics[filter_name] for record in records]
        values = [score.values[metric] for score in scores]
        widths = [(score.intervals[metric][1] - score.intervals[metric][0]) / 2 for score in scores]
        seeds = tuple(record.cell.seed for record in records)
        points[x] = CoveragePoint(fmean(values), min(values), max(values), half_width(values, widths), seeds)
    return points


def _gaps(
    needed: Iterable[tuple[str, float, int]], lines: Mapping[str, CoverageLine], called: Mapping[str, str]
) -> tuple[str, ...]:
    """Return a line per row: the ratios at which it lacks a point or a seed."""
    gaps: dict[str, dict[str, list[int]]] = {}
    for key, ratio, seed in sorted(needed, key=lambda gap: (called[gap[0]], *gap)):
        point = lines[key].at(ratio) if key in lines else None
        if point is None or seed not in point.seeds:
            place = f"{100 * ratio:g}%"
            seeds = gaps.setdefault(key, {}).setdefault(place, [])
            if point:
                seeds.append(seed)
    return tuple(
        f"{called[key]} at "
        + ", ".join(
            f"{place} (seed {', '.join(map(str, seeds))})" if seeds else place for place, seeds in places.items()
        )
        for key, places in gaps.items()
    )
