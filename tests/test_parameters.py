import math
import re
from typing import Annotated, ClassVar, Literal

import numpy as np
import pytest
from annotated_types import Ge, Gt, Interval, Le, Lt, MultipleOf, Unit

from xmcbench import Doc, Method, UsageError
from xmcbench.errors import PluginError, UnknownName
from xmcbench.parameters import Limit, Parameter, find_undeclared, identity, list_parameters, resolve
from xmcbench.plugins.loading import from_file, from_point, point
from xmcbench.plugins.registry import Registry


class Example(Method):
    k1: float = 1.5
    steps: int = 10
    fast: bool = False
    mode: Literal["one", "two"] = "one"
    stemmer: str | None = None
    title: ClassVar[str] = "Example"
    _hidden: int = 3


def test_declares_typed_attributes_only():
    assert list(list_parameters(Example)) == ["k1", "steps", "fast", "mode", "stemmer"]
    assert list_parameters(Example)["mode"].type_name == "'one' | 'two'"
    assert list_parameters(Example)["stemmer"].type_name == "str | none"


def test_parses_text_and_checks_values():
    given = {"k1": "2", "steps": "7", "fast": "TRUE", "mode": "two", "stemmer": "english"}
    assert resolve(list_parameters(Example), "example", given) == {
        "k1": 2.0, "steps": 7, "fast": True, "mode": "two", "stemmer": "english",
    }  # fmt: skip
    assert resolve(list_parameters(Example), "example", {"k1": 3})["k1"] == 3.0
    assert resolve(list_parameters(Example), "example", {"stemmer": None})["stemmer"] is None
    assert resolve(list_parameters(Example), "example", {"stemmer": "none"})["stemmer"] is None
    swept = resolve(list_parameters(Example), "example", {"steps": np.arange(3)[2], "k1": np.float32(0.5)})
    assert [(type(value), value) for value in (swept["steps"], swept["k1"])] == [(int, 2), (float, 0.5)]
    assert resolve(list_parameters(Example), "example", {"k1": np.int64(2)})["k1"] == 2.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"k2": "1"}, r"unknown parameter 'example.k2' \(did you mean 'example.k1'\?\)"),
        ({"steps": "many"}, "example.steps = 'many' is not of type int"),
        ({"steps": "1.5"}, "is not of type int"),
        ({"steps": True}, "is not of type int"),
        ({"steps": None}, "example.steps = None is not of type int"),
        ({"k1": "nan"}, "is not a finite number"),
        ({"k1": "inf"}, "is not a finite number"),
        ({"k1": -math.inf}, "is not a finite number"),
        ({"k1": 10**400}, "is not a finite number"),
        ({"fast": "yes"}, "is not of type bool"),
        ({"mode": "tow"}, "did you mean 'two'"),
    ],
)
def test_refuses_what_does_not_fit(given, message):
    with pytest.raises(UsageError, match=message):
        resolve(list_parameters(Example), "example", given)


def test_a_method_is_made_with_its_parameters():
    method = Example(steps=3)
    assert (method.steps, method.k1) == (3, 1.5)
    assert method.parameters() == {"k1": 1.5, "steps": 3, "fast": False, "mode": "one", "stemmer": None}
    with pytest.raises(UnknownName):
        Example(step=3)


def test_a_literal_of_one_truth_value_is_kept_by_text_and_values():
    class Always(Method):
        exact: Literal[True] = True

    known = list_parameters(Always)
    assert resolve(known, "always", {"exact": "TRUE"}) == resolve(known, "always", {"exact": True}) == {"exact": True}
    for value in ("false", False):
        with pytest.raises(UnknownName, match=r"value of always.exact: 'False'"):
            resolve(known, "always", {"exact": value})


def test_a_number_of_numpy_as_a_default_is_one_of_python():
    class Numeric(Method):
        alpha: float = np.sqrt(0.25)
        steps: int = np.int64(3)

    defaults = [parameter.default for parameter in list_parameters(Numeric).values()]
    assert [(type(default), default) for default in defaults] == [(float, 0.5), (int, 3)]
    assert [type(value) for value in Numeric().parameters().values()] == [float, int]


def test_a_class_with_a_bad_declaration_is_a_plugin_error():
    class NoDefault(Method):
        alpha: float

    class Odd(Method):
        sizes: list[int] = [1]  # noqa: RUF012 - the mistake under test

    class Wrong(Method):
        alpha: float = "high"

    class Beyond(Method):
        alpha: Annotated[float, Gt(0)] = 0.0

    class Unknown(Method):
        alpha: Annotated[int, MultipleOf(3)] = 4

    class Twice(Method):
        sampler: str | None = "None"

    class Chosen(Method):
        sampler: Literal["none", "all"] | None = None

    for cls, message in (
        (NoDefault, "has no default"),
        (Twice, r"Twice.sampler can be None and 'none' \(--set could not tell them apart: use one of them\)"),
        (Chosen, "Chosen.sampler can be None and 'none'"),
        (Odd, "has the type"),
        (Wrong, "bad default"),
        (Unknown, r"Unknown.alpha has the limit MultipleOf\(multiple_of=3\) .*Ge, Gt, Le and Lt"),
        (Beyond, "bad default: Beyond.alpha = 0.0 is out of range"),
    ):
        with pytest.raises(PluginError, match=message):
            list_parameters(cls)


