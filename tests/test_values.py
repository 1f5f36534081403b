"""Values of the core cannot be changed, and those that are read from files have declared fields only."""

import dataclasses
import importlib
import inspect
import pkgutil

import msgspec
import pytest

PACKAGES = ("metrics", "records", "runner", "storage")
MODULES = ("xmcbench.setting", "xmcbench.topk")
#: What passes between two processes of one version of the harness.
PASSED = {"Scored", "_Request", "_Answer", "TextFile", "Job", "Outcome", "Difference"}
#: Whose few fields can be given by place.
BY_PLACE = {"Setting", "TextFile", "FileDigest", "Cost", "Canary", "Row", "Data", "Stored", "Difference"}
BY_PLACE |= {"ProtocolOutcome", "StoredProtocol"}


def classes():
    names = [*MODULES]
    for package in PACKAGES:
        folder = importlib.import_module(f"xmcbench.{package}").__path__
        names += [f"xmcbench.{package}.{module.name}" for module in pkgutil.iter_modules(folder)]
    for name in names:
        for member in vars(importlib.import_module(name)).values():
            if inspect.isclass(member) and member.__module__ == name:
                yield member


VALUES = [cls for cls in classes() if dataclasses.is_dataclass(cls)]
STRUCTS = [cls for cls in classes() if issubclass(cls, msgspec.Struct)]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.__qualname__)
def test_a_value_cannot_be_changed(value):
    assert value.__dataclass_params__.frozen


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__qualname__)
def test_a_part_of_a_file_cannot_be_changed_and_has_declared_fields_only(struct):
    assert struct.__struct_config__.frozen
    assert struct.__struct_config__.forbid_unknown_fields == (struct.__name__ not in PASSED)
    kinds = {parameter.kind for parameter in inspect.signature(struct).parameters.values()}
    assert kinds <= {inspect.Parameter.KEYWORD_ONLY} or struct.__name__ in BY_PLACE
