"""Published figures: what others have printed, as facts with their citation.

A source is a ``.toml`` file in ``leaderboards/published``, beside the ``.csv`` files it names. Figures stay the text
they were printed as; nothing is computed from them.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from xmcbench.errors import DataError
from xmcbench.setting import Setting
from xmcbench.storage.shipped import shipped


@dataclass(frozen=True)
class PublishedRow:
    """One printed row: metric -> figure in per cent, as printed, and metric -> what is to be said of that figure."""

    method: str
    table: str
    dataset: str
    setting: Setting
    figures: Mapping[str, str]
    notes: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Ablation:
    """A printed ablation: switch -> (head of its column, meaning), and for each row (index, switch -> yes or no,
    figures)."""

    dataset: str
    setting: Setting
    switches: Mapping[str, tuple[str, str]]
    rows: tuple[tuple[str, Mapping[str, str], Mapping[str, str]], ...]


@dataclass(frozen=True)
class Source:
    """One publication. ``column_notes``: table -> metric -> what is to be said of that column in every row."""

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


@cache
def sources() -> tuple[Source, ...]:
    """The sources that come with xmcbench, by file name. Raises DataError when they are missing or damaged."""
    folder = shipped("leaderboards/published")
    if folder is None:
        raise DataError("the published figures that come with xmcbench are not there", "install xmcbench again")
    return tuple(read_source(path) for path in sorted(folder.glob("*.toml")))


def read_source(path: Path) -> Source:
    """A source from its file. Raises DataError, naming the file, when it or one of its tables cannot be read."""
    try:
        described = tomllib.loads(path.read_text(encoding="utf-8"))
        errata = described.get("errata", [])
        lines = _lines(path.with_name(described["results"]))
        ablation = described.get("ablation")
        return Source(
            **{name: described[name].strip() for name in ("key", "citation", "homepage", "protocol", "bibtex")},
            tables=described["tables"],
            rows=tuple(_row(line, errata) for line in lines),
            column_notes={table: _notes(_of_columns(errata), table=table) for table in described["tables"]},
            statistics=tuple(_lines(path.with_name(described["statistics"]))) if "statistics" in described else (),
            ablation=_ablation(path, ablation) if ablation else None,
        )
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"cannot read the published figures in {path}: {error!r}", "install xmcbench again") from error


def _lines(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _row(line: Mapping[str, str], errata: list[dict]) -> PublishedRow:
    few = line["setting"] == "fs"
    return PublishedRow(
        method=line["method"],
        table=line["table"],
        dataset=line["dataset"],
        setting=Setting.of(line["setting"], float(line["ratio"]) if few else None, line["sample_by"] if few else None),
        figures=_figures(line),
        notes=_notes(
            [each for each in errata if each not in _of_columns(errata)],
            table=line["table"],
            dataset=line["dataset"],
            method=line["method"],
        ),
    )


def _figures(line: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in line.items() if "@" in name}


def _of_columns(errata: list[dict]) -> list[dict]:
    """The errata that are about a whole column: they single out neither dataset nor method."""
    return [each for each in errata if "datasets" not in each and "methods" not in each]


def _notes(errata: list[dict], **what: str) -> dict[str, tuple[str, ...]]:
    """Metric -> notes of the errata that are about ``what``."""
    notes: dict[str, tuple[str, ...]] = {}
    for each in errata:
        if all(value in each.get(f"{name}s", [value]) for name, value in what.items()):
            for metric in each["metrics"]:
                notes[metric] = (*notes.get(metric, ()), each["note"])
    return notes


def _ablation(path: Path, described: Mapping[str, Any]) -> Ablation:
    lines = _lines(path.with_name(described["file"]))
    switches = {switch: (head, meaning) for switch, (head, meaning) in described["switches"].items()}
    return Ablation(
        described["dataset"],
        Setting.of(described["setting"]),
        switches,
        tuple((line["index"], {name: line[name] for name in switches}, _figures(line)) for line in lines),
    )
