"""Reproduction of a recorded cell: run it again, and compare its figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, variance
from typing import Any

from xmcbench.errors import MethodError, UsageError
from xmcbench.metrics import paired
from xmcbench.metrics.flips import LEVEL
from xmcbench.metrics.paired import holm
from xmcbench.output.quantities import format_p
from xmcbench.plugins.registry import Registry
from xmcbench.records import Record, Store
from xmcbench.records.selection import Conditions, choose_row
from xmcbench.runner.canaries.confirmation import LARGEST_CHANGE
from xmcbench.runner.execution import execute
from xmcbench.runner.plan import plan_again
from xmcbench.runner.scoring import evaluations
from xmcbench.runner.target import Target

#: The fewest recorded seeds that a run is tested against. Two would agree with almost any figure.
FEWEST_SEEDS = 3
#: Fractions that differ by no more than this are equal: they differ by rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Reproduction:
    """A recorded cell and the run that repeats it.

    same_class: whether both ran on one class of machine, with the same kind of device. changes: metric -> second minus
    first, as a fraction. adjusted: metric -> p-value of the difference after Holm's correction. over: number of
    recorded seeds that were tested against; 0 for a test over the test instances. allowed: metric -> the largest
    distance to the mean of these seeds, as a fraction; empty without such seeds.
    """

    before: Record
    after: Record
    same_class: bool
    changes: Mapping[str, float]
    adjusted: Mapping[str, float]
    over: int = 0
    allowed: Mapping[str, float] = field(default_factory=dict)

    @property
    def gained(self) -> dict[str, object]:
        """Parameters that the method has gained since, with their values."""
        before = self.before.cell.parameters
        return {name: value for name, value in self.after.cell.parameters.items() if name not in before}

    @property
    def largest(self) -> float:
        """The largest change of a figure, as a fraction."""
        return max(map(abs, self.changes.values()))

    @property
    def agrees(self) -> bool:
        """True if the figures agree within the tolerance of the class of machine.

        On the same class no figure changes by more than 0.05 points. On another class rounding may change a training as
        much as another seed: where three seeds of a stochastic method are recorded, no metric may be significantly
        farther from them than one more seed. Three seeds are weak evidence, which ``allowed`` shows. Otherwise, no
        metric may differ significantly over the test instances.
        """
        if self.largest <= LARGEST_CHANGE:
            return True
        return not self.same_class and min(self.adjusted.values()) >= LEVEL

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "key": self.before.key,
            "name": self.before.name,
            "agrees": self.agrees,
            "same_class": self.same_class,
            "gained_parameters": self.gained,
            "largest_change": self.largest,
            "changes": dict(self.changes),
            "p_holm": dict(self.adjusted),
            "seeds": self.over,
            "allowed": dict(self.allowed),
            "hardware": [record.environment.hardware.kind for record in (self.before, self.after)],
        }

    def __str__(self) -> str:
        """The verdict, with its reason."""
        head = f"{self.before.name}, {self.before.cell.dataset}, {self.before.cell.setting.title}, "
        head += f"seed {self.before.cell.seed}: {'agrees' if self.agrees else 'differs'}"
        if not self.agrees and self.before.method.source_sha256 != self.after.method.source_sha256:
            head += "; the source of the method is not that of the record"
        metric = max(self.changes, key=lambda name: abs(self.changes[name]))
        change = f"the largest change is {100 * self.changes[metric]:+.3f} points of {metric}"
        if self.gained:
            change += f", with {', '.join(f'{name}={value}' for name, value in self.gained.items())} added since"
        if self.same_class:
            return f"{head}: {change}, and {100 * LARGEST_CHANGE:g} are allowed on the same class of machine"
        if self.largest <= LARGEST_CHANGE:
            return f"{head}: {change}, and {100 * LARGEST_CHANGE:g} are allowed on any machine"
        machines = " and ".join(record.environment.hardware.kind for record in (self.before, self.after))
        name = min(self.adjusted, key=lambda metric: self.adjusted[metric])
        tested = f"against {self.over} seeds" if self.over else "over the test instances"
        smallest = f"smallest p {tested} {format_p(self.adjusted[name])} ({name})"
        text = f"{head}: {change}; other class of machine ({machines}), {smallest}"
        if self.allowed:
            text += f"; {metric} may be {100 * self.allowed[metric]:.2f} points away from the mean of these seeds"
        return text


def reproduce(key: str, *, runs: Path, into: Target, registry: Registry, dataset: str | None = None) -> Reproduction:
    """Run the cell of a record again and compare. key: its first letters. into: the target of the new run.

    The cell is the same: dataset, setting, subset, parameters and seed. Parameters that the method has gained since
    have their defaults, and are named. Raises UsageError for an unknown key, for the folder of the record itself,
    and if the request now selects a different cell; MethodError where the run has no result; and what planning raises.
    """
    if into.store.root.resolve() == runs.resolve():
        raise UsageError(f"--out {into.store.root} holds the record itself", "choose another folder")
    store = Store(runs)
    store.check_exists()
    with store.noting_left_out():
        keys = [record.key for record in store.records() if record.key.startswith(key)]
        if len(keys) != 1:
            some = f"{len(keys)} records" if keys else "no record"
            raise UsageError(
                f"{some} in {runs} with a key that begins with {key!r}",
                f"`xmcbench ls results --runs {runs} --json` lists the keys",
            )
    chosen = choose_row(store, keys[0], Conditions(dataset))
    record = chosen.records[0]
    name = dataset or record.cell.dataset
    planned = plan_again(record, name, registry, into.store, force=True, gained=True)
    (after,) = execute(planned, into, force=True)
    if not after.ok:
        raise MethodError(f"{record.name}: {after.status}: {after.reason}")
    return compare_records(record, chosen.store, after, into.store)


def compare_records(before: Record, store: Store, after: Record, fresh: Store) -> Reproduction:
    """Compare the figures of two records of one cell. Raises what ``evaluations`` raises for the new one."""
    name, constants = before.protocol.filter, after.protocol.propensity
    old, new = _values(before, store, name, constants), after.metrics[name].values
    changes = {metric: new[metric] - old[metric] for metric in new if metric in old}
    # The class of machine, and whether the cell computed on its CPU.
    one, other = (
        (record.environment.hardware.kind, record.measured.peak_gpu_memory_bytes is None) for record in (before, after)
    )
    same = one == other
    recorded = [] if before.method.deterministic else _seeds(before, store)
    if not same and len(recorded) >= FEWEST_SEEDS:
        values = [_values(seed, store, name, constants) for seed in recorded]
        drawn = {metric: [of_seed[metric] for of_seed in values] for metric in changes}
        p = {metric: one_more(of_seeds, new[metric]) for metric, of_seeds in drawn.items()}
        # The largest distance that is not significant where all metrics are as far: Holm's first step.
        allowed = {metric: farthest(of_seeds, LEVEL / len(drawn)) for metric, of_seeds in drawn.items()}
        return Reproduction(before, after, same, changes, holm(p), len(recorded), allowed)
    sides = [evaluations([record], of, name, constants) for record, of in ((before, store), (after, fresh))]
    adjusted = holm({metric: difference.p for metric, difference in paired.compare(*sides).items()})
    return Reproduction(before, after, same, changes, adjusted)


def _values(record: Record, store: Store, filter_name: str, constants: tuple[float, float]) -> Mapping[str, float]:
    """Return the figures of a record, with these propensity constants: those of the card may have changed since."""
    if record.protocol.propensity == constants:
        return record.metrics[filter_name].values
    return evaluations([record], store, filter_name, constants)[0].values


def one_more(values: Sequence[float], value: float) -> float:
    """Return the two-sided p-value that a value is from the distribution of ``values``, of which there are two or more.

    Student's t of the distance to their mean, whose variance is (1 + 1 / n) that of the n values.
    """
    from scipy.special import stdtr

    distance, error = abs(value - fmean(values)), _error_of_one_more(values)
    if distance <= _ROUNDING:
        return 1.0
    return 2 * float(stdtr(len(values) - 1, -distance / error)) if error > _ROUNDING else 0.0


def farthest(values: Sequence[float], p: float) -> float:
    """Return the distance from the mean of ``values`` at which ``one_more`` is ``p``."""
    from scipy.special import stdtrit

    return float(stdtrit(len(values) - 1, 1 - p / 2)) * _error_of_one_more(values)


def _error_of_one_more(values: Sequence[float]) -> float:
    return math.sqrt(variance(values) * (1 + 1 / len(values)))


def _seeds(record: Record, store: Store) -> list[Record]:
    """Return the records of all seeds of a row that the same code made."""

    def row(of: Record) -> tuple[object, ...]:
        cell = of.cell
        return cell.dataset_sha256, cell.setting, cell.method, cell.parameters, of.method.source_sha256

    return [other for other in store.records() if other.ok and row(other) == row(record)]
