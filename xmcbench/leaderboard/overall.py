"""Methods ranked over datasets. Only ranks are averaged, and only over datasets on which all methods have run."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import msgspec
import numpy as np

from xmcbench.errors import StorageError, UsageError
from xmcbench.leaderboard import captions, consistency
from xmcbench.leaderboard.canvas import DAGGER
from xmcbench.leaderboard.groups import borrow, by_dataset, group_rows, is_listed
from xmcbench.leaderboard.names import Facts, names
from xmcbench.leaderboard.points import Ranking, Spot
from xmcbench.leaderboard.tables import Table, text_table
from xmcbench.metrics import friedman, protocol
from xmcbench.metrics.friedman import Friedman
from xmcbench.output.quantities import format_count, format_p
from xmcbench.records import Record, Staleness
from xmcbench.setting import Setting
from xmcbench.storage.reading import read_text

#: The file beside the records that says which datasets count, by setting.
LIST = "overall.toml"


@dataclass(frozen=True)
class Entry:
    """A method. values: dataset -> the metric, as a fraction, mean over seeds. marks: as of ``Row``."""

    name: str
    values: Mapping[str, float]
    marks: tuple[str, ...]


@dataclass(frozen=True)
class Placed(Entry):
    """A method's place. rank: average over the datasets, 1 is best. ranks: those on each dataset, in their order.
    interval: the 95% interval of the average over datasets, None where they are too few. wins: share of comparisons
    won."""

    rank: float
    ranks: tuple[float, ...]
    interval: tuple[float, float] | None
    wins: float


@dataclass(frozen=True)
class Overall:
    """Methods ranked over datasets in one setting by one metric, the best average rank first.

    test: None where Friedman's test cannot be made. difference: Nemenyi's critical difference at the 5% level, None for
    fewer than two datasets. unranked: methods that lack a dataset, those with results on the most datasets first.
    unlisted: how many rows lack a dataset and have changed parameters.
    """

    setting: Setting
    metric: str
    datasets: tuple[str, ...]
    methods: tuple[Placed, ...]
    test: Friedman | None
    difference: float | None
    unranked: tuple[Entry, ...]
    unlisted: int = 0

    @property
    def stem(self) -> str:
        """The name of its files."""
        return f"over-datasets-{self.setting.slug}-{self.metric.lower().replace('@', '')}"


def read_list(board: Path) -> dict[str, tuple[str, ...]]:
    """Return the datasets that count in each setting, by its slug; none without a list. Raises StorageError."""
    path = board / LIST
    try:
        return msgspec.convert(tomllib.loads(read_text(path)), dict[str, tuple[str, ...]])
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise StorageError(f"{path} is not a list of datasets: {error}", 'a line is `ez = ["NAME", "NAME"]`') from error


def overall(
    records: Iterable[Record],
    setting: Setting,
    metric: str,
    datasets: Sequence[str] | None = None,
    staleness: Staleness | None = None,
) -> Overall:
    """Rank the methods of a setting over datasets, by default all that have a result and are neither for tuning
    (``-dev``) nor samples of others (``+limit``).

    A method with the same parameters is the same method; its value on a dataset is the mean over its seeds, under the
    dataset's own filter. A method that ignores pairs keeps its zero-shot result where it has no other. A method that
    lacks a dataset is not ranked, and one with changed parameters is then not listed. Raises UsageError for fewer than
    two datasets or methods, StorageError for records of different data under one name.
    """
    done = [record for record in records if record.ok]
    inside = [record for record in done if record.cell.setting == setting]
    there = sorted({record.cell.dataset for record in inside if datasets is not None or is_listed(record.cell.dataset)})
    spelled = {name.casefold(): name for name in there}
    chosen = there if datasets is None else [*dict.fromkeys(spelled.get(name.casefold(), name) for name in datasets)]
    known = f"datasets with results: {', '.join(there) or 'none'}"
    if missing := [name for name in chosen if name not in there]:
        raise UsageError(f"{missing[0]} has no result in the setting {setting.title}", known)
    if len(chosen) < 2:
        raise UsageError(f"a ranking needs two datasets with results in the setting {setting.title}", known)
    ranked = [record for record in inside if record.cell.dataset in chosen]
    if setting.kind != "ez":
        zero_shot = by_dataset(record for record in done if record.cell.setting.kind == "ez")
        for name, own in by_dataset(ranked).items():
            ranked += borrow(zero_shot.get(name, ()), own)
    consistency.check(ranked)
    groups = group_rows(ranked)
    means = {key: _means(group, metric) for key, group in groups.items()}
    whole = {key: values for key, values in means.items() if all(name in values for name in chosen)}
    judged = staleness or Staleness()
    changed = {key for key, group in groups.items() if judged.has_changed(group[0], Facts.of(group[0]).preset)}
    called = _name_rows(groups, whole, changed)
    unranked = [
        Entry(called[key], means[key], _marks(group, setting, judged))
        for key, group in groups.items()
        if key not in whole and key not in changed
    ]
    if len(whole) < 2:
        raise UsageError(
            f"fewer than two methods have results on all of {', '.join(chosen)}", "choose other datasets: --dataset A,B"
        )
    matrix = np.array([[whole[key][name] for key in whole] for name in chosen])
    ranks, wins, intervals = friedman.ranks(matrix), friedman.win_rates(matrix), friedman.rank_intervals(matrix)
    methods = [
        Placed(
            called[key],
            {name: whole[key][name] for name in chosen},
            _marks(groups[key], setting, judged),
            float(ranks[:, place].mean()),
            tuple(map(float, ranks[:, place])),
            None if intervals is None else (float(intervals[place, 0]), float(intervals[place, 1])),
            float(wins[place]),
        )
        for place, key in enumerate(whole)
    ]
    return Overall(
        setting,
        metric,
        tuple(chosen),
        tuple(sorted(methods, key=lambda method: (method.rank, method.name))),
        friedman.friedman(matrix),
        friedman.critical_difference(len(whole), len(chosen)),
        tuple(sorted(unranked, key=lambda method: (-len(method.values), method.name))),
        sum(key in changed for key in groups if key not in whole),
    )


def _name_rows(
    groups: Mapping[str, Sequence[Record]], ranked: Container[str], changed: Container[str]
) -> dict[str, str]:
    """Return the name of each row: short where no other one is called so, and ranked rows come first; else whole.

    changed: rows with other values than those of their preset, which have their whole name.
    """
    whole = names(groups)
    short = {key: whole[key] if key in changed else Facts.of(group[0]).short for key, group in groups.items()}
    counts = Counter((key in ranked, name) for key, name in short.items())
    taken = {name for key, name in short.items() if key in ranked}
    return {
        key: whole[key] if counts[key in ranked, name] > 1 or (key not in ranked and name in taken) else name
        for key, name in short.items()
    }


def table(made: Overall) -> Table:
    """Return the ranking as a table: average rank, its interval or the ranks, win rate, the metric on each dataset.

    Methods that are not ranked follow, with gaps.
    """
    lines = []
    entries: list[Entry] = [*made.methods, *made.unranked]
    for method in entries:
        texts = ["", "", ""]
        if isinstance(method, Placed):
            ranks = ", ".join(f"{rank:g}" for rank in method.ranks)
            spread = "{:.2f} to {:.2f}".format(*method.interval) if method.interval else ranks
            texts = [f"{method.rank:.2f}", spread, f"{100 * method.wins:.0f}%"]
        texts += [f"{100 * method.values[name]:.2f}" if name in method.values else "" for name in made.datasets]
        lines.append((method.name, texts, 0))
    spreads = "95% interval" if _has_intervals(made) else "ranks"
    heads = ["average rank", spreads, "wins", *(f"{made.metric} on {name}" for name in made.datasets)]
    marks = {method.name: method.marks for method in entries}
    return text_table(made.stem, caption(made), "Method", heads, lines, notes=marks)


def caption(made: Overall) -> str:
    """The caption: methods and datasets, Friedman's test, and the critical difference."""
    parts = [
        f"{made.setting.title.capitalize()}: average rank by {made.metric} (1 is best) over "
        f"{', '.join(made.datasets)}; metric protocol {protocol.VERSION}, each dataset with its own filter. Only ranks "
        "are averaged."
    ]
    if _has_intervals(made):
        parts.append("Intervals are bootstrap intervals over the datasets.")
    if made.test:
        parts.append(f"Friedman's test: chi-square {made.test.statistic:.2f}, p {format_p(made.test.p)}.")
    if made.difference is not None:
        parts.append(f"Critical difference (Nemenyi, 5%): {made.difference:.2f}.")
    if made.unranked:
        parts.append("Methods that lack a dataset stand below the others and are not ranked.")
    if made.unlisted:
        lack, are = ("lacks", "is") if made.unlisted == 1 else ("lack", "are")
        rows = f"{format_count(made.unlisted, 'row')} with changed parameters"
        parts.append(f"{rows} that {lack} a dataset {are} not listed.")
    return " ".join(parts)


