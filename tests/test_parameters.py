from typing import ClassVar, Literal

import pytest

from xmcbench import Method, UsageError
from xmcbench.errors import PluginError, UnknownName
from xmcbench.parameters import declared, resolve


class Example(Method):
    k1: float = 1.5
    steps: int = 10
    fast: bool = False
    mode: Literal["one", "two"] = "one"
    stemmer: str | None = None
    title: ClassVar[str] = "Example"
    _hidden: int = 3


def test_declares_typed_attributes_only():
    assert list(declared(Example)) == ["k1", "steps", "fast", "mode", "stemmer"]
    assert declared(Example)["mode"].type_name == "'one' | 'two'"
    assert declared(Example)["stemmer"].type_name == "str | none"


def test_parses_text_and_checks_values():
    given = {"k1": "2", "steps": "7", "fast": "TRUE", "mode": "two", "stemmer": "english"}
    assert resolve(Example, "example", given) == {
        "k1": 2.0, "steps": 7, "fast": True, "mode": "two", "stemmer": "english",
    }  # fmt: skip
    assert resolve(Example, "example", {"k1": 3})["k1"] == 3.0
    assert resolve(Example, "example", {"stemmer": None})["stemmer"] is None
    assert resolve(Example, "example", {"stemmer": "none"})["stemmer"] is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"k2": "1"}, r"unknown parameter 'example.k2' \(did you mean 'example.k1'\?\)"),
        ({"steps": "many"}, "example.steps = 'many' is not of type int"),
        ({"steps": "1.5"}, "is not of type int"),
        ({"steps": True}, "is not of type int"),
        ({"k1": "nan"}, "is no finite number"),
        ({"k1": "inf"}, "is no finite number"),
        ({"fast": "yes"}, "is not of type bool"),
        ({"mode": "tow"}, "did you mean 'two'"),
    ],
)
def test_refuses_what_does_not_fit(given, message):
    with pytest.raises(UsageError, match=message):
        resolve(Example, "example", given)


def test_a_method_is_made_with_its_parameters():
    method = Example(steps=3)
    assert (method.steps, method.k1) == (3, 1.5)
    with pytest.raises(UnknownName):
        Example(step=3)


def test_a_class_with_a_bad_declaration_is_a_plugin_error():
    class NoDefault(Method):
        alpha: float

    class Odd(Method):
        sizes: list[int] = [1]  # noqa: RUF012 - the mistake under test

    class Wrong(Method):
        alpha: float = "high"

    for cls, message in ((NoDefault, "has no default"), (Odd, "is of type"), (Wrong, "bad default")):
        with pytest.raises(PluginError, match=message):
            declared(cls)
