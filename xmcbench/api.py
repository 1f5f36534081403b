"""The Python API: what ``import xmcbench`` gives a script or a notebook, and what the command line is made of.

results = xmcbench.run("lf-debian-2k", setting="fs", ratio=0.01, methods=["tfidf", "xr-linear"])
results.frame()
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmcbench import metrics
from xmcbench.data import Dataset, load_dataset
from xmcbench.data.catalogue import default_dataset
from xmcbench.data.sealing import check_open
from xmcbench.description import class_path
from xmcbench.environment import Compute
from xmcbench.errors import PluginError, UnknownName, UsageError
from xmcbench.inspection import Inspection, Plugin
from xmcbench.method import Method
from xmcbench.metrics import Scores, inverse_propensity
from xmcbench.plugin import check_imported, method_name
from xmcbench.records import Record, Store
from xmcbench.records.record import PROPENSITY_INSTANCES
from xmcbench.registry import Registry
from xmcbench.runner import pretraining
from xmcbench.runner.execution import Progress, Watch, execute
from xmcbench.runner.grid import Grid, ablation_rows, curve_grids, requests_of
from xmcbench.runner.opening import HERE, opened
from xmcbench.runner.place import Limits, Place
from xmcbench.runner.plan import Plan, Request, plan
from xmcbench.runner.schedule import Jobs
from xmcbench.setting import Setting, settings
from xmcbench.topk import TopK

if TYPE_CHECKING:  # a plan, or a dry run, needs no tables
    from xmcbench.results import Ablated, Coverage, Results

#: The shares of the paper's Figure 2.
RATIOS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)


@dataclass(frozen=True)
class Options:
    """How cells are run.

    runs: the folder of results. plugins: files of methods that are not installed. force: run finished cells again;
    refresh: those whose code has changed. progress: called when a cell starts and when it ends; watch: several times a
    second with the cells that run. jobs: how many cells run at once, ``auto`` for as many as the cores allow;
    None is one on this machine, and ``auto`` on a cluster. cells_per_gpu: how many of them may share a GPU. on:
    ``local``; ``ray`` for the Ray cluster of RAY_ADDRESS, or one of this machine; or ``ray://HOST:PORT``.
    """

    runs: Path = Path("runs")
    plugins: tuple[Path, ...] = ()
    limits: Limits = field(default_factory=Limits)
    compute: Compute = field(default_factory=Compute)
    force: bool = False
    refresh: bool = False
    progress: Progress = lambda *_: None
    watch: Watch = lambda _: None
    jobs: Jobs | None = None
    cells_per_gpu: int = 1
    on: str = HERE

    def registry(self) -> Registry:
        """All methods by name. Raises UsageError while a plug-in file is being imported."""
        check_imported()
        return Registry(self.plugins, self.limits.time_s)

    def planned(self, requests: Sequence[Request], registry: Registry) -> Plan:
        """The cells of requests. Raises what ``plan`` raises, and UsageError where there are none."""
        planned = plan(requests, registry, Store(self.runs), force=self.force, refresh=self.refresh)
        if not planned.cells:
            raise UsageError("no method can run", "; ".join(map(str, planned.skipped)))
        return planned

    @property
    def place(self) -> Place:
        """Where cells run."""
        return Place(Store(self.runs), self.limits, self.compute, self.jobs, self.cells_per_gpu, self.on)

    def executed(self, planned: Plan) -> list[Record]:
        """The records of a plan's cells, in its order. Raises what ``execute`` raises."""
        return execute(planned, self.place, self.progress, self.force, self.watch)

    def pretrained(
        self, planned: Plan, progress: pretraining.Progress = lambda *_: None
    ) -> list[pretraining.Pretrained]:
        """Do the pre-trainings that the cells of a plan need, and no cell. Raises StorageError."""
        return pretraining.pretrain(planned, self.place, progress)

    def jobs_of(self, planned: Plan) -> int:
        """How many cells of a plan run at once. Raises what ``opened`` raises."""
        with opened(self.place, [each for each in planned.cells if each.state == "to run"]) as (_, jobs):
            return jobs


