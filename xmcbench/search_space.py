"""The values of hyperparameters among which a search chooses, from their declared ranges or from the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from xmcbench.errors import UnknownName, UsageError
from xmcbench.parameters import Parameter, Scalar

#: A range without an end reaches from the value of the preset to so many times it, and to that part of it.
_SPAN = 10
#: Distance from the end of a range that is not part of it, as a share of the range.
_INSIDE = 0.01
#: Choices of a parameter that is searched without being named, at most.
_CHOICES = 4


class Space(Struct, frozen=True):
    """The values of one parameter: choices, or the numbers from low to high, both included.

    is_log: whether small numbers are to be told apart as well as large ones.
    """

    choices: tuple[Scalar, ...] = ()
    low: float = 0.0
    high: float = 0.0
    is_int: bool = False
    is_log: bool = False


def spaces(
    method: str,
    known: Mapping[str, Parameter],
    base: Mapping[str, Scalar],
    fixed: Mapping[str, object],
    search: Sequence[str],
) -> dict[str, Space]:
    """Return parameter -> its space.

    known, base: the parameters of the method, and their values in the preset. fixed: those that keep their value.
    search: ``PARAM``, ``PARAM=LOW..HIGH`` or ``PARAM=A,B``, each with ``METHOD.`` before it if wanted; without any,
    every parameter that declares a range or a few choices. Raises UsageError.
    """
    if not search:
        found = {name: _find_declared(parameter, base[name]) for name, parameter in known.items() if name not in fixed}
        few = {name: space for name, space in found.items() if space and len(space.choices) <= _CHOICES}
        if not few:
            raise UsageError(f"{method} declares no range to search", "--search PARAM=LOW..HIGH gives one")
        return few
    chosen: dict[str, Space] = {}
    for word in search:
        name, equals, text = word.removeprefix(f"{method}.").partition("=")
        if name not in known:
            raise UnknownName("parameter", f"{method}.{name}", [f"{method}.{other}" for other in known])
        if name in fixed or name in chosen:
            raise UsageError(f"{method}.{name} is given twice", "set it, or search it once")
        space = _parse(known[name], text, method) if equals else _find_declared(known[name], base[name])
        if space is None:
            raise UsageError(f"{method}.{name} declares no range", f"--search {name}=LOW..HIGH, or {name}=A,B")
        chosen[name] = space
    return chosen


def _find_declared(parameter: Parameter, value: Scalar) -> Space | None:
    """Return the space that a parameter declares; None without one. value: of the preset."""
    if parameter.kind == "bool":
        return Space((False, True))
    if parameter.choices:
        return Space((*parameter.choices, *([None] if parameter.optional else [])))
    if parameter.kind == "str" or not parameter.limits or not isinstance(value, int | float):
        return None
    low = max((limit.bound for limit in parameter.limits if limit.sign in (">", ">=")), default=None)
    high = min((limit.bound for limit in parameter.limits if limit.sign in ("<", "<=")), default=None)
    is_int = parameter.kind == "int"
    if low is None or high is None:
        if value <= 0:  # nothing says how large its values are
            return None
        below, above = value / _SPAN, value * _SPAN
        low, high = (below if low is None else max(below, low)), (above if high is None else min(above, high))
        return Space((), round(low) or 1 if is_int else low, round(high) if is_int else high, is_int, is_log=True)
    signs = {limit.sign for limit in parameter.limits}
    step = 1 if is_int else _INSIDE * (high - low)
    return Space((), low + step * (">" in signs), high - step * ("<" in signs), is_int)


def _parse(parameter: Parameter, text: str, method: str) -> Space:
    """Return the space that a text gives: LOW..HIGH, or values with commas. Raises UsageError."""
    first, dots, last = text.partition("..")
    if not dots:
        return Space(tuple(parameter.parse(value.strip(), method) for value in text.split(",")))
    low, high = (parameter.parse(end, method) for end in (first, last))
    if parameter.kind not in ("int", "float") or low is None or high is None or low >= high:  # type: ignore[operator]
        raise UsageError(f"{method}.{parameter.name} = {text} is no range", "LOW..HIGH, two numbers")
    numbers = float(low), float(high)
    return Space((), *numbers, parameter.kind == "int", is_log=numbers[0] > 0 and numbers[1] >= _SPAN * numbers[0])
