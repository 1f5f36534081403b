"""Staleness of records: which ones today's code, or code that is known to give the same result, has not made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, combinations, product
from typing import NamedTuple

from xmcbench.metrics import protocol
from xmcbench.records.equivalence import METRICS, RANKS, Equivalence, equal_sources
from xmcbench.records.record import Cell, Record
from xmcbench.storage.canonical import canonical_json
from xmcbench.storage.source import join_digests, modules_digest

#: What to do about a result that is not judged, because a method that it goes through is not here.
HINT = "name the file of a plug-in with --plugin"

#: The modules that compute figures from ranks, with their intervals, and those that make ranks from predictions.
_OF_METRICS = (
    *(f"xmcbench.metrics.{name}" for name in ("bootstrap", "evaluation", "labels", "protocol", "ranks")),
    "xmcbench.runner.figures",
)
_OF_RANKS = ("xmcbench.metrics.labels", "xmcbench.metrics.ranks", "xmcbench.runner.ranking")

#: The methods that a cell goes through, each with its parameters, its own first.
_Through = Sequence[tuple[str, Mapping[str, object]]]


@cache
def metrics_digest() -> str:
    """Return the SHA-256 (hex) of the source of the metrics."""
    return modules_digest(*_OF_METRICS)


@cache
def ranks_digest() -> str:
    """Return the SHA-256 (hex) of the source that makes ranks from predictions."""
    return modules_digest(*_OF_RANKS)


class _Fresh(NamedTuple):
    """The sources of fresh results of a cell: today's, and all that are known to give the same."""

    today: set[str]
    equal: set[str]


