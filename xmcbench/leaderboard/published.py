"""Published figures, with their citations.

A source is a ``.toml`` file in ``leaderboards/published``, beside the ``.csv`` files it names. Figures are
kept as printed text; only the page of claims takes differences of them.
"""

from __future__ import annotations

import csv
import io
import math
import re
import tomllib
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct, field

from xmcbench.errors import DataError, UsageError
from xmcbench.setting import Setting
from xmcbench.storage.locations import find_shipped
from xmcbench.storage.reading import read_text

#: The layout of the MACLR paper: every measured table has these. A published one may lack those that it does not print.
MAIN = ("P@1", "P@3", "P@5", "R@1", "R@3", "R@5", "R@10", "R@100")

#: The links that Markdown may contain, and the keys of citations in LaTeX.
_LINK, _KEY = re.compile(r"https?://[\w./?#@!$&'*+,;=%:~-]+", re.ASCII), re.compile(r"[\w.:+/-]+", re.ASCII)


@dataclass(frozen=True)
class PublishedRow:
    """One printed row: metric -> figure in percent, as printed, and metric -> note on that figure."""

    method: str
    table: str
    dataset: str
    setting: Setting
    figures: Mapping[str, str]
    notes: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Ablation:
    """A printed ablation: switch -> (head of its column, meaning), and a row is (index, switch -> yes or no,
    figures). method: the title of the method."""

    method: str
    dataset: str
    setting: Setting
    switches: Mapping[str, tuple[str, str]]
    rows: tuple[tuple[str, Mapping[str, str], Mapping[str, str]], ...]


class Side(Struct, frozen=True, forbid_unknown_fields=True):
    """A side of a claim: a method under a setting, or a row of the ablation, by its printed number."""

    method: str | None = None
    kind: str = field(default="ez", name="setting")
    ratio: float | None = None
    by: str | None = None
    row: str | None = None

    @property
    def setting(self) -> Setting:
        """The setting of a method. Raises UsageError."""
        return Setting.of(self.kind, self.ratio, self.by)


class Claim(Struct, frozen=True, forbid_unknown_fields=True, rename={"text": "claim"}):
    """The claim that one side has higher figures than the other, in a few words."""

    text: str
    better: Side
    worse: Side


@dataclass(frozen=True)
class Source:
    """One publication. ``column_notes``: table -> metric -> note on that column in every row."""

    key: str
    citation: str
    homepage: str
    protocol: str
    bibtex: str
    tables: Mapping[str, str]
    rows: tuple[PublishedRow, ...]
    column_notes: Mapping[str, Mapping[str, tuple[str, ...]]]
    statistics: tuple[Mapping[str, str], ...]
    ablation: Ablation | None
    claims: tuple[Claim, ...] = ()

    def of_datasets(self, names: Container[str]) -> Source:
        """The source with its rows and statistics of these datasets; its ablation and its claims stay."""
        return replace(
            self,
            rows=tuple(row for row in self.rows if row.dataset in names),
            statistics=tuple(line for line in self.statistics if line["dataset"] in names),
        )

    def figures(self, side: Side) -> dict[str, Mapping[str, str]]:
        """The printed figures of one side of a claim: dataset -> metric -> figure."""
        if side.row is not None:
            rows = {number: figures for number, _, figures in self.ablation.rows} if self.ablation else {}
            return {self.ablation.dataset: rows[side.row]} if self.ablation and side.row in rows else {}
        setting = side.setting
        return {row.dataset: row.figures for row in self.rows if (row.method, row.setting) == (side.method, setting)}


@cache
def sources() -> tuple[Source, ...]:
    """The sources that come with xmcbench, by file name. Raises DataError when they are missing or damaged."""
    folder = find_shipped("leaderboards/published")
    if folder is None:
        raise DataError("the published figures that come with xmcbench are missing", "reinstall xmcbench")
    return tuple(read_source(path) for path in sorted(folder.glob("*.toml")))


class _Erratum(Struct, frozen=True, forbid_unknown_fields=True):
    """A note on figures: those of these tables, datasets and methods (default: all)."""

    metrics: list[str]
    note: str
    tables: list[str] | None = None
    datasets: list[str] | None = None
    methods: list[str] | None = None

    @property
    def of_columns(self) -> bool:
        """Return whether it applies to a whole column, because it names neither dataset nor method."""
        return self.datasets is None and self.methods is None

    def about(self, table: str, dataset: str | None = None, method: str | None = None) -> bool:
        """Return whether it applies to the figures of a row, or of a table."""
        wanted = ((self.tables, table), (self.datasets, dataset), (self.methods, method))
        return all(names is None or value in names for names, value in wanted)


class _AblationFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The files of a published ablation; switches: parameter -> (head of its column, meaning)."""

    file: str
    method: str
    dataset: str
    setting: str
    switches: dict[str, tuple[str, str]]


class _SourceFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The file of a source: texts, names of CSV files beside it, and errata."""

    key: str
    citation: str
    homepage: str
    protocol: str
    bibtex: str
    results: str
    tables: dict[str, str]
    statistics: str | None = None
    errata: list[_Erratum] = []
    ablation: _AblationFile | None = None
    claims: tuple[Claim, ...] = ()


