"""The Python API: what ``import xmcbench`` gives a script or a notebook.

results = xmcbench.run("lf-debian-2k", setting="fs", ratio=0.01, methods=["tfidf", "xr-linear"])
results.frame()
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmcbench import metrics
from xmcbench.data import Dataset, load_dataset
from xmcbench.data.catalog import default_dataset
from xmcbench.data.sealing import check_open
from xmcbench.errors import PluginError, UnknownName, UsageError
from xmcbench.experiment import AblationRun, CurveRun, Options, Run, only_ablation
from xmcbench.method import Method
from xmcbench.metrics import Scores, inverse_propensity
from xmcbench.metrics.propensity import MIN_INSTANCES
from xmcbench.plugins.description import class_path
from xmcbench.plugins.inspection import Inspection, Plugin
from xmcbench.plugins.loading import method_name
from xmcbench.runner.grid import Grid
from xmcbench.setting import Setting, check_seeds, settings
from xmcbench.topk import TopK

if TYPE_CHECKING:
    from xmcbench.results import Ablated, Coverage, Results

#: The shares of the paper's Figure 2.
RATIOS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)


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
    above. filter: default is that of each dataset's card.

    Raises UsageError (or a subclass) for an invalid request, DataError for data. A cell that fails is a record.
    """
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
    return Run.planned(made, options, options.registry(), filter).execute()


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

    Methods that never look at pairs run once. execute_missing: False only reads finished cells. Raises what ``run``
    raises.
    """
    options = options or Options()
    names = (methods,) if isinstance(methods, str) else tuple(methods)
    shares = [Setting.at(share, by) for share in ratios]
    grid = Grid(_datasets(dataset), shares, names, preset, set or {}, _seeds(seed))
    planned = CurveRun.planned([grid], options, options.registry(), filter, by, ratios)
    return planned.execute() if execute_missing else planned.finished()


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
    return AblationRun.planned([grid], options, registry, filter).execute()


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
    removed = data.filter(data.chosen_filter(filter))
    weights = None
    if len(data.train) >= MIN_INSTANCES:  # else PSP is left out
        weights = inverse_propensity(data.train_pairs(), *data.propensity)
    return metrics.evaluate(answer, data.test_pairs(), removed=removed, inverse_propensity=weights)


def _grid(wanted: Mapping[str, Any], options: Options) -> tuple[Grid, Options]:
    """A grid from the arguments of ``run``, and the options with the plug-ins of its methods."""
    names, options, instances = _named(wanted["methods"], options)
    kinds, ratios, units = (_several(wanted[name]) for name in ("setting", "ratio", "by"))
    overrides = _merged(wanted["set"] or {}, instances)
    settled = settings(kinds, ratios, units)
    datasets, seeds = _datasets(wanted["dataset"]), _seeds(wanted["seed"])
    return Grid(datasets, settled, names, wanted["preset"], overrides, seeds), options


def _datasets(given: str | Path | Sequence[str | Path] | None) -> tuple[str, ...]:
    return tuple(map(str, _several(given))) or (default_dataset(),)


def _seeds(given: Any) -> tuple[int, ...]:
    try:
        seeds = tuple(operator.index(each) for each in _several(given))
    except TypeError:
        raise UsageError(f"the seed {given!r} is not an integer", "seed=0, or seed=[0, 1, 2]") from None
    check_seeds(seeds)
    return tuple(dict.fromkeys(seeds))


def _several(given: Any) -> tuple[Any, ...]:
    """One value or several, each once; nothing for None."""
    if given is None:
        return ()
    return tuple(dict.fromkeys(given)) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)


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
