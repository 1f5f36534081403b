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
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union

import msgspec
from annotated_types import BaseMetadata, Ge, GroupedMetadata, Gt, Le, Lt, Unit
from msgspec import Struct

from xmcbench.errors import PluginError, UnknownName, UsageError

#: What a hyperparameter can be: a JSON value.
Scalar = bool | int | float | str | None
#: Such a value, or one that is not known to be one.
Value = TypeVar("Value")

_KINDS: dict[str, Callable[[Any], Any]] = {"bool": bool, "int": int, "float": float, "str": str}
_SCALARS = (bool, int, float, str)
#: A type that is written as a string and names no hyperparameter.
_CLASS_VAR = re.compile(r"\s*(\w+\.)?ClassVar\b")


#: Sign of a limit -> how it reads in an error, and its test.
_LIMITS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    ">=": ("at least", operator.ge),
    ">": ("greater than", operator.gt),
    "<=": ("at most", operator.le),
    "<": ("less than", operator.lt),
}


class Limit(Struct, frozen=True):
    """One end of a range: ``>=``, ``>``, ``<=`` or ``<``, and the bound."""

    sign: Literal[">=", ">", "<=", "<"]
    bound: int | float

    @property
    def words(self) -> str:
        """How it reads in an error."""
        return f"{_LIMITS[self.sign][0]} {self.bound:g}"

    def holds(self, value: Any) -> bool:
        """Whether a value keeps it."""
        return _LIMITS[self.sign][1](value, self.bound)


class Doc(Struct, frozen=True):
    """The meaning of a hyperparameter.

    source: where its default is from, such as a section of a paper. added: whether it is newer than results of the
    method, and its default gives the method as it was before. The default is then no part of the identity of a cell,
    and earlier results stay in place.
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
        return ", ".join(f"{limit.sign} {limit.bound:g}" for limit in self.limits)

    def check(self, value: object, owner: str) -> Scalar:
        """The value, converted to the parameter's type. Raises UsageError for another type or a value out of range."""
        if value is None and self.optional:
            return None
        if isinstance(value, Integral) and not isinstance(value, bool):  # numpy's integers too
            value = int(value)
        if self.kind == "float" and isinstance(value, Real) and not isinstance(value, bool):
            try:
                value = float(value)
            except OverflowError:
                value = math.inf
        if type(value) is not _KINDS[self.kind]:
            raise UsageError(f"{owner}.{self.name} = {value!r} is not of type {self.type_name}", self.doc.text)
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{owner}.{self.name} = {value!r} is not a finite number", self.doc.text)
        if self.choices and value not in self.choices:
            raise UnknownName(f"value of {owner}.{self.name}:", str(value), [str(choice) for choice in self.choices])
        for limit in self.limits:
            if not limit.holds(value):
                raise UsageError(
                    f"{owner}.{self.name} = {value!r} is out of range: it must be {limit.words}", self.doc.text
                )
        return value  # type: ignore[return-value] # its type was looked at

    def parse(self, text: str, owner: str) -> Scalar:
        """The value that ``--set`` spelled as text. Raises UsageError."""
        if self.optional and text.lower() == "none":
            return None
        if self.kind == "bool":
            if text.lower() not in ("true", "false"):
                raise UsageError(f"{owner}.{self.name} = {text!r} is not of type bool", "true or false")
            return self.check(text.lower() == "true", owner)
        try:
            value = _KINDS[self.kind](text)
        except ValueError:
            raise UsageError(f"{owner}.{self.name} = {text!r} is not of type {self.type_name}", self.doc.text) from None
        return self.check(value, owner)


def declared(cls: type) -> dict[str, Parameter]:
    """The hyperparameters that a class declares, those of its bases first: one dict for all callers.

    Raises PluginError for an unsupported type.
    """
    return _declared(cls)


@cache  # every annotation is compiled, and a plan asks several times
def _declared(cls: type) -> dict[str, Parameter]:
    return {
        name: _parameter(cls, name, hint)
        for name, hint in _hints(cls).items()
        if typing.get_origin(hint) is not ClassVar and hint is not ClassVar
    }


def _hints(cls: type) -> dict[str, Any]:
    """The types of the public attributes of a class. Types of private ones may only exist for a type checker."""
    hints: dict[str, Any] = {}
    for owner in reversed(cls.__mro__):
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