class Ranged(Method):
    at_least: Annotated[int, Ge(2)] = 2
    above: Annotated[float, Gt(0)] = 1.0
    at_most: Annotated[int, Le(9)] = 9
    below: Annotated[float, Lt(1)] = 0.0
    share: Annotated[float, Interval(ge=0, le=1)] = 0.5
    open: Annotated[float, Interval(gt=0, lt=1)] = 0.5
    maybe: Annotated[int | None, Ge(1)] = None
    inner: Annotated[int, Ge(1)] | None = None
    told: Annotated[int, Ge(0), Unit("steps"), Doc("of the training", "Section 5")] = 3
    plain: int = 0


@pytest.mark.parametrize(
    ("name", "inside", "outside", "words", "shown"),
    [
        ("at_least", 2, 1, "at least 2", ">= 2"),
        ("above", 1e-9, 0.0, "greater than 0", "> 0"),
        ("at_most", 9, 10, "at most 9", "<= 9"),
        ("below", 0.999, 1.0, "less than 1", "< 1"),
        ("share", 0.0, -0.1, "at least 0", ">= 0, <= 1"),
        ("share", 1.0, 1.1, "at most 1", ">= 0, <= 1"),
        ("open", 0.1, 0.0, "greater than 0", "> 0, < 1"),
        ("open", 0.9, 1.0, "less than 1", "> 0, < 1"),
        ("maybe", 1, 0, "at least 1", ">= 1"),
        ("inner", 1, 0, "at least 1", ">= 1"),
        ("told", 0, -1, "at least 0", ">= 0"),
    ],
)
def test_a_range_holds_for_values_text_and_instances(name, inside, outside, words, shown):
    assert list_parameters(Ranged)[name].range == shown
    for given in (inside, str(inside)):
        assert resolve(list_parameters(Ranged), "ranged", {name: given})[name] == inside
    assert getattr(Ranged(**{name: inside}), name) == inside
    message = rf"\.{name} = {outside!r} is out of range: it must be {words}( |$)"
    for given in (outside, str(outside)):
        with pytest.raises(UsageError, match=f"ranged{message}"):
            resolve(list_parameters(Ranged), "ranged", {name: given})
    with pytest.raises(UsageError, match=f"Ranged{message}"):
        Ranged(**{name: outside})


def test_a_limit_has_all_of_its_digits():
    assert [Limit("<=", bound).check(1e300).split()[-1] for bound in (2**32 - 1, 0.12345678, 0.0)] == [
        "4294967295", "0.12345678", "0",
    ]  # fmt: skip
    assert Parameter("x", "int", 0, limits=(Limit(">=", 1_000_001),)).range == ">= 1000001"


def test_none_is_in_every_range_that_takes_it():
    for name in ("maybe", "inner"):
        assert list_parameters(Ranged)[name].type_name == "int | none"
        assert resolve(list_parameters(Ranged), "ranged", {name: "none"})[name] is None


def test_unit_and_meaning_are_told_and_help_where_a_value_is_wrong():
    told, plain = list_parameters(Ranged)["told"], list_parameters(Ranged)["plain"]
    assert (told.unit, told.doc, told.range) == ("steps", Doc("of the training", "Section 5"), ">= 0")
    assert (plain.unit, plain.doc, plain.range) == ("", Doc(""), "")
    for wrong in (-1, "many", 1.5):
        with pytest.raises(UsageError) as caught:
            resolve(list_parameters(Ranged), "ranged", {"told": wrong})
        assert caught.value.hint == "of the training"


def test_a_subclass_inherits_a_declaration_and_may_replace_it():
    class Below(Ranged):
        told = 5
        plain: Annotated[int, Ge(7)] = 7
        above: ClassVar[float] = 2.0

    found = list_parameters(Below)
    assert (found["told"].default, found["told"].range, found["plain"].range) == (5, ">= 0", ">= 7")
    assert "above" not in found
    with pytest.raises(UsageError, match="out of range"):
        Below(told=-1)


TYPED = """
    from __future__ import annotations
    from typing import TYPE_CHECKING, ClassVar
    from xmcbench import Method

    if TYPE_CHECKING:
        from nowhere import Tower

    class Typed(Method):
        steps: int = 3
        {line}
        def fit(self, raw_X, raw_Y, pairs=None): ...
        def predict(self, raw_X, k=100): ...
"""


