"""The content of a board's pages, in the order of the paper; ``files`` and ``markup`` format it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

from xmcbench.errors import StorageError, UsageError
from xmcbench.escaping import markdown, terminal
from xmcbench.leaderboard import ablation, captions, consistency, makeup, overall
from xmcbench.leaderboard.blocks import Block, Figures, Heading, Page, citations, without_a_result
from xmcbench.leaderboard.curves import curve
from xmcbench.leaderboard.groups import group_figure
from xmcbench.leaderboard.losses import loss_curves
from xmcbench.leaderboard.published import MAIN, PublishedRow, Source, sources
from xmcbench.leaderboard.rows import Cost, Row, by_setting, order, rows
from xmcbench.leaderboard.tables import SECOND, Table, cost_table, group_table, metric_table, text_table
from xmcbench.leaderboard.tradeoff import tradeoffs
from xmcbench.records import Record, Standing
from xmcbench.setting import Setting
from xmcbench.storage.canonical import canonical_json

#: The metrics whose coverage curves are on a page, as in the paper's Figure 2.
CURVES = ("P@5", "R@100")
#: The page of rankings over datasets, and the metrics that it ranks by.
OVERALL, RANKED_BY = "over-datasets", ("P@1", "R@100")


def pages(
    records: Iterable[Record],
    published: Sequence[Source] | None = None,
    remarks: Mapping[str, str] | None = None,
    standing: Standing | None = None,
    measured_only: bool = False,
) -> list[Page]:
    """The index, a page for each dataset that has records or published rows, and the ablation.

    A pure function of records, published figures (default: those that come with xmcbench) and remarks (name of a page
    -> text; default: none). standing: today's code, by which stale rows are marked. measured_only: leave out datasets
    and ablations that have published rows only. Raises StorageError for records
    that do not fit on one board and for a remark without a page.
    """
    printed = tuple(sources() if published is None else published)
    datasets: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda record: record.key):
        datasets.setdefault(record.cell.dataset, []).append(record)
    consistency.check(record for name in sorted(datasets) for record in datasets[name])
    if measured_only:
        printed = tuple(each.of_datasets(datasets) for each in printed)
    names = sorted({*datasets, *(row.dataset for source in printed for row in source.rows)})
    _check_names(names)
    standing = standing or Standing()
    told = remarks or {}
    made = [
        _dataset_page(name, datasets.get(name, []), printed, standing, told.get(name.lower(), "")) for name in names
    ]
    ablations = ablation.page(datasets, printed, standing)
    if measured_only and not any(ablation.parted(each, printed)[1] for each in datasets.values()):
        ablations = None
    ranked = _overall_page([ablation.parted(datasets[name], printed)[0] for name in sorted(datasets)], standing)
    others = [each for each in (ranked, ablations) if each]
    board = [_index(datasets, printed, names, others), *made, *others]
    return _with_remarks(board, told)


def _check_names(names: Iterable[str]) -> None:
    """Raise an error if the file names of two pages differ only in case."""
    taken = {"readme": "the index", "ablation": "the ablation", OVERALL: "the ranking over datasets"}
    for name in names:
        other = taken.setdefault(name.lower(), name)
        if other != name:
            raise StorageError(f"the page of the dataset {name} would replace that of {other}", "rename it")


def _with_remarks(board: Sequence[Page], remarks: Mapping[str, str]) -> list[Page]:
    """The pages, each with its remark after its first block; on the ablation page, before it."""
    for name in sorted(remarks.keys() - {page.name for page in board}):
        raise StorageError(
            f"the remark {name}.md has no page",
            f"name it after a page: {', '.join(page.name for page in board)}",
        )
    made = []
    for page in board:
        own = (Heading(2, "Remarks"), terminal(remarks[page.name])) if page.name in remarks else ()
        place = 0 if isinstance(page.blocks[0], Heading) else 1
        made.append(replace(page, blocks=(*page.blocks[:place], *own, *page.blocks[place:])))
    return made


def _index(
    datasets: Mapping[str, Sequence[Record]], printed: Sequence[Source], names: Sequence[str], others: Sequence[Page]
) -> Page:
    lines = []
    for name in names:
        settings = by_setting(datasets.get(name, ()))
        kind = captions.settings(settings) if settings else "published rows only"
        lines.append(f"* [{markdown(name)}]({quote(name.lower())}.md): {kind}")
    if OVERALL in (page.name for page in others):
        lines.append(f"* [Methods over several datasets]({OVERALL}.md): average ranks")
    if "ablation" in (page.name for page in others):
        methods = dict.fromkeys(source.ablation.method for source in printed if source.ablation)
        lines.append(f"* [Ablation](ablation.md) of {', '.join(map(markdown, methods))}")
    statistics = _statistics(datasets, printed, names)
    blocks: list[Block] = ["\n".join(lines), Heading(2, "Datasets"), statistics]
    blocks += [Heading(2, "How to read the tables"), captions.READING, *citations(printed)]
    return Page("README", "Leaderboards", tuple(blocks))


def _statistics(datasets: Mapping[str, Sequence[Record]], printed: Sequence[Source], names: Sequence[str]) -> Table:
    """The paper's Table 1, with numbers of pairs if known."""
    lines: list[tuple[str, Sequence[str], int]] = []
    for name in names:
        for record in datasets.get(name, ())[:1]:
            counts = record.counts
            sizes = [counts[size] for size in ("train", "test", "labels", "train_pairs", "test_pairs")]
            per_instance = f"{counts['test_pairs'] / max(1, counts['test']):.2f}"
            lines.append((name, [*(f"{size:,}" for size in sizes), per_instance, ""], 0))
        for number, source in enumerate(printed, 1):
            for line in source.statistics:
                if line["dataset"] == name:
                    printed_sizes = [f"{int(line[size]):,}" for size in ("N_train", "N_test", "N_label")]
                    lines.append((name, [*printed_sizes, "", "", "", f"{int(line['D_BoW']):,}"], number))
    heads = ["N train", "N test", "N label", "training pairs", "test pairs", "labels per test instance", "D BoW"]
    return text_table("statistics", captions.STATISTICS, "Dataset", heads, lines)


