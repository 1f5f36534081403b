"""The description of a method by the attributes of its class, without running its code."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from itertools import chain
from typing import Any, get_args

import msgspec
from msgspec import Struct

from xmcbench import parameters
from xmcbench.errors import PluginError, Unavailable, UsageError
from xmcbench.extras import installation
from xmcbench.method import Method, Supervision
from xmcbench.parameters import Parameter, Scalar

#: The entry points of installed methods.
GROUP = "xmcbench.methods"
#: The default preset of a method that has it: a few minutes on two cores.
DEFAULT_PRESET = "quick"

Values = dict[str, Scalar]
#: Attributes of a class that its description has unchanged.
_ATTRIBUTES = ("supervision", "deterministic", "packages", "described", "choices", "needs", "environment")
#: Functions that a class may define.
_OPTIONAL = ("describe", "require", "uses", "inputs", "estimate_calls", "pretrain")


class Description(Struct, frozen=True, kw_only=True):
    """A method by the attributes of its class; those of ``xmcbench.Method`` are explained there.

    cls: module and name of the class. doc: its docstring. parameters: by name. defines: optional functions of its own.
    """

    cls: str
    doc: str
    title: str
    supervision: Supervision
    deterministic: bool
    packages: dict[str, str]
    presets: dict[str, Values]
    ablation: dict[str, Values]
    described: tuple[str, ...]
    choices: dict[str, str]
    needs: dict[str, int]
    parameters: dict[str, Parameter]
    defines: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()

    @classmethod
    def of(cls, method: type[Method]) -> Description:
        """Return the description of a class. Raises PluginError where an attribute breaks the contract."""
        said: dict[str, Any] = {
            name: dict(value) if isinstance(value, Mapping) else value
            for name in _ATTRIBUTES
            for value in [getattr(method, name)]
        }
        for name in ("presets", "ablation"):
            said[name] = {key: dict(values) for key, values in getattr(method, name).items()}
        defines = [name for name in _OPTIONAL if getattr(method, name, None) is not vars(Method).get(name)]
        try:
            return msgspec.convert(
                {
                    **said,
                    "title": _title(method),
                    "cls": class_path(method),
                    "doc": inspect.getdoc(method) or "",
                    "parameters": msgspec.to_builtins(parameters.list_parameters(method)),
                    "defines": defines,
                },
                cls,
            )
        except msgspec.MsgspecError as error:
            raise PluginError(f"{method.__name__} breaks the contract: {error}") from error

    def resolve(self, name: str, given: Mapping[str, object]) -> Values:
        """Return every hyperparameter with its value, as ``xmcbench.parameters.resolve``; name: of the method."""
        return parameters.resolve(self.parameters, name, given)

    @property
    def missing(self) -> dict[str, str]:
        """Missing packages of the method: import name -> what to ``pip install``."""
        return {name: install for name, install in self.packages.items() if not _is_installed(name)}

    def check_packages(self, name: str) -> None:
        """Raise Unavailable where a package is missing."""
        if missing := self.missing:
            raise Unavailable(f"{name} needs {', '.join(missing)}", installation(*missing.values()))


def _title(method: type[Method]) -> str:
    """Return the title of a class, empty where it is that of an installed method which the class extends."""
    owner = next(base for base in method.__mro__ if "title" in vars(base))
    if owner in (method, Method):
        return method.title
    installed = {point.value for point in metadata.entry_points(group=GROUP)}
    return "" if class_path(owner) in installed else method.title


def class_path(cls: type) -> str:
    """Return module and name of a class, as an entry point has them."""
    return f"{cls.__module__}:{cls.__qualname__}"


def contract_problem(method: object) -> str:
    """Return why this object is not a valid method; empty if it is."""
    if not inspect.isclass(method) or not issubclass(method, Method):
        return f"{method!r} is not a subclass of xmcbench.Method"
    for name in ("fit", "predict"):
        if getattr(method, name) is getattr(Method, name):
            return f"{method.__name__} does not define {name}"
    if method.supervision not in get_args(Supervision):
        return f"{method.__name__}.supervision is {method.supervision!r}, not one of {', '.join(get_args(Supervision))}"
    known = parameters.list_parameters(method)
    taken = [name for name in known if hasattr(Method, name) or name == "pretrain"]
    if taken:  # the harness would overwrite a parameter called `seed`
        return f"{method.__name__}.{taken[0]} is part of the contract: remove its type, or rename it"
    if unknown := sorted(set(method.needs) - {"cores", "gpu"}):
        return f"{method.__name__}.needs has {unknown[0]!r}; it can have cores and gpu"
    return next(chain(_bad_files(method), _bad_variants(method, known)), "")


def _bad_files(method: type[Method]) -> Iterator[str]:
    names: object = method.files
    if isinstance(names, str):
        yield f"{method.__name__}.files is {names!r}: write ({names!r},)"
    elif not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
        yield f"{method.__name__}.files is {names!r}, not names of files"


def _bad_variants(method: type[Method], known: Mapping[str, Parameter]) -> Iterator[str]:
    for kind, variants in (("preset", method.presets), ("row of the ablation", method.ablation)):
        for name, values in variants.items():
            try:
                parameters.resolve(known, method.__name__, values)
            except UsageError as error:
                yield f"{kind} {name!r}: {error}"


def _is_installed(package: str) -> bool:
    try:
        _find(package)
    except ModuleNotFoundError:
        return False
    return True


@cache  # every row of a plan asks; an error is not remembered, and a notebook may install what is missing
def _find(package: str) -> None:
    if importlib.util.find_spec(package) is None:  # it raises the error itself for the parent of a dotted name
        raise ModuleNotFoundError(package)
