"""The content of a board's pages, in the order of the paper; ``files`` and ``markup`` format it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from urllib.parse import quote

from xmcbench.errors import StorageError, UsageError
from xmcbench.leaderboard import ablation, captions, charts, claims, consistency, overall
from xmcbench.leaderboard.blocks import Block, Figures, Heading, Page, citations, with_few_charts
from xmcbench.leaderboard.published import Source, sources
from xmcbench.leaderboard.rows import by_setting, order
from xmcbench.leaderboard.sections import Context, section
from xmcbench.leaderboard.tables import Table, text_table
from xmcbench.output.escaping import markdown, markdown_line, terminal
from xmcbench.records import Record, Standing
from xmcbench.setting import Setting
from xmcbench.storage.reading import read_text

#: The page of rankings over datasets, and the metrics that it ranks by.
OVERALL, RANKED_BY = "over-datasets", ("P@1", "R@100")


def pages(
    records: Iterable[Record],
    published: Sequence[Source] | None = None,
    remarks: Mapping[str, str] | None = None,
    standing: Standing | None = None,
    measured_only: bool = False,
    runs: str = "",
    ranked: Mapping[str, Sequence[str]] | None = None,
) -> list[Page]:
    """The index, a page for each dataset that has records or published rows, the ranking, the ablation, the claims.

    A pure function of records, published figures (default: those that come with xmcbench) and remarks (name of a page
    -> text; default: none). standing: today's code, by which stale rows are marked. measured_only: leave out datasets
    and ablations that have published rows only. runs: the folder of the records for printed commands, if not their
    default. ranked: slug of a setting -> the datasets that the ranking is over; default is all, in every setting.
    Raises StorageError for records that do not fit on one board, for a remark without a page, and for a ranking over
    datasets without results.
    """
    printed = tuple(sources() if published is None else published)
    datasets: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda record: record.key):
        if record.counts["test_pairs"]:  # else of documents without labels, which `suggest` predicted for
            datasets.setdefault(record.cell.dataset, []).append(record)
    consistency.check(record for name in sorted(datasets) for record in datasets[name])
    standing = standing or Standing()
    claimed = claims.page(datasets, printed, standing)
    if measured_only:
        printed = tuple(source.of_datasets(datasets) for source in printed)
    names = sorted({*datasets, *(row.dataset for source in printed for row in source.rows)})
    _check_names(names)
    told = remarks or {}
    context = Context(printed, standing, runs)
    made = [_dataset_page(name, datasets.get(name, []), context, told.get(name.lower(), "")) for name in names]
    ablations = ablation.page(datasets, printed, standing)
    if measured_only and not any(ablation.split_ablated(group, printed)[1] for group in datasets.values()):
        ablations = None
    measured = [ablation.split_ablated(datasets[name], printed)[0] for name in sorted(datasets)]
    ranking = _overall_page(measured, standing, ranked or {})
    others = [page for page in (ranking, ablations, claimed) if page]
    board = [_index(datasets, printed, names, others), *made, *others]
    return _with_remarks([*map(with_few_charts, board)], told)


def read_remarks(folder: Path) -> dict[str, str]:
    """Name of a page -> its remark, unchanged; empty if there is no such folder. Raises StorageError."""
    found = {}
    for path in sorted(folder.glob("*.md")):
        try:
            text = read_text(path).strip("\n")
        except (OSError, ValueError) as error:
            raise StorageError(f"cannot read the remark {path}: {error}") from error
        if text:
            found[path.stem] = text
    return found


def _check_names(names: Iterable[str]) -> None:
    """Raise an error if the file names of two pages differ only in case."""
    taken = {"readme": "the index", "index": "the index of a site", "ablation": "the ablation"}
    taken |= {OVERALL: "the ranking over datasets", claims.NAME: "the claims"}
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
    if claims.NAME in (page.name for page in others):
        lines.append(f"* [The papers' claims, tested]({claims.NAME}.md)")
    statistics = _statistics(datasets, printed, names)
    blocks: list[Block] = ["\n".join(lines), Heading(2, "Datasets"), statistics]
    blocks += [Heading(2, "How to read the tables"), captions.READING, *citations(printed, attrgetter("rows"))]
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


def _dataset_page(name: str, records: Sequence[Record], context: Context, remark: str) -> Page:
    """Rows with a component switched off are only on the ablation page. remark: that of the page, or empty."""
    printed, standing = context.printed, context.standing
    blocks: list[Block] = [_statistics({name: records}, printed, [name])]
    filter_name = records[0].protocol.filter if records else "none"
    whole, partial = ablation.split_ablated(records, printed)
    complete, ablated = by_setting(whole), by_setting(partial)
    if drawn := charts.of_dataset(complete, filter_name, standing):
        blocks += [Heading(2, "Charts"), captions.CHARTS, Figures(drawn)]
    others = {row.setting for source in printed for row in source.rows if row.dataset == name}
    for setting in sorted({*complete, *ablated, *others}, key=order):
        blocks.append(Heading(2, setting.title.capitalize(), setting.slug))
        zero_shot = complete.get(Setting("ez"), [])
        blocks += section(context, name, setting, complete.get(setting, []), zero_shot, remark)
        if setting in ablated:
            blocks.append(captions.on_the_ablation({record.method.title for record in ablated[setting]}))
    cited = citations(printed, lambda source: any(row.dataset == name for row in source.rows))
    return Page(name.lower(), name, (*blocks, *cited))


def _overall_page(
    groups: Iterable[Sequence[Record]], standing: Standing, ranked: Mapping[str, Sequence[str]]
) -> Page | None:
    """Return the rankings over datasets, setting by setting; None if no setting has two methods on two datasets."""
    blocks: list[Block] = []
    found = [record for records in groups for record in records]
    settings = by_setting(found)
    if unknown := sorted(ranked.keys() - {setting.slug for setting in settings}):
        known = ", ".join(setting.slug for setting in settings)
        raise StorageError(f"{overall.LIST} names {unknown[0]!r}, a setting without results", f"those with: {known}")
    for setting in settings:
        datasets = ranked.get(setting.slug)
        if ranked and datasets is None:
            continue
        try:
            made = [overall.overall(found, setting, metric, datasets, standing) for metric in RANKED_BY]
        except UsageError as error:
            if datasets is not None:
                raise StorageError(f"{overall.LIST}: {error.message}", error.hint) from error
            continue  # one dataset, or no two methods on all
        blocks += [
            Heading(2, setting.title.capitalize(), setting.slug),
            Figures((overall.chart(made[0]),)),
            *map(overall.table, made),
        ]
        if missing := overall.without_cells(made[0]):
            blocks.append(markdown_line(missing))
    return Page(OVERALL, "Methods over several datasets", (captions.OVERALL, *blocks)) if blocks else None
