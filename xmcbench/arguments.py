"""From the arguments of a run, a curve or an ablation to grids, for the API and the command line."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from xmcbench.data.catalog import default_dataset
from xmcbench.data.sealing import check_open
from xmcbench.errors import PluginError, UnknownName, UsageError
from xmcbench.experiment import Options
from xmcbench.method import Method
from xmcbench.plugins.description import class_path
from xmcbench.plugins.inspection import Inspection, Plugin
from xmcbench.plugins.loading import method_name
from xmcbench.runner.grid import Grid
from xmcbench.setting import Setting, seeds_of, settings

#: The arguments in which grids can differ. Of ``dataset``, ``setting``, ``ratio``, ``by`` and ``seed`` there can be
#: several; ``set`` is method -> parameter -> value, or a list of values: a row each.
NAMES = ("dataset", "setting", "ratio", "by", "methods", "preset", "set", "seed")


def merge_arguments(common: Mapping[str, Any], grids: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the arguments of all grids: own and common ones; ``set`` is merged by parameter. Raises UsageError."""
    own_of = [*grids]  # an iterator gives them once
    if isinstance(grids, Mapping) or not all(isinstance(own, Mapping) for own in own_of):
        raise UsageError(f"grids={reprlib.repr(grids)} is not a list of arguments", 'grids=[{"setting": "ez"}]')
    merged = []
    # All grids have the common values, and an iterator would give them to the first alone.
    common = {name: tuple(value) if isinstance(value, Iterator) else value for name, value in common.items()}
    for own in own_of or [{}]:
        if unknown := sorted(own.keys() - {*NAMES}):
            raise UnknownName("argument of a grid", unknown[0], NAMES)
        outer, inner = (_check_set(arguments.get("set")) for arguments in (common, own))
        values = {name: {**outer.get(name, {}), **inner.get(name, {})} for name in {**inner, **outer}}
        merged.append({**common, **own, "set": values})
    return merged


def make_grids(
    arguments: Sequence[Mapping[str, Any]], options: Options, at: Sequence[Setting] | None = None
) -> tuple[list[Grid], Options]:
    """Return grids, and the options with the plug-in files of their methods. Raises UsageError, PluginError.

    at: the settings of all grids, where these are not among the arguments. An instance of a method is a grid by itself:
    its parameters are those of one row, not of every row of its method.
    """
    check_open("a run")  # a script that is its own plug-in would otherwise run itself in every cell
    for given in arguments:
        for name in ("dataset", "methods", "setting", "seed"):  # None stands for the default
            if isinstance(value := given.get(name), Sized) and not len(value):
                raise UsageError(f"{name} is empty", f"leave {name} out to have its default")
        if not isinstance(given["preset"], str | None):
            raise UsageError(f"preset={given['preset']!r} is not the name of a preset", 'preset="small"')
    methods_of = [_list_methods(given["methods"]) for given in arguments]
    instances = [method for methods in methods_of for method in methods if isinstance(method, Method)]
    names, files = _names_and_files(instances, options) if instances else ({}, options.plugins)
    grids = []
    for given, methods in zip(arguments, methods_of, strict=True):
        sets = _check_set(given["set"])
        few = (several(given[name]) for name in ("ratio", "by"))
        chosen = settings(several(given["setting"]) or ("ez",), *few) if at is None else at
        datasets = tuple(map(str, several(given["dataset"]))) or (default_dataset(),)
        named = Grid(
            datasets, chosen, (), given["preset"], sets, seeds_of(0 if given["seed"] is None else given["seed"])
        )
        for instance, group in groupby(methods, _instance):
            if instance is None:
                grids.append(replace(named, methods=tuple(map(str, group))))
            else:
                name = names[type(instance)]
                values = {**sets, name: {**instance.parameters(), **sets.get(name, {})}}
                grids.append(replace(named, methods=(name,), preset=None, overrides=values, complete=True))
    return grids, replace(options, plugins=files)


def _instance(method: str | Method) -> Method | None:
    return method if isinstance(method, Method) else None


def several(given: Any) -> tuple[Any, ...]:
    """Return one value or several, each once; nothing for None."""
    if given is None:
        return ()
    return tuple(dict.fromkeys(given)) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)


def _check_set(given: Any) -> Mapping[str, Mapping[str, object]]:
    given = {} if given is None else given
    if not isinstance(given, Mapping) or not all(isinstance(values, Mapping) for values in given.values()):
        raise UsageError(
            f"set={reprlib.repr(given)} is not method -> parameter -> value", 'set={"tfidf": {"ngrams": 2}}'
        )
    return given


def _list_methods(methods: Any) -> list[str | Method]:
    """Return names and instances of methods. Raises UsageError for anything else."""
    if isinstance(methods, str):  # as on the command line
        methods = [name.strip() for name in methods.split(",")]
    given = [methods] if isinstance(methods, Method) or not isinstance(methods, Iterable) else list(methods)
    for method in given:
        if isinstance(method, type) and issubclass(method, Method):
            raise UsageError(f"{method.__name__} is a class", f"pass an instance: {method.__name__}()")
        if not isinstance(method, str | Method):
            raise UsageError(f"{method!r} is not a method", 'pass names, such as "tfidf", or instances')
    if "all" in given and len(given) > 1:
        raise UsageError("the method all cannot be combined with others", "name the methods, or say all")
    return given


def _names_and_files(instances: Sequence[Method], options: Options) -> tuple[dict[type, str], tuple[Path, ...]]:
    """Return the names of the methods of instances, and the plug-in files, those of methods not installed included."""
    installed = {entry.description.cls: entry.name for entry in options.registry() if entry.description}
    names: dict[type, str] = {}
    files = list(options.plugins)
    for cls in dict.fromkeys(map(type, instances)):
        names[cls] = installed.get(class_path(cls)) or method_name(cls)
        if class_path(cls) not in installed:
            files.append(_find_file(cls, names[cls]))
    return names, tuple(dict.fromkeys(path.resolve() for path in files))


def _find_file(cls: type[Method], name: str) -> Path:
    """Return the file from which another process imports the method of this name.

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
    found = {method.name: method.problem for method in Inspection(Plugin(file=str(path)), str(path)).methods}
    if name not in found:
        problem = next(filter(None, found.values()), f"{cls.__name__} is not in it")
        raise PluginError(f"{path}: {problem}", "a cell imports it as a plug-in file")
    return path
