"""Results of a run, a curve or an ablation: records, and the tables, frames and figures made from them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from xmcbench.errors import UnknownName, UsageError
from xmcbench.extras import data_frame
from xmcbench.leaderboard import charts, curves, markup, published, rendering, tables
from xmcbench.leaderboard.groups import group_by, group_rows
from xmcbench.leaderboard.names import apart, names
from xmcbench.leaderboard.rows import Row, rows, silence, without_common
from xmcbench.metrics import METRICS
from xmcbench.output import document
from xmcbench.records import Cell, Record, Staleness

if TYPE_CHECKING:
    import pandas as pd

    from xmcbench.leaderboard.curves import Curve
    from xmcbench.leaderboard.tables import Table
    from xmcbench.runner.rows import Skipped
    from xmcbench.setting import Setting

#: Bytes at the end of a log in which its last line is looked for.
_LOG_TAIL = 1 << 16


@dataclass(frozen=True, repr=False)
class Results:
    """The records of a request, and what is needed to read them. ``str``, ``repr`` and notebooks show the tables.

    filter: of the figures shown; empty where each dataset is shown under that of its card. runs: the folder of results.
    staleness: today's code, by which stale results are marked. skipped: methods that were left out. named: the methods
    that the user named; the others are there because ``all`` was asked for. metrics: the columns of the tables.
    """

    records: tuple[Record, ...]
    filter: str
    runs: Path
    staleness: Staleness = field(default_factory=Staleness)
    skipped: tuple[Skipped, ...] = ()
    named: frozenset[str] = frozenset()
    metrics: tuple[str, ...] = published.MAIN

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    @property
    def ok(self) -> bool:
        """True if there is a result, nothing failed or ran out of time, and no named method was left out."""
        statuses = {record.status for record in self.records}
        left_out = any(method.named for method in self.skipped)
        left_out |= any(record.status == "skipped" and record.cell.method in self.named for record in self.records)
        return bool(statuses & {"ok", "unscored"}) and not statuses & {"failed", "timeout"} and not left_out

    def parts(self) -> list[Self]:
        """Return the results of each dataset and setting, each with its filter, in the order of the request."""
        return [self._restrict(group) for group in group_by(self.records, self._part_of).values()]

    def _part_of(self, record: Record) -> tuple[str, Setting | None]:
        return _place_of(record)

    def _restrict(self, records: Sequence[Record]) -> Self:
        return replace(self, records=tuple(records), filter=self._filter(records[0]))

    def _filter(self, record: Record) -> str:
        return self.filter or record.protocol.filter

    @property
    def title(self) -> str:
        """Dataset and setting, of one of the ``parts``."""
        dataset, setting = self._part_of(self.records[0])
        return f"{dataset}, {setting.title}" if setting else dataset

    def rows(self) -> list[Row]:
        """Return one row per method and parameters, with all its seeds; best P@1 first in each dataset and setting."""
        groups = group_by(self.records, _place_of)
        return [row for group in groups.values() for row in rows(group, self._filter(group[0]), self.staleness)]

    def frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame, one row per cell: identity, every metric and its interval as fractions, costs."""
        return data_frame(flat(record, self._filter(record), self.staleness) for record in self.records)

    def problems(self) -> list[str]:
        """Return one line per cell without figures, with its predictions or the last line of its log; and per
        row that is stale, or without predictions for many instances."""
        found = []
        for record in (record for record in self.records if not record.ok):
            said = f"{record.status}: {record.reason}{files_of(record, self.runs)}"
            found.append(", ".join([record.name, *self._place(record), f"seed {record.cell.seed}: {said}"]))
        return [*found, *self.problems_of_rows()]

    def problems_of_rows(self) -> list[str]:
        """Return one line per row that is stale, or without predictions for many instances."""
        found = []
        # Each dataset and setting by itself: one may be stale and another not. A problem of all is named once.
        rows: Counter[str] = Counter()
        places: dict[tuple[str, str], list[str]] = {}
        for part in group_by(self.records, _place_of).values():
            groups = group_rows(record for record in part if record.finished)
            for key, name in names(groups).items():
                rows[name] += 1
                stale = self.staleness.problems(record for record in groups[key] if record.ok)
                for problem in (*stale, *silence(groups[key])):
                    places.setdefault((name, problem), []).append(" ".join(self._place(part[0])))
        for (name, problem), of in places.items():
            row = name if len(of) == rows[name] else ", ".join([name, *of])
            found.append(f"{row}: {problem}")
        return found

    def _place(self, record: Record) -> list[str]:
        datasets = len({record.cell.dataset for record in self.records}) > 1
        settings = len({record.cell.setting for record in self.records}) > 1
        return [record.cell.dataset] * datasets + [record.cell.setting.slug] * settings

    def __str__(self) -> str:
        """The tables of all ``parts`` as text; then failed and stale cells."""
        parts = self.parts()
        shown = [f"{part.title}\n\n{part.tables()}" if len(parts) > 1 else part.tables() for part in parts]
        return "\n\n".join(filter(None, [*shown, *self.problems()]))

    def __repr__(self) -> str:
        return str(self)

    def tables(self) -> str:
        """Return the tables of one of the ``parts`` as text."""
        return "\n\n".join(map(markup.plain, self._tables()))

    def _tables(self) -> list[Table]:
        """Metrics, then costs, of one of the ``parts``."""
        made = self.rows()
        if not any(row.figures for row in made):
            return []
        costs = [(row, cost) for row in made for cost in row.costs.values()]
        machines = [machine for row in made for machine in row.costs]
        several = without_common(machines) if len(set(machines)) > 1 else ()
        caption = f"{self.title}. Percent; filter {self.filter}."
        return [
            tables.metric_table(made, self.metrics, caption=caption, with_facts=False),
            tables.cost_table(costs, caption=f"{self.title}. Time and memory.", machines=several),
        ]

    def _repr_html_(self) -> str:
        shown = []
        for part in self.parts():
            key = part.records[0].key[:8]  # ids must be unique among all tables of a notebook
            shown += [markup.hypertext(table, (), f"t{key}-{place}") for place, table in enumerate(part._tables())]
        return "".join([*shown, *self._figures(), *map(document.paragraph, self.problems())])

    def _figures(self) -> list[str]:
        return []


