"""Rows as tables: in Markdown for pages, in plain text for the terminal. Figures are in per cent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from xmcbench.leaderboard.rows import Figure, Row

#: The paper's layout, and what a second table holds.
MAIN = ("P@1", "P@3", "P@5", "R@1", "R@3", "R@5", "R@10", "R@100")
SECOND = ("nDCG@1", "nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5")

Layout = Literal["github", "simple"]


def metric_table(rows: Sequence[Row], metrics: Sequence[str], layout: Layout, view: str | None = None) -> str:
    """Metrics of rows with the half-width of their 95% interval; on a page the best is bold, the second underlined."""
    columns = {row.name: row.views.get(view, {}) if view else row.figures for row in rows}
    ranks = {metric: _ranks(columns, metric) for metric in metrics} if layout == "github" else {}
    several_seeds = any(len(row.seeds) > 1 for row in rows)
    table = []
    for row in rows:
        figures = columns[row.name]
        if figures:
            cells = [_emphasised(_cell(figures[metric]), ranks.get(metric, {}).get(row.name)) for metric in metrics]
            table.append([row.name, *cells, *([_seeds(row, figures)] if several_seeds else [])])
    headers = ["Method", *metrics, *(["seeds (sd of P@1)"] if several_seeds else [])]
    return _tabulate(table, headers, layout)


def cost_table(rows: Sequence[Row], layout: Layout) -> str:
    """Time and memory of rows: means over seeds, memory the highest."""
    table = [
        [
            row.name,
            f"{row.fit_s:.1f}",
            f"{row.reused_s:.1f}",
            f"{row.predict_ms:.2f}",
            f"{row.peak_memory_bytes / 2**30:.2f}",
        ]
        for row in rows
        if row.figures
    ]
    return _tabulate(table, ["Method", "fit s", "reused s", "predict ms/instance", "peak memory GiB"], layout)


def _tabulate(table: list[list[str]], headers: Sequence[str], layout: Layout) -> str:
    from tabulate import tabulate

    # disable_numparse: "35.60" must not become "35.6".
    aligned = ("left", *["right"] * (len(headers) - 1))
    return str(tabulate(table, headers, tablefmt=layout, disable_numparse=True, colalign=aligned if table else None))


def _cell(figure: Figure) -> str:
    return f"{100 * figure.value:.2f} ±{100 * figure.half_width:.1f}"


def _seeds(row: Row, figures: Mapping[str, Figure]) -> str:
    spread = figures["P@1"].seed_sd
    return f"{len(row.seeds)}" + (f" ({100 * spread:.2f})" if spread is not None else "")


def _ranks(columns: Mapping[str, Mapping[str, Figure]], metric: str) -> dict[str, int]:
    """Row name -> 0 for the best and 1 for the second; what looks equal shares its rank."""
    shown = {name: round(100 * figures[metric].value, 2) for name, figures in columns.items() if metric in figures}
    order = sorted(set(shown.values()), reverse=True)
    return {name: order.index(value) for name, value in shown.items() if len(shown) > 1}


def _emphasised(text: str, rank: int | None) -> str:
    value, space, rest = text.partition(" ")
    if rank == 0:
        value = f"**{value}**"
    elif rank == 1:
        value = f"<u>{value}</u>"
    return value + space + rest
