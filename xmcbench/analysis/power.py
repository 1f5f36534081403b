"""How much data shows a difference: test instances and seeds, from the variance of stored results."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xmcbench.comparison import obstacle
from xmcbench.errors import UnknownName, UsageError
from xmcbench.leaderboard.rows import group_rows, names
from xmcbench.metrics import METRICS, Scores, protocol
from xmcbench.metrics.power import POWER, Spread, spread
from xmcbench.output.layout import laid_out
from xmcbench.output.quantities import counted
from xmcbench.records import Record, Store
from xmcbench.records.selection import Conditions, Selected, choose, pair, places
from xmcbench.runner.rescoring import evaluations
from xmcbench.setting import Setting

#: Seeds for which the instances that are needed are shown.
SEEDS = (2, 3, 5, 10)
#: Rows left out are named up to this number, and counted beyond it.
_NAMED = 3


@dataclass(frozen=True)
class Pair:
    """Two rows of one dataset, and the variances of their difference."""

    first: str
    second: str
    spread: Spread


@dataclass(frozen=True)
class Needed:
    """What shows a difference between two rows of one dataset.

    settings: the setting of all rows; of two rows in different ones that of each, in their order. detect: the
    difference, as a fraction. pairs: all pairs of rows that can be compared. left_out: why others cannot be -> their
    names. instances: of the test set.
    """

    dataset: str
    settings: tuple[Setting, ...]
    metric: str
    filter: str
    detect: float
    power: float
    instances: int
    pairs: tuple[Pair, ...]
    left_out: Mapping[str, Sequence[str]]

    def as_json(self) -> dict[str, Any]:
        """Everything as JSON values; null where no number is enough."""
        return {
            "dataset": self.dataset,
            "settings": [each.slug for each in self.settings],
            "metric": self.metric,
            "filter": self.filter,
            "detect": self.detect,
            "power": self.power,
            "instances": self.instances,
            "pairs": [
                {
                    "first": each.first,
                    "second": each.second,
                    "variance_between_instances": each.spread.row,
                    "variances_between_seeds": [of_seed for of_seed, _ in each.spread.sides],
                    "variances_of_both": [both for _, both in each.spread.sides],
                    "instances_needed": {str(runs): self._rows(each, runs) for runs in self._seeds([each])},
                    "seeds_needed": each.spread.runs_needed(self.detect, self.instances, self.power),
                    "detectable": {
                        str(runs): each.spread.detectable(self.instances, runs, self.power)
                        for runs in self._seeds([each])
                    },
                }
                for each in self.pairs
            ],
            "left_out": {reason: [*rows] for reason, rows in self.left_out.items()},
        }

    def __str__(self) -> str:
        """A table with a line per pair, or, of many pairs, for half and nine tenths of them."""
        where = " and ".join(each.title for each in self.settings)
        head = (
            f"{self.dataset}, {where}: to show a difference of {100 * self.detect:g} points of {self.metric} with "
            f"{100 * self.power:g}% power at the 5% level; filter {self.filter}, metric protocol {protocol.VERSION}."
        )
        seeds = self._seeds(self.pairs)
        lines = self._lines(seeds) if len(self.pairs) <= 10 else self._quantiles(seeds)
        heads = ["Rows", *(f"instances, {counted(runs, 'seed')}" for runs in seeds)]
        heads += [f"seeds, {self.instances:,} instances", f"detectable, {self.instances:,} instances"]
        aligned = ("left", *["right"] * (len(heads) - 1))
        parts = [head, laid_out(lines, heads, aligned)]
        if any(each.spread.sides for each in self.pairs):
            most = max(seeds)
            parts.append(
                f"Seeds are those of each side that depends on the seed. Detectable: the smallest difference that the "
                f"test set shows with {most} seeds. no: no number, or no "
                f"difference, is enough."
            )
        for reason, rows in self.left_out.items():
            named = "; ".join(rows) if len(rows) <= _NAMED else f"{len(rows)} rows"
            parts.append(f"Left out, {reason}: {named}.")
        return "\n\n".join(parts)

    def _seeds(self, pairs: Sequence[Pair]) -> tuple[int, ...]:
        return SEEDS if any(each.spread.sides for each in pairs) else (1,)

    def _rows(self, pair: Pair, runs: int) -> int | None:
        return pair.spread.rows_needed(self.detect, runs, self.power)

    def _lines(self, seeds: Sequence[int]) -> list[list[str]]:
        return [
            [
                f"{each.first} and {each.second}",
                *(_count(self._rows(each, runs)) for runs in seeds),
                _count(each.spread.runs_needed(self.detect, self.instances, self.power)),
                _points(each.spread.detectable(self.instances, max(seeds), self.power)),
            ]
            for each in self.pairs
        ]

    def _quantiles(self, seeds: Sequence[int]) -> list[list[str]]:
        """What is enough for half of the pairs, and for nine tenths of them, column by column."""
        columns: list[list[float]] = [[_number(self._rows(each, runs)) for each in self.pairs] for runs in seeds]
        columns.append(
            [_number(each.spread.runs_needed(self.detect, self.instances, self.power)) for each in self.pairs]
        )
        detectable = [_number(each.spread.detectable(self.instances, max(seeds), self.power)) for each in self.pairs]
        lines = []
        for name, share in (("half", 0.5), ("nine tenths", 0.9)):
            enough = [np.quantile(column, share, method="inverted_cdf") for column in columns]
            smallest = np.quantile(detectable, share, method="inverted_cdf")
            texts = [_count(None if np.isinf(each) else int(each)) for each in enough]
            texts.append(_points(None if np.isinf(smallest) else float(smallest)))
            lines.append([f"{name} of {len(self.pairs)} pairs of rows", *texts])
        return lines


def needed(
    first: str | None = None,
    second: str | None = None,
    *,
    detect: float,
    metric: str = "P@1",
    power: float = POWER,
    store: Store,
    conditions: Conditions | None = None,
    filter: str | None = None,  # noqa: A002 - the name of the flag
) -> list[Needed]:
    """What shows a difference ``detect``, as a fraction, in each dataset and setting of a store.

    first, second: two rows as in ``compare``, maybe of two settings; default is every pair of rows. conditions:
    dataset, setting and seeds. A row that depends on the seed and has one run is left out: how much its seed matters
    is not known.

    Raises UnknownName for a metric, UsageError where there are no two rows to judge or they cannot be paired, and what
    ``choose`` raises.
    """
    if metric not in METRICS:
        raise UnknownName("metric", metric, METRICS)
    if not 0 < detect < 1:
        raise UsageError(f"--detect {100 * detect:g} must be between 0 and 100 points")
    if not 0.05 < power < 1:
        raise UsageError(f"--power {100 * power:g} must be between 5 and 100")
    chosen = conditions or Conditions()
    if first is not None and second is not None:
        rows = choose(store, first, second, chosen)
        if unpaired := obstacle(*rows, filter):
            raise UsageError(f"the two rows differ in their {unpaired}", "power needs two rows that `compare` can pair")
        found = [_needed([*rows], metric, detect, power, filter)]
    else:
        found = [
            _needed(_rows(records, store), metric, detect, power, filter) for records in places(store, chosen).values()
        ]
    judged = [each for each in found if each.pairs]
    if not judged:
        reasons = dict.fromkeys(reason for each in found for reason in each.left_out)
        why = f"rows are left out: {'; '.join(reasons)}" if reasons else "run two methods"
        raise UsageError(f"no two rows in {store.root} can be compared", why)
    return judged


def _rows(records: Sequence[Record], store: Store) -> list[Selected]:
    groups = group_rows(records)
    called = names(groups)
    return [Selected(tuple(groups[key]), store) for key in sorted(groups, key=lambda key: called[key])]


def _needed(rows: Sequence[Selected], metric: str, detect: float, power: float, filter_name: str | None) -> Needed:
    record = rows[0].records[0]
    # Rows with another default filter are measured on other instances.
    chosen = filter_name or Counter(row.records[0].protocol.filter for row in rows).most_common(1)[0][0]
    called = names({str(place): row.records for place, row in enumerate(rows)})
    scores: dict[int, list[Scores]] = {}
    left_out: dict[str, list[str]] = {}
    for place, row in enumerate(rows):
        name = called[str(place)]
        if not all(each.ranks for each in row.records):
            left_out.setdefault("without stored ranks", []).append(name)
            continue
        if filter_name is None and row.records[0].protocol.filter != chosen:
            left_out.setdefault(f"with another default filter than {chosen}", []).append(name)
            continue
        if not all(chosen in each.metrics for each in row.records):
            left_out.setdefault(f"not scored under the filter {chosen}", []).append(name)
            continue
        scores[place] = evaluations(row.records, row.store, chosen, record.protocol.propensity)
        if scores[place][0].scored < 2:
            del scores[place]
            left_out.setdefault("with a single scored instance", []).append(name)
        elif metric not in scores[place][0].per_instance:  # without propensities there is no PSP
            del scores[place]
            left_out.setdefault(f"without {metric}", []).append(name)
        elif len(row.records) == 1 and not row.deterministic:
            del scores[place]
            left_out.setdefault("with one run, although its result depends on the seed", []).append(name)
    pairs = []
    for one, other in itertools.combinations(scores, 2):
        both = pair(rows[one], rows[other])
        names_of_both = called[str(one)], called[str(other)]
        if any(len(row.records) == 1 and not row.deterministic for row in both):
            left_out.setdefault("with one subset in common", []).append(" and ".join(names_of_both))
            continue
        subsets = both[0].subsets == both[1].subsets and None not in both[0].subsets
        first, second = (
            np.stack(
                [
                    run.contributions(metric)
                    for each, run in zip(rows[place].records, scores[place], strict=True)
                    if each in row.records
                ]
            )
            for place, row in zip((one, other), both, strict=True)
        )
        found = spread(first, second, scores[one][0].weights(metric), subsets)
        if found.sides or found.row:
            pairs.append(Pair(*names_of_both, found))
        else:
            left_out.setdefault("with the same difference on every instance", []).append(" and ".join(names_of_both))
    instances = next(iter(scores.values()))[0].scored if scores else 0
    settings = tuple(dict.fromkeys(row.records[0].cell.setting for row in rows))
    return Needed(record.cell.dataset, settings, metric, chosen, detect, power, instances, tuple(pairs), left_out)


def _number(found: float | None) -> float:
    return float("inf") if found is None else found


def _count(count: int | None) -> str:
    return "no" if count is None else f"{count:,}"


def _points(difference: float | None) -> str:
    return "no" if difference is None else f"{100 * difference:.2f}"
