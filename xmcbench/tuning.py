"""Search of hyperparameters by Optuna, on training instances that are held out: no test instance is read.

Each trial is an ordinary run of a cell, with a record. The trials depend on the seed and the figures alone, so that a
second search finds those of the first finished.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import hypot, prod
from statistics import fmean
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from xmcbench.arguments import make_grids, several
from xmcbench.data.catalog import DEV, locate
from xmcbench.data.sources.finding import place_of, reference_to
from xmcbench.errors import MethodError, Unavailable, UnknownName, UsageError, XmcbenchError
from xmcbench.experiment import Options, plan_run
from xmcbench.extras import installation
from xmcbench.leaderboard import canvas
from xmcbench.leaderboard.lines import Axis, Line, Lines, Point
from xmcbench.metrics import METRICS
from xmcbench.metrics.seeds import half_width
from xmcbench.output.layout import format_table
from xmcbench.parameters import Parameter, Scalar
from xmcbench.plugins.description import DEFAULT_PRESET
from xmcbench.setting import settings

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

    from xmcbench.plugins.registry import Registry
    from xmcbench.records import Record
    from xmcbench.results import Results

#: Share of the training instances that is held out.
SHARE = 0.1


@dataclass(frozen=True)
class Trial:
    """One choice of values. value: of the metric, the mean over seeds; None for a reason. problems: with its records,
    such as that they are stale."""

    number: int
    values: Mapping[str, Scalar]
    value: float | None
    half_width: float = 0.0
    reason: str = ""
    records: tuple[Record, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tuned:
    """The trials of a search. Trial 0 has the values of the preset. fixed: those that all trials were given."""

    dataset: str
    setting: str
    name: str
    metric: str
    trials: tuple[Trial, ...] = field(repr=False)
    fixed: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def best(self) -> Trial:
        """The trial with the highest value; of equal ones the first."""
        return max((trial for trial in self.trials if trial.value is not None), key=lambda trial: trial.value or 0.0)

    @property
    def flags(self) -> str:
        """The flags that select the best trial; empty for the preset that a run takes without being asked."""
        method, _, preset = self.name.partition(":")
        values = {**self.fixed, **(self.best.values if self.best.number else {})}
        chosen = [f"--methods {shlex.quote(self.name)}"] if preset not in ("", DEFAULT_PRESET) else []
        sets = (f"--set {shlex.quote(f'{method}.{name}={_show(value)}')}" for name, value in values.items())
        return " ".join([*chosen, *sets])

    def table(self) -> str:
        """Return a line per trial, the best first."""
        ordered = sorted(self.trials, key=lambda trial: -1 if trial.value is None else trial.value, reverse=True)
        names = list(self.best.values)
        lines = [
            [str(trial.number), _percent(trial), *(_show(trial.values[name]) for name in names)] for trial in ordered
        ]
        return format_table(lines, ("trial", self.metric, *names), ("right", "right", *("right" for _ in names)))

    def __str__(self) -> str:
        best, first = self.best, self.trials[0]
        values = "values of the preset" if not self.fixed else "given values"
        before = ""
        if best.number and best.value is not None and first.value is not None:
            is_close = best.value - first.value <= hypot(best.half_width, first.half_width)
            before = f", {_percent(first)} with the {values}{', within the interval' if is_close else ''}"
        width = f" ±{100 * best.half_width:.1f}"
        chosen = f"select it with {self.flags}" if best.number else f"no trial is better than the {values}"
        found = (
            f"best {self.metric} of {len(self.trials)} trials of {self.name} on {self.dataset}, {self.setting}: "
            f"{_percent(best)}{width}{before}; {chosen}"
        )
        return "\n".join([found, *self.problems()])

    def problems(self) -> list[str]:
        """Return one line per problem of some trials, such as that they are stale."""
        numbers: dict[str, list[str]] = {}
        for trial in self.trials:
            for problem in trial.problems:
                numbers.setdefault(problem, []).append(str(trial.number))
        return [f"trial{'s' * (len(own) > 1)} {', '.join(own)}: {problem}" for problem, own in numbers.items()]

    def chart(self) -> Lines:
        """Return the chart of the metric by the number of the trial, and of the best value until then."""
        done = [trial for trial in self.trials if trial.value is not None]
        points = [Point(trial.number, 100 * (trial.value or 0), *(2 * [100 * (trial.value or 0)])) for trial in done]
        best = [max(point.value for point in points[: place + 1]) for place in range(len(points))]
        highest = [Point(point.x, value, value, value) for point, value in zip(points, best, strict=True)]
        last = max(len(self.trials) - 1, 1)
        ticks = [tick for tick in canvas.scale(0, last, 0) if tick <= last]
        return Lines(
            stem=f"{self.dataset.lower()}-{self.name.replace(':', '-')}-trials",
            title=f"{self.metric} of {self.name} by trial, {self.dataset}",
            axis=Axis(0, last, tuple(zip(ticks, canvas.tick_texts(ticks), strict=True)), "trial"),
            lines=(Line("best so far", (tuple(highest),)), Line("trial", (tuple(points),))),
            of_methods=False,
            foot=f"{self.setting}; on training instances that are held out, in percent",
        )


def hold_out(place: str) -> str:
    """Return the reference to a dataset of which training instances are held out: itself if it is such a one."""
    card = locate(place).card
    is_for_choosing = card is not None and card.is_for_choosing
    held_out = is_for_choosing or DEV in place_of(place).options
    return place if held_out else reference_to(place, {DEV: f"{SHARE:g}"})


def tune(
    arguments: Mapping[str, Any],
    trials: int,
    metric: str = "P@1",
    search: Sequence[str] = (),
    filter_name: str | None = None,
    options: Options | None = None,
    registry: Registry | None = None,
    progress: Callable[[Trial], None] = lambda _: None,
) -> Tuned:
    """Search the parameters of a method.

    arguments: of ``xmcbench.run``, for one method, dataset and setting; their ``set`` has one value a parameter, which
    is kept. search: ``PARAM``, ``PARAM=LOW..HIGH`` or ``PARAM=A,B``; default is every parameter that declares a range
    or a few choices. Raises UsageError, Unavailable without Optuna, and MethodError if no trial has a result.
    """
    optuna = _import()
    if metric not in METRICS:
        raise UnknownName("metric", metric, METRICS)
    (spec,) = arguments["methods"]
    name, _, preset = spec.partition(":")
    place, options = hold_out(arguments["dataset"]), options or Options()
    registry = registry or options.registry()
    method, sets = registry[name].usable(), arguments.get("set") or {}
    fixed = sets.get(name, {})
    preset = preset or arguments.get("preset") or DEFAULT_PRESET
    base = method.resolve(name, {**method.presets.get(preset, {}), **fixed})
    if preset in method.presets and preset != DEFAULT_PRESET:
        spec = f"{name}:{preset}"
    space = spaces(name, method.parameters, base, fixed, search)
    if arguments["setting"] is None:
        arguments = {**arguments, "setting": "ez" if method.supervision == "unused" else "full"}
    chosen = settings(*(several(arguments[name]) for name in ("setting", "ratio", "by")))
    if len(chosen) > 1:
        raise UsageError("several settings are given", f"a search takes one: {chosen[0].title}")
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    choices = [own.choices for own in space.values()]
    first = {parameter: base[parameter] for parameter in space}
    fits = all(space[parameter].has(value) for parameter, value in first.items())
    # Choices alone are all tried, each combination once, where there are no more of them than trials.
    is_whole = 0 < prod(map(len, choices)) <= trials
    combinations = [dict(zip(space, values, strict=True)) for values in product(*choices)] if is_whole else []
    whole = [values for values in combinations if values != first]
    trials = len(whole) + 1 if is_whole else trials
    for values in (*([first] if fits else []), *whole):
        study.enqueue_trial(values)
    distributions = {parameter: _distribution(optuna.distributions, values) for parameter, values in space.items()}
    made: list[Trial] = []
    for number in range(trials):
        # The values of the preset may lie outside of the space: the sampler then knows nothing of trial 0.
        asked = study.ask(distributions) if number or fits else None
        values = {name: space[name].round(value) for name, value in asked.params.items()} if asked and number else first
        given = {**arguments, "dataset": place, "set": {**sets, name: {**fixed, **values}}}
        try:
            grids, options = make_grids([given], options)
            planned = plan_run(grids, options, registry, filter_name)
            trial = _read(number, values, metric, planned.execute())
        except XmcbenchError as error:  # values that do not fit together
            if not number:
                raise
            trial = Trial(number, values, None, reason=str(error))
        failed = {"state": optuna.trial.TrialState.FAIL} if trial.value is None else {}
        if asked is not None:
            study.tell(asked, trial.value, **failed)
        made.append(trial)
        progress(trial)
    records = [record for trial in made if trial.value is not None for record in trial.records]
    if not records:
        raise MethodError(f"no trial of {spec} has a result: {made[0].reason}")
    return Tuned(records[0].cell.dataset, records[0].cell.setting.title, spec, metric, tuple(made), fixed)


def _read(number: int, values: Mapping[str, Scalar], metric: str, results: Results) -> Trial:
    """Return a trial with the mean of its records, one per seed."""
    records = results.records
    reason = next((f"{record.status}: {record.reason}" for record in records if not record.ok), "")
    scores = [record.metrics[results.filter] for record in records if record.ok]
    if reason or any(metric not in score.values for score in scores):
        return Trial(number, values, None, reason=reason or f"it has no {metric}")
    widths = [(score.intervals[metric][1] - score.intervals[metric][0]) / 2 for score in scores]
    found = [score.values[metric] for score in scores]
    problems = results.staleness.problems(records)
    return Trial(number, values, fmean(found), half_width(found, widths), "", records, problems)


def _distribution(kinds: Any, space: Space) -> BaseDistribution:
    if space.choices:
        return kinds.CategoricalDistribution(space.choices)
    if space.is_int:
        return kinds.IntDistribution(int(space.low), int(space.high), log=space.is_log)
    return kinds.FloatDistribution(space.low, space.high, log=space.is_log)


def _percent(trial: Trial) -> str:
    return "failed" if trial.value is None else f"{100 * trial.value:.2f}"


def _show(value: Scalar) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _import() -> Any:
    try:
        import optuna
    except ImportError:
        raise Unavailable("tune needs the package optuna", installation("optuna")) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


#: A range without an end reaches from the value of the preset to so many times it, and to that part of it.
_SPAN = 10
#: Distance from the end of a range that is not part of it, as a share of the range.
_INSIDE = 0.01
#: Choices of a parameter that is searched without being named, at most.
_CHOICES = 4


class Space(Struct, frozen=True):
    """The values of one parameter: choices, or numbers from low to high, both included. is_log: on a log scale."""

    choices: tuple[Scalar, ...] = ()
    low: float = 0.0
    high: float = 0.0
    is_int: bool = False
    is_log: bool = False

    def has(self, value: Scalar) -> bool:
        """Return whether a value is in the space."""
        if self.choices:
            return any(type(choice) is type(value) and choice == value for choice in self.choices)
        return isinstance(value, int | float) and not isinstance(value, bool) and self.low <= value <= self.high

    def round(self, value: Scalar) -> Scalar:
        """Return a float of a range with three digits, which are enough, and fit into a flag."""
        if self.choices or not isinstance(value, float):
            return value
        return min(max(float(f"{value:.3g}"), self.low), self.high)


def spaces(
    method: str,
    known: Mapping[str, Parameter],
    base: Mapping[str, Scalar],
    fixed: Mapping[str, object],
    search: Sequence[str],
) -> dict[str, Space]:
    """Return parameter -> its space.

    known, base: the parameters of the method, and their values in the preset. fixed: those that keep their value.
    search: ``PARAM``, ``PARAM=LOW..HIGH`` or ``PARAM=A,B``, each with ``METHOD.`` before it if wanted; without any,
    every parameter that declares a range or a few choices. Raises UsageError.
    """
    if not search:
        found = {name: _find_declared(parameter, base[name]) for name, parameter in known.items() if name not in fixed}
        few = {name: space for name, space in found.items() if space and len(space.choices) <= _CHOICES}
        if not few:
            raise UsageError(f"{method} declares no range to search", "--search PARAM=LOW..HIGH gives one")
        return few
    chosen: dict[str, Space] = {}
    for word in search:
        name, equals, text = word.removeprefix(f"{method}.").partition("=")
        if name not in known:
            raise UnknownName("parameter", f"{method}.{name}", [f"{method}.{other}" for other in known])
        if name in fixed or name in chosen:
            raise UsageError(f"{method}.{name} is given twice", "set it, or search it once")
        space = _parse(known[name], text, method) if equals else _find_declared(known[name], base[name])
        if space is None:
            what, value = f"{method}.{name} declares no range", base[name]
            if known[name].limits and isinstance(value, int | float):
                what = f"the range of {method}.{name} is open, and its value {value} does not say how large it is"
            raise UsageError(what, f"--search {name}=LOW..HIGH, or {name}=A,B")
        chosen[name] = space
    return chosen


def _find_declared(parameter: Parameter, value: Scalar) -> Space | None:
    """Return the space that a parameter declares; None without one. value: of the preset."""
    if parameter.kind == "bool":
        return Space((False, True))
    if parameter.choices:
        return Space((*parameter.choices, *([None] if parameter.optional else [])))
    if parameter.kind == "str" or not parameter.limits or not isinstance(value, int | float):
        return None
    low = max((limit.bound for limit in parameter.limits if limit.sign in (">", ">=")), default=None)
    high = min((limit.bound for limit in parameter.limits if limit.sign in ("<", "<=")), default=None)
    is_int, is_open = parameter.kind == "int", low is None or high is None
    if low is None or high is None:
        if value <= 0:  # nothing says how large its values are
            return None
        below, above = value / _SPAN, value * _SPAN
        low, high = (below if low is None else max(below, low)), (above if high is None else min(above, high))
        if is_int:
            low, high = round(low) or 1, round(high)
    step = 1 if is_int else _INSIDE * (high - low)
    is_low_out, is_high_out = (any(limit.check(end) for limit in parameter.limits) for end in (low, high))
    return Space((), low + step * is_low_out, high - step * is_high_out, is_int, is_log=is_open)


def _parse(parameter: Parameter, text: str, method: str) -> Space:
    """Return the space that a text gives: LOW..HIGH, or values with commas. Raises UsageError."""
    first, dots, last = text.partition("..")
    if not dots or parameter.kind not in ("int", "float"):
        return Space(tuple(dict.fromkeys(parameter.parse(value.strip(), method) for value in text.split(","))))
    low, high = (parameter.parse(end, method) for end in (first, last))
    if low is None or high is None or low >= high:  # type: ignore[operator]
        raise UsageError(f"{method}.{parameter.name} = {text} is no range", "LOW..HIGH, two numbers")
    numbers = float(low), float(high)
    return Space((), *numbers, parameter.kind == "int", is_log=numbers[0] > 0 and numbers[1] >= _SPAN * numbers[0])
