"""Presets of the methods, read from presets.toml: named sets of parameter values, and where the values come from.

A record has every value that its cell ran with. This module is therefore no part of the source of a method: a changed
preset makes only the rows stale that are named after it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_TABLES: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_SHARED = _TABLES.pop("shared")


def _resolve(table: Mapping[str, Any]) -> dict[str, object]:
    """Return the values of a preset, those of its bases first."""
    values: dict[str, object] = {}
    for base in table.get("base", []):
        values |= _resolve(_SHARED[base])
    own = {name: value for name, value in table.items() if name not in ("base", "choice")}
    return values | {name: None if value == "none" else value for name, value in own.items()}


#: Method -> preset -> its values.
PRESETS = {
    method: {preset: _resolve(table) for preset, table in presets.items()} for method, presets in _TABLES.items()
}
#: Method -> preset -> where its values come from: a source, or the commands by which they were chosen.
CHOICES: dict[str, dict[str, str]] = {
    method: {preset: table["choice"] for preset, table in presets.items() if "choice" in table}
    for method, presets in _TABLES.items()
}

#: The components of MACLR, and the rows of the paper's ablation (its section 5.5) with an x for a component that is on.
COMPONENTS = ("adaptive_clustering", "label_regularization", "pseudo_encoder", "pseudo_tfidf")
_ROWS = {"1": "----", "2": "x---", "3": "-x--", "4": "xx--", "5": "xxx-", "6": "xx-x", "7": "xxxx"}
ABLATION: dict[str, Mapping[str, object]] = {
    row: {component: switch == "x" for component, switch in zip(COMPONENTS, switches, strict=True)}
    for row, switches in _ROWS.items()
}