def _dataset_page(
    name: str, records: Sequence[Record], printed: Sequence[Source], standing: Standing, remark: str
) -> Page:
    """Rows with a component switched off are only on the ablation page. remark: that of the page, or empty."""
    blocks: list[Block] = [_statistics({name: records}, printed, [name])]
    filter_name = records[0].protocol.filter if records else "none"
    whole, partial = ablation.parted(records, printed)
    for by in ("label", "pair"):
        drawn = tuple(filter(None, (curve(whole, by, metric, filter_name, standing=standing) for metric in CURVES)))
        if drawn:
            blocks += [Heading(2, f"Coverage curves, by {by}"), captions.CURVE, Figures(drawn)]
    complete, ablated = by_setting(whole), by_setting(partial)
    others = {row.setting for source in printed for row in source.rows if row.dataset == name}
    for setting in sorted({*complete, *ablated, *others}, key=order):
        inside = complete.get(setting, [])
        rows_ = [
            (number, row)
            for number, source in enumerate(printed, 1)
            for row in source.rows
            if (row.dataset, row.setting) == (name, setting)
        ]
        blocks.append(Heading(2, setting.title.capitalize(), setting.slug))
        if inside or rows_:
            borrowed = _ignoring_pairs(complete.get(Setting("ez"), ()), inside) if setting.kind != "ez" else []
            blocks += _section(name, setting, inside, rows_, printed, standing, borrowed, remark)
        if setting in ablated:
            blocks.append(captions.on_the_ablation({record.method.title for record in ablated[setting]}))
    if trained := loss_curves(complete.get(Setting("ez"), ()), f"{name.lower()}-training"):
        blocks += [Heading(2, "Training"), captions.TRAINING, Figures(trained)]
    return Page(name.lower(), name, (*blocks, *citations(printed, name)))


def _overall_page(records: Iterable[Sequence[Record]], standing: Standing) -> Page | None:
    """Rankings over datasets, setting by setting; None if no setting has two methods on two datasets."""
    blocks: list[Block] = []
    for setting, inside in by_setting(record for group in records for record in group).items():
        try:
            made = [overall.overall(inside, setting, metric, standing=standing) for metric in RANKED_BY]
        except UsageError:  # one dataset, or no two methods on all
            continue
        blocks += [
            Heading(2, setting.title.capitalize(), setting.slug),
            Figures(tuple(made)),
            *map(overall.table, made),
        ]
        if missing := overall.without_cells(made[0]):
            blocks.append(markdown(missing))
    return Page(OVERALL, "Methods over several datasets", (captions.OVERALL, *blocks)) if blocks else None


