"""The amount of data that shows a difference: test instances and seeds, from the variance of stored results."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xmcbench.comparison import obstacle
from xmcbench.errors import UnknownName, UsageError
from xmcbench.leaderboard.groups import group_rows
from xmcbench.leaderboard.names import names
from xmcbench.metrics import METRICS, Scores, protocol
from xmcbench.metrics.power import Spread, spread
from xmcbench.output.layout import format_table
from xmcbench.output.quantities import format_count
from xmcbench.records import Record, Store
from xmcbench.records.selection import Conditions, Selected, choose, pair_records, places
from xmcbench.runner.scoring import evaluations
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
    """The data that shows a difference between two rows of one dataset.

    dataset: its name, with the first digits of its digest where there are several versions of it. settings: the setting
    of all rows, or those of two rows in different settings, in their order. detect: the difference, as a fraction.
    pairs: all pairs of rows that can be compared. left_out: reason -> the names of other rows. instances: of the test
    set.
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
        """Return everything as JSON values; null where no number is enough."""
        pairs = []
        for pair in self.pairs:
            seeds = self._seeds([pair])
            *rows, runs_needed, _ = self._numbers(pair, seeds)
            detectable = [pair.spread.detectable(self.instances, runs, self.power) for runs in seeds]
            pairs.append(
                {
                    "first": pair.first,
                    "second": pair.second,
                    "variance_between_instances": pair.spread.row,
                    "variances_between_seeds": [of_seed for of_seed, _ in pair.spread.sides],
                    "variances_of_both": [both for _, both in pair.spread.sides],
                    "instances_needed": dict(zip(map(str, seeds), rows, strict=True)),
                    "seeds_needed": runs_needed,
                    "detectable": dict(zip(map(str, seeds), detectable, strict=True)),
                }
            )
        names = ("dataset", "metric", "filter", "detect", "power", "instances")
        return {
            **{name: getattr(self, name) for name in names},
            "settings": [setting.slug for setting in self.settings],
            "pairs": pairs,
            "left_out": {reason: [*rows] for reason, rows in self.left_out.items()},
        }

    def __str__(self) -> str:
        """A table with a line per pair, or, of many pairs, for half and nine tenths of them."""
        where = " and ".join(setting.title for setting in self.settings)
        head = (
            f"{self.dataset}, {where}: to show a difference of {100 * self.detect:g} points of {self.metric} with "
            f"{100 * self.power:g}% power at the 5% level; filter {self.filter}, metric protocol {protocol.VERSION}."
        )
        seeds = self._seeds(self.pairs)
        numbers = [self._numbers(pair, seeds) for pair in self.pairs]
        if len(numbers) <= 10:
            lines = [
                [f"{pair.first} and {pair.second}", *_texts(of)] for pair, of in zip(self.pairs, numbers, strict=True)
            ]
        else:
            whole = np.array([[np.inf if number is None else number for number in of_pair] for of_pair in numbers])
            lines = []
            for name, share in (("half", 0.5), ("nine tenths", 0.9)):
                enough = np.quantile(whole, share, axis=0, method="inverted_cdf").tolist()
                texts = _texts([None if np.isinf(number) else number for number in enough])
                lines.append([f"{name} of {len(numbers)} pairs of rows", *texts])
        heads = ["Rows", *(f"instances, {format_count(runs, 'seed')}" for runs in seeds)]
        heads += [f"seeds, {self.instances:,} instances", f"detectable, {self.instances:,} instances"]
        parts = [head, format_table(lines, heads, ("left", *["right"] * (len(heads) - 1)))]
        if seeds == SEEDS:
            parts.append(
                "Seeds are those of each side that depends on the seed. Detectable: the smallest difference that the "
                f"test set shows with {max(seeds)} seeds. no: no number, or no difference, is enough."
            )
        for reason, rows in self.left_out.items():
            named = "; ".join(rows) if len(rows) <= _NAMED else f"{len(rows)} rows"
            parts.append(f"Left out, {reason}: {named}.")
        return "\n\n".join(parts)

    def _seeds(self, pairs: Sequence[Pair]) -> tuple[int, ...]:
        return SEEDS if any(pair.spread.sides for pair in pairs) else (1,)

    def _numbers(self, pair: Pair, seeds: Sequence[int]) -> list[float | None]:
        """Return the instances that are needed per number of seeds, the seeds, and the detectable difference."""
        spread = pair.spread
        return [
            *(spread.rows_needed(self.detect, runs, self.power) for runs in seeds),
            spread.runs_needed(self.detect, self.instances, self.power),
            spread.detectable(self.instances, max(seeds), self.power),
        ]


