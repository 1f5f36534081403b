"""A TOML file of settings: the same names as the flags, read by the same parser.

    dataset = "lf-debian-2k"
    setting = "fs"
    ratio = 0.01
    methods = ["tfidf", "xr-linear"]
    seed = [0, 1, 2]
    [set.xr-linear]
    pseudo_labels = 5

is ``--dataset lf-debian-2k --setting fs --ratio 0.01 --methods tfidf,xr-linear --seed 0,1,2
--set xr-linear.pseudo_labels=5``. Flags on the command line override the file. A list of values of a parameter is a row
each.

Cells that are not a full product are written as [[grid]] tables, each with what differs from the settings above it:

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

import tomllib
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from xmcbench.errors import UnknownName, UsageError
from xmcbench.storage.reading import read_text

_FLAG, _GRID = "--config", "grid"
#: What the grids of one file can differ in. The rest is how cells run and what is shown, which is one for all.
_OF_A_GRID = ("dataset", "columns", "setting", "ratio", "by", "methods", "preset", "set", "seed")
#: The flags that take a list, separated by commas.
_LISTS = ("dataset", "columns", "setting", "ratio", "ratios", "by", "methods", "seed", "metric")
#: What only the few-shot setting has.
_OF_FEW_SHOT = ("ratio", "by")


def expand(words: list[str], flags: Callable[[], Iterable[str]]) -> list[list[str]]:
    """The command lines that a command line stands for, one for each grid of the settings file, whose contents replace
    ``--config FILE``. flags: those of the command, which the file may set. Raises UsageError."""
    given = [word for word in words if word == _FLAG or word.startswith(f"{_FLAG}=")]
    if len(given) > 1:
        raise UsageError(f"{_FLAG} is given more than once", "one file holds all settings")
    if not given or _FLAG not in flags():
        return [words]  # a command without --config says so itself
    for position, word in enumerate(words):
        if word == _FLAG and position + 1 < len(words):
            return _insert(words[:position] + words[position + 2 :], Path(words[position + 1]), flags())
        if word.startswith(f"{_FLAG}="):
            return _insert(words[:position] + words[position + 1 :], Path(word.partition("=")[2]), flags())
    return [words]


def _insert(words: list[str], path: Path, flags: Iterable[str]) -> list[list[str]]:
    settings = _read(path)
    grids = settings.pop(_GRID, [{}])
    if grids == []:
        raise UsageError(f"{path}: grid is empty", "leave it out, or write a [[grid]] table for each grid")
    if not isinstance(grids, list) or not all(isinstance(each, dict) for each in grids):
        raise UsageError(f"{path}: grid must be an array of tables", "write [[grid]] above each of them")
    known = {flag.removeprefix("--") for flag in flags if flag.startswith("--")}
    for name in (name for part in (settings, *grids) for name in part if name not in known):
        raise UnknownName("key", name, known, where=f"in {path}")
    for name in (name for grid in grids for name in grid if name not in _OF_A_GRID):
        raise UsageError(f"{path}: {name} cannot differ between grids", f"write it above the first [[{_GRID}]]")
    wanted = {"setting": given[-1]} if (given := _values(words, "--setting")) else {}
    # Right after the verb: later flags on the command line win.
    merged = [_above(_merged(settings, grid, path), wanted) for grid in grids]
    few = ["fs" in (wanted or each).get("setting", "fs") for each in merged]
    return [
        words[:1] + _flags(each, _given(words), path) + (words[1:] if one or not any(few) else _of_all(words[1:]))
        for each, one in zip(merged, few, strict=True)
    ]


def _of_all(words: list[str]) -> list[str]:
    """The words of the command line without those about few-shot settings, for a grid that has none of them."""
    flags = [f"--{name}" for name in sorted(_OF_FEW_SHOT)]
    kept, after_flag = [], False
    for word in words:
        if not after_flag and word not in flags and word.partition("=")[0] not in flags:
            kept.append(word)
        after_flag = word in flags
    return kept


def _read(path: Path) -> dict[str, Any]:
    try:
        settings = tomllib.loads(read_text(path))
    except OSError as error:
        raise UsageError(f"cannot read the settings file {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    if _FLAG.removeprefix("--") in settings:
        raise UsageError(f"{path}: a settings file cannot include another", "put all settings into one file")
    return settings


def _merged(settings: Mapping[str, Any], grid: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The settings of a grid: its own, and those above it."""
    for each in (settings, grid):
        values = each.get("set", {})
        if not isinstance(values, dict) or not all(isinstance(value, dict) for value in values.values()):
            raise UsageError(f"{path}: set must be a table of tables", "write [set.tfidf], then max_df = 0.9")
    common, own = settings.get("set", {}), grid.get("set", {})
    sets = {method: {**common.get(method, {}), **own.get(method, {})} for method in (*common, *own)}
    return {**_above(settings, grid), **grid, **({"set": sets} if sets else {})}


def _above(settings: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The settings above those that are chosen: where few-shot is not among the settings, no ratio is inherited."""
    dropped = _OF_FEW_SHOT if "fs" not in chosen.get("setting", "fs") else ()
    return {name: value for name, value in settings.items() if name not in dropped}


def _values(words: list[str], flag: str) -> list[str]:
    """The values of a flag on the command line, in their order."""
    pairs = pairwise([*words, ""])
    return [
        word.removeprefix(f"{flag}=") if word != flag else value
        for word, value in pairs
        if word == flag or word.startswith(f"{flag}=")
    ]


def _given(words: list[str]) -> set[str]:
    """METHOD.PARAM of every --set on the command line: the file says nothing about these."""
    return {value.partition("=")[0] for value in _values(words, "--set")}


def _flags(settings: Mapping[str, Any], given: set[str], path: Path) -> list[str]:
    flags: list[str] = []
    for name, value in settings.items():
        if name == "set":
            for method, values in value.items():
                for parameter, each in values.items():
                    if each == []:
                        raise UsageError(f"{path}: {method}.{parameter} has no value", "give one, or several")
                    if f"{method}.{parameter}" not in given:
                        several = each if isinstance(each, list) else [each]
                        flags += [f"--set={method}.{parameter}={_text(one)}" for one in several]
        elif any(isinstance(each, dict) for each in (value if isinstance(value, list) else [value])):
            example = '"text=abstract,labels=subjects"' if name == "columns" else "VALUE"
            raise UsageError(f"{path}: {name} cannot be a table", f"write {name} = {example}")
        elif name == "plugin":
            flags += [f"--plugin={each}" for each in (value if isinstance(value, list) else [value])]
        elif value is True:
            flags.append(f"--{name}")
        elif value is not False:
            texts = [_text(each) for each in value] if isinstance(value, list) else [_text(value)]
            if len(texts) > 1 and name not in _LISTS:
                raise UsageError(f"{path}: {name} takes one value, and there are {len(texts)}", "give one of them")
            if len(texts) > 1 and (commas := [text for text in texts if "," in text]):
                raise UsageError(f"{path}: {commas[0]!r} in {name} has a comma", "write a [[grid]] for each value")
            flags.append(f"--{name}={','.join(texts)}")
    return flags


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