def test_a_private_attribute_may_have_a_type_that_only_a_type_checker_knows(plugin):
    (entry,) = from_file(plugin(TYPED.format(line="_tower: Tower | None = None"), "private.py"))
    assert list(list_parameters(entry.usable())) == ["steps"]
    (entry,) = from_file(plugin(TYPED.format(line="tower: Tower | None = None"), "public.py"))
    assert "Typed.tower: its type cannot be resolved: name 'Tower' is not defined" in entry.problem
    constant = "    from __future__ import annotations" + TYPED.format(line="tower: ClassVar[Tower | None] = None")
    (entry,) = from_file(plugin(constant.replace("TYPE_CHECKING", "TYPE_CHECKING, ClassVar", 1), "constant.py"))
    assert list(list_parameters(entry.usable())) == ["steps"]


@pytest.mark.parametrize("name", ["seed", "pretrain"])
def test_a_parameter_with_the_name_of_a_part_of_the_contract(plugin, name):
    source = TYPED.replace("TYPE_CHECKING", "TYPE_CHECKING").format(line=f"{name}: bool = True")
    (entry,) = from_file(plugin(source))
    assert f"Typed.{name} is part of the contract: remove its type, or rename it" in entry.problem


def test_a_constant_of_a_kind_that_no_parameter_has_needs_a_class_variable():
    class Holding(Method):
        memo = {}  # noqa: RUF012

    (said,) = find_undeclared(Holding, Method)
    assert said.endswith("so it is not a hyperparameter: write `memo: ClassVar = {}` for a constant")


def test_what_is_not_declared_is_said():
    class Careless(Method):
        steps = 3
        names = ("a",)
        presett: ClassVar[dict] = {}
        suppervision = "optional"
        packages: ClassVar[dict] = {}
        title = "Careless"
        size: int = 1
        constant: ClassVar[int] = 2
        _private = 4

        def method(self): ...

    class Below(Careless):
        size = 2
        width = 1.5

    said = find_undeclared(Careless, Method)
    assert [sentence.partition(" ")[0] for sentence in said] == [
        "Careless.steps",
        "Careless.names",
        "Careless.suppervision",
    ]
    assert said[0] == (
        "Careless.steps = 3 has no type, so it is not a hyperparameter: write `steps: int = 3`, "
        "or `steps: ClassVar = 3` for a constant"
    )
    assert said[2] == "Careless.suppervision is not part of the contract: did you mean 'supervision'?"
    assert [sentence.partition(" ")[0] for sentence in find_undeclared(Below, Method)] == [
        "Below.width",
        *[sentence.partition(" ")[0] for sentence in said],
    ]
    assert find_undeclared(Ranged, Method) == []


BUILT_IN = {name: from_point(point(name)).method for name in Registry().sources}
EVERY = [(name, parameter) for name, method in BUILT_IN.items() for parameter in list_parameters(method)]


def test_every_built_in_method_loads():
    assert {entry.name: entry.problem for entry in Registry() if entry.problem} == {}


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_parameter_is_declared_and_says_what_it_means(name):
    assert find_undeclared(BUILT_IN[name], Method) == []
    assert [
        parameter_name
        for parameter_name, parameter in list_parameters(BUILT_IN[name]).items()
        if not parameter.doc.text
    ] == []


@pytest.mark.parametrize(("name", "parameter"), EVERY)
def test_every_built_in_range_is_kept(name, parameter):
    found = list_parameters(BUILT_IN[name])[parameter]
    kind = {"int": int, "float": float}.get(found.kind)
    for limit in found.limits:
        beyond = {">=": limit.bound - 1, ">": limit.bound, "<=": limit.bound + 1, "<": limit.bound}[limit.sign]
        with pytest.raises(
            UsageError, match=rf"{name}\.{parameter} = .* is out of range: {re.escape(limit.check(beyond))}"
        ):
            resolve(list_parameters(BUILT_IN[name]), name, {parameter: kind(beyond)})
        if limit.sign in (">=", "<="):
            at = kind(limit.bound)
            assert resolve(list_parameters(BUILT_IN[name]), name, {parameter: at})[parameter] == at
    # A number without a range is an oversight, but where any number makes sense.
    assert found.limits or kind is None or found.choices or parameter in ("min_pseudo_score", "relevant")


def test_the_default_of_a_parameter_that_was_added_later_is_no_part_of_a_cell():
    class Grown(Method):
        k1: float = 1.5
        analyzer: Annotated[str | None, Doc("of texts", added=True)] = None

    known = list_parameters(Grown)
    assert identity(known, resolve(known, "grown", {})) == {"k1": 1.5}
    assert identity(known, resolve(known, "grown", {"analyzer": "icu"})) == {"k1": 1.5, "analyzer": "icu"}
