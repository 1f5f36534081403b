"""Captions of tables: dataset, setting, protocol, filter, known pairs, and the meaning of the marks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from xmcbench.leaderboard.published import Ablation, PublishedRow, Source
from xmcbench.metrics import protocol
from xmcbench.output.escaping import markdown
from xmcbench.records import Record
from xmcbench.setting import Setting

READING = f"""\
Figures are percentages. ± is the half-width of a 95% interval over test instances. With several seeds, the
figure is the mean over them, the interval also covers how much seeds differ, and the standard deviation of P@1 over
seeds has its own column. A row with one seed says nothing about how much seeds differ. In each column the best
measured row is bold. Rows marked ≈ are statistically tied with it: a paired test over the same test instances and
seeds, with Holm's correction over the column, does not separate them at the 5% level. `xmcbench compare` tests any two
rows. Rows of tables have the parameters of a preset; those with other parameters have a table of their own on the page
of a setting. *Training* is the budget without pairs, or, in methods that need pairs, the one on pairs. The record of a
row has all parameters.

Published rows are italic and cited. Their figures are shown as printed and are ranked only among themselves, because
machine, protocol and filter are not ours. Letters refer to the notes below a table.

Each table of times is about one class of machine, and its rows are not ranked. *Reused* is the time that earlier
cells took to make the artifacts that this cell reused (features, pre-training); it is not part of *fit*.

P@k is the share of true labels among the first k predictions, R@k the share of an instance's true labels that are among
them. nDCG@k discounts a hit by its rank and divides by the highest possible value. PSP@k is precision in which rare
labels weigh more: its sum over all instances, divided by the highest sum that a ranking could reach. Averages are over
the test instances with a true label. Labels with equal scores are ordered by number. Filters apply before a ranking is
cut at {protocol.DEPTH} labels. This is metric protocol {protocol.VERSION}.

Filter *self*: an instance that is also a label, such as a page that other pages link to, is removed from its own
ranking. Its own name is the easiest label to find, so figures without this filter are not comparable with ours.

Few-shot: a ratio of 1% by label draws 1% of the labels that have a training pair, rounded down, and reveals all their
training pairs. By pair it draws 1% of the training pairs. Each seed draws another subset, and the smaller subsets of a
seed are contained in its larger ones. All test instances count, also those whose labels have no known pair.

*Stale*: the code of the method has changed since the result was made, and nobody has shown that the result stays the
same. The figure may still be right. *Mixed*: the seeds of a row were run by different code.

