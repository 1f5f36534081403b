"""Staleness of records: which ones today's code, or code that is known to give the same result, has not made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, product

from xmcbench.metrics import protocol
from xmcbench.records.equivalence import METRICS, RANKS, Equivalence, equal_sources
from xmcbench.records.record import Cell, Record
from xmcbench.storage.canonical import canonical_json
from xmcbench.storage.source import join_digests, module_digest, modules_digest

#: What to do about a result that is not judged, because a method that it goes through is not here.
HINT = "name the file of a plug-in with --plugin"

#: The modules that compute figures from ranks, and those that make ranks from predictions.
_OF_METRICS = tuple(f"xmcbench.metrics.{name}" for name in ("evaluation", "labels", "ranks"))
_OF_RANKS = ("xmcbench.metrics.ranks", "xmcbench.runner.ranking")


def metrics_digest() -> str:
    """Return the SHA-256 (hex) of the source of the metrics."""
    return module_digest(*_OF_METRICS)


def ranks_digest() -> str:
    """Return the SHA-256 (hex) of the source that makes ranks from predictions."""
    return modules_digest(*_OF_RANKS)


def _only_its_own(cell: Cell) -> list[tuple[str, Mapping[str, object]]]:
    return [(cell.method, cell.parameters)]


@dataclass(frozen=True)
class Staleness:
    """Today's code. sources: method -> SHA-256 of its source; a method that is not there is not judged.

    through: the methods that a cell goes through, each with its parameters, its own first. presets: method -> preset ->
    all parameters as it has them; the preset "" has the defaults. described: method -> parameters that its rows' names
    describe in words. equivalence: sources that give equal results.
    """

    sources: Mapping[str, str] = field(default_factory=dict)
    through: Callable[[Cell], Sequence[tuple[str, Mapping[str, object]]]] = _only_its_own
    presets: Mapping[str, Mapping[str, Mapping[str, object]]] = field(default_factory=dict)
    described: Mapping[str, Collection[str]] = field(default_factory=dict)
    equivalence: Equivalence = field(default_factory=dict)
    _through: dict[str, tuple[str, Sequence[tuple[str, Mapping[str, object]]]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _judged: dict[str, set[str]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _scoring: dict[str, Collection[str | None]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def evidence(self, record: Record) -> str:
        """Return why a result is fresh: ``same code``, ``equal on canaries``, ``equal when rerun``; or ``stale``.

        A result whose method is not here is ``not judged``.
        """
        if self.find_missing_methods(record):
            return "not judged"
        if self.is_stale(record):
            return "stale"
        own = valid_sources(record)
        if not own.isdisjoint(self._join(self._walk(record.cell)[1], lambda name: [self.sources[name]])):
            return "same code"
        reruns = [
            entry
            for listed in self.equivalence.get(record.cell.method, ())
            for entry in listed
            if entry.kind == "reruns" and entry.source in {*own, self.sources[record.cell.method]}
        ]
        return "equal when rerun" if reruns else "equal on canaries"

    def is_stale(self, record: Record) -> bool:
        """Return whether the code of method or ranks has changed and is not known to give the same result."""
        return self.has_stale_source(record) or self.has_stale_ranks(record)

    def has_stale_source(self, record: Record) -> bool:
        """Return whether the code of the method has changed and is not known to give the same result."""
        key, through = self._walk(record.cell)
        if any(name not in self.sources for name, _ in through):
            return False
        if key not in self._judged:
            parts = self._join(through, lambda name: equal_sources(self.equivalence, name, self.sources[name]))
            today = self._join(through, lambda name: [self.sources[name]])
            # Reruns compare a method together with its parts.
            together = (equal_sources(self.equivalence, record.cell.method, source) for source in today)
            self._judged[key] = {*parts, *filter(None, chain.from_iterable(together))}
        return self._judged[key].isdisjoint(valid_sources(record))

    def _walk(self, cell: Cell) -> tuple[str, Sequence[tuple[str, Mapping[str, object]]]]:
        """Return what a cell goes through, which is asked for once, and the same as canonical JSON before it."""
        if cell.key not in self._through:
            through = self.through(cell)
            self._through[cell.key] = canonical_json([[name, values] for name, values in through]), through
        return self._through[cell.key]

    def has_stale_ranks(self, record: Record) -> bool:
        """Return whether other code has made the ranks, which is not known to give the same ones."""
        if record.ranks is None:
            return False
        return record.ranks.source_sha256 not in self._equal_scoring(RANKS, ranks_digest)

    def has_current_figures(self, record: Record, propensity: tuple[float, float] | None = None) -> bool:
        """Return whether today's metrics give these figures. propensity: its constants (default: the record's)."""
        scored = record.protocol
        return (
            scored.version == protocol.VERSION
            and scored.source_sha256 in self._equal_scoring(METRICS, metrics_digest)
            and propensity in (None, scored.propensity)
        )

    def _equal_scoring(self, name: str, digest: Callable[[], str]) -> Collection[str | None]:
        """Return the sources of ranks or metrics that give the same as today's."""
        if name not in self._scoring:
            self._scoring[name] = equal_sources(self.equivalence, name, digest())
        return self._scoring[name]

    def _join(
        self, through: Sequence[tuple[str, Mapping[str, object]]], sources: Callable[[str], Iterable[str | None]]
    ) -> set[str]:
        """Return the joined sources of a cell, for every combination of the sources of what it goes through.

        A parameter that a part grew later is not in its values. Records that were made in between may have its default.
        """
        inner = [*product(*(self._with_defaults(name, values) for name, values in through[1:]))]
        combined = product(*(filter(None, sources(name)) for name, _ in through))
        return {join_digests(digests, values) for digests, values in product(combined, inner)}

    def _with_defaults(self, name: str, values: Mapping[str, object]) -> list[dict[str, object]]:
        """Return the values with any of the defaults that they lack."""
        defaults = self.presets.get(name, {}).get("", {})
        lacking = [parameter for parameter in defaults if parameter not in values]
        chosen = chain.from_iterable(combinations(lacking, count) for count in range(len(lacking) + 1))
        return [{**values, **{parameter: defaults[parameter] for parameter in own}} for own in chosen]

    def find_missing_methods(self, record: Record) -> list[str]:
        """Return the methods that a record goes through and that are not here: it is not judged."""
        return [name for name, _ in self._walk(record.cell)[1] if name not in self.sources]

    def has_changed(self, record: Record, preset: str, ignored: Collection[str] = ()) -> bool:
        """Return whether a record has other parameters than the preset gives it today, those in ``ignored`` left out.

        False where the method or the preset is not known.
        """
        known = self.presets.get(record.cell.method, {})
        if preset not in known:
            return False
        # A parameter that was added later is not in the cell, and has its default.
        whole = {**known[""], **record.values}
        return any(whole.get(name) != value for name, value in known[preset].items() if name not in ignored)

    def find_changed_preset(self, record: Record) -> str:
        """Return the preset in the name of the record's row if its values have changed and no name shows it."""
        preset, *rest = record.method.variant.split(", ")
        shown = {name for name, equals, _ in (part.partition("=") for part in rest) if equals}
        described = self.described.get(record.cell.method, ())
        return preset if preset and self.has_changed(record, preset, {*shown, *described}) else ""

    def problem(self, record: Record) -> str:
        """Return a note for readers of the record's figures; empty if all is well."""
        if self.has_stale_source(record):
            return "stale: the method's code has changed since this result was made"
        if self.has_stale_ranks(record):
            return "stale: the code that makes ranks has changed since this result was made"
        if preset := self.find_changed_preset(record):
            return f"stale: the preset {preset} has had other values since this result was made"
        if record.protocol.version != protocol.VERSION:
            return f"stale: scored by version {record.protocol.version} of the metric protocol"
        return ""

    def problems(self, records: Iterable[Record]) -> tuple[str, ...]:
        """Return notes for readers of figures averaged over records: each problem once, and mixed sources."""
        group = list(records)
        found = dict.fromkeys(filter(None, map(self.problem, group)))
        partly = [f"{problem} (in some of its results)" for problem in found if not all(map(self.problem, group))]
        shared = set.intersection(*map(self._equal, group)) if group else {""}
        mixed = () if shared else ("mixed: its results were made by different code",)
        return (*(partly or found), *mixed)

    def _equal(self, record: Record) -> set[str]:
        """Return all sources that are known to give the record's result."""
        name = record.cell.method
        linked = {equal for source in valid_sources(record) for equal in equal_sources(self.equivalence, name, source)}
        fresh = {"today"} if not self.find_missing_methods(record) and not self.has_stale_source(record) else set()
        return {*filter(None, linked), *fresh}


def valid_sources(record: Record) -> set[str]:
    """Return the sources that a record itself names: of the code that made it, and of earlier checks."""
    return {record.method.source_sha256, *(check.source_sha256 for check in record.checks)}
