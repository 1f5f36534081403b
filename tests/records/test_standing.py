"""What a reader has to know of a record: stale, mixed, or scored by another protocol."""

import pytest

from xmcbench.metrics import VERSION
from xmcbench.records import Standing
from xmcbench.records.standing import figures_current, metrics_digest, valid_sources
from xmcbench.storage.canonical import sha256_json

TODAY = Standing({"tfidf": sha256_json("today")})


def checked(source):
    return {
        "source_sha256": sha256_json(source),
        "key": "0" * 64,
        "date": "2026-01-02",
        "same_ranks": 1.0,
        "largest_change": 0.0,
    }


def test_a_record_of_other_code_is_stale_unless_a_check_covers_it(record, altered):
    assert not TODAY.stale(record(code="today"))
    assert TODAY.stale(record(code="before"))
    assert not TODAY.stale(record("other", code="before"))  # not judged: its method is not here
    assert not Standing().stale(record(code="before"))
    covered = altered(record(code="before"), (("checks",), [checked("between"), checked("today")]))
    assert not TODAY.stale(covered)
    assert valid_sources(covered) == {sha256_json(code) for code in ("before", "between", "today")}
    assert TODAY.stale(altered(record(code="before"), (("checks",), [checked("between")])))


def test_other_packages_make_no_record_stale(record, altered):
    """Their versions stand in the record; whether they matter is for the reader."""
    assert not TODAY.stale(altered(record(), (("environment", "packages"), {"numpy": "0.1"})))


def test_a_record_of_another_protocol_says_so(record, altered):
    old = altered(record(), (("protocol", "version"), VERSION - 1))
    assert TODAY.problem(old) == f"stale: scored by version {VERSION - 1} of the metric protocol"
    assert TODAY.problem(record()) == ""


def test_the_problems_of_a_row_stand_once_and_seeds_of_different_code_are_mixed(record, altered):
    def problems(*codes):
        return TODAY.problems(record(seed=seed, code=code) for seed, code in enumerate(codes))

    assert problems("today", "today", "today") == problems() == ()
    assert [each.partition(":")[0] for each in problems("before", "before")] == ["stale"]
    assert [each.partition(":")[0] for each in problems("before", "earlier")] == ["stale", "mixed"]
    partly = problems("today", "before")
    assert [each.partition(":")[0] for each in partly] == ["stale", "mixed"]
    assert partly[0].endswith("(in some of its results)")
    covered = altered(record(seed=1, code="before"), (("checks",), [checked("today")]))
    assert TODAY.problems([record(seed=0), covered]) == ()


@pytest.mark.parametrize(
    ("place", "value"),
    [("version", VERSION - 1), ("source_sha256", "0" * 64), ("source_sha256", None), ("propensity", None)],
)
def test_figures_of_other_metrics_are_not_current(record, altered, place, value):
    assert figures_current(record(), (0.55, 1.5))
    assert not figures_current(altered(record(), (("protocol", place), value)), (0.55, 1.5))


def test_figures_of_other_propensities_are_not_current(record):
    assert record().protocol.source_sha256 == metrics_digest()
    assert figures_current(record())
    assert not figures_current(record(), (0.6, 2.6))


def test_a_cell_is_changed_where_a_parameter_is_not_as_its_preset_has_it(record):
    standing = Standing(presets={"tfidf": {"": {"a": 1, "b": 2}, "small": {"a": 3, "b": 2}}})
    cell = record("tfidf", a=3, b=2).cell
    assert not standing.changed(cell, "small")
    assert standing.changed(cell, "")
    assert not standing.changed(cell, "", ignored=["a"])
    # A parameter that was added later has its default.
    assert not standing.changed(record("tfidf", a=3).cell, "small")
    assert standing.changed(record("tfidf", b=2).cell, "small")
    # What is not known is not judged.
    assert not standing.changed(cell, "large")
    assert not standing.changed(record("bm25", a=9).cell, "")


def test_a_row_named_after_a_preset_is_stale_where_that_has_other_values_today(record, altered):
    presets = {"tfidf": {"": {"steps": 9, "rate": 1, "size": 5}, "small": {"steps": 3, "rate": 2, "size": 5}}}
    today = Standing(presets=presets, described={"tfidf": ("steps",)})

    def problem(variant, **parameters):
        return today.problem(altered(record("tfidf", **parameters), (("method", "variant"), variant)))

    stale = "stale: the preset small has had other values since this result was made"
    assert problem("small, 3 steps", steps=3, rate=2, size=5) == ""
    assert problem("small, 3 steps", steps=3, rate=4, size=5) == stale
    # What the name shows is no secret: a change of the preset, or a described parameter.
    assert problem("small, 3 steps, rate=4", steps=3, rate=4, size=5) == ""
    assert problem("small, 3 steps, rate=4", steps=3, rate=4, size=6) == stale
    assert problem("small, 7 steps", steps=7, rate=2, size=5) == ""
    # A parameter that was added later has its default, which is not what the preset says.
    assert problem("small, 3 steps", steps=3, size=5) == stale
    # A row without a preset shows what it changed, and a preset that is gone says nothing.
    assert problem("", steps=3, rate=4, size=5) == problem("large, 3 steps", steps=3, rate=4, size=5) == ""