def find_needed(
    first: str | None,
    second: str | None,
    detect: float,
    metric: str,
    power: float,
    store: Store,
    conditions: Conditions,
    filter_name: str | None,
) -> list[Needed]:
    """Return the data that shows a difference ``detect``, as a fraction, in each dataset and setting of a store.

    first, second: two rows as in ``compare``, maybe of two settings; without them every pair of rows. conditions:
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
    if first is not None and second is not None:
        rows = choose(store, first, second, conditions)
        if unpaired := obstacle(*rows, filter_name):
            raise UsageError(f"the two rows differ in their {unpaired}", "power needs two rows that `compare` can pair")
        groups: list[Sequence[Selected]] = [rows]
    else:
        groups = [_rows(records, store) for records in places(store, conditions).values()]
    found = [_judge(rows, metric, detect, power, filter_name) for rows in groups]
    cells = [rows[0].records[0].cell for rows in groups]
    versions = Counter(name for name, _ in {(cell.dataset, cell.dataset_sha256) for cell in cells})
    found = [
        replace(needed, dataset=f"{cell.dataset} (data {cell.dataset_sha256[:12]})")
        if versions[cell.dataset] > 1
        else needed
        for cell, needed in zip(cells, found, strict=True)
    ]
    judged = [needed for needed in found if needed.pairs]
    if not judged:
        reasons = dict.fromkeys(reason for needed in found for reason in needed.left_out)
        why = f"rows are left out: {'; '.join(reasons)}" if reasons else "run two methods"
        raise UsageError(f"no two rows in {store.root} can be compared", why)
    return judged


def _rows(records: Sequence[Record], store: Store) -> list[Selected]:
    groups = group_rows(records)
    called = names(groups)
    return [Selected(tuple(groups[key]), store) for key in sorted(groups, key=lambda key: called[key])]


def _judge(rows: Sequence[Selected], metric: str, detect: float, power: float, filter_name: str | None) -> Needed:
    record = rows[0].records[0]
    # Rows with another default filter are measured on other instances.
    chosen = filter_name or Counter(row.records[0].protocol.filter for row in rows).most_common(1)[0][0]
    called = names({str(place): row.records for place, row in enumerate(rows)})
    scores: dict[int, list[Scores]] = {}
    left_out: dict[str, list[str]] = {}
    for place, row in enumerate(rows):
        of_row, reason = _score(row, metric, chosen, filter_name is None, record.protocol.propensity)
        if reason:
            left_out.setdefault(reason, []).append(called[str(place)])
        else:
            scores[place] = of_row
    pairs = []
    for one, other in itertools.combinations(scores, 2):
        both = pair_records(rows[one], rows[other])
        names_of_both = called[str(one)], called[str(other)]
        if any(len(row.records) == 1 and not row.deterministic for row in both):
            left_out.setdefault("with one subset in common", []).append(" and ".join(names_of_both))
            continue
        first, second = (
            np.stack(
                [
                    run.contributions(metric)
                    for record, run in zip(rows[place].records, scores[place], strict=True)
                    if record in row.records
                ]
            )
            for place, row in zip((one, other), both, strict=True)
        )
        matched = both[0].subsets == both[1].subsets and None not in both[0].subsets
        found = spread(first, second, scores[one][0].weights(metric), matched)
        if found.sides or found.row:
            pairs.append(Pair(*names_of_both, found))
        else:
            left_out.setdefault("with the same difference on every instance", []).append(" and ".join(names_of_both))
    instances = next(iter(scores.values()))[0].scored if scores else 0
    settings = tuple(dict.fromkeys(row.records[0].cell.setting for row in rows))
    return Needed(record.cell.dataset, settings, metric, chosen, detect, power, instances, tuple(pairs), left_out)


def _score(
    row: Selected, metric: str, chosen: str, by_default: bool, constants: tuple[float, float]
) -> tuple[list[Scores], str]:
    """Return the scores of a row under the chosen filter, and the reason to leave it out; empty if there is none.

    by_default: whether nobody named the filter.
    """
    if by_default and row.records[0].protocol.filter != chosen:
        return [], f"with another default filter than {chosen}"
    if not all(chosen in record.metrics for record in row.records):
        return [], f"not scored under the filter {chosen}"
    scores = evaluations(row.records, row.store, chosen, constants)
    if scores[0].scored < 2 or metric not in scores[0].per_instance:  # without propensities there is no PSP
        return [], f"without {metric}" if scores[0].scored > 1 else "with a single scored instance"
    single = len(row.records) == 1 and not row.deterministic
    return scores, "with one run, although its result depends on the seed" if single else ""


def _texts(numbers: Sequence[float | None]) -> list[str]:
    """Return counts as texts, and the last number, a difference, in points."""
    *counts, difference = numbers
    texts = ["no" if count is None else f"{int(count):,}" for count in counts]
    return [*texts, "no" if difference is None else f"{100 * difference:.2f}"]
