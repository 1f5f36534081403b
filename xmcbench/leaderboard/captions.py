"""Captions of tables: dataset, setting, protocol, filter, known pairs, and the meaning of the marks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from xmcbench.escaping import markdown
from xmcbench.leaderboard.published import Ablation, PublishedRow, Source
from xmcbench.metrics import protocol
from xmcbench.records import Record
from xmcbench.setting import Setting

READING = f"""\
Figures are percentages. ± is the half-width of the 95% bootstrap interval over test instances; with several seeds both
are means, and the standard deviation of P@1 over the seeds has its own column. Best bold, second underlined, column by
column. Measured rows share a rank when they differ by no more than the root of the sum of squares of their
uncertainties, the interval of a difference of independent rows. A row's uncertainty is its half-width and, with several
seeds, 1.96 standard errors of its mean over them; with one seed, nothing is known about others. Rows of one table are
measured on the same instances, so most differences are more certain than that; `xmcbench compare` tests two rows in
pairs. Preset, encoder and the budget of the training that needs no pairs are part of a row's name; all parameters are
in its record.

Published rows are italic and cited. They are printed digit by digit, ranked among themselves by the figure as printed,
and never with measured rows: machine, protocol and filter are not ours. Letters refer to notes on a figure.

Times belong to one class of machine, and nothing is ranked in their tables. *Reused* is the cost of
artifacts made by an earlier cell (features, pre-training); it is not part of *fit*.

{protocol.SUMMARY[:1].upper()}{protocol.SUMMARY[1:]}.

