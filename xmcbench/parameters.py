"""Hyper-parameters: the typed class attributes of a method.

``alpha: float = 0.9`` declares one. Types: ``bool``, ``int``, ``float``, ``str``, ``Literal[...]`` and each of them
with ``| None``. Names with a leading underscore and ``ClassVar`` are not hyper-parameters.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Union

from xmcbench.errors import PluginError, UnknownName, UsageError

_SCALARS = (bool, int, float, str)


@dataclass(frozen=True)
class Parameter:
    """One hyper-parameter: its name, what values it takes, and its default."""

    name: str
    kind: type
    default: object
    choices: tuple[object, ...] = ()
    optional: bool = False

    @property
    def type_name(self) -> str:
        """The type as a reader would write it."""
        name = " | ".join(repr(choice) for choice in self.choices) if self.choices else self.kind.__name__
        return f"{name} | none" if self.optional else name

    def check(self, value: object, owner: str) -> object:
        """The value in the parameter's own type. Raises UsageError when it is none."""
        if value is None and self.optional:
            return None
        if self.kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not self.kind:
            raise UsageError(f"{owner}.{self.name} = {value!r} is not of type {self.type_name}")
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{owner}.{self.name} = {value!r} is no finite number", "a record could not hold it")
        if self.choices and value not in self.choices:
            raise UnknownName(f"value of {owner}.{self.name}:", str(value), [str(choice) for choice in self.choices])
        return value

    def parse(self, text: str, owner: str) -> object:
        """The value that ``--set`` spelled as text."""
        if self.optional and text.lower() == "none":
            return None
        if self.kind is bool:
            if text.lower() not in ("true", "false"):
                raise UsageError(f"{owner}.{self.name} = {text!r} is not of type bool", "true or false")
            return text.lower() == "true"
        try:
            value = self.kind(text)
        except ValueError:
            raise UsageError(f"{owner}.{self.name} = {text!r} is not of type {self.type_name}") from None
        return self.check(value, owner)


def declared(cls: type) -> dict[str, Parameter]:
    """The hyper-parameters a class declares, its bases' first. Raises PluginError on a type that cannot be one."""
    try:
        hints = typing.get_type_hints(cls)
    except NameError as error:
        raise PluginError(f"{cls.__name__}: a type of its attributes is not known: {error}") from error
    return {
        name: _parameter(cls, name, hint)
        for name, hint in hints.items()
        if not name.startswith("_") and typing.get_origin(hint) is not ClassVar and hint is not ClassVar
    }


def _parameter(cls: type, name: str, hint: Any) -> Parameter:
    owner = f"{cls.__name__}.{name}"
    if not hasattr(cls, name):
        raise PluginError(f"{owner} has no default", "every hyper-parameter has one; a constant is a ClassVar")
    default, optional = getattr(cls, name), False
    if typing.get_origin(hint) in (Union, types.UnionType):
        members = [member for member in typing.get_args(hint) if member is not type(None)]
        optional = len(members) < len(typing.get_args(hint))
        hint = members[0] if len(members) == 1 else hint
    choices: tuple[object, ...] = ()
    if typing.get_origin(hint) is Literal:
        choices = typing.get_args(hint)
        hint = type(choices[0])
    if hint not in _SCALARS:
        raise PluginError(f"{owner} is of type {hint}", "a hyper-parameter is a bool, int, float, str or Literal")
    parameter = Parameter(name, hint, default, choices, optional)
    try:
        parameter.check(default, cls.__name__)
    except UsageError as error:
        raise PluginError(f"bad default: {error}") from error
    return parameter


def resolve(cls: type, owner: str, given: Mapping[str, object]) -> dict[str, object]:
    """Every hyper-parameter of ``cls`` with its value: the default, or what is given (text is parsed).

    Raises UnknownName and UsageError.
    """
    known = declared(cls)
    values = {name: parameter.default for name, parameter in known.items()}
    for name, value in given.items():
        if name not in known:
            raise UnknownName("parameter", f"{owner}.{name}", [f"{owner}.{each}" for each in known])
        parameter = known[name]
        values[name] = parameter.parse(value, owner) if isinstance(value, str) else parameter.check(value, owner)
    return values