These pages are generated from the records in `records/` and, where a board has them, the published figures in
`published/` and the remarks in `remarks/`. `docs/submit.md` of xmcbench says how to send records of your own."""

STATISTICS = "Instances, labels and pairs. D BoW: dimension of the bag-of-words features."

BEST = "The best row of a preset in each dataset and setting, in percent: its method, preset and figure."

#: The mark of a test that says nothing of other runs.
ONE_RUN = "¹"

CLAIMS = f"""\
Comparisons that a publication makes of its methods, on the measured rows. A figure is the difference of two rows in
points: the first minus the second, mean over seeds, with the p-value of a paired test over instances and seeds (not
corrected for the number of tests). {ONE_RUN} One run of a method that another seed changes: the test is over instances
alone, and says nothing of other runs. *Published* is the range over the datasets of the publication. Rows without
presets are compared in the tables of every preset. Datasets for tuning (`-dev`) are left out. `xmcbench compare` says
more of two rows."""

BORROWED = "measured without pairs, which this method ignores"

OVERALL = """\
Methods are ranked on each dataset, and the ranks are averaged. Figures of different datasets are never averaged. A
method is ranked if it has a result with the same parameters on every dataset that counts in the setting; the others
stand below, with gaps, but not rows with changed parameters. The datasets that count are those of `overall.toml` beside
the records, so that a new dataset changes no ranking. Without this file all count, except those for tuning (`-dev`) and
samples (`--limit`). Friedman's test asks whether all methods perform alike. Methods whose bars overlap differ by less
than the critical difference of Nemenyi's test, which is large when there are few datasets. Both tests assume
independent datasets, and datasets drawn from one another are not independent. `xmcbench rank` does the same for any
datasets and metrics."""

EXAMPLES = """\
The tables have the ranks of the true labels of test instances, from the first seed of each row. An empty cell: the
label is not among the first 100. A board does not hold predictions, so wrong ones are not shown."""

CHARTS = """\
A chart has one row per method, the one with the most results here, and a chart of lines at most the best eight methods;
the tables have all rows. Bands reach from the lowest seed to the highest. A method that ignores pairs has one result
for all shares, so its line is flat. A row is on the Pareto front if no other row of the chart is better in the same
time or less, or as good in less; the front compares means, ignores their intervals, and takes times of different
machines as they are. `--format csv` writes the points."""

#: Said of rows of which one has no ranks.
UNTESTED = "Ties are not tested: the ranks of a row are missing."

_GROUPS = {
    "seen": "labels with a known pair",
    "unseen": "labels without one",
    "head": "the most frequent labels, which hold a third of the training pairs",
    "middle": "the next third",
    "tail": "the rarest labels, the last third",
}


def marks(is_tested: bool) -> str:
    """The meaning of the marks of a table. is_tested: rows that are tied with the best one are marked."""
    if not is_tested:
        return f"Bold: best of its column. {UNTESTED}"
    return (
        "Bold: best of its column. ≈: statistically tied with it (paired test over instances and seeds, Holm's "
        "correction over the column)."
    )


def settings(of: Iterable[Setting]) -> str:
    """Settings in a few words: "zero-shot; few-shot by label 1%, 5%; full"."""
    chosen = {*of}
    parts = ["zero-shot"] if Setting("ez") in chosen else []
    for by in ("label", "pair"):
        ratios = sorted(setting.ratio or 0 for setting in chosen if setting.by == by)
        if ratios:
            parts.append(f"few-shot by {by} {', '.join(f'{100 * ratio:g}%' for ratio in ratios)}")
    return "; ".join([*parts, *(["full"] if Setting("full") in chosen else [])])


def main(
    dataset: str,
    setting: Setting,
    records: Sequence[Record],
    filter_name: str,
    published: Sequence[tuple[Source, PublishedRow]],
    is_tested: bool,
) -> str:
    """The caption of a main table. is_tested: as for ``marks``."""
    parts = []
    if any(record.ok for record in records):
        parts.append(rows_of(dataset, setting, records, filter_name))
        parts.append(marks(is_tested))
    else:
        parts.append(f"{dataset}, {setting.title}.")
    printed = {source.key: (source, row) for source, row in published}
    for source, row in printed.values():
        where = source.tables.get(row.table, row.table)
        parts.append(f"Published rows in italics, ranked separately: {where} of {_short(source)}, {source.protocol}.")
    return " ".join(parts)


def rows_of(dataset: str, setting: Setting, records: Sequence[Record], filter_name: str) -> str:
    """Dataset, setting, unit, protocol, filter and known pairs of measured rows."""
    done = [record for record in records if record.ok]
    return f"{dataset}, {setting.title}{_pairs_given(done)}. {_figures(done, filter_name)}."


def rows_of_ablation(name: str, records: Sequence[Record], filter_name: str, printed: Ablation) -> str:
    """The caption of a measured ablation: what all rows have in common (``name``), and the meaning of the columns."""
    done = [record for record in records if record.ok]
    cell = done[0].cell
    place = f"{cell.dataset}, {cell.setting.title}{_pairs_given(done)}"
    heads = ", ".join(head for head, _ in printed.switches.values())
    return (
        f"{place}. {name} with its components ({heads}) on or off; rows are numbered like the published ones. "
        f"{_figures(done, filter_name)}."
    )


def second(dataset: str, setting: Setting, filter_name: str) -> str:
    """The caption of the second table of the same rows."""
    return f"{dataset}, {setting.title}: nDCG and propensity-scored precision; {describe_protocol(filter_name)}."


def groups(dataset: str, setting: Setting, records: Sequence[Record], filter_name: str, names: Sequence[str]) -> str:
    """The caption of a table by groups of labels, with the test instances that each group is averaged over."""
    views = [record.metrics[filter_name].views for record in records if record.ok]
    meanings = []
    for name in names:
        counts = sorted({view[name].scored for view in views if name in view})
        instances = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}" if counts else "0"
        meanings.append(f"{name.capitalize()}: {_GROUPS[name]} ({instances} test instances)")
    return f"{dataset}, {setting.title}: by group of labels; {describe_protocol(filter_name)}. {'; '.join(meanings)}."


def subsets(seeds: Sequence[int]) -> str:
    """The note on a row whose seen and unseen labels are those of fewer subsets than other rows have."""
    which = f"subset of seed {seeds[0]}" if len(seeds) == 1 else f"subsets of seeds {_join(seeds)}"
    return f"seen and unseen labels are those of the {which} only"


def efficiency(dataset: str, setting: Setting, machine: str) -> str:
    """The caption of a table of times."""
    return (
        f"{dataset}, {setting.title}: time and memory on {machine}. Times are means over seeds, memory is the maximum."
    )


def changes(dataset: str, setting: Setting, filter_name: str) -> str:
    """The caption of the rows with changed parameters."""
    rows = "rows whose parameters are not those of a preset"
    return f"{dataset}, {setting.title}: {rows}; {describe_protocol(filter_name)}."


def decisions(dataset: str, setting: Setting, records: Sequence[Record], filter_name: str, is_tested: bool) -> str:
    """The paragraph below the tables of a setting, with one table per method. is_tested: as for ``marks``."""
    return markdown(f"{rows_of(dataset, setting, records, filter_name)} {marks(is_tested)}")


def models(dataset: str, setting: Setting) -> str:
    """The caption of the table of models."""
    return (
        f"{dataset}, {setting.title}: models that rows start from. Outside data is any data other than this dataset. "
        "Training data and license are what the card of a model declares; they were not checked, and no rank depends "
        "on them."
    )


def provenance(dataset: str, setting: Setting) -> str:
    """The caption of the table of records."""
    return f"{dataset}, {setting.title}: the state of each row, and the command that runs its first seed again."


def remark_link(titles: Sequence[str], page: str) -> str:
    """The line below a table that leads to the remarks of a page on the methods of these titles."""
    return f"[The remarks]({page}#remarks) explain the figures of {_join(map(markdown, titles))}."


def on_the_ablation(titles: Iterable[str]) -> str:
    """The line below a table that replaces rows with a component switched off."""
    return f"Rows of {_join(map(markdown, sorted(titles)))} without a component: [ablation](ablation.md)."


def ablation(printed: Ablation, source: Source) -> str:
    """The caption of a published ablation."""
    switches = ", ".join(f"{head}: {meaning}" for head, meaning in printed.switches.values())
    head = f"{printed.dataset}, {printed.setting.title}. Published: {_short(source)}, {source.protocol}."
    return f"{head} {switches}."


def claims(source: Source, metric: str, preset: str) -> str:
    """Return the caption of the claims of a publication, tested in one metric by the rows of one preset."""
    rows = f"rows of preset {preset}" if preset else "rows without presets"
    return (
        f"The claims of {_short(source)} in {metric}: differences in points, by {rows}. Published figures "
        f"{source.protocol}; ours metric protocol {protocol.VERSION}, each dataset with its own filter."
    )


def _figures(done: Sequence[Record], filter_name: str) -> str:
    scored = done[0].metrics[filter_name].scored
    seeds = " (and over seeds, where there are several)" if len({record.cell.seed for record in done}) > 1 else ""
    interval = f"Percent ± half-width of the 95% interval over {scored:,} test instances{seeds}"
    return f"{interval}; {describe_protocol(filter_name)}"


def describe_protocol(filter_name: str) -> str:
    """Return the filter of figures and the version of the metrics."""
    return f"filter {filter_name}, metric protocol {protocol.VERSION}"


def _pairs_given(done: Sequence[Record]) -> str:
    """The number of pairs that the rows were given."""
    subsets = {record.cell.seed: record.subset for record in done if record.subset}
    if not subsets:
        return ""
    pairs, labels = (fmean(getattr(subset, what) for subset in subsets.values()) for what in ("pairs", "labels"))
    mean = ", mean over seeds" if len({(subset.pairs, subset.labels) for subset in subsets.values()}) > 1 else ""
    return f": {pairs:,.0f} known pairs of {labels:,.0f} labels{mean}"


def _short(source: Source) -> str:
    authors, _, rest = source.citation.partition(":")
    first = authors.split(",")[0]
    return f"{first}{' et al.' if ',' in authors else ''}, {rest.rstrip('.').rpartition(' ')[2]}"


def _join(items: Iterable[object]) -> str:
    """A, B and C."""
    *others, last = map(str, items)
    return f"{', '.join(others)} and {last}" if others else last
