"""The Python API: what ``import xmcbench`` gives a script or a notebook.

results = xmcbench.run("lf-debian-2k", setting="fs", ratio=0.01, methods=["tfidf", "xr-linear"])
results.frame()
"""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xmcbench import metrics
from xmcbench.data import Dataset, load_dataset
from xmcbench.data.catalog import default_dataset
from xmcbench.data.sealing import check_open
from xmcbench.errors import MethodError, PluginError, UnknownName, UsageError
from xmcbench.experiment import AblationRun, CurveRun, Options, Run, only_ablation
from xmcbench.method import Method
from xmcbench.metrics import Scores, inverse_propensity
from xmcbench.metrics.labels import MIN_INSTANCES
from xmcbench.plugins.description import class_path
from xmcbench.plugins.inspection import Inspection, Plugin
from xmcbench.plugins.loading import method_name
from xmcbench.runner.grid import Grid
from xmcbench.runner.scoring import check_scored
from xmcbench.setting import Setting, seeds_of, settings
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
    runs: str | Path | None = None,
    options: Options | None = None,
) -> Results:
    """Run methods on datasets; finished cells are not run again.

    dataset: its name, or a place in any layout; default is the bundled one whose card says so. setting: ``ez`` (no
    pairs), ``fs`` (few: ``ratio`` of the labels, or of the pairs with ``by="pair"``) or ``full``. methods: names
    (``tfidf``, or ``tfidf:pecos`` for a preset), instances of methods, or ``all``; an instance is a row of its own, and
    no preset changes it. set: method -> parameter -> value, or a list of values: a row each. It changes the parameters
    of instances too. Of dataset, setting, ratio, by and seed there may be several: what runs is their product. grids:
    for cells that are not a full product, the arguments in which each grid differs from those above, such as
    ``[{"setting": "ez", "methods": ["tfidf"]}, {"setting": "fs", "ratio": 0.01}]``; its ``set`` adds to the one above.
    filter: default is that of each dataset's card. runs: the folder of results, by default that of the options.

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
    wanted = []
    for own in grids or [{}]:
        if unknown := sorted(own.keys() - common.keys()):
            raise UnknownName("argument of a grid", unknown[0], common)
        sets = _merged(_parameters(own.get("set")), _parameters(common["set"]))
        wanted.append({**common, **own, "set": sets})
    made, options = _grids(wanted, _checked(options, runs))
    return Run.planned(made, options, options.registry(), filter).execute()


def curve(
    dataset: str | Path | Sequence[str | Path] | None = None,
    methods: str | Sequence[str | Method] = (),
    *,
    ratios: float | Sequence[float] = RATIOS,
    by: str = "label",
    preset: str | None = None,
    set: Mapping[str, Mapping[str, object]] | None = None,  # noqa: A002
    seed: int | Sequence[int] = 0,
    filter: str | None = None,  # noqa: A002
    execute_missing: bool = True,
    runs: str | Path | None = None,
    options: Options | None = None,
) -> Coverage:
    """Run methods at several shares of known labels or pairs: 0 is the zero-shot setting, 1 all pairs.

    Methods that never look at pairs run once. execute_missing: False only reads finished cells. runs: as for ``run``.
    Raises what ``run`` raises.
    """
    if isinstance(methods, Sequence) and not methods:
        raise UsageError("methods is empty", 'name one or more, for example methods=["tfidf", "xr-linear"]')
    shares = _several(ratios)
    if not shares:
        raise UsageError("ratios is empty", f"for example ratios={RATIOS}")
    settings(["fs"], [0.5], [by])  # at the shares 0 and 1 `by` makes no difference, and is not looked at
    wanted = {"dataset": dataset, "methods": methods, "preset": preset, "set": _parameters(set), "seed": seed}
    grids, options = _grids([wanted], _checked(options, runs), [Setting.at(share, by) for share in shares])
    planned = CurveRun.planned(grids, options, options.registry(), filter, by, shares)
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
    runs: str | Path | None = None,
    options: Options | None = None,
) -> Ablated:
    """Run the rows of a method's ablation. Raises what ``run`` raises.

    method: its name; default is the only one that defines an ablation. runs: as for ``run``.
    """
    options = _checked(options, runs)
    if not isinstance(method, str | None):
        raise UsageError(f"method={method!r} is not the name of a method", "set its parameters by `set`")
    registry = options.registry()
    wanted: dict[str, Any] = {"dataset": dataset, "setting": setting, "ratio": ratio, "by": by, "preset": preset}
    wanted |= {"set": _parameters(set), "methods": method or only_ablation(registry), "seed": seed}
    grids, _ = _grids([wanted], options)
    return AblationRun.planned(grids, options, registry, filter).execute()


def evaluate(
    predictions: TopK | str | Path,
    dataset: Dataset | str | Path,
    *,
    filter: str | None = None,  # noqa: A002 - the name of the flag
) -> Scores:
    """Score predictions [n_test, k] on a dataset, by the protocol in ``xmcbench.metrics.protocol``.

    predictions: a TopK, or the .npz file that ``TopK.save`` wrote. filter: ``none``, ``self`` or ``file``; default is
    that of the dataset's card. Raises MethodError where the predictions are not a valid answer, DataError where no test
    instance has a label, DataError and UsageError for files and names.
    """
    if not isinstance(predictions, TopK | str | Path):
        raise UsageError(f"predictions are of type {type(predictions).__name__}", "a TopK, or the path of its file")
    data = load_dataset(dataset) if isinstance(dataset, str | Path) else dataset
    answer = TopK.load(Path(predictions)) if isinstance(predictions, str | Path) else predictions
    if not all(isinstance(each, np.ndarray) and each.ndim == 2 for each in (answer.indices, answer.scores)):
        raise MethodError("indices and scores of predictions must be arrays of shape [n, k]", "see `xmcbench.TopK`")
    answer.check(len(data.test), answer.k, len(data.labels))
    removed = data.filter(data.chosen_filter(filter))
    weights = None
    if len(data.train) >= MIN_INSTANCES:  # else PSP is left out
        weights = inverse_propensity(data.train_pairs(), *data.propensity)
    scores = metrics.evaluate(answer, data.test_pairs(), removed=removed, inverse_propensity=weights)
    check_scored(scores)
    return scores


def _grids(
    wanted: Sequence[Mapping[str, Any]], options: Options, at: Sequence[Setting] | None = None
) -> tuple[list[Grid], Options]:
    """The grids from checked arguments of ``run``, and the options with the plug-ins of their methods.

    at: the settings of all grids, where these are not among the arguments.

    An instance is a grid of its own: its parameters are those of one row, not of every row of its method.
    """
    check_open("a run")  # a script that is its own plug-in would otherwise run itself in every cell
    for each in wanted:
        _refuse_empty(each)
    given = [_listed(each["methods"]) for each in wanted]
    names, files = _names([each for some in given for each in some if isinstance(each, Method)], options)
    grids = []
    for each, methods in zip(wanted, given, strict=True):
        sets = each["set"]
        chosen = settings(*(_several(each[name]) for name in ("setting", "ratio", "by"))) if at is None else at
        named = Grid(_datasets(each["dataset"]), chosen, (), each["preset"], sets, seeds_of(each["seed"]))
        for instance, some in groupby(methods, _instance):
            if instance is None:
                grids.append(replace(named, methods=tuple(map(str, some))))
            else:
                name = names[type(instance)]
                values = {**instance.parameters(), **sets.get(name, {})}
                own = {**sets, name: values}
                grids.append(replace(named, methods=(name,), preset=None, overrides=own, complete=True))
        if not methods:
            grids.append(named)
    return grids, replace(options, plugins=files)


def _refuse_empty(wanted: Mapping[str, Any]) -> None:
    """Raise UsageError for an argument that is an empty sequence: None stands for its default."""
    for name in ("dataset", "methods", "setting", "seed"):
        given = wanted.get(name)
        if isinstance(given, Sequence) and not isinstance(given, str) and not given:
            raise UsageError(f"{name} is empty", f"leave {name} out to have its default")


def _instance(method: str | Method) -> Method | None:
    return method if isinstance(method, Method) else None


def _checked(options: Options | None, runs: str | Path | None) -> Options:
    """The options, with another folder of results if one is given. Raises UsageError."""
    if not isinstance(options, Options | None):
        raise UsageError(f"options are of type {type(options).__name__}", "options=xmcbench.Options(...)")
    if not isinstance(runs, str | Path | None):
        raise UsageError(f"runs={runs!r} is not a folder", 'runs="runs"')
    chosen = options or Options()
    return chosen if runs is None else replace(chosen, runs=Path(runs))


def _parameters(given: Any) -> Mapping[str, Mapping[str, object]]:
    """What ``set`` may be. Raises UsageError."""
    given = {} if given is None else given
    if not isinstance(given, Mapping) or not all(isinstance(each, Mapping) for each in given.values()):
        raise UsageError(
            f"set={reprlib.repr(given)} is not method -> parameter -> value", 'set={"tfidf": {"ngrams": 2}}'
        )
    return given


def _datasets(given: str | Path | Sequence[str | Path] | None) -> tuple[str, ...]:
    return tuple(map(str, _several(given))) or (default_dataset(),)


def _several(given: Any) -> tuple[Any, ...]:
    """One value or several, each once; nothing for None."""
    if given is None:
        return ()
    return tuple(dict.fromkeys(given)) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)


def _listed(methods: Any) -> list[str | Method]:
    """Names and instances of methods. Raises UsageError for anything else."""
    if isinstance(methods, str):  # as on the command line
        methods = [name.strip() for name in methods.split(",")]
    given = [methods] if isinstance(methods, Method) or not isinstance(methods, Iterable) else list(methods)
    for each in given:
        if isinstance(each, type) and issubclass(each, Method):
            raise UsageError(f"{each.__name__} is a class", f"pass an instance: {each.__name__}()")
        if not isinstance(each, str | Method):
            raise UsageError(f"{each!r} is not a method", 'pass names, such as "tfidf", or instances')
    return given


def _names(instances: Sequence[Method], options: Options) -> tuple[dict[type[Method], str], tuple[Path, ...]]:
    """The names of the methods of instances, and the plug-in files with those of methods that are not installed."""
    registered = [(entry.name, entry.description) for entry in (options.registry() if instances else ())]
    installed = {about.cls: name for name, about in registered if about}
    names: dict[type[Method], str] = {}
    files = list(options.plugins)
    for cls in dict.fromkeys(map(type, instances)):
        name = installed.get(class_path(cls))
        if name is None:
            name = method_name(cls)
            files.append(_file_of(cls, name))
        names[cls] = name
    return names, tuple(dict.fromkeys(path.resolve() for path in files))


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
