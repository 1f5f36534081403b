"""The content of a board's pages, in the order of the paper; ``files`` and ``markup`` format it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from urllib.parse import quote

from xmcbench.errors import StorageError, UsageError
from xmcbench.leaderboard import ablation, captions, charts, claims, consistency, overall
from xmcbench.leaderboard.blocks import CHARTS, INDEX, Block, Figures, Heading, Page, citations, with_few_charts
from xmcbench.leaderboard.examples import Examples
from xmcbench.leaderboard.groups import by_dataset, by_setting, for_tuning, order
from xmcbench.leaderboard.published import MAIN, Source, sources
from xmcbench.leaderboard.rows import Row
from xmcbench.leaderboard.sections import FEW, Context, Measured, decisions, details, main_table
from xmcbench.leaderboard.tables import Table, text_table
from xmcbench.metrics import Scores
from xmcbench.output.escaping import markdown, terminal
from xmcbench.records import Record, Staleness
from xmcbench.setting import Setting
from xmcbench.storage.reading import read_text

#: The page of rankings over datasets, and the metrics that it ranks by.
OVERALL, RANKED_BY = "over-datasets", ("P@1", "R@100")
#: The pages whose remark begins with the answer.
_LED = (INDEX, claims.NAME)
#: The last sections of a page, before which its remark stands.
_SIZES = Heading(2, "Instances, labels and pairs")
_LAST = (_SIZES, Heading(2, "Datasets"), Heading(2, "Sources"))


def pages(
    records: Iterable[Record],
    published: Sequence[Source] | None = None,
    remarks: Mapping[str, str] | None = None,
    staleness: Staleness | None = None,
    measured_only: bool = False,
    runs: str = "",
    ranked: Mapping[str, Sequence[str]] | None = None,
    scores: Callable[[Record], Scores | None] | None = None,
    examples: Examples | None = None,
    dates: Mapping[str, str] | None = None,
) -> list[Page]:
    """The index; a page per dataset that has records or published rows, and per setting of it; the ranking,
    the ablation, the claims.

    A pure function of records, published figures (default: those that come with xmcbench) and remarks (name of a page
    -> text; default: none). staleness: today's code, by which stale rows are marked. measured_only: leave out datasets
    and ablations that have published rows only. runs: the folder of the records for printed commands, if not their
    default. ranked: slug of a setting -> the datasets that the ranking is over; default is all, in every setting.
    scores: the evaluation of a record, by which rows that are tied with the best one are marked; default: no marks.
    examples: test instances, shown for datasets with scores. dates: dataset -> the day of its test data; rows with a
    model that is newer are marked. Raises StorageError for records that do not fit on one board, for a remark or
    examples without a page, and for a ranking over datasets without results.
    """
    printed = tuple(sources() if published is None else published)
    # Records without test pairs are of documents without labels, which `suggest` predicted for.
    labeled = (record for record in records if record.counts["test_pairs"])
    datasets = by_dataset(sorted(labeled, key=attrgetter("key")))
    consistency.check(record for name in sorted(datasets) for record in datasets[name])
    staleness = staleness or Staleness()
    claimed = claims.page(datasets, Context(printed, staleness, runs, scores))
    if measured_only:
        printed = tuple(source.of_datasets(datasets) for source in printed)
    names = sorted({*datasets, *(row.dataset for source in printed for row in source.rows)})
    told = remarks or {}
    context = Context(printed, staleness, runs, scores, dates or {})
    given = examples.files if examples else {}
    if unknown := sorted(given.keys() - {name.lower() for name in datasets}):
        raise StorageError(
            f"{given[unknown[0]][0]} is about a dataset without results",
            f"datasets with results: {', '.join(datasets)}",
        )
    made = [
        page
        for name in names
        for page in _dataset_pages(name, datasets.get(name, []), context, told.get(name.lower(), ""), examples)
    ]
    _check_names(made)
    ablations = ablation.page(datasets, printed, staleness)
    if measured_only and not any(ablation.split_ablated(group, printed)[1] for group in datasets.values()):
        ablations = None
    measured = [ablation.split_ablated(datasets[name], printed)[0] for name in sorted(datasets)]
    ranking = _overall_page(measured, staleness, ranked or {})
    others = [page for page in (ranking, ablations, claimed) if page]
    board = [_index(datasets, context, names, others), *made, *others]
    latest = max((record.measured.started for group in datasets.values() for record in group), default="")
    dated = (replace(page, date=latest.partition("T")[0]) for page in board)
    return _with_remarks([*map(with_few_charts, dated)], told)


def read_remarks(folder: Path) -> dict[str, str]:
    """Name of a page -> its remark; empty if there is no such folder. Raises StorageError."""
    found = {}
    for path in sorted(folder.glob("*.md")):
        try:
            text = "\n".join(read_text(path).splitlines()).strip("\n")
        except (OSError, ValueError) as error:
            raise StorageError(f"cannot read the remark {path}: {error}") from error
        if text:
            found[path.stem] = text
    return found


def _check_names(made: Iterable[Page]) -> None:
    """Raise an error if the file names of two pages are the same."""
    taken = {"readme": "the index", "index": "the index of a site", "ablation": "the ablation"}
    taken |= {OVERALL: "the ranking over datasets", claims.NAME: "the claims"}
    for page in made:
        other = taken.setdefault(page.name, page.title)
        if other != page.title:
            raise StorageError(f"the page of {page.title} would replace that of {other}", "rename the dataset")


def _with_remarks(board: Sequence[Page], remarks: Mapping[str, str]) -> list[Page]:
    """The pages, each with its remark behind its tables and charts, before its sources.

    Of the index and the claims, the first paragraph of the remark is the first of the page.
    """
    if unknown := sorted(remarks.keys() - {page.name for page in board}):
        raise StorageError(
            f"the remark {unknown[0]}.md has no page",
            f"name it after a page: {', '.join(page.name for page in board)}",
        )
    made = []
    for page in board:
        remark = terminal(remarks.get(page.name, ""))
        lead, _, rest = remark.partition("\n\n") if page.name in _LED else ("", "", remark)
        own = (Heading(2, "Remarks"), rest) if rest else ()
        place = next((place for place, block in enumerate(page.blocks) if block in _LAST), len(page.blocks))
        start = (lead,) if lead else ()
        made.append(replace(page, blocks=(*start, *page.blocks[:place], *own, *page.blocks[place:])))
    return made


def _index(
    datasets: Mapping[str, Sequence[Record]], context: Context, names: Sequence[str], others: Sequence[Page]
) -> Page:
    printed, lines = context.printed, []
    for name in names:
        settings = by_setting(datasets.get(name, ()))
        kind = captions.settings(settings) if settings else "published rows only"
        lines.append(f"* [{markdown(name)}]({quote(name.lower())}.md): {kind}")
    methods = dict.fromkeys(source.ablation.method for source in printed if source.ablation)
    about = {
        OVERALL: f"[Methods over several datasets]({OVERALL}.md): average ranks",
        "ablation": f"[Ablation](ablation.md) of {', '.join(map(markdown, methods))}",
        claims.NAME: f"[The papers' claims, tested]({claims.NAME}.md)",
    }
    lines += [f"* {about[page.name]}" for page in others]
    blocks: list[Block] = [*filter(None, [_best(datasets, context)]), "\n".join(lines), Heading(2, "Datasets")]
    blocks += [_statistics(datasets, printed, names), Heading(2, "How to read the tables"), captions.READING]
    return Page(INDEX, "Leaderboards", (*blocks, *citations(printed, attrgetter("rows"))))


def _best(datasets: Mapping[str, Sequence[Record]], context: Context) -> Table | None:
    """The best row of each dataset and setting, by two metrics; datasets for tuning are left out. None without any."""
    lines: list[tuple[str, Sequence[str], int]] = []
    for name in (name for name in sorted(datasets) if not for_tuning(name)):
        settings = by_setting(datasets[name])
        for setting, records in settings.items():
            shown = Measured.of(context, name, setting, records, settings.get(Setting("ez"), ())).standard
            if shown:
                methods = len({row.facts.title for row in shown})
                lines.append(
                    (
                        name,
                        [
                            setting.title,
                            *(_name_best(shown, metric) for metric in RANKED_BY),
                            f"{methods}",
                        ],
                        0,
                    )
                )
    heads = ("setting", *(f"best {metric}" for metric in RANKED_BY), "methods")
    return text_table("best", captions.BEST, "Dataset", heads, lines, words=heads[:-1]) if lines else None


def _name_best(shown: Sequence[Row], metric: str) -> str:
    best = max(shown, key=lambda row: row.figures[metric].value)
    return f"{best.short_name}, {100 * best.figures[metric].value:.1f}"


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


def _dataset_pages(
    name: str, records: Sequence[Record], context: Context, remark: str, examples: Examples | None
) -> list[Page]:
    """The page of a dataset, and one for each measured setting; a dataset for tuning has the former alone.

    Rows with a component switched off are only on the ablation page. remark: that of the dataset's page, or empty.
    """
    whole, partial = ablation.split_ablated(records, context.printed)
    complete, ablated = by_setting(whole), by_setting(partial)
    cited = citations(context.printed, lambda source: any(row.dataset == name for row in source.rows))
    title, below, instances = name, [], list[Block]()
    if for_tuning(name):
        title, first = f"{name}: how the defaults were chosen", decisions(context, name, complete)
    else:
        zero_shot = complete.get(Setting("ez"), ())
        measured = [
            Measured.of(context, name, setting, complete.get(setting, ()), zero_shot)
            for setting in sorted({*complete, *ablated}, key=order)
        ]
        tables = (main_table(context, own, FEW, "main") for own in measured if own.standard)
        first = [*filter(None, [next(tables, None)])]
        below = [
            replace(page, blocks=(*page.blocks, *cited))
            for own in measured
            if (page := _setting_page(own, ablated, context, remark))
        ]
        if below:
            first.append("\n".join(f"* [{markdown(page.title)}]({quote(page.name)}.md)" for page in below))
        first += _list_published(name, complete, context)
        if examples and measured:
            known = [row for row in measured[0].standard if all(map(context.scores or (lambda _: None), row.records))]
            instances = examples.blocks(name, measured[0].setting, known)
    filter_name = records[0].protocol.filter if records else "none"
    if drawn := tuple(itertools.islice(charts.of_dataset(complete, filter_name, context.staleness), CHARTS)):
        first += [Heading(2, "Charts"), Figures(drawn), captions.CHARTS]
    first += [*instances, _SIZES, _statistics({name: records}, context.printed, [name])]
    return [Page(name.lower(), title, (*first, *cited)), *below]


def _setting_page(
    measured: Measured, ablated: Mapping[Setting, Sequence[Record]], context: Context, remark: str
) -> Page | None:
    """The page of a setting; None where it would be empty."""
    name, setting = measured.dataset, measured.setting
    table = main_table(context, measured, MAIN, setting.slug)
    blocks: list[Block] = [table] if table else []
    blocks += context.differences(measured.standard, FEW)
    blocks += details(context, measured, remark, f"{quote(name.lower())}.md")
    if setting in ablated:
        blocks.append(captions.on_the_ablation({record.method.title for record in ablated[setting]}))
    page = f"{name.lower()}-{setting.slug}"
    return Page(page, f"{name}, {setting.title}", tuple(blocks), name.lower()) if blocks else None


def _list_published(name: str, complete: Mapping[Setting, Sequence[Record]], context: Context) -> list[Block]:
    """The published rows of settings without results."""
    found: list[Block] = []
    settings = {row.setting for source in context.printed for row in source.rows if row.dataset == name}
    for setting in sorted(settings - complete.keys(), key=order):
        measured = Measured.of(context, name, setting, (), ())
        table = main_table(context, measured, MAIN, setting.slug)
        found += [Heading(2, setting.title.capitalize(), setting.slug), *([table] if table else [])]
    return found


def _overall_page(
    groups: Iterable[Sequence[Record]], staleness: Staleness, ranked: Mapping[str, Sequence[str]]
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
            made = [overall.overall(found, setting, metric, datasets, staleness) for metric in RANKED_BY]
        except UsageError as error:
            if datasets is not None:
                raise StorageError(f"{overall.LIST}: {error.message}", error.hint) from error
            continue  # one dataset, or no two methods on all
        blocks += [
            Heading(2, setting.title.capitalize(), setting.slug),
            *map(overall.table, made),
            Figures((overall.chart(made[0]),)),
        ]
    explained = (Heading(2, "How methods are ranked"), captions.OVERALL)
    return Page(OVERALL, "Methods over several datasets", (*blocks, *explained)) if blocks else None
