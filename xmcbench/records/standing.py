"""Whether a record is fresh: made by today's code, or by code that is known to give the same result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xmcbench.metrics import protocol
from xmcbench.records.record import Cell, Record
from xmcbench.storage.source import joined, module_digest

#: What to do about a result that is not judged, because a method that it goes through is not here.
HINT = "name the file of a plug-in with --plugin"

#: The modules that compute figures from ranks.
_METRICS = tuple(f"xmcbench.metrics.{name}" for name in ("evaluation", "propensity", "ranks", "views"))


def metrics_digest() -> str:
    """SHA-256 (hex) of the source of the metrics."""
    return module_digest(*_METRICS)


def _only_its_own(cell: Cell) -> list[tuple[str, Mapping[str, object]]]:
    return [(cell.method, cell.parameters)]


@dataclass(frozen=True)
class Standing:
    """Today's code. sources: method -> SHA-256 of its source; a method that is not there is not judged.

    through: the methods that a cell goes through, each with its parameters, its own first. presets: method -> preset ->
    all parameters as it has them; the preset "" has the defaults. described: method -> parameters that its rows' names
    describe in words.
    """

    sources: Mapping[str, str] = field(default_factory=dict)
    through: Callable[[Cell], Sequence[tuple[str, Mapping[str, object]]]] = _only_its_own
    presets: Mapping[str, Mapping[str, Mapping[str, object]]] = field(default_factory=dict)
    described: Mapping[str, Collection[str]] = field(default_factory=dict)

    def stale(self, record: Record) -> bool:
        """Whether the code of the method has changed since, and no later check covers the record."""
        through = self.through(record.cell)
        known = [self.sources[name] for name, _ in through if name in self.sources]
        today = joined(known, [values for _, values in through[1:]]) if len(known) == len(through) else None
        return today is not None and today not in valid_sources(record)

    def lacking(self, record: Record) -> list[str]:
        """The methods that a record goes through and that are not here: it is not judged."""
        return [name for name, _ in self.through(record.cell) if name not in self.sources]

    def changed(self, cell: Cell, preset: str, ignored: Collection[str] = ()) -> bool:
        """Whether a cell has other parameters than the preset gives it today, those in ``ignored`` left out.

        False where the method or the preset is not known.
        """
        known = self.presets.get(cell.method, {})
        if preset not in known:
            return False
        # A parameter that was added later is not in the cell, and has its default.
        whole = {**known[""], **cell.parameters}
        return any(whole.get(name) != value for name, value in known[preset].items() if name not in ignored)

    def changed_preset(self, record: Record) -> str:
        """The preset in the name of the record's row, where it has other values today that the name does not show."""
        preset, *rest = record.method.variant.split(", ")
        shown = {name for name, equals, _ in (each.partition("=") for each in rest) if equals}
        described = self.described.get(record.cell.method, ())
        return preset if preset and self.changed(record.cell, preset, {*shown, *described}) else ""

    def problem(self, record: Record) -> str:
        """A note for readers of the record's figures; empty if all is well."""
        if self.stale(record):
            return "stale: the method's code has changed since this result was made"
        if preset := self.changed_preset(record):
            return f"stale: the preset {preset} has had other values since this result was made"
        if record.protocol.version != protocol.VERSION:
            return f"stale: scored by version {record.protocol.version} of the metric protocol"
        return ""

    def problems(self, records: Iterable[Record]) -> tuple[str, ...]:
        """Notes for readers of figures averaged over records: each problem once, and mixed sources."""
        group = list(records)
        found = dict.fromkeys(filter(None, map(self.problem, group)))
        partly = [f"{problem} (in some of its results)" for problem in found if not all(map(self.problem, group))]
        shared = set.intersection(*(valid_sources(record) for record in group)) if group else {""}
        mixed = () if shared else ("mixed: its results were made by different code",)
        return (*(partly or found), *mixed)


def valid_sources(record: Record) -> set[str]:
    """All sources that are known to give the record's result."""
    return {record.method.source_sha256, *(check.source_sha256 for check in record.checks)}


def figures_current(record: Record, propensity: tuple[float, float] | None = None) -> bool:
    """Whether today's metrics give these figures, with these propensity constants (default: the record's)."""
    scored = record.protocol
    return (
        scored.version == protocol.VERSION
        and scored.source_sha256 == metrics_digest()
        and propensity in (None, scored.propensity)
    )
