"""Quality against the training budget: a metric of rows that differ in nothing but how long they train.

A note ``budget`` of a record says how many texts a training embedded with their gradients (``texts``), and the names of
the parameters that decide it (``parameters``). Other keys of the note, and the method, do not matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from xmcbench.leaderboard.curves import CoveragePoint, over_seeds
from xmcbench.leaderboard.plot import Marked, WithMarkedLines, WithoutNotes
from xmcbench.leaderboard.rows import apart, shared_name
from xmcbench.metrics import protocol
from xmcbench.output import escaping
from xmcbench.records import Record, Standing
from xmcbench.setting import Setting
from xmcbench.storage.canonical import canonical_json

#: The metrics that are drawn.
METRICS = ("P@1", "R@100")
#: Budgets that a line has at least: two points of another comparison do not make a curve.
_FEWEST = 3


@dataclass(frozen=True)
class BudgetLine(Marked):
    """The points of one row by number of texts. marks: as of ``Row``."""

    name: str
    points: Mapping[int, CoveragePoint]
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class BudgetCurve(WithMarkedLines, WithoutNotes):
    """The lines of one metric of one dataset and setting."""

    dataset: str
    setting: Setting
    metric: str
    filter: str
    lines: tuple[BudgetLine, ...]

    @property
    def stem(self) -> str:
        """The name of its files: dataset, setting, what is drawn, metric."""
        return f"{self.dataset.lower()}-{self.setting.slug}-budget-{self.metric.lower().replace('@', '')}"

    @property
    def title(self) -> str:
        """The title of the drawing."""
        return f"{self.metric} against budget, {self.dataset}, {self.setting.title}"

    @property
    def short(self) -> str:
        """A short title for a row of drawings."""
        return f"{self.metric} against budget"

    @property
    def texts(self) -> list[int]:
        """All budgets, rising."""
        return sorted({texts for line in self.lines for texts in line.points})

    def place(self, texts: float) -> float:
        """The position of a budget on an axis that has 0 and is logarithmic far from it."""
        first = next((each for each in self.texts if each), 1)
        return math.log2(1 + texts / first)


def budget_curves(
    records: Iterable[Record], filter_name: str, standing: Standing | None = None
) -> tuple[BudgetCurve, ...]:
    """A curve for each metric of the records of one dataset and setting; none without rows of three budgets.

    standing: today's code, by which stale rows are marked.
    """
    groups: dict[str, list[tuple[int, Record]]] = {}
    for record in records:
        budget = _budget(record)
        if budget and record.ok:
            texts, own = budget
            others = {name: value for name, value in record.cell.parameters.items() if name not in own}
            groups.setdefault(canonical_json([record.cell.method, others]), []).append((texts, record))
    kept = [groups[key] for key in sorted(groups) if len({texts for texts, _ in groups[key]}) >= _FEWEST]
    if not kept:
        return ()
    cell = kept[0][0][1].cell
    marks = [(standing or Standing()).problems(record for _, record in placed) for placed in kept]
    made = []
    for metric in METRICS:
        drawn = zip(_names(kept), kept, marks, strict=True)
        lines = [BudgetLine(name, over_seeds(placed, metric, filter_name), own) for name, placed, own in drawn]
        lines.sort(key=lambda line: line.name)
        made.append(BudgetCurve(cell.dataset, cell.setting, metric, filter_name, tuple(lines)))
    return tuple(made)


def as_csv(made: BudgetCurve) -> str:
    """One line per row and budget, in percent."""
    figures = ("value", "lowest_seed", "highest_seed", "half_width")
    lines = [["dataset", "setting", "method", "texts", "metric", *figures, "seeds", "filter", "protocol", "marks"]]
    for line in made.lines:
        for texts, point in sorted(line.points.items()):
            values = [f"{100 * each:.4f}" for each in (point.value, point.low, point.high, point.half_width)]
            what = [made.dataset, made.setting.slug, line.name, str(texts), made.metric]
            how = [" ".join(map(str, point.seeds)), made.filter, str(protocol.VERSION), " ".join(line.marks)]
            lines.append([*what, *values, *how])
    return escaping.csv_file(lines)


def _budget(record: Record) -> tuple[int, Sequence[str]] | None:
    """The texts and the names of parameters in the note; None where it does not follow the convention."""
    note = record.notes.get("budget")
    if not isinstance(note, Mapping):
        return None
    texts, own = note.get("texts"), note.get("parameters")
    if (
        type(texts) is not int
        or texts < 0
        or not isinstance(own, list)
        or not all(isinstance(each, str) for each in own)
    ):
        return None
    return texts, own


def _names(groups: Sequence[Sequence[tuple[int, Record]]]) -> list[str]:
    """Title, and the parts that the variants of all budgets have; and where names coincide, what tells them apart."""
    names = []
    for placed in groups:
        names.append(shared_name(placed[0][1].method.title, [record.method.variant for _, record in placed]))
    found = []
    for name, placed in zip(names, groups, strict=True):
        alike = [other[0][1].cell for each, other in zip(names, groups, strict=True) if each == name]
        differences = apart([{"method": cell.method, **cell.parameters} for cell in alike])
        own = alike.index(placed[0][1].cell)
        found.append(name + differences[own])
    return found
