"""The pages of a board: what stands on them, in the order of the paper. How they look is ``files`` and ``markup``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xmcbench.leaderboard import captions, consistency
from xmcbench.leaderboard.curves import Curve, curve
from xmcbench.leaderboard.published import Ablation, PublishedRow, Source, sources
from xmcbench.leaderboard.rows import Cost, Row, rows
from xmcbench.leaderboard.tables import (
    MAIN,
    SECOND,
    Table,
    ablation_table,
    cost_table,
    group_table,
    metric_table,
    text_table,
)
from xmcbench.setting import Setting

#: The metrics whose coverage curves stand on a page, as in the paper's Figure 2.
CURVES = ("P@5", "R@100")


@dataclass(frozen=True)
class Heading:
    """A heading; level 2 is a section."""

    level: int
    text: str


@dataclass(frozen=True)
class Figures:
    """Coverage curves side by side, one a metric."""

    curves: tuple[Curve, ...]


#: A block is a heading, a paragraph, a table or a row of figures.
Block = Heading | str | Table | Figures


@dataclass(frozen=True)
class Page:
    """A page: ``name`` names its file."""

    name: str
    title: str
    blocks: tuple[Block, ...]


def pages(records: Iterable[Mapping[str, Any]], published: Sequence[Source] | None = None) -> list[Page]:
    """The index, a page for each data set that has records or published rows, and the ablation.

    A pure function of records and published figures (default: those that come with xmcbench). Raises StorageError for
    records that cannot stand on one board.
    """
    printed = tuple(sources() if published is None else published)
    datasets: dict[str, list[Mapping[str, Any]]] = {}
    for record in sorted(records, key=lambda record: str(record["key"])):
        datasets.setdefault(record["cell"]["dataset"], []).append(record)
    consistency.check(record for name in sorted(datasets) for record in datasets[name])
    names = sorted({*datasets, *(row.dataset for source in printed for row in source.rows)})
    made = [_dataset_page(name, datasets.get(name, []), printed) for name in names]
    ablations = _ablation_page(datasets, printed)
    return [_index(datasets, printed, names, ablations is not None), *made, *([ablations] if ablations else [])]


def _index(
    datasets: Mapping[str, Sequence[Mapping[str, Any]]], printed: Sequence[Source], names: Sequence[str], ablation: bool
) -> Page:
    lines = []
    for name in names:
        settings = {*map(_setting, datasets.get(name, ()))}
        kind = captions.settings(settings) if settings else "published rows only"
        lines.append(f"* [{name}]({name.lower()}.md): {kind}")
    if ablation:
        lines.append("* [Ablation](ablation.md) of MACLR's pre-training")
    statistics = _statistics(datasets, printed, names)
    blocks: list[Block] = ["\n".join(lines), Heading(2, "Data sets"), statistics]
    blocks += [Heading(2, "How to read the tables"), captions.READING, *_sources(printed)]
    return Page("README", "Leaderboards", tuple(blocks))


def _statistics(
    datasets: Mapping[str, Sequence[Mapping[str, Any]]], printed: Sequence[Source], names: Sequence[str]
) -> Table:
    """The paper's Table 1, with pairs where they are known."""
    lines: list[tuple[str, Sequence[str], int]] = []
    for name in names:
        for record in datasets.get(name, ())[:1]:
            counts = record["counts"]
            sizes = [counts[size] for size in ("train", "test", "labels", "train_pairs", "test_pairs")]
            per_instance = f"{counts['test_pairs'] / max(1, counts['test']):.2f}"
            lines.append((name, [*(f"{size:,}" for size in sizes), per_instance, ""], 0))
        for number, source in enumerate(printed, 1):
            for line in source.statistics:
                if line["dataset"] == name:
                    sizes = [f"{int(line[size]):,}" for size in ("N_train", "N_test", "N_label")]
                    lines.append((name, [*sizes, "", "", "", f"{int(line['D_BoW']):,}"], number))
    heads = ["N train", "N test", "N label", "training pairs", "test pairs", "labels per test instance", "D BoW"]
    return text_table("statistics", captions.STATISTICS, "Data set", heads, lines)


def _dataset_page(name: str, records: Sequence[Mapping[str, Any]], printed: Sequence[Source]) -> Page:
    blocks: list[Block] = [_statistics({name: records}, printed, [name])]
    filter_name = records[0]["protocol"]["filter"] if records else "none"
    for by in ("label", "pair"):
        drawn = tuple(filter(None, (curve(records, by, metric, filter_name) for metric in CURVES)))
        if drawn:
            blocks += [Heading(2, f"Coverage curves, by {by}"), captions.CURVE, Figures(drawn)]
    settings = {
        *map(_setting, records),
        *(row.setting for source in printed for row in source.rows if row.dataset == name),
    }
    for setting in sorted(settings, key=_order):
        inside = [record for record in records if _setting(record) == setting]
        rows_ = [
            (number, row)
            for number, source in enumerate(printed, 1)
            for row in source.rows
            if (row.dataset, row.setting) == (name, setting)
        ]
        blocks += [Heading(2, setting.title.capitalize()), *_section(name, setting, inside, rows_, printed)]
    return Page(name.lower(), name, (*blocks, *_sources(printed, name)))


