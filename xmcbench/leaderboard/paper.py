"""A table for a paper: methods in rows, and in columns the chosen metrics on each dataset, in one setting.

It is set with booktabs and siunitx, at the size of the text. Bold is the best of a column, and a sign marks rows that
are statistically tied with it, as on the pages of a board. Comments have what the pages note on a row, such as that it
is stale, and name datasets on which ties are not tested.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from xmcbench.errors import UnknownName, UsageError
from xmcbench.leaderboard.captions import UNTESTED
from xmcbench.leaderboard.groups import by_dataset, by_setting, is_listed
from xmcbench.leaderboard.names import names, short_names
from xmcbench.leaderboard.rows import Row, rename
from xmcbench.leaderboard.sections import Context, Measured
from xmcbench.leaderboard.tables import Ties
from xmcbench.metrics import METRICS
from xmcbench.output import escaping
from xmcbench.records import Record
from xmcbench.setting import Setting

#: The sign of a tie, which a paper may define otherwise. It stands in the space between columns, and widens none.
_TIE = r"\xmctie"
_PREAMBLE = r"""% \usepackage{booktabs,siunitx,etoolbox}
\providecommand{\xmctie}{\rlap{\textsuperscript{$\approx$}}}
\robustify\bfseries
\sisetup{detect-weight=true,detect-inline-weight=math}"""


@dataclass(frozen=True)
class PaperTable:
    """A table of one setting.

    columns: (dataset, metric). rows: name -> row by dataset; where a dataset has no such row, its cells are blank.
    ties: dataset -> metric -> names of rows. untested: datasets whose ties are unknown: the ranks of a row are missing.
    """

    columns: tuple[tuple[str, str], ...]
    rows: Mapping[str, Mapping[str, Row]]
    ties: Mapping[str, Ties]
    untested: tuple[str, ...] = ()


def paper_table(
    records: Iterable[Record],
    setting: Setting,
    metrics: Sequence[str],
    context: Context,
    datasets: Sequence[str] = (),
    methods: Sequence[str] = (),
) -> PaperTable:
    """Return the table of a setting.

    datasets: names, default all with results but those for tuning and samples. methods: NAME or NAME:PRESET, in their
    order; default all rows of unchanged presets, best first on the first dataset. Raises UnknownName for a metric and
    for a dataset without results, UsageError for a method or a setting without any.
    """
    for metric in metrics:
        if metric not in METRICS:
            raise UnknownName("metric", metric, METRICS)
    found = {name: by_setting(group) for name, group in by_dataset(records).items()}
    known = [name for name in sorted(found) if any(record.ok for record in found[name].get(setting, ()))]
    spelled = {name.casefold(): name for name in known}
    for name in datasets:
        if name.casefold() not in spelled:
            raise UnknownName("dataset", name, known, where=f"with results, {setting.title}")
    chosen = [spelled[name.casefold()] for name in datasets] or [name for name in known if is_listed(name)]
    if not chosen:
        what = "no result that counts" if known else "no result"
        raise UsageError(f"there is {what} in the setting {setting.title}", "choose another with --setting")
    measured = {
        name: Measured.of(context, name, setting, found[name][setting], found[name].get(Setting("ez"), ()))
        for name in chosen
    }
    shown = _tell_apart({name: _choose(own, methods) for name, own in measured.items()})
    every = [row for own in shown.values() for row in own]
    if missing := [name for name in methods if not any(_is_named(row, name) for row in every)]:
        others = [row for own in measured.values() for row in own.rows if row.figures]
        changed = [name for name in missing if any(_is_named(row, name, changed=True) for row in others)]
        what = f" {changed[0]} with the parameters of a preset" if changed else f": {', '.join(missing)}"
        raise UsageError(f"there is no row of{what}", "see `xmcbench ls results`")
    rows: dict[str, dict[str, Row]] = {}
    for name in chosen:
        for row in shown[name]:
            rows.setdefault(row.name, {})[name] = row
    if methods:
        firsts = {key: next(iter(own.values())) for key, own in rows.items()}
        rows = {key: rows[key] for name in methods for key, first in firsts.items() if _is_named(first, name)}
    return PaperTable(
        tuple((name, metric) for name in chosen for metric in metrics),
        rows,
        {name: context.ties(shown[name], metrics) for name in chosen},
        tuple(name for name in chosen if shown[name] and not context.can_test(shown[name])),
    )


def latex(table: PaperTable, decimals: int = 1, with_spread: bool = False) -> str:
    """Return the table as LaTeX, to \\input in a paper whose preamble loads the packages of its first line."""
    firsts = [next(iter(row.values())) for row in table.rows.values()]
    short = dict(zip(table.rows, short_names(firsts), strict=True))
    datasets = [*dict.fromkeys(name for name, _ in table.columns)]
    metrics = [*dict.fromkeys(metric for _, metric in table.columns)]
    digits = f"S[table-format=2.{decimals},table-align-text-after=false]"
    heads = " & ".join(f"\\multicolumn{{{len(metrics)}}}{{c}}{{{escaping.latex(name)}}}" for name in datasets)
    ends = [1 + len(metrics) * place for place in range(len(datasets) + 1)]
    rules = " ".join(f"\\cmidrule(lr){{{start + 1}-{end}}}" for start, end in pairwise(ends))
    seconds = " & ".join(f"{{{escaping.latex(metric)}}}" for _, metric in table.columns)

    def percent(value: float) -> str:
        return f"{100 * value:.{decimals}f}"

    def cell(name: str, dataset: str, metric: str) -> str:
        rows = {key: own[dataset].figures for key, own in table.rows.items() if dataset in own}
        figures = {key: own[metric] for key, own in rows.items() if metric in own}  # without propensities no PSP
        if name not in figures:
            return ""
        value, highest = figures[name].value, max(figure.value for figure in figures.values())
        text = percent(value)
        if len(figures) > 1 and highest and round(value, 4) == round(highest, 4):  # as on the pages of a board
            text = rf"\bfseries {text}"
        elif name in table.ties[dataset].get(metric, ()):
            text += _TIE
        return text + (f"{{\\,\\scriptsize$\\pm${percent(figures[name].half_width)}}}" if with_spread else "")

    body = [
        " & ".join([escaping.latex_line(shown), *(cell(name, *column) for column in table.columns)]) + r" \\"
        for name, shown in short.items()
    ]
    return "\n".join(
        [
            _PREAMBLE,
            *(
                escaping.visible(f"% {short[name]}, {dataset}: {mark}")
                for name, own in table.rows.items()
                for dataset, row in own.items()
                for mark in row.marks
            ),
            *(escaping.visible(f"% {dataset}: {UNTESTED}") for dataset in table.untested),
            f"\\begin{{tabular}}{{@{{}}l*{{{len(table.columns)}}}{{{digits}}}@{{}}}}",
            r"\toprule",
            f" & {heads} \\\\",
            rules,
            f"Method & {seconds} \\\\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def _tell_apart(shown: Mapping[str, Sequence[Row]]) -> dict[str, list[Row]]:
    """Return the rows of each dataset; those of one name and other parameters elsewhere have names of their own."""
    called = names({row.records[0].cell.row: row.records for own in shown.values() for row in own})
    return {dataset: [rename(row, called[row.records[0].cell.row]) for row in own] for dataset, own in shown.items()}


def _choose(measured: Measured, methods: Sequence[str]) -> list[Row]:
    """Return the rows with results that are asked for."""
    if not methods:
        return measured.standard
    unchanged = [row for row in measured.standard if not row.facts.changes]
    return [row for row in unchanged if any(_is_named(row, name) for name in methods)]


def _is_named(row: Row, name: str, changed: bool = False) -> bool:
    """Return whether NAME or NAME:PRESET is a row; changed: also where it has other values than the preset."""
    method, colon, preset = name.partition(":")
    is_of_preset = row.facts.preset == preset and (changed or not row.has_other_values)
    return row.records[0].cell.method == method and (not colon or is_of_preset)
