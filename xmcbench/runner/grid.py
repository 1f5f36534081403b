"""Grids of cells, curves and ablations, as requests.

A grid is a product of datasets, settings, methods, values of parameters, and seeds. Several grids may be planned
together; ``runner.plan`` plans each cell once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from xmcbench.data.catalog import normalize_name
from xmcbench.errors import PluginError, UsageError
from xmcbench.runner.rows import Request
from xmcbench.setting import Setting

if TYPE_CHECKING:
    from xmcbench.plugins.registry import Registry


@dataclass(frozen=True)
class Grid:
    """Every method on every dataset in every setting, with every seed.

    overrides: method -> parameter -> value, or a list of values with a row per value. The rest is as in ``Request``.
    """

    datasets: Sequence[str]
    settings: Sequence[Setting]
    methods: Sequence[str] = ("all",)
    preset: str | None = None
    overrides: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    seeds: Sequence[int] = (0,)
    complete: bool = False

    def requests(self) -> list[Request]:
        """Return a request per dataset and setting, dataset by dataset."""
        return [
            Request(
                dataset, setting, tuple(self.methods), self.preset, self.overrides, tuple(self.seeds), self.complete
            )
            for dataset in dict.fromkeys(map(normalize_name, self.datasets))
            for setting in dict.fromkeys(self.settings)
        ]


def requests_of(grids: Sequence[Grid]) -> list[Request]:
    """Return the requests of several grids, in order."""
    return [request for grid in grids for request in grid.requests()]


def _supervision(registry: Registry, name: str) -> str:
    try:
        return registry[name.partition(":")[0]].usable().supervision
    except PluginError:
        return "optional"  # the plan leaves it out, and says why


def curve_grids(grid: Grid, registry: Registry) -> list[Grid]:
    """Return the grids of a curve, from a grid of settings. Raises UsageError if no method is left.

    Methods that never look at pairs run once, zero-shot with the first seed; methods that need pairs do not run there.
    """
    if not grid.methods or "all" in grid.methods:
        raise UsageError("a curve needs the names of its methods", "--methods tfidf,xr-linear")
    supervision = {name: _supervision(registry, name) for name in grid.methods}
    zero = Setting.of("ez")
    with_pairs = [setting for setting in grid.settings if setting != zero]
    grids = [replace(grid, methods=_select(supervision, "unused"), settings=[zero], seeds=grid.seeds[:1])]
    for setting in ([zero] if zero in grid.settings else []) + with_pairs:
        methods = _select(supervision, "optional", *([] if setting == zero else ["required"]))
        grids.append(replace(grid, methods=methods, settings=[setting]))
    found = [selected for selected in grids if selected.methods]
    if not found:
        raise UsageError(
            f"{', '.join(grid.methods)} cannot run at these shares", "at 0 there are no pairs to learn from"
        )
    return found


def _select(supervision: Mapping[str, str], *kinds: str) -> tuple[str, ...]:
    return tuple(name for name, kind in supervision.items() if kind in kinds)


def ablation_rows(grid: Grid, registry: Registry) -> list[tuple[str, Request]]:
    """Return the requests of the ablation of the only method, each with the name of its row. Raises UsageError."""
    (method,) = grid.methods
    name = method.partition(":")[0]
    rows = registry[name].usable().ablation
    if not rows:
        raise UsageError(f"{name} defines no ablation", "a method defines one in its class attribute `ablation`")
    own = grid.overrides.get(name, {})
    for changes in rows.values():
        for parameter in own.keys() & changes.keys():
            raise UsageError(f"--set {name}.{parameter} is what the rows of the ablation change")
    return [
        (row, request)
        for row, changes in rows.items()
        for request in replace(grid, overrides={**grid.overrides, name: {**own, **changes}}).requests()
    ]