def undeclared(cls: type, base: type) -> list[str]:
    """Attributes that look like a hyperparameter or like part of the contract and are neither: a sentence for each.

    ``base`` is the class whose attributes are the contract.
    """
    contract = [name for name in vars(base) if not name.startswith("_")]
    known = {*declared(cls), *contract}
    found = []
    for owner in (each for each in cls.__mro__ if issubclass(each, base) and each is not base):
        annotated = inspect.get_annotations(owner)
        for name, value in vars(owner).items():
            if name.startswith("_") or name in known or name in annotated or not isinstance(value, _PLAIN):
                continue
            near = difflib.get_close_matches(name, contract, n=1, cutoff=0.8)
            if near:
                found.append(f"{owner.__name__}.{name} is not part of the contract: did you mean {near[0]!r}?")
            else:
                kind = type(value).__name__
                typed = f"`{name}: {kind} = {value!r}`, or " if isinstance(value, _SCALARS) else ""
                found.append(
                    f"{owner.__name__}.{name} = {value!r} has no type, so it is not a hyperparameter: "
                    f"write {typed}`{name}: ClassVar = {value!r}` for a constant"
                )
    return found


#: Types of values that a hyperparameter or an attribute of the contract could have.
_PLAIN = (*_SCALARS, dict, list, tuple)


def _parameter(cls: type, name: str, hint: Any) -> Parameter:
    owner = f"{cls.__name__}.{name}"
    if not hasattr(cls, name):
        raise PluginError(f"{owner} has no default", "give it one, or declare a constant as ClassVar")
    facts = [fact for fact in _facts(hint) if not isinstance(fact, GroupedMetadata)]
    for fact in facts:
        if isinstance(fact, BaseMetadata) and not isinstance(fact, Ge | Gt | Le | Lt | Unit):
            raise PluginError(f"{owner} has the limit {fact}", "the limits of a hyperparameter are Ge, Gt, Le and Lt")
    hint, optional = _without_none(_bare(hint))
    choices: tuple[Scalar, ...] = ()
    if typing.get_origin(hint) is Literal:
        choices = typing.get_args(hint)
        hint = type(choices[0])
    if hint not in _SCALARS:
        raise PluginError(f"{owner} has the type {hint}", "a hyperparameter must be a bool, int, float, str or Literal")
    if optional and any(isinstance(each, str) and each.lower() == "none" for each in (*choices, getattr(cls, name))):
        raise PluginError(f"{owner} can be None and 'none'", "--set could not tell them apart: use one of them")
    parameter = Parameter(
        name,
        hint.__name__,
        getattr(cls, name),
        choices,
        optional,
        tuple(_limits(facts)),
        next((fact.unit for fact in facts if isinstance(fact, Unit)), ""),
        next((fact for fact in facts if isinstance(fact, Doc)), Doc("")),
    )
    try:
        # A number of numpy becomes one of Python, which files can hold.
        return msgspec.structs.replace(parameter, default=parameter.check(parameter.default, cls.__name__))
    except UsageError as error:
        raise PluginError(f"bad default: {error}") from error


def _facts(hint: Any) -> Iterator[object]:
    """The metadata that ``Annotated`` attaches to a type, at any level."""
    if typing.get_origin(hint) is Annotated:
        for fact in hint.__metadata__:
            yield from fact if isinstance(fact, GroupedMetadata) else (fact,)
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


def _limits(facts: Iterable[object]) -> Iterator[Limit]:
    for fact in facts:
        if isinstance(fact, Ge):
            yield Limit(">=", fact.ge)  # type: ignore[arg-type]
        elif isinstance(fact, Gt):
            yield Limit(">", fact.gt)  # type: ignore[arg-type]
        elif isinstance(fact, Le):
            yield Limit("<=", fact.le)  # type: ignore[arg-type]
        elif isinstance(fact, Lt):
            yield Limit("<", fact.lt)  # type: ignore[arg-type]


def resolve(known: Mapping[str, Parameter], owner: str, given: Mapping[str, object]) -> dict[str, Scalar]:
    """Every hyperparameter with its value: the default, or what is given (text is parsed).

    known: the hyperparameters of a method by name, as ``declared`` finds them. Raises UnknownName and UsageError.
    """
    values = {name: parameter.default for name, parameter in known.items()}
    for name, value in given.items():
        if name not in known:
            raise UnknownName("parameter", f"{owner}.{name}", [f"{owner}.{each}" for each in known])
        parameter = known[name]
        values[name] = parameter.parse(value, owner) if isinstance(value, str) else parameter.check(value, owner)
    return values


def naming_files(known: Mapping[str, Parameter], values: Mapping[str, object]) -> dict[str, str]:
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
    """The values that tell a cell from others: all but the defaults of parameters that were added later."""
    return {
        name: value for name, value in values.items() if not (known[name].doc.added and value == known[name].default)
    }
