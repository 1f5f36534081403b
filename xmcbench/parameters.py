"""Hyperparameters: the typed class attributes of a method.

    class Popularity(Method):
        smoothing: Annotated[float, Ge(0), Doc("pairs added to every label")] = 1.0

declares one: its type, its range (``annotated_types``), its meaning, and its default. A plain
``smoothing: float = 1.0`` does the same without range and meaning. Types: ``bool``, ``int``, ``float``, ``str``,
``Literal[...]`` and each of them with ``| None``. Names with a leading underscore and ``ClassVar`` are not
hyperparameters.
"""

from __future__ import annotations

import difflib
import inspect
import math
import operator
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union

import msgspec
from annotated_types import BaseMetadata, Ge, GroupedMetadata, Gt, Le, Lt, Unit
from msgspec import Struct

from xmcbench.errors import PluginError, UnknownName, UsageError

#: A value of a hyperparameter: a JSON value.
Scalar = bool | int | float | str | None
#: A value, or something that may be one.
Value = TypeVar("Value")

_KINDS: dict[str, Callable[[Any], Any]] = {"bool": bool, "int": int, "float": float, "str": str}
_SCALARS = (bool, int, float, str)
#: A type that is written as a string and names no hyperparameter.
_CLASS_VAR = re.compile(r"\s*(\w+\.)?ClassVar\b")


#: Limit -> its name in annotated_types, its sign, its words in an error, and its test.
_LIMITS: dict[type, tuple[str, str, str, Callable[[Any, Any], bool]]] = {
    Ge: ("ge", ">=", "at least", operator.ge),
    Gt: ("gt", ">", "greater than", operator.gt),
    Le: ("le", "<=", "at most", operator.le),
    Lt: ("lt", "<", "less than", operator.lt),
}
_SIGNS = {sign: (words, test) for _, sign, words, test in _LIMITS.values()}


class Limit(Struct, frozen=True):
    """One end of a range: ``>=``, ``>``, ``<=`` or ``<``, and the bound."""

    sign: Literal[">=", ">", "<=", "<"]
    bound: int | float

    def check(self, value: Any) -> str:
        """Return the rule that a value breaks, in words; empty if it keeps it."""
        words, holds = _SIGNS[self.sign]
        return "" if holds(value, self.bound) else f"it must be {words} {self.number}"

    @property
    def number(self) -> str:
        """The bound with all of its digits."""
        return str(self.bound) if isinstance(self.bound, int) else f"{self.bound:.15g}"


class Doc(Struct, frozen=True):
    """The meaning of a hyperparameter.

    source: of its default, such as a section of a paper. added: whether it is newer than results of the method: its
    default gives the method as it was before, and is no part of the identity of a cell.
    """

    text: str
    source: str = ""
    added: bool = False


class Parameter(Struct, frozen=True):
    """One hyperparameter: its name, type, range, default and meaning."""

    name: str
    kind: Literal["bool", "int", "float", "str"]
    default: Scalar
    choices: tuple[Scalar, ...] = ()
    optional: bool = False
    limits: tuple[Limit, ...] = ()
    unit: str = ""
    doc: Doc = Doc("")

    @property
    def type_name(self) -> str:
        """The type, as written in Python."""
        name = " | ".join(repr(choice) for choice in self.choices) if self.choices else self.kind
        return f"{name} | none" if self.optional else name

    @property
    def range(self) -> str:
        """The range, such as ">= 0, < 1"; empty if there is none."""
        return ", ".join(f"{limit.sign} {limit.number}" for limit in self.limits)

    def check(self, value: object, owner: str) -> Scalar:
        """Convert a value to the parameter's type. Raises UsageError for another type or a value out of range."""
        if value is None and self.optional:
            return None
        said = f"{owner}.{self.name} = {value!r}"
        if isinstance(value, Integral) and not isinstance(value, bool):  # numpy's integers too
            value = int(value)
        if self.kind == "float" and isinstance(value, Real) and not isinstance(value, bool):
            try:
                value = float(value)
            except OverflowError:
                value = math.inf
            said = f"{owner}.{self.name} = {value!r}"
        if type(value) is not _KINDS[self.kind]:
            raise UsageError(f"{said} is not of type {self.type_name}", self.doc.text)
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{said} is not a finite number", self.doc.text)
        if self.choices and value not in self.choices:
            raise UnknownName(f"value of {owner}.{self.name}:", str(value), [str(choice) for choice in self.choices])
        for broken in filter(None, (limit.check(value) for limit in self.limits)):
            raise UsageError(f"{said} is out of range: {broken}", self.doc.text)
        return value  # type: ignore[return-value] # its type was checked

    def parse(self, text: str, owner: str) -> Scalar:
        """Convert a text, as ``--set`` has it, to the parameter's type. Raises UsageError."""
        if self.optional and text.lower() == "none":
            return None
        truth = {"true": True, "false": False}
        try:
            value = truth[text.lower()] if self.kind == "bool" else _KINDS[self.kind](text)
        except (KeyError, ValueError):
            hint = "true or false" if self.kind == "bool" else self.doc.text
            raise UsageError(f"{owner}.{self.name} = {text!r} is not of type {self.type_name}", hint) from None
        return self.check(value, owner)


