"""A TOML file of settings: their names are those of the flags, and the same parser reads them.

    dataset = "lf-debian-2k"
    setting = "fs"
    ratio = 0.01
    methods = ["tfidf", "xr-linear"]
    seed = [0, 1, 2]
    [set.xr-linear]
    pseudo_labels = 5

is ``--dataset lf-debian-2k --setting fs --ratio 0.01 --methods tfidf,xr-linear --seed 0,1,2
--set xr-linear.pseudo_labels=5``. Flags on the command line override the file; with ``--methods``, what the file sets
of other methods is not used. A list of values gives one row per value.

Cells that are not a full product are written as [[grid]] tables, each with the settings that differ from those above:

    dataset = ["lf-debian-2k", "lf-debian-20k"]
    [[grid]]
    setting = "ez"
    methods = ["tfidf", "bm25"]
    [[grid]]
    setting = "fs"
    ratio = [0.01, 0.05]
    methods = "xr-linear"
    seed = [0, 1, 2]
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from xmcbench.errors import UnknownName, UsageError
from xmcbench.storage.reading import read_text

_FLAG, _GRID = "--config", "grid"
#: The settings in which the grids of one file can differ. All others, such as how cells run, are shared.
_OF_A_GRID = ("dataset", "columns", "setting", "ratio", "by", "methods", "preset", "set", "seed")
#: The flags that take a list, separated by commas.
_LISTS = ("dataset", "columns", "setting", "ratio", "ratios", "by", "methods", "seed", "metric", "metrics")
#: The settings of the few-shot setting alone.
_OF_FEW_SHOT = ("ratio", "by")


def expand(words: list[str], flags: Callable[[], Iterable[str]]) -> list[list[str]]:
    """Return the command lines that a command line stands for, one per grid of the settings file.

    The file replaces ``--config FILE``. flags: those of the command, which the file may set. Raises UsageError.
    """
    paths, rest = _take(words, _FLAG)
    if len(paths) > 1:
        raise UsageError(f"{_FLAG} is given more than once", "one file holds all settings")
    if not paths or paths[0] is None or not rest or _FLAG not in flags():
        return [words]  # the parser of the command says what is wrong
    path, (verb, *rest) = Path(paths[0]), rest
    settings, grids = _read(path, {flag.removeprefix("--") for flag in flags() if flag.startswith("--")})
    setting = _take(rest, "--setting")[0]
    chosen = {"setting": setting[-1]} if setting and setting[-1] else {}
    merged = [_inherit(_merge(settings, grid, path), chosen) for grid in grids]
    few = ["fs" in (chosen or values).get("setting", "fs") for values in merged]
    # A grid without few-shot settings takes nothing about them from the command line, if another grid has some.
    others = _take(rest, *(f"--{name}" for name in _OF_FEW_SHOT))[1] if any(few) else rest
    given = {value.partition("=")[0] for value in _take(rest, "--set")[0] if value}
    methods = [value for value in _take(rest, "--methods")[0] if value]
    if methods and methods[-1] != "all":  # what the file sets of others does not matter
        names = {name.partition(":")[0].strip() for name in methods[-1].split(",")}
        for values in merged:
            values["set"] = {method: own for method, own in values.get("set", {}).items() if method in names}
    # Right after the verb: later flags on the command line win.
    return [
        [verb, *_to_flags(values, given, path), *(rest if is_few else others)]
        for values, is_few in zip(merged, few, strict=True)
    ]


def _take(words: list[str], *flags: str) -> tuple[list[str | None], list[str]]:
    """Return the values of flags on a command line, None for a missing value, and the other words."""
    taker = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for flag in flags:
        taker.add_argument(flag, dest="values", action="append", nargs="?", default=[])
    found, others = taker.parse_known_args(words)
    return found.values, others


def _read(path: Path, known: Collection[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the settings of a file, and its grids. known: names of settings. Raises UsageError."""
    try:
        settings = tomllib.loads(read_text(path))
    except OSError as error:
        raise UsageError(f"cannot read the settings file {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    if _FLAG.removeprefix("--") in settings:
        raise UsageError(f"{path}: a settings file cannot include another", "put all settings into one file")
    grids = settings.pop(_GRID, [{}])
    if grids == []:
        raise UsageError(f"{path}: grid is empty", "leave it out, or write a [[grid]] table for each grid")
    if not isinstance(grids, list) or not all(isinstance(grid, dict) for grid in grids):
        raise UsageError(f"{path}: grid must be an array of tables", "write [[grid]] above each of them")
    for name in (name for part in (settings, *grids) for name in part if name not in known):
        raise UnknownName("key", name, known, where=f"in {path}")
    for name in (name for grid in grids for name in grid if name not in _OF_A_GRID):
        raise UsageError(f"{path}: {name} cannot differ between grids", f"write it above the first [[{_GRID}]]")
    for value in (part["setting"] for part in (settings, *grids) if "setting" in part):
        if not all(isinstance(word, str) for word in (value if isinstance(value, list) else [value])):
            raise UsageError(f"{path}: setting = {_to_text(value)} is not a text", 'setting = "ez"')
    return settings, grids


def _merge(settings: Mapping[str, Any], grid: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the settings of a grid: its own, and those above it."""
    for part in (settings, grid):
        values = part.get("set", {})
        if not isinstance(values, dict) or not all(isinstance(value, dict) for value in values.values()):
            raise UsageError(f"{path}: set must be a table of tables", "write [set.tfidf], then max_df = 0.9")
    common, own = settings.get("set", {}), grid.get("set", {})
    sets = {method: {**common.get(method, {}), **own.get(method, {})} for method in (*common, *own)}
    return {**_inherit(settings, grid), **grid, **({"set": sets} if sets else {})}


def _inherit(settings: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that hold for chosen ones, too: without few-shot, no ratio."""
    dropped = _OF_FEW_SHOT if "fs" not in chosen.get("setting", "fs") else ()
    return {name: value for name, value in settings.items() if name not in dropped}


def _to_flags(settings: Mapping[str, Any], given: Collection[str], path: Path) -> list[str]:
    """Return settings as flags. given: METHOD.PARAM of every --set on the command line, which wins over the file."""
    flags: list[str] = []
    for name, value in settings.items():
        values = value if isinstance(value, list) else [value]
        if name == "set":
            targets = [(f"{method}.{name}", of) for method, table in value.items() for name, of in table.items()]
            for target, of_parameter in targets:
                several = of_parameter if isinstance(of_parameter, list) else [of_parameter]
                if not several:
                    raise UsageError(f"{path}: {target} has no value", "give one, or several")
                if target not in given:
                    flags += [f"--set={target}={_to_text(one)}" for one in several]
        elif any(isinstance(one, dict) for one in values):
            example = '"text=abstract,labels=subjects"' if name == "columns" else "VALUE"
            raise UsageError(f"{path}: {name} cannot be a table", f"write {name} = {example}")
        elif name == "plugin":
            flags += [f"--plugin={file}" for file in values]
        elif value is True:
            flags.append(f"--{name}")
        elif value is not False:
            texts = [*map(_to_text, values)]
            if len(texts) > 1 and name not in _LISTS:
                raise UsageError(f"{path}: {name} takes one value, and there are {len(texts)}", "give one of them")
            if len(texts) > 1 and (commas := [text for text in texts if "," in text]):
                raise UsageError(f"{path}: {commas[0]!r} in {name} has a comma", "write a [[grid]] for each value")
            flags.append(f"--{name}={','.join(texts)}")
    return flags


def _to_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