def _section(
    dataset: str,
    setting: Setting,
    records: Sequence[Record],
    published: Sequence[tuple[int, PublishedRow]],
    printed: Sequence[Source],
    standing: Standing,
    borrowed: Sequence[Record] = (),
    remark: str = "",
) -> list[Block]:
    """borrowed: results of the zero-shot setting, of methods that ignore pairs. remark: that of the page."""
    filter_name = records[0].protocol.filter if records else "none"
    made = _with_borrowed(rows(records, filter_name, standing), rows(borrowed, filter_name, standing))
    notes = {
        metric: each
        for number, row in published
        for metric, each in printed[number - 1].column_notes.get(row.table, {}).items()
    }
    about = captions.main(dataset, setting, records, filter_name, [(printed[n - 1], row) for n, row in published])
    noted = [replace(row, marks=(*row.marks, *row.origins)) for row in made]
    found: list[Block] = [metric_table(noted, MAIN, setting.slug, about, published, notes)]
    if explained := _with_a_remark(made, remark):
        found.append(captions.remarked(explained))
    if any(row.figures for row in made):
        caption = captions.second(dataset, setting, filter_name)
        found.append(metric_table(made, SECOND, f"{setting.slug}-ndcg-psp", caption))
        for groups in (("seen", "unseen"), ("head", "middle", "tail")):
            if setting.kind != "ez" or "unseen" not in groups:  # in the zero-shot setting every label is unseen
                caption = captions.groups(dataset, setting, records, filter_name, groups)
                found += _groups(made, groups, dataset, setting, filter_name, caption)
        found += _costs(made, dataset, setting, filter_name)
        about = captions.makeup(dataset, setting)
        found += [
            Heading(3, "What the rows are made of"),
            makeup.table([*records, *borrowed], f"{setting.slug}-rows", about, standing),
        ]
    return [*found, *without_a_result(made)]


def _with_a_remark(made: Iterable[Row], remark: str) -> list[str]:
    """The titles of methods in a table with which a paragraph of the remark begins."""
    paragraphs = re.split(r"\n\s*\n", remark)
    titles = sorted({row.title for row in made if row.figures})
    return [
        title for title in titles if any(re.match(rf"{re.escape(title)}(?!\w)", each.lstrip()) for each in paragraphs)
    ]


def _ignoring_pairs(zero_shot: Iterable[Record], inside: Sequence[Record]) -> list[Record]:
    """The zero-shot results of methods that ignore pairs, which are theirs with any pairs, where these have no own."""
    there = {(each.cell.method, canonical_json(each.cell.parameters)) for each in inside}
    return [
        each
        for each in zero_shot
        if any(own.ok for own in inside)
        and each.ok
        and each.method.supervision == "unused"
        and (each.cell.method, canonical_json(each.cell.parameters)) not in there
    ]


def _with_borrowed(own: Sequence[Row], borrowed: Sequence[Row]) -> list[Row]:
    """The rows of a setting and those of the zero-shot one, which a note tells apart; best P@1 first."""
    noted = [replace(row, marks=(captions.BORROWED, *row.marks), costs={}) for row in borrowed]
    return sorted([*own, *noted], key=lambda row: (-row.figures["P@1"].value if row.figures else 1.0, row.name))


def _groups(
    made: Sequence[Row], groups: Sequence[str], dataset: str, setting: Setting, filter_name: str, caption: str
) -> list[Block]:
    if not any(all(group in row.views for group in groups) for row in made):
        return []
    name = f"{setting.slug}-{groups[0]}"
    drawn = group_figure(made, groups, dataset, setting, filter_name, f"{dataset.lower()}-{name}")
    return [
        Heading(3, f"By label: {', '.join(groups)}"),
        group_table(made, groups, name, caption),
        *([Figures((drawn,))] if drawn else []),
    ]


def _costs(made: Sequence[Row], dataset: str, setting: Setting, filter_name: str) -> list[Block]:
    """One table per class of machine, and its drawings: times from different machines are not comparable."""
    machines: dict[str, list[tuple[Row, Cost]]] = {}
    for row in made:
        for machine, cost in row.costs.items():
            machines.setdefault(machine, []).append((row, cost))
    found: list[Block] = [Heading(3, "Time and memory")]
    for number, machine in enumerate(sorted(machines), 1):
        name = f"{setting.slug}-efficiency" + (f"-{number}" if number > 1 else "")
        found.append(cost_table(machines[machine], name, captions.efficiency(dataset, setting, machine)))
        drawn = tradeoffs(machines[machine], dataset, setting, filter_name, machine, f"{dataset.lower()}-{name}")
        found += [captions.TRADEOFF, Figures(drawn)] if drawn else []
    return found
