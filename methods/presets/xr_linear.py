"""Presets of XR-Linear."""

from __future__ import annotations

PRESETS: dict[str, dict[str, object]] = {
    "sklearn": {"vectorizer": "sklearn", "max_df": 1.0},
    "pecos": {"vectorizer": "pecos", "max_df": 0.98},
    "mixed": {"mixed": True},
    "numba": {"implementation": "numba"},
}
#: Preset -> where its values come from: a source, or the commands by which they were chosen.
CHOICES = {
    "sklearn": (
        "xmcbench run --dataset lf-debian-20k-dev --setting full --methods xr-linear:pecos\n"
        "xmcbench run --dataset lf-debian-20k-dev --setting full --methods xr-linear:sklearn"
    ),
    "pecos": "the recipe that MACLR's maintainer gives (github.com/amzn/pecos, issue 206)",
    "mixed": "the defaults; nothing else was chosen",
    "numba": "the defaults without PECOS; nothing else was chosen",
}