def list_parameters(cls: type) -> dict[str, Parameter]:
    """Return the hyperparameters of a class by name, those of its bases first. Raises PluginError for a wrong type."""
    return _find_parameters(cls)


@cache  # every annotation is compiled, and a plan asks several times
def _find_parameters(cls: type) -> dict[str, Parameter]:
    return {
        name: _parameter(cls, name, hint)
        for name, hint in _hints(cls).items()
        if typing.get_origin(hint) is not ClassVar and hint is not ClassVar
    }


def _hints(cls: type) -> dict[str, Any]:
    """Return the types of public attributes of a class. Those of private ones may only exist for a type checker."""
    return {name: hint for owner in reversed(cls.__mro__) for name, hint in _own_hints(owner).items()}


@cache  # many classes share a base
def _own_hints(owner: type) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    public = {name: hint for name, hint in inspect.get_annotations(owner).items() if not name.startswith("_")}
    for name, hint in public.items():
        stand_in = type(owner.__name__, (), {"__annotations__": {name: hint}, "__module__": owner.__module__})
        try:
            hints |= typing.get_type_hints(stand_in, include_extras=True)
        except NameError as error:
            if isinstance(hint, str) and _CLASS_VAR.match(hint):  # no hyperparameter, whatever its type is
                continue
            raise PluginError(f"{owner.__name__}.{name}: its type cannot be resolved: {error}") from error
    return hints


def find_undeclared(cls: type, base: type) -> list[str]:
    """Return a sentence per attribute that looks like a hyperparameter or a part of the contract and is neither.

    base: the class whose attributes are the contract.
    """
    contract = [name for name in vars(base) if not name.startswith("_")]
    known = {*list_parameters(cls), *contract}
    found = []
    for owner in (ancestor for ancestor in cls.__mro__ if issubclass(ancestor, base) and ancestor is not base):
        annotated = inspect.get_annotations(owner)
        for name, value in vars(owner).items():
            plain = isinstance(value, (*_SCALARS, dict, list, tuple))
            if name.startswith("_") or name in known or name in annotated or not plain:
                continue
            if near := difflib.get_close_matches(name, contract, n=1, cutoff=0.8):
                found.append(f"{owner.__name__}.{name} is not part of the contract: did you mean {near[0]!r}?")
                continue
            typed = f"`{name}: {type(value).__name__} = {value!r}`, or " if isinstance(value, _SCALARS) else ""
            found.append(
                f"{owner.__name__}.{name} = {value!r} has no type, so it is not a hyperparameter: "
                f"write {typed}`{name}: ClassVar = {value!r}` for a constant"
            )
    return found


