"""From records to the rows of a table: one row a method and variant, its seeds together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from xmcbench.canonical import canonical_json
from xmcbench.environment import hardware_class


@dataclass(frozen=True)
class Figure:
    """One metric of one row, as fractions: the mean over seeds, the half-width of its 95% interval over test
    instances (mean over seeds), and the standard deviation over seeds where there are several."""

    value: float
    half_width: float
    seed_sd: float | None


@dataclass(frozen=True)
class Row:
    """A method and variant under one setting of one data set."""

    name: str
    seeds: tuple[int, ...]
    figures: Mapping[str, Figure]
    views: Mapping[str, Mapping[str, Figure]]
    #: Seconds before predictions (load excluded), of which taken over from artefacts made earlier.
    fit_s: float
    reused_s: float
    predict_ms: float
    peak_memory_bytes: int
    hardware: str
    #: One entry a seed that has no result: "seed 1: failed: reason".
    problems: tuple[str, ...] = ()


def rows(records: Iterable[Mapping[str, Any]], filter_name: str) -> list[Row]:
    """The rows of records of one data set and setting, best P@1 first; rows without a result come last.

    The variants of a method are rows of their own.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        cell = record["cell"]
        groups.setdefault(canonical_json([cell["method"], cell["parameters"]]), []).append(record)
    made = [_row(sorted(group, key=lambda record: record["cell"]["seed"]), filter_name) for group in groups.values()]
    return sorted(made, key=lambda row: (-row.figures["P@1"].value if row.figures else 1.0, row.name))


def row_name(record: Mapping[str, Any]) -> str:
    """Title and variant of a record's method."""
    title, variant = record["method"]["title"], record["method"]["variant"]
    return f"{title} ({variant})" if variant else str(title)


def _row(group: Sequence[Mapping[str, Any]], filter_name: str) -> Row:
    done = [record for record in group if record["status"] == "ok"]
    problems = tuple(
        f"seed {record['cell']['seed']}: {record['status']}: {record['reason']}"
        for record in group
        if record["status"] != "ok"
    )
    scores = [record["metrics"][filter_name] for record in done]
    shared = set.intersection(*(set(each["views"]) for each in scores)) if scores else set()
    measured = [record["measured"] for record in done]
    return Row(
        name=row_name(group[0]),
        seeds=tuple(record["cell"]["seed"] for record in done),
        figures=_figures(scores),
        views={view: _figures([each["views"][view] for each in scores]) for view in sorted(shared)},
        fit_s=_mean(each["wall_s"].get("fit", 0.0) + each["wall_s"].get("pretrain", 0.0) for each in measured),
        reused_s=_mean(each["reused_s"] for each in measured),
        predict_ms=_mean(each["predict_ms_per_instance"] for each in measured),
        peak_memory_bytes=max((each["peak_memory_bytes"] for each in measured), default=0),
        hardware=" / ".join(sorted({hardware_class(record["environment"]["hardware"]) for record in done})),
        problems=problems,
    )


def _figures(scores: Sequence[Mapping[str, Any]]) -> dict[str, Figure]:
    if not scores:
        return {}
    figures = {}
    for name in scores[0]["values"]:
        values = [each["values"][name] for each in scores]
        widths = [(each["intervals"][name][1] - each["intervals"][name][0]) / 2 for each in scores]
        figures[name] = Figure(fmean(values), fmean(widths), stdev(values) if len(values) > 1 else None)
    return figures


def _mean(values: Iterable[float]) -> float:
    values = list(values)
    return fmean(values) if values else 0.0