@dataclass(frozen=True, repr=False)
class Coverage(Results):
    """The results of a curve: a metric against the share of labels, or of pairs, that are known.

    expected: every cell that was requested, with the name of its row. The ``parts`` are those of a dataset each.
    """

    by: str = "label"
    ratios: tuple[float, ...] = ()
    expected: tuple[tuple[Cell, str], ...] = ()
    metrics: tuple[str, ...] = ("P@5", "R@100")

    def _part_of(self, record: Record) -> tuple[str, Setting | None]:
        return record.cell.dataset, None

    def curve(self, metric: str) -> Curve | None:
        """Return the curve of a metric on the only dataset; None without a result. Raises UsageError for several."""
        datasets = {record.cell.dataset for record in self.records}
        if len(datasets) > 1:
            raise UsageError(f"there is a curve for each of {', '.join(sorted(datasets))}", "see `parts`")
        expected = [(cell, name) for cell, name in self.expected if cell.dataset in datasets]
        return curves.curve(self.records, self.by, metric, self.filter, self.ratios, expected, self.staleness)

    def _tables(self) -> list[Table]:
        """The points of each metric, of one of the ``parts``."""
        return [curves.table(curve) for curve in map(self.curve, self.metrics) if curve]

    def _figures(self) -> list[str]:
        drawn = [part.curve(metric) for part in self.parts() for metric in self.metrics]
        return [charts.coverage(made).draw() for made in drawn if made]

    def tables(self) -> str:
        """Return the points of each metric, of one of the ``parts``, as text."""
        return "\n\n".join(f"{table.caption}\n\n{markup.plain(table)}" for table in self._tables())

    def draw(self, metrics: Sequence[str], folder: str | Path, formats: Sequence[str] = ()) -> list[Path]:
        """Write the figure of each metric as SVG, its points as CSV, and other formats if requested; returns the files.

        formats: ``png``, ``pdf``. Where there are several datasets, each has its own.

        Raises UnknownName for a metric or a format that does not exist, Unavailable if a format needs a missing
        package, UsageError for a file that is there and was not generated, StorageError if a file cannot be written.
        """
        from xmcbench.leaderboard.files import curve_files, write

        folder, written = Path(folder), []
        for noun, given, known in (("metric", metrics, METRICS), ("format", formats, rendering.FORMATS)):
            if unknown := [word for word in given if word not in known]:
                raise UnknownName(noun, unknown[0], known)
        for made in filter(None, (part.curve(metric) for part in self.parts() for metric in metrics)):
            files = curve_files(made)
            images = [folder / f"{made.stem}.{kind}" for kind in formats]
            for image in images:
                if image.exists() and not image.with_suffix(".svg").exists():
                    raise UsageError(f"{image} already exists and was not generated by xmcbench", "move it")
            write(folder, files)
            for image in images:
                rendering.write(files[f"{made.stem}.svg"], image)
            written += [*(folder / name for name in files), *images]
        return written


