"""Quality against cost: a metric of rows and the time they took, on one class of machine, with the Pareto fronts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xmcbench.leaderboard.plot import Marked, WithoutNotes
from xmcbench.leaderboard.rows import Cost, Row
from xmcbench.metrics import protocol
from xmcbench.output import escaping
from xmcbench.setting import Setting

#: The metrics that are drawn.
METRICS = ("P@1", "R@100")
#: With fewer rows than this on one class of machine nothing is drawn.
_FEWEST = 3


@dataclass(frozen=True)
class TradePoint(Marked):
    """A row: the metric as a fraction with its half-width, and its costs.

    fit_s: seconds before predictions, with those that reused artifacts took when they were made. predict_ms: of an
    instance. marks: as of ``Row``.
    """

    name: str
    value: float
    half_width: float
    fit_s: float
    predict_ms: float
    seeds: tuple[int, ...]
    marks: tuple[str, ...]

    @property
    def costs(self) -> tuple[float, float]:
        """What the two panels of a drawing have on their horizontal axes."""
        return self.fit_s, self.predict_ms


@dataclass(frozen=True)
class Tradeoff(WithoutNotes):
    """One metric against cost, the best row first. ``machine``: the class that all times are of. ``stem``: the name of
    its files."""

    dataset: str
    setting: Setting
    metric: str
    filter: str
    machine: str
    stem: str
    points: tuple[TradePoint, ...]

    @property
    def title(self) -> str:
        """The title of the figure."""
        return f"{self.metric} against time on {self.dataset}, {self.setting.title}, {self.machine}"

    @property
    def short(self) -> str:
        """A short title for a row of drawings."""
        return f"{self.metric} against time"

    def front(self, cost: int) -> list[TradePoint]:
        """The rows on the Pareto front over one of the ``costs``, the cheapest first.

        A row is on it if no other is at least as good and as cheap, and better or cheaper.
        """
        return sorted(
            (each for each in self.points if not any(_beats(other, each, cost) for other in self.points)),
            key=lambda each: (each.costs[cost], each.value, each.name),
        )


def tradeoffs(
    made: Sequence[tuple[Row, Cost]], dataset: str, setting: Setting, filter_name: str, machine: str, stem: str
) -> tuple[Tradeoff, ...]:
    """A figure for each metric of the rows that were measured on one class of machine; none for fewer than three."""
    if len(made) < _FEWEST:
        return ()
    figures = []
    for metric in METRICS:
        points = [
            TradePoint(
                row.name,
                row.figures[metric].value,
                row.figures[metric].half_width,
                cost.fit_s + cost.reused_s,
                cost.predict_ms,
                row.seeds,
                row.marks,
            )
            for row, cost in made
        ]
        points.sort(key=lambda each: (-each.value, each.name))
        file = f"{stem}-{metric.lower().replace('@', '')}"
        figures.append(Tradeoff(dataset, setting, metric, filter_name, machine, file, tuple(points)))
    return tuple(figures)


def as_csv(made: Tradeoff) -> str:
    """One line per row: the metric in percent, the costs, and whether it is on the front over each of them."""
    figures = ("value", "half_width", "fit_and_reused_s", "predict_ms", "on_fit_front", "on_predict_front")
    lines = [["dataset", "setting", "machine", "method", "metric", *figures, "seeds", "filter", "protocol", "marks"]]
    fronts = [made.front(cost) for cost in (0, 1)]
    for each in made.points:
        what = [made.dataset, made.setting.slug, made.machine, each.name, made.metric]
        values = [f"{100 * each.value:.4f}", f"{100 * each.half_width:.4f}"]
        values += [f"{each.fit_s:.3f}", f"{each.predict_ms:.4f}"]
        values += ["yes" if each in front else "no" for front in fronts]
        how = [" ".join(map(str, each.seeds)), made.filter, str(protocol.VERSION), " ".join(each.marks)]
        lines.append([*what, *values, *how])
    return escaping.csv_file(lines)


def _beats(one: TradePoint, other: TradePoint, cost: int) -> bool:
    no_worse = one.value >= other.value and one.costs[cost] <= other.costs[cost]
    return no_worse and (one.value > other.value or one.costs[cost] < other.costs[cost])
