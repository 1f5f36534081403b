"""Differences between two values of JSON, such as two records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping


def differences(
    first: object, second: object, place: str, tolerance: float = 0.0
) -> Iterator[tuple[str, object, object]]:
    """Each differing leaf as (place, first, second); a missing one is None.

    place: the name of the values, such as ``metrics``; leaves are named ``metrics.self.scored`` or
    ``propensity[0]``. tolerance: relative and absolute difference up to which numbers are equal. Lists of different
    lengths are leaves.
    """
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for name in sorted({*first, *second}):
            yield from differences(first.get(name), second.get(name), f"{place}.{name}", tolerance)
    elif isinstance(first, list | tuple) and isinstance(second, list | tuple) and len(first) == len(second):
        for position, (one, other) in enumerate(zip(first, second, strict=True)):
            yield from differences(one, other, f"{place}[{position}]", tolerance)
    elif isinstance(first, float | int) and isinstance(second, float | int):
        if not math.isclose(first, second, rel_tol=tolerance, abs_tol=tolerance):
            yield place, first, second
    elif first != second:
        yield place, first, second