@dataclass(frozen=True)
class Staleness:
    """Today's code. sources: method -> SHA-256 of its source; a method that is not there is not judged.

    through: the methods that a cell goes through. presets: method -> preset -> all parameters as it has them; the
    preset "" has the defaults. described: method -> parameters that its rows' names describe in words. equivalence:
    sources that give equal results.
    """

    sources: Mapping[str, str] = field(default_factory=dict)
    through: Callable[[Cell], _Through] = lambda cell: [(cell.method, cell.parameters)]
    presets: Mapping[str, Mapping[str, Mapping[str, object]]] = field(default_factory=dict)
    described: Mapping[str, Collection[str]] = field(default_factory=dict)
    equivalence: Equivalence = field(default_factory=dict)
    # A board asks about every record many times.
    _problems: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)
    _missing: dict[str, list[str]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _fresh: dict[str, _Fresh] = field(default_factory=dict, init=False, repr=False, compare=False)
    _equal: dict[tuple[str, str], set[str | None]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def evidence(self, record: Record) -> str:
        """Return why a result is fresh: ``same code``, ``equal on canaries``, ``equal when rerun``; or ``stale``.

        A result whose method is not here is ``not judged``.
        """
        if self.find_missing_methods(record):
            return "not judged"
        if self.is_stale(record):
            return "stale"
        own = record.method.source_sha256
        if own in self._fresh[record.cell.key].today:
            return "same code"
        reruns = [
            entry
            for listed in self.equivalence.get(record.cell.method, ())
            for entry in listed
            if entry.kind == "reruns" and entry.source in {own, self.sources[record.cell.method]}
        ]
        return "equal when rerun" if reruns else "equal on canaries"

    def is_stale(self, record: Record) -> bool:
        """Return whether the code of method or ranks has changed and is not known to give the same result."""
        return self.has_stale_source(record) or self.has_stale_ranks(record)

    def has_stale_source(self, record: Record) -> bool:
        """Return whether the code of the method has changed and is not known to give the same result."""
        if self.find_missing_methods(record):
            return False
        return record.method.source_sha256 not in self._fresh[record.cell.key].equal

    def find_missing_methods(self, record: Record) -> list[str]:
        """Return the methods that a record goes through and that are not here: it is not judged."""
        key = record.cell.key
        if key not in self._missing:
            through = self.through(record.cell)
            self._missing[key] = [name for name, _ in through if name not in self.sources]
            if not self._missing[key]:
                # Cells of one method have the same sources unless their parts differ.
                shared = canonical_json([record.cell.method, through[1:]])
                if shared not in self._fresh:
                    self._fresh[shared] = self._find_fresh(through)
                self._fresh[key] = self._fresh[shared]
        return self._missing[key]

    def _find_fresh(self, through: _Through) -> _Fresh:
        today = self._join(through, lambda name: [self.sources[name]])
        equal = self._join(through, lambda name: self._list_equal(name, self.sources[name]))
        # Reruns compare a method together with its parts.
        lists = ({entry.source for entry in listed} for listed in self.equivalence.get(through[0][0], ()))
        together = chain.from_iterable(sources for sources in lists if not sources.isdisjoint(equal))
        return _Fresh(today, {*equal, *filter(None, together)})

    def _list_equal(self, name: str, source: str) -> set[str | None]:
        """Return a source of a method, of ranks or of metrics, and all that are known to give equal results."""
        if (name, source) not in self._equal:
            self._equal[name, source] = equal_sources(self.equivalence, name, source)
        return self._equal[name, source]

    def has_stale_ranks(self, record: Record) -> bool:
        """Return whether other code has made the ranks, which is not known to give the same ones."""
        return record.ranks is not None and record.ranks.source_sha256 not in self._list_equal(RANKS, ranks_digest())

    def has_current_figures(self, record: Record, propensity: tuple[float, float] | None = None) -> bool:
        """Return whether today's metrics give these figures. propensity: its constants (default: the record's)."""
        scored = record.protocol
        return (
            scored.version == protocol.VERSION
            and scored.source_sha256 in self._list_equal(METRICS, metrics_digest())
            and propensity in (None, scored.propensity)
        )

    def _join(self, through: _Through, sources: Callable[[str], Iterable[str | None]]) -> set[str]:
        """Return the joined sources of a cell, for every combination of the sources of what it goes through.

        A parameter that a part grew later is not in its values. Records that were made in between may have its default.
        """
        inner = [
            canonical_json(values)
            for values in product(*(self._with_defaults(name, values) for name, values in through[1:]))
        ]
        combined = product(*(filter(None, sources(name)) for name, _ in through))
        return {join_digests(digests, values) for digests, values in product(combined, inner)}

    def _with_defaults(self, name: str, values: Mapping[str, object]) -> list[dict[str, object]]:
        """Return the values with any of the defaults that they lack."""
        defaults = self.presets.get(name, {}).get("", {})
        lacking = [parameter for parameter in defaults if parameter not in values]
        chosen = chain.from_iterable(combinations(lacking, count) for count in range(len(lacking) + 1))
        return [{**values, **{parameter: defaults[parameter] for parameter in own}} for own in chosen]

    def has_changed(self, record: Record, preset: str, ignored: Collection[str] = ()) -> bool:
        """Return whether a record has other parameters than the preset gives it today, those in ``ignored`` left out.

        False where the method or the preset is not known.
        """
        known = self.presets.get(record.cell.method, {})
        if preset not in known:
            return False
        # A parameter that was added later is not in the cell, and has its default.
        defaults, own = known[""], record.values
        return any(
            own.get(name, defaults.get(name)) != value for name, value in known[preset].items() if name not in ignored
        )

    def find_changed_preset(self, record: Record) -> str:
        """Return the preset in the name of the record's row if its values have changed and no name shows it."""
        preset, *rest = record.method.variant.split(", ")
        shown = {name for name, equals, _ in (part.partition("=") for part in rest) if equals}
        described = self.described.get(record.cell.method, ())
        return preset if preset and self.has_changed(record, preset, {*shown, *described}) else ""

    def problem(self, record: Record) -> str:
        """Return a note for readers of the record's figures; empty if all is well."""
        if not record.sha256:
            return self._find_problem(record)
        if record.sha256 not in self._problems:
            self._problems[record.sha256] = self._find_problem(record)
        return self._problems[record.sha256]

    def _find_problem(self, record: Record) -> str:
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
        problems = [self.problem(record) for record in group]
        found = dict.fromkeys(filter(None, problems))
        partly = "" if all(problems) else " (in some of its results)"
        shared = set.intersection(*map(self._list_givers, group)) if len(group) > 1 else {""}
        mixed = () if shared else ("mixed: its results were made by different code",)
        return (*(problem + partly for problem in found), *mixed)

    def _list_givers(self, record: Record) -> set[str | None]:
        """Return all sources that are known to give the record's result; "today" stands for today's."""
        is_fresh = not self.find_missing_methods(record) and not self.has_stale_source(record)
        linked = self._list_equal(record.cell.method, record.method.source_sha256)
        return {*linked, *({"today"} if is_fresh else ())} - {None}