def run(
    dataset: str | Path | Sequence[str | Path] | None = None,
    setting: str | Sequence[str] = "ez",
    *,
    ratio: float | Sequence[float] | None = None,
    by: str | Sequence[str] | None = None,
    methods: str | Sequence[str | Method] = "all",
    preset: str | None = None,
    set: Mapping[str, Mapping[str, object]] | None = None,  # noqa: A002 - the name of the flag
    seed: int | Sequence[int] = 0,
    grids: Sequence[Mapping[str, Any]] = (),
    filter: str | None = None,  # noqa: A002 - the name of the flag
    options: Options | None = None,
) -> Results:
    """Run methods on datasets; finished cells are not run again.

    dataset: its name, or a place in any layout; default is the bundled one whose card says so. setting: ``ez`` (no
    pairs), ``fs`` (few: ``ratio`` of the labels, or of the pairs with ``by="pair"``) or ``full``. methods: names
    (``tfidf``, or ``tfidf:pecos`` for a preset), instances of methods, or ``all``. set: method -> parameter -> value,
    or a list of values: a row each. Of dataset, setting, ratio, by and seed there may be several: what runs is their
    product. grids: for cells that are not a full product, the arguments in which each grid differs from those above,
    such as ``[{"setting": "ez", "methods": ["tfidf"]}, {"setting": "fs", "ratio": 0.01}]``; its ``set`` adds to the one
    above. filter: default is that of each
    dataset's card.

    Raises UsageError (or a subclass) for an invalid request, DataError for data. A cell that fails is a record.
    """
    from xmcbench.results import Results

    common: dict[str, Any] = {
        "dataset": dataset,
        "setting": setting,
        "ratio": ratio,
        "by": by,
        "methods": methods,
        "preset": preset,
    }
    common |= {"set": set, "seed": seed}
    options = options or Options()
    made = []
    for own in grids or [{}]:
        if unknown := sorted(own.keys() - common.keys()):
            raise UnknownName("argument of a grid", unknown[0], common)
        sets = _merged(own.get("set") or {}, common["set"] or {})
        grid, options = _grid({**common, **own, "set": sets}, options)
        made.append(grid)
    registry = options.registry()
    requests = requests_of(made)
    planned = options.planned(requests, registry)
    shown = shown_filter(planned, filter)
    return Results(tuple(options.executed(planned)), shown, options.runs, planned.standing, tuple(planned.skipped))


def curve(
    dataset: str | Path | Sequence[str | Path] | None = None,
    methods: str | Sequence[str] = (),
    *,
    ratios: Sequence[float] = RATIOS,
    by: str = "label",
    preset: str | None = None,
    set: Mapping[str, Mapping[str, object]] | None = None,  # noqa: A002
    seed: int | Sequence[int] = 0,
    filter: str | None = None,  # noqa: A002
    execute_missing: bool = True,
    options: Options | None = None,
) -> Coverage:
    """Run methods at several shares of known labels or pairs: 0 is the zero-shot setting, 1 all pairs.

    Methods that never look at pairs run once. execute_missing: False only
    reads finished cells. Raises what ``run`` raises.
    """
    options = options or Options()
    registry = options.registry()
    names = (methods,) if isinstance(methods, str) else tuple(methods)
    shares = [Setting.at(share, by) for share in ratios]
    grid = Grid(_datasets(dataset), shares, names, preset, set or {}, _several(seed))
    requests = requests_of(curve_grids(grid, registry))
    planned = options.planned(requests, registry)
    shown = shown_filter(planned, filter)
    found = [each.record for each in planned.cells if each.record]
    records = options.executed(planned) if execute_missing else found
    return coverage(planned, records, shown, options.runs, by, ratios)