@dataclass(frozen=True, repr=False)
class Ablated(Results):
    """The results of an ablation. by_row: name of a row -> its records; changes: the parameters that each row
    changes."""

    by_row: dict[str, tuple[Record, ...]] = field(default_factory=dict)
    changes: dict[str, dict[str, object]] = field(default_factory=dict)

    def _restrict(self, records: Sequence[Record]) -> Self:
        keys = {record.key for record in records}
        by_row = {row: tuple(record for record in group if record.key in keys) for row, group in self.by_row.items()}
        return replace(super()._restrict(records), by_row={row: group for row, group in by_row.items() if group})

    def _tables(self) -> list[Table]:
        """The rows in the method's order, components first, as in the paper's table."""
        components = list(dict.fromkeys(name for changes in self.changes.values() for name in changes))
        done = [
            (name, difference, row)
            for name, records in self.by_row.items()
            for made in [rows(records, self.filter, self.staleness)]
            for row, difference in zip(made, apart([row.parameters for row in made]), strict=True)
            if row.figures
        ]
        # One table of all rows, so that all have the column of seeds if one has.
        caption = f"{self.title}. Percent; filter {self.filter}."
        measured = tables.metric_table([row for _, _, row in done], self.metrics, caption=caption, with_facts=False)
        lines = [
            tables.TableLine(
                name + difference,
                (*(tables.TableCell(_format(self.changes[name].get(part))) for part in components), *line.cells),
            )
            for (name, difference, _), line in zip(done, measured.lines, strict=True)
        ]
        heads = [tables.Column("", name.replace("_", " ")) for name in components]
        table = tables.Table(measured.name, measured.caption, "Row", (*heads, *measured.columns), tuple(lines))
        return [table] if lines else []


def _place_of(record: Record) -> tuple[str, Setting]:
    return record.cell.dataset, record.cell.setting


def files_of(record: Record, runs: Path) -> str:
    """Return the file of a cell's predictions, or its log with the last line, in parentheses; empty without both."""
    if record.predictions is not None:
        return f" (predictions: {runs / record.predictions.file})"
    if record.log is None:
        return ""
    try:
        with (runs / record.log).open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - _LOG_TAIL))
            lines = stream.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    last = _last_words([line.strip() for line in lines if line.strip()])
    new = last and last not in record.reason and record.reason not in last
    return f" (log: {runs / record.log}{f': {last}' if new else ''})"


def _last_words(lines: Sequence[str]) -> str:
    """Return the last line of a log; where faulthandler wrote it, the frame of the crash, as module names end it."""
    *others, last = lines or [""]
    if not last.startswith("Extension modules: "):
        return last
    frames = [frame for head, frame in pairwise(others) if head.startswith("Current thread 0x")]
    return (frames or others or [""])[-1]


def flat(record: Record, filter_name: str, staleness: Staleness) -> dict[str, Any]:
    """Return a record as one line of a table, with all columns: identity, metrics and intervals as fractions, costs."""
    cell, measured = record.cell, record.measured
    flat: dict[str, Any] = {
        "dataset": cell.dataset,
        "setting": cell.setting.kind,
        "by": cell.setting.by,
        "ratio": cell.setting.ratio,
        "method": cell.method,
        "name": record.name,
        "seed": cell.seed,
        "status": record.status,
        "problem": record.reason or staleness.problem(record),
        "filter": filter_name,
    }
    figures = record.metrics[filter_name] if record.ok else None
    for name in METRICS:
        low, high = figures.intervals.get(name, (None, None)) if figures else (None, None)
        flat |= {name: figures.values.get(name) if figures else None, f"{name} low": low, f"{name} high": high}
    flat |= {f"{phase}_s": measured.wall_s.get(phase) for phase in ("load", "pretrain", "fit", "predict")}
    return flat | {
        "total_s": measured.total_s,
        "reused_s": measured.reused_s,
        "peak_memory_bytes": measured.peak_memory_bytes,
        "key": record.key,
    }


def _format(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