These pages are generated from the records in `records/`, the figures in `published/` and the remarks in `remarks/`. To
send records of your own, see CONTRIBUTING.md."""

STATISTICS = "Instances, labels and pairs. D BoW: dimension of the bag-of-words features."

BORROWED = "measured without pairs, which this method ignores"

OVERALL = """\
Methods are ranked on every dataset, and the ranks are averaged; figures of different datasets never are. A method is
ranked if it has a result with the same parameters on every dataset of the setting; the others are listed below the
tables. Datasets for tuning (`-dev`) do not count. Friedman's test asks whether any two methods differ. Methods under a
bar differ by less than the critical difference of Nemenyi's test, which with few datasets is large. The tests take
datasets for independent, which those drawn from one another are not. `xmcbench rank` does the same for chosen datasets
and metrics."""

CURVE = (
    "Bands reach from the lowest seed to the highest. A method that never looks at pairs is the same at every share: "
    "its line is flat."
)

TRADEOFF = (
    "A row is on the Pareto front of a cost if no other row of the drawing is at least as good and as cheap, and "
    "better or cheaper. The front is one of means and ignores their intervals. Times on other classes of machine are "
    "in drawings of their own."
)

TRAINING = (
    "Losses of the trained rows of the zero-shot setting, from their records. Bands reach from the "
    "lowest seed to the highest; rows that share a training share a line. Losses of different methods "
    "cannot be compared: each has its own task, batch and temperature."
)

_GROUPS = {
    "seen": "labels with a known pair",
    "unseen": "labels without one",
    "head": "the most frequent labels, which hold a third of the training pairs",
    "middle": "the next third",
    "tail": "the rarest labels, the last third",
}


def settings(of: Iterable[Setting]) -> str:
    """Settings in a few words: "zero-shot; few-shot, by label 1%, 5%; full"."""
    chosen = {*of}
    parts = ["zero-shot"] if Setting("ez") in chosen else []
    for by in ("label", "pair"):
        ratios = sorted(each.ratio or 0 for each in chosen if each.by == by)
        if ratios:
            parts.append(f"few-shot by {by} {', '.join(f'{100 * ratio:g}%' for ratio in ratios)}")
    return "; ".join([*parts, *(["full"] if Setting("full") in chosen else [])])


def main(
    dataset: str,
    setting: Setting,
    records: Sequence[Record],
    filter_name: str,
    published: Sequence[tuple[Source, PublishedRow]],
) -> str:
    """The caption of a main table."""
    parts = []
    if any(record.ok for record in records):
        parts.append(measured(dataset, setting, records, filter_name))
        parts.append("Best bold, second underlined; rows that the intervals cannot distinguish share a rank.")
    else:
        parts.append(f"{dataset}, {setting.title}.")
    printed = {source.key: (source, row) for source, row in published}
    for source, row in printed.values():
        where = source.tables.get(row.table, row.table)
        parts.append(f"Published rows in italics, ranked apart: {where} of {_short(source)}, {source.protocol}.")
    return " ".join(parts)


def measured(dataset: str, setting: Setting, records: Sequence[Record], filter_name: str) -> str:
    """Dataset, setting, unit, protocol, filter and known pairs of measured rows."""
    done = [record for record in records if record.ok]
    return (
        f"{dataset}, {setting.title}{_known(done)}. {_figures(done, filter_name)}; "
        "preset, encoder and budget of the training without pairs are part of a row's name."
    )


def measured_ablation(name: str, records: Sequence[Record], filter_name: str, printed: Ablation) -> str:
    """The caption of a measured ablation: what all rows have in common (``name``), and the meaning of the columns."""
    done = [record for record in records if record.ok]
    cell = done[0].cell
    place = f"{cell.dataset}, {cell.setting.title}{_known(done)}"
    heads = ", ".join(head for head, _ in printed.switches.values())
    return (
        f"{place}. {name} with its components ({heads}) on or off; rows are numbered as the published ones. "
        f"{_figures(done, filter_name)}."
    )


def second(dataset: str, setting: Setting, filter_name: str) -> str:
    """The caption of the second table of the same rows."""
    return f"{dataset}, {setting.title}: nDCG and propensity-scored precision; {_protocol(filter_name)}."


def groups(dataset: str, setting: Setting, records: Sequence[Record], filter_name: str, names: Sequence[str]) -> str:
    """The caption of a table by groups of labels, with the test instances that each group is averaged over."""
    views = [record.metrics[filter_name].views for record in records if record.ok]
    meanings = []
    for name in names:
        counts = sorted({view[name].scored for view in views if name in view})
        instances = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}" if counts else "0"
        meanings.append(f"{name.capitalize()}: {_GROUPS[name]} ({instances} test instances)")
    return f"{dataset}, {setting.title}: by group of labels; {_protocol(filter_name)}. {'; '.join(meanings)}."


def efficiency(dataset: str, setting: Setting, machine: str) -> str:
    """The caption of a table of times."""
    return f"{dataset}, {setting.title}: time and memory on {machine}. Means over seeds, memory the highest."


def makeup(dataset: str, setting: Setting) -> str:
    """The caption of the table of what rows are made of."""
    return (
        f"{dataset}, {setting.title}: what the rows are made of. Outside: on anything but this dataset. Training data "
        "and license are what the card of a model declares; nobody has checked them, and no rank depends on them."
    )


def remarked(titles: Sequence[str]) -> str:
    """The line below a table that leads to what the page says on the methods of these titles."""
    return f"[The remarks](#remarks) explain the figures of {', '.join(map(markdown, titles))}."


def on_the_ablation(titles: Iterable[str]) -> str:
    """The line below a table that replaces rows with a component switched off."""
    return f"{' and '.join(map(markdown, sorted(titles)))} with a component switched off: [ablation](ablation.md)."


def ablation(printed: Ablation, source: Source) -> str:
    """The caption of a published ablation."""
    switches = ", ".join(f"{head}: {meaning}" for head, meaning in printed.switches.values())
    head = f"{printed.dataset}, {printed.setting.title}. Published: {_short(source)}, {source.protocol}."
    return f"{head} {switches}."


def _figures(done: Sequence[Record], filter_name: str) -> str:
    scored = done[0].metrics[filter_name].scored
    interval = f"Percent ± half-width of the 95% bootstrap interval over {scored:,} test instances"
    return f"{interval}; {_protocol(filter_name)}"


def _protocol(filter_name: str) -> str:
    return f"filter {filter_name}, metric protocol {protocol.VERSION}"


def _known(done: Sequence[Record]) -> str:
    """How many pairs the rows were given."""
    subsets = {record.cell.seed: record.subset for record in done if record.subset}
    if not subsets:
        return ""
    pairs, labels = (fmean(getattr(subset, what) for subset in subsets.values()) for what in ("pairs", "labels"))
    mean = ", mean over seeds" if len({subset.pairs for subset in subsets.values()}) > 1 else ""
    return f": {pairs:,.0f} known pairs of {labels:,.0f} labels{mean}"


def _short(source: Source) -> str:
    authors, _, rest = source.citation.partition(":")
    first = authors.split(",")[0]
    return f"{first}{' et al.' if ',' in authors else ''}, {rest.rstrip('.').rpartition(' ')[2]}"