def _section(
    dataset: str,
    setting: Setting,
    records: Sequence[Mapping[str, Any]],
    published: Sequence[tuple[int, PublishedRow]],
    printed: Sequence[Source],
) -> list[Block]:
    filter_name = records[0]["protocol"]["filter"] if records else "none"
    made = rows(records, filter_name)
    notes = {
        metric: each
        for number, row in published
        for metric, each in printed[number - 1].column_notes.get(row.table, {}).items()
    }
    about = captions.main(dataset, setting, records, filter_name, [(printed[n - 1], row) for n, row in published])
    found: list[Block] = [metric_table(made, MAIN, setting.slug, about, published, notes)]
    if any(row.figures for row in made):
        caption = captions.second(dataset, setting, filter_name)
        found.append(metric_table(made, SECOND, f"{setting.slug}-ndcg-psp", caption))
        for groups in (("seen", "unseen"), ("head", "middle", "tail")):
            if setting.kind != "ez" or "unseen" not in groups:  # at zero shot every label is unseen
                found += _groups(made, groups, setting, captions.groups(dataset, setting, records, filter_name, groups))
        found += _costs(made, dataset, setting)
    problems = [f"{row.name}, {problem}" for row in made for problem in row.problems]
    return [*found, *(["Without a result:  \n" + "  \n".join(problems)] if problems else [])]


def _groups(made: Sequence[Row], groups: Sequence[str], setting: Setting, caption: str) -> list[Block]:
    if not any(all(group in row.views for group in groups) for row in made):
        return []
    return [
        Heading(3, f"By label: {', '.join(groups)}"),
        group_table(made, groups, f"{setting.slug}-{groups[0]}", caption),
    ]


def _costs(made: Sequence[Row], dataset: str, setting: Setting) -> list[Block]:
    """One table a class of machine: times from different machines are never ranked together."""
    machines: dict[str, list[tuple[str, Cost]]] = {}
    for row in made:
        for machine, cost in row.costs.items():
            machines.setdefault(machine, []).append((row.name, cost))
    found: list[Block] = [Heading(3, "Time and memory")]
    for number, machine in enumerate(sorted(machines), 1):
        name = f"{setting.slug}-efficiency" + (f"-{number}" if number > 1 else "")
        found.append(cost_table(machines[machine], name, captions.efficiency(dataset, setting, machine)))
    return found


def _ablation_page(datasets: Mapping[str, Sequence[Mapping[str, Any]]], printed: Sequence[Source]) -> Page | None:
    """The printed ablations, each followed by the measured ones: rows whose parameters are the same switches."""
    blocks: list[Block] = []
    for number, source in enumerate(printed, 1):
        ablation = source.ablation
        if ablation is None:
            continue
        heads = [head for head, _ in ablation.switches.values()]
        lines = [
            (index, [*switched.values(), *(figures[metric] for metric in MAIN)], number)
            for index, switched, figures in ablation.rows
        ]
        caption = captions.ablation(ablation, source)
        blocks.append(Heading(2, f"{ablation.dataset}, published"))
        blocks.append(text_table("published", caption, "Row", [*heads, *MAIN], lines))
        for name in sorted(datasets):
            for setting in sorted({*map(_setting, datasets[name])}, key=_order):
                inside = [
                    record
                    for record in datasets[name]
                    if _setting(record) == setting and _has_switches(record, ablation.switches)
                ]
                if inside:
                    filter_name = inside[0]["protocol"]["filter"]
                    about = captions.measured(name, setting, inside, filter_name)
                    title = f"{name}, {setting.title}, measured"
                    made = sorted(rows(inside, filter_name), key=lambda row: _switched(row, ablation))
                    table = ablation_table(made, ablation.switches, f"{name.lower()}-{setting.slug}", about)
                    blocks += [Heading(2, title), table]
    return Page("ablation", "Ablation", (*blocks, *_sources(printed))) if blocks else None


def _switched(row: Row, ablation: Ablation) -> tuple[int, str]:
    """The order of measured ablations: that of the printed rows, which other rows follow."""
    printed = [tuple(switched.values()) for _, switched, _ in ablation.rows]
    own = tuple("yes" if row.parameters[switch] else "no" for switch in ablation.switches)
    return (printed.index(own) if own in printed else len(printed), row.name)


def _has_switches(record: Mapping[str, Any], switches: Iterable[str]) -> bool:
    parameters = record["cell"]["parameters"]
    return all(isinstance(parameters.get(switch), bool) for switch in switches)


def _sources(printed: Sequence[Source], dataset: str | None = None) -> list[Block]:
    lines = [
        f"[{number}] {source.citation}. {source.homepage}. {source.protocol[:1].upper()}{source.protocol[1:]}."
        for number, source in enumerate(printed, 1)
        if dataset is None or any(row.dataset == dataset for row in source.rows)
    ]
    return [Heading(2, "Sources"), "  \n".join(lines)] if lines else []


def _setting(record: Mapping[str, Any]) -> Setting:
    return Setting(**record["cell"]["setting"])


def _order(setting: Setting) -> tuple[int, str, float]:
    return ("ez", "fs", "full").index(setting.kind), setting.by or "", setting.ratio or 0.0
