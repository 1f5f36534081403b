"""Output of a dry run on data that are not here: the cost of each cell by the counts of the data's cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.analysis.scale import DEVICES, Device, Forecast, Rates, in_words
from xmcbench.command.report import list_skipped, print_json
from xmcbench.output.layout import fill, format_table
from xmcbench.output.quantities import format_count
from xmcbench.records import Store
from xmcbench.runner.plan import distinct_seeds
from xmcbench.runner.rows import Request, Row, resolve
from xmcbench.storage.locations import find_shipped

if TYPE_CHECKING:
    from xmcbench.plugins.registry import Registry
    from xmcbench.runner.rows import Skipped

#: The request of a row, the row, and the cost of a cell of it by device.
_Cell = tuple[Request, Row, dict[Device, Forecast]]


def show(
    requests: Sequence[Request],
    counts: Mapping[str, Mapping[str, int]],
    registry: Registry,
    runs: Path,
    as_json: bool = False,
) -> int:
    """Print what cells on data that are not on this machine would cost. counts: dataset -> its counts by its card."""
    shipped = find_shipped("leaderboards")
    stores = [Store(root) for root in dict.fromkeys(filter(None, [runs, shipped])) if root.is_dir()]
    rates = Rates(record for store in stores for record in store.records())
    cells: list[_Cell] = []
    skipped: list[Skipped] = []
    for request, (rows, left_out) in zip(requests, resolve(requests, registry), strict=True):
        skipped += left_out
        for row in rows:
            cost = rates.forecast(row, request.setting, counts[request.dataset])
            cells.append((request, row, cost))
    if as_json:
        listed = [
            {
                "method": row.name,
                "dataset": request.dataset,
                "setting": request.setting.slug,
                "seeds": list(distinct_seeds(row.method, request)),
                "estimate_s": {device: made.seconds for device, made in cost.items()},
                "machines": {device: made.machines for device, made in cost.items()},
            }
            for request, row, cost in cells
        ]
        print_json({"forecast": listed, "skipped": list_skipped(skipped)})
    else:
        print(_table(cells), fill("\n".join(_about(cells, counts, skipped))), sep="\n\n")
    return 0


def _table(cells: Sequence[_Cell]) -> str:
    several = len({(request.dataset, request.setting) for request, *_ in cells}) > 1
    lines = []
    for request, row, cost in cells:
        where = [request.dataset, request.setting.slug] if several else []
        gpu = cost.get("gpu")
        eighth = in_words((gpu.seconds[0] / 8, gpu.seconds[1] / 8)) if gpu else ""
        times = [str(cost.get("cpu", "")), str(gpu or ""), eighth] if cost else ["no measured rate", "", ""]
        lines.append([row.name, *where, *times])
    heads = ["Method", *(["dataset", "setting"] if several else []), "CPU", "1 GPU", "8 GPUs, at best"]
    return format_table(lines, heads, ["left"] * (len(heads) - 3) + ["right"] * 3)


def _about(
    cells: Sequence[_Cell],
    counts: Mapping[str, Mapping[str, int]],
    skipped: Sequence[Skipped],
) -> list[str]:
    """Return what the times are, where their rates are from, and which methods are left out."""
    sizes = [
        f"{name}: {of['train']:,} training and {of['test']:,} test instances, {of['labels']:,} labels."
        for name, of in counts.items()
    ]
    said = [
        "Nothing is planned, because data are not on this machine. Times are for one seed, by the counts of the card, "
        "with texts as long as the parameters allow, without loading and scoring. " + " ".join(sizes)
    ]
    for device in DEVICES:
        machines = dict.fromkeys(
            machine for *_, cost in cells if (made := cost.get(device)) for machine in made.machines
        )
        if machines:
            said.append(f"Rates, {device.upper()}: {'; '.join(machines)}.")
    if unknown := [row for _, row, cost in cells if not cost]:
        said.append(f"No record tells the rate of {format_count(len(unknown), 'cell')}.")
    return [*said, *map(str, skipped)]