def chart(made: Overall) -> Ranking:
    """Average ranks, each with half the critical difference on both sides: overlapping ones are not told apart."""
    half, last = (made.difference or 0.0) / 2, float(len(made.methods))
    spots = [
        Spot(
            f"{method.name}{DAGGER}" if method.marks else method.name,
            method.rank,
            1.0,
            max(1.0, method.rank - half),
            min(last, method.rank + half),
        )
        for method in made.methods
    ]
    tied = f"Bars that overlap: not significantly different (critical difference {2 * half:.2f})" if half else ""
    return Ranking(
        stem=made.stem,
        title=f"Average rank by {made.metric}, {made.setting.title}",
        label="average rank, 1 is best",
        spots=tuple(spots),
        foot=tied or "no critical difference",
    )


def as_json(made: Overall) -> dict[str, object]:
    """Everything as JSON values."""
    return {
        "setting": made.setting.slug,
        "metric": made.metric,
        "datasets": [*made.datasets],
        "methods": [
            {
                "name": method.name,
                "average_rank": method.rank,
                "ranks": dict(zip(made.datasets, method.ranks, strict=True)),
                "interval": [*method.interval] if method.interval else None,
                "wins": method.wins,
                "values": dict(method.values),
                "marks": [*method.marks],
            }
            for method in made.methods
        ],
        "friedman": made.test._asdict() if made.test else None,
        "critical_difference": made.difference,
        "left_out": {
            lacking.name: [name for name in made.datasets if name not in lacking.values] for lacking in made.unranked
        },
        "unlisted": made.unlisted,
    }


def _has_intervals(made: Overall) -> bool:
    return all(method.interval for method in made.methods)


def _marks(group: Sequence[Record], setting: Setting, staleness: Staleness) -> tuple[str, ...]:
    borrowed = any(record.cell.setting != setting for record in group)
    return (*([captions.BORROWED] if borrowed else []), *staleness.problems(group))


def _means(group: Iterable[Record], metric: str) -> dict[str, float]:
    """Return the mean over seeds on each dataset that has the metric; without propensities there is no PSP."""
    values = {
        name: [record.metrics[record.protocol.filter].values.get(metric) for record in own]
        for name, own in by_dataset(group).items()
    }
    known = {name: [value for value in own if value is not None] for name, own in values.items()}
    return {name: fmean(own) for name, own in known.items() if own}
