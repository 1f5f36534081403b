"""A TOML file of settings: the same names as the flags, read by the same parser.

    dataset = "lf-debian-2k"
    setting = "fs"
    ratio = 0.01
    methods = ["tfidf", "xr-linear"]
    seed = [0, 1, 2]
    [set.xr-linear]
    pseudo_labels = 5

is ``--dataset lf-debian-2k --setting fs --ratio 0.01 --methods tfidf,xr-linear --seed 0,1,2
--set xr-linear.pseudo_labels=5``. Flags on the command line override the file.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from xmcbench.errors import UsageError
from xmcbench.storage.reading import read_text

_FLAG = "--config"


def expand(words: list[str]) -> list[str]:
    """The command line with ``--config FILE`` replaced by the contents of the file. Raises UsageError."""
    if sum(word == _FLAG or word.startswith(f"{_FLAG}=") for word in words) > 1:
        raise UsageError(f"{_FLAG} is given more than once", "one file holds all settings")
    for position, word in enumerate(words):
        if word == _FLAG and position + 1 < len(words):
            return _insert(words[:position] + words[position + 2 :], Path(words[position + 1]))
        if word.startswith(f"{_FLAG}="):
            return _insert(words[:position] + words[position + 1 :], Path(word.partition("=")[2]))
    return words


def _insert(words: list[str], path: Path) -> list[str]:
    # Right after the verb: later flags on the command line win.
    return words[:1] + _flags(path) + words[1:]


def _flags(path: Path) -> list[str]:
    try:
        settings = tomllib.loads(read_text(path))
    except OSError as error:
        raise UsageError(f"cannot read the settings file {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    if _FLAG.removeprefix("--") in settings:
        raise UsageError(f"{path}: a settings file cannot include another", "put all settings into one file")
    flags: list[str] = []
    for name, value in settings.items():
        if name == "set":
            if not isinstance(value, dict) or not all(isinstance(each, dict) for each in value.values()):
                raise UsageError(f"{path}: set must be a table of tables", "write [set.tfidf], then max_df = 0.9")
            for method, values in value.items():
                flags += [f"--set={method}.{parameter}={_text(each)}" for parameter, each in values.items()]
        elif name == "plugin":
            flags += [f"--plugin={each}" for each in (value if isinstance(value, list) else [value])]
        elif value is True:
            flags.append(f"--{name}")
        elif value is not False:
            text = ",".join(map(_text, value)) if isinstance(value, list) else _text(value)
            flags.append(f"--{name}={text}")
    return flags


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