class _ResultLine(Struct, frozen=True):
    """The columns of a CSV file of results besides the figures."""

    method: str
    table: str
    dataset: str
    setting: str
    ratio: str = ""
    sample_by: str = ""


def read_source(path: Path) -> Source:
    """A source from its file. Raises DataError, naming the file, when it or one of its tables cannot be read."""
    try:
        described = msgspec.convert(tomllib.loads(read_text(path)), _SourceFile)
        columns = [erratum for erratum in described.errata if erratum.of_columns]
        cells = [erratum for erratum in described.errata if not erratum.of_columns]
        statistics = _lines(path.with_name(described.statistics)) if described.statistics else []
        if not _LINK.fullmatch(described.homepage.strip()) or not _KEY.fullmatch(described.key.strip()):
            raise ValueError("homepage must be an http address, and key a BibTeX key")
        source = Source(
            key=described.key.strip(),
            citation=described.citation.strip(),
            homepage=described.homepage.strip(),
            protocol=described.protocol.strip(),
            bibtex=described.bibtex.strip(),
            tables=described.tables,
            rows=tuple(_row(line, cells) for line in _lines(path.with_name(described.results))),
            column_notes={
                table: _notes(erratum for erratum in columns if erratum.about(table)) for table in described.tables
            },
            statistics=tuple(map(_sizes, statistics)),
            ablation=_ablation(path, described.ablation) if described.ablation else None,
            claims=described.claims,
        )
        for claim in source.claims:
            _check(claim, source)
        return source
    except (OSError, ValueError, KeyError, RecursionError, csv.Error, UsageError) as error:
        raise DataError(f"cannot read the published figures in {path}: {error}", "reinstall xmcbench") from error


def _lines(path: Path) -> list[dict[str, str]]:
    """The lines of a CSV file. Raises ValueError for one with more or fewer fields than the first."""
    found = []
    for number, line in enumerate(csv.DictReader(io.StringIO(read_text(path), newline=""), strict=True), 2):
        if None in line or None in line.values():
            raise ValueError(f"{path.name}, line {number} does not have as many fields as the first")
        found.append(line)
    return found


def _row(values: Mapping[str, str], errata: Iterable[_Erratum]) -> PublishedRow:
    line = msgspec.convert(values, _ResultLine)
    few = line.setting == "fs"
    return PublishedRow(
        method=line.method,
        table=line.table,
        dataset=line.dataset,
        setting=Setting.of(line.setting, float(line.ratio) if few else None, line.sample_by if few else None),
        figures=_figures(values, ("P@1",)),  # tables are sorted by it
        notes=_notes(erratum for erratum in errata if erratum.about(line.table, line.dataset, line.method)),
    )


def _figures(line: Mapping[str, str], needed: Iterable[str]) -> dict[str, str]:
    """The figures of a line, by metric, as printed. Raises ValueError for other text, and for a needed one that is
    missing."""
    figures = {name: value for name, value in line.items() if name and "@" in name}
    for name in needed:
        if name not in figures:
            raise ValueError(f"a line has no {name}")
    for name, value in figures.items():
        if not math.isfinite(float(value)):
            raise ValueError(f"{name} is {value}")
    return figures


def _sizes(line: Mapping[str, str]) -> Mapping[str, str]:
    """A line of statistics. Raises ValueError for what is not a number, KeyError where one is missing."""
    for name in ("N_train", "N_test", "N_label", "D_BoW"):
        if not 0 <= int(line[name]) < 10**15:
            raise ValueError(f"{name} is {line[name]}")
    return {**line, "dataset": line["dataset"]}


def _notes(errata: Iterable[_Erratum]) -> dict[str, tuple[str, ...]]:
    """Metric -> the errata on it."""
    notes: dict[str, tuple[str, ...]] = {}
    for erratum in errata:
        for metric in erratum.metrics:
            notes[metric] = (*notes.get(metric, ()), erratum.note)
    return notes


def _ablation(path: Path, described: _AblationFile) -> Ablation:
    lines = _lines(path.with_name(described.file))
    rows = tuple(
        (line["index"], {name: line[name] for name in described.switches}, _figures(line, MAIN)) for line in lines
    )
    return Ablation(described.method, described.dataset, Setting.of(described.setting), described.switches, rows)


def _check(claim: Claim, source: Source) -> None:
    """Raise ValueError unless the published figures have both sides of a claim on one dataset."""
    if any((side.method is None) == (side.row is None) for side in (claim.better, claim.worse)):
        raise ValueError(f"the claim {claim.text!r} must name a method or a row on each side")
    if not source.figures(claim.better).keys() & source.figures(claim.worse).keys():
        raise ValueError(f"the claim {claim.text!r} compares figures that are not printed for the same dataset")