def _parameter(cls: type, name: str, hint: Any) -> Parameter:
    owner = f"{cls.__name__}.{name}"
    if not hasattr(cls, name):
        raise PluginError(f"{owner} has no default", "give it one, or declare a constant as ClassVar")
    facts = [*_facts(hint)]
    limits = [fact for fact in facts if isinstance(fact, BaseMetadata) and not isinstance(fact, Unit)]
    for fact in limits:
        if type(fact) not in _LIMITS:
            raise PluginError(f"{owner} has the limit {fact}", "the limits of a hyperparameter are Ge, Gt, Le and Lt")
    hint, optional = _without_none(_bare(hint))
    choices: tuple[Scalar, ...] = ()
    if typing.get_origin(hint) is Literal:
        choices = typing.get_args(hint)
        hint = type(choices[0])
    if hint not in _SCALARS:
        raise PluginError(f"{owner} has the type {hint}", "a hyperparameter must be a bool, int, float, str or Literal")
    if optional and "none" in {str(text).lower() for text in (*choices, getattr(cls, name)) if isinstance(text, str)}:
        raise PluginError(f"{owner} can be None and 'none'", "--set could not tell them apart: use one of them")
    parameter = Parameter(
        name,
        hint.__name__,
        getattr(cls, name),
        choices,
        optional,
        tuple(Limit(sign, getattr(fact, name)) for fact in limits for name, sign, *_ in [_LIMITS[type(fact)]]),  # type: ignore[arg-type]
        next((fact.unit for fact in facts if isinstance(fact, Unit)), ""),
        next((fact for fact in facts if isinstance(fact, Doc)), Doc("")),
    )
    try:
        # A number of numpy becomes one of Python, which files can hold.
        return msgspec.structs.replace(parameter, default=parameter.check(parameter.default, cls.__name__))
    except UsageError as error:
        raise PluginError(f"bad default: {error}") from error


def _facts(hint: Any) -> Iterator[object]:
    """Yield the metadata that ``Annotated`` attaches to a type, at any level."""
    if typing.get_origin(hint) is Annotated:
        for fact in hint.__metadata__:
            # Asking for GroupedMetadata, a protocol, is slow, and few facts are groups.
            is_single = isinstance(fact, BaseMetadata | Doc)
            yield from (fact,) if is_single or not isinstance(fact, GroupedMetadata) else fact
    for inner in typing.get_args(hint):
        if typing.get_origin(hint) is not Literal:
            yield from _facts(inner)


def _bare(hint: Any) -> Any:
    return hint.__origin__ if typing.get_origin(hint) is Annotated else hint


def _without_none(hint: Any) -> tuple[Any, bool]:
    if typing.get_origin(hint) not in (Union, types.UnionType):
        return hint, False
    members = [_bare(member) for member in typing.get_args(hint) if member is not type(None)]
    optional = len(members) < len(typing.get_args(hint))
    return (members[0] if len(members) == 1 else hint), optional


def resolve(known: Mapping[str, Parameter], owner: str, given: Mapping[str, object]) -> dict[str, Scalar]:
    """Return every hyperparameter with its value: the default, or the given one; text is parsed. Raises UsageError."""
    values = {name: parameter.default for name, parameter in known.items()}
    for name, value in given.items():
        if name not in known:
            raise UnknownName("parameter", f"{owner}.{name}", [f"{owner}.{other}" for other in known])
        parameter = known[name]
        values[name] = parameter.parse(value, owner) if isinstance(value, str) else parameter.check(value, owner)
    return values


def select_files(known: Mapping[str, Parameter], values: Mapping[str, object]) -> dict[str, str]:
    """Return the text parameters that name a file or folder that exists, other than defaults and choices."""
    return {
        name: value
        for name, parameter in known.items()
        if parameter.kind == "str" and not parameter.choices
        for value in [values.get(name)]
        if isinstance(value, str) and value not in ("", parameter.default) and _exists(value)
    }


def _exists(path: str) -> bool:
    try:
        found = Path(path).expanduser()
        return found.parent != found and found.exists()  # neither "." nor the root
    except (OSError, ValueError, RuntimeError):  # too long, a null byte, no such user: no name of a file
        return False


def identity(known: Mapping[str, Parameter], values: Mapping[str, Value]) -> dict[str, Value]:
    """Return the values that identify a cell: all but the defaults of parameters that were added later."""
    return {
        name: value for name, value in values.items() if not (known[name].doc.added and value == known[name].default)
    }