def coverage(
    planned: Plan,
    records: Sequence[Record],
    filter_name: str,
    runs: Path,
    by: str,
    ratios: Sequence[float],
) -> Coverage:
    """The records of a curve's plan, with what the curve should hold."""
    from xmcbench.results import Coverage

    expected: dict[str, list[tuple[str, float, int]]] = {}
    for each in planned.cells:
        # A finished cell keeps the name under which it ran.
        name = each.record.name if each.record and each.state != "to run" else each.name
        point = (name, each.cell.setting.share, each.cell.seed)
        expected.setdefault(each.cell.dataset, []).append(point)
    shares = tuple(sorted({*ratios}))
    return Coverage(
        tuple(records),
        filter_name,
        runs,
        planned.standing,
        tuple(planned.skipped),
        by=by,
        ratios=shares,
        expected={dataset: tuple(points) for dataset, points in expected.items()},
    )


def ablation(
    dataset: str | Path | Sequence[str | Path] | None = None,
    method: str | None = None,
    setting: str | Sequence[str] = "ez",
    *,
    ratio: float | Sequence[float] | None = None,
    by: str | Sequence[str] | None = None,
    preset: str | None = None,
    set: Mapping[str, Mapping[str, object]] | None = None,  # noqa: A002
    seed: int | Sequence[int] = 0,
    filter: str | None = None,  # noqa: A002
    options: Options | None = None,
) -> Ablated:
    """Run the rows of a method's ablation. Raises what ``run`` raises."""
    options = options or Options()
    registry = options.registry()
    wanted = {"dataset": dataset, "setting": setting, "ratio": ratio, "by": by, "preset": preset, "set": set}
    grid, _ = _grid({**wanted, "methods": method or only_ablation(registry), "seed": seed}, options)
    rows = ablation_rows(grid, registry)
    requests = [each for _, each in rows]
    planned = options.planned(requests, registry)
    shown = shown_filter(planned, filter)
    return ablated(planned, [row for row, _ in rows], options.executed(planned), shown, options.runs)


def ablated(planned: Plan, rows: Sequence[str], records: Sequence[Record], filter_name: str, runs: Path) -> Ablated:
    """The records of an ablation's plan by its rows. rows: the row of each of the plan's requests."""
    from xmcbench.results import Ablated

    by_row: dict[str, list[Record]] = {}
    for cell, record in zip(planned.cells, records, strict=True):
        by_row.setdefault(rows[cell.request], []).append(record)
    name = planned.cells[0].cell.method
    changes = planned.cells[0].row.method.ablation
    assert all(cell.cell.method == name for cell in planned.cells)
    return Ablated(
        tuple(records),
        filter_name,
        runs,
        planned.standing,
        (),
        by_row={row: tuple(each) for row, each in by_row.items()},
        changes={row: dict(changes[row]) for row in by_row},
    )


def evaluate(
    predictions: TopK | str | Path,
    dataset: Dataset | str | Path,
    *,
    filter: str | None = None,  # noqa: A002 - the name of the flag
) -> Scores:
    """Score predictions [n_test, k] on a dataset, by the protocol in ``xmcbench.metrics.protocol``.

    predictions: a TopK, or the .npz file that ``TopK.save`` wrote. filter: ``none``, ``self`` or ``file``; default is
    that of the dataset's card. Raises MethodError where the predictions are not a valid answer, DataError and
    UsageError for files and names.
    """
    data = load_dataset(dataset) if isinstance(dataset, str | Path) else dataset
    answer = TopK.load(Path(predictions)) if isinstance(predictions, str | Path) else predictions
    answer.check(len(data.test), answer.k, len(data.labels))
    removed = data.filter(filter_of(data, filter))  # type: ignore[arg-type]
    weights = None
    if len(data.train) >= PROPENSITY_INSTANCES:  # else PSP is left out
        weights = inverse_propensity(data.train_pairs(), *data.propensity)
    return metrics.evaluate(answer, data.test_pairs(), removed=removed, inverse_propensity=weights)


def filter_of(dataset: Dataset, name: str | None) -> str:
    """A filter that the dataset has: the named one, or that of its card. Raises UsageError."""
    chosen = name or dataset.card.filter
    dataset.filter(chosen)  # type: ignore[arg-type] # it says what there is
    return chosen


