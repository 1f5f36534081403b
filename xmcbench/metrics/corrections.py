"""Corrections: p-values of a family of tests, so that with one chance in twenty any of them errs, not each."""

from __future__ import annotations

from collections.abc import Mapping


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """Holm's adjusted p-values (Holm, 1979), by name in the order of ``p``.

    The smallest of m p-values is multiplied by m, the next by m - 1, and so on. None is less than one before it, and
    none more than 1. What stays below 0.05 differs at the 5% level, with all tests taken together.
    """
    adjusted: dict[str, float] = {}
    highest = 0.0
    for place, name in enumerate(sorted(p, key=lambda name: p[name])):
        highest = max(highest, min(1.0, (len(p) - place) * p[name]))
        adjusted[name] = highest
    return {name: adjusted[name] for name in p}