def shown_filter(planned: Plan, name: str | None) -> str:
    """The filter under which the cells of a plan are shown: empty where that of the card differs between datasets.

    Raises UsageError where a dataset does not have the named one.
    """
    datasets = {each.dataset.digest: each.dataset for each in planned.cells}
    found = {filter_of(dataset, name) for dataset in datasets.values()}
    return found.pop() if len(found) == 1 else ""


def only_ablation(registry: Registry) -> str:
    """The only method that defines an ablation. Raises UsageError if there is none, or more than one."""
    found = [entry.name for entry in registry if entry.description is not None and entry.description.ablation]
    if len(found) != 1:
        known = ", ".join(found) or "none does"
        raise UsageError(f"--method is required; methods with an ablation: {known}")
    return found[0]


def _grid(wanted: Mapping[str, Any], options: Options) -> tuple[Grid, Options]:
    """A grid from the arguments of ``run``, and the options with the plug-ins of its methods."""
    names, options, instances = _named(wanted["methods"], options)
    kinds, ratios, units = (_several(wanted[name]) for name in ("setting", "ratio", "by"))
    overrides = _merged(wanted["set"] or {}, instances)
    seeds = _several(wanted["seed"])
    grid = Grid(_datasets(wanted["dataset"]), settings(kinds, ratios, units), names, wanted["preset"], overrides, seeds)
    return grid, options


def _datasets(given: str | Path | Sequence[str | Path] | None) -> tuple[str, ...]:
    return tuple(map(str, _several(given))) or (default_dataset(),)


def _several(given: Any) -> tuple[Any, ...]:
    """One value or several, each once; nothing for None."""
    if given is None:
        return ()
    return (given,) if isinstance(given, str | int | float | Path) else tuple(dict.fromkeys(given))


def _named(
    methods: str | Sequence[str | Method], options: Options
) -> tuple[tuple[str, ...], Options, dict[str, dict[str, object]]]:
    """Names of methods, the options extended by the files of methods that are not installed, parameters of
    instances."""
    check_open("a run")  # a script that is its own plug-in would otherwise run itself in every cell
    given = [methods] if isinstance(methods, str) else list(methods)
    names: list[str] = []
    values: dict[str, dict[str, object]] = {}
    files = list(options.plugins)
    instances = [each for each in given if not isinstance(each, str)]
    described = [(entry.name, entry.description) for entry in (options.registry() if instances else ())]
    installed = {about.cls: name for name, about in described if about}
    for each in given:
        if isinstance(each, str):
            names.append(each)
            continue
        cls = type(each)
        name = installed.get(class_path(cls))
        if name is None:
            name = method_name(cls)
            files.append(_file_of(cls, name))
        if name in values:
            raise UsageError(f"{name} is given more than once", "one instance per method and run")
        names.append(name)
        values[name] = each.parameters()
    plugins = tuple(dict.fromkeys(path.resolve() for path in files))
    return tuple(names), replace(options, plugins=plugins), values


def _file_of(cls: type[Method], name: str) -> Path:
    """The file from which another process imports the method of this name.

    Raises UsageError for a class that is not in a file, PluginError for a file that cannot be imported.
    """
    try:
        path = Path(inspect.getfile(cls))
    except (OSError, TypeError):
        path = Path()
    if path.suffix != ".py" or not path.is_file():
        raise UsageError(
            f"{cls.__name__} is not defined in a file, and every cell is a separate process",
            "write the class to a file (in a notebook: %%writefile my_method.py) and import it from there",
        )
    found = {each.name: each for each in Inspection(Plugin(file=str(path)), str(path)).methods}
    if name not in found:
        problem = next((each.problem for each in found.values() if each.problem), f"{cls.__name__} is not in it")
        raise PluginError(f"{path}: {problem}", "a cell imports it as a plug-in file")
    return path


def _merged(
    given: Mapping[str, Mapping[str, object]], common: Mapping[str, Mapping[str, object]]
) -> dict[str, Mapping[str, object]]:
    return {name: {**common.get(name, {}), **given.get(name, {})} for name in {**given, **common}}
