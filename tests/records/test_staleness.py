"""Problems of a record that a reader has to know, and which sources give equal results."""

import pytest

from xmcbench.errors import StorageError
from xmcbench.metrics import VERSION
from xmcbench.records import Staleness, equivalence
from xmcbench.records.equivalence import (
    FILE,
    METRICS,
    RANKS,
    Evidence,
    equal_sources,
    read_equivalence,
    read_file,
    with_evidence,
    write_file,
)
from xmcbench.records.staleness import metrics_digest, ranks_digest
from xmcbench.storage.canonical import canonical_json, sha256_json
from xmcbench.storage.source import join_digests

TODAY = Staleness({"tfidf": sha256_json("today")})


def test_a_record_of_other_code_is_stale(record):
    assert not TODAY.is_stale(record(code="today"))
    assert TODAY.is_stale(record(code="before"))
    assert not TODAY.is_stale(record("other", code="before"))  # not judged: its method is not here
    assert not Staleness().is_stale(record(code="before"))


def test_a_rerun_of_a_method_with_its_parts_covers_what_its_joined_source_is_equal_to(record, altered):
    """A rerun names the joined source of its day; each part has changed since, with results known to be equal."""
    joined = join_digests([sha256_json("hybrid"), sha256_json("between")], canonical_json([{}]))
    old = altered(record("hybrid"), (("method", "source_sha256"), sha256_json("before")))
    lists = {
        "tfidf": (make_list("between", "today"),),
        "hybrid": ((evidence(joined, "first"), evidence(sha256_json("before"), "reruns")),),
    }
    sources = {"hybrid": sha256_json("hybrid"), "tfidf": sha256_json("today")}
    through = [("hybrid", {}), ("tfidf", {})]
    assert Staleness(sources, lambda cell: through, equivalence={"tfidf": lists["tfidf"]}).is_stale(old)
    today = Staleness(sources, lambda cell: through, equivalence=lists)
    assert (today.is_stale(old), today.evidence(old)) == (False, "equal when rerun")


def evidence(source, kind="canaries"):
    return Evidence(source=source, kind=kind, date="2026-01-02", processor="P", outcome="equal on 3 canaries")


def make_list(first, *codes, kind="canaries"):
    """A list of sources with equal results, the first one first."""
    return (evidence(first and sha256_json(first), "first"), *(evidence(sha256_json(code), kind) for code in codes))


def test_a_part_that_grew_a_parameter_makes_no_record_stale(record, altered):
    """Records have its default among the values of the part, or lack it; another value is another result."""
    sources = {"hybrid": sha256_json("hybrid"), "tfidf": sha256_json("tfidf")}
    presets = {"tfidf": {"": {"ngrams": 2, "analyzer": None}}}
    today = Staleness(sources, lambda cell: [("hybrid", {}), ("tfidf", {"ngrams": 1})], presets)

    def made_with(values):
        joined = join_digests([*sources.values()], canonical_json([values]))
        return altered(record("hybrid"), (("method", "source_sha256"), joined))

    for values in ({"ngrams": 1}, {"ngrams": 1, "analyzer": None}):
        assert not today.is_stale(made_with(values))
        assert today.evidence(made_with(values)) == "same code"
    assert today.is_stale(made_with({"ngrams": 1, "analyzer": "icu"}))
    assert today.is_stale(made_with({"ngrams": 2}))


def test_a_record_of_code_that_is_known_to_give_the_same_is_fresh(record):
    linked = Staleness(TODAY.sources, equivalence={"tfidf": (make_list("before", "today"), make_list("a", "b"))})
    assert [linked.evidence(record(code=code)) for code in ("today", "before", "a")] == [
        "same code",
        "equal on canaries",
        "stale",
    ]
    rerun = Staleness(TODAY.sources, equivalence={"tfidf": (make_list("before", "today", kind="reruns"),)})
    assert rerun.evidence(record(code="before")) == "equal when rerun"
    assert rerun.evidence(record("other")) == "not judged"
    assert rerun.problems([record(seed=0, code="before"), record(seed=1)]) == ()
    elsewhere = Staleness(TODAY.sources, equivalence={"bm25": (make_list("before", "today"),)})
    assert elsewhere.is_stale(record(code="before"))


def test_code_that_is_equal_to_other_code_alone_is_stale_and_not_mixed(record):
    staleness = Staleness(TODAY.sources, equivalence={"tfidf": (make_list("a", "b"),)})
    found = staleness.problems([record(seed=0, code="a"), record(seed=1, code="b")])
    assert [problem.partition(":")[0] for problem in found] == ["stale"]


def test_a_result_with_parts_is_fresh_where_all_of_them_give_the_same(record, altered):
    sources = {name: sha256_json(f"{name} today") for name in ("tfidf", "outer")}
    through = [("outer", {}), ("tfidf", {"k": 1})]
    before = join_digests([sha256_json("outer before"), sha256_json("tfidf before")], canonical_json([{"k": 1}]))
    made = altered(record("outer"), (("method", "source_sha256"), before))

    def evidence(*lists):
        equivalence = {name: (make_list(f"{name} before", f"{name} today"),) for name in lists}
        return Staleness(sources, lambda cell: through, equivalence=equivalence).evidence(made)

    assert [evidence(), evidence("tfidf"), evidence("outer"), evidence("outer", "tfidf")] == [
        "stale",
        "stale",
        "stale",
        "equal on canaries",
    ]


@pytest.mark.parametrize("before", [None, "earlier"])
def test_ranks_of_other_code_are_stale_unless_it_is_known_to_make_the_same(record, altered, before):
    other = altered(record(), (("ranks", "source_sha256"), before and sha256_json(before)))
    assert not TODAY.is_stale(record())
    assert TODAY.is_stale(other)
    assert TODAY.problem(other) == "stale: the code that makes ranks has changed since this result was made"
    same = (*make_list(before, "x"), evidence(ranks_digest()))
    assert not Staleness(TODAY.sources, equivalence={RANKS: (same,)}).is_stale(other)


def test_figures_of_metrics_that_are_known_to_give_the_same_are_current(record, altered):
    other = altered(record(), (("protocol", "source_sha256"), sha256_json("before")))
    same = (*make_list("before"), evidence(metrics_digest()))
    assert Staleness(equivalence={METRICS: (same,)}).has_current_figures(other)


def test_other_packages_make_no_record_stale(record, altered):
    """Their versions stand in the record; whether they matter is for the reader."""
    assert not TODAY.is_stale(altered(record(), (("environment", "packages"), {"numpy": "0.1"})))


def test_a_record_of_another_protocol_says_so(record, altered):
    old = altered(record(), (("protocol", "version"), VERSION - 1))
    assert TODAY.problem(old) == f"stale: scored by version {VERSION - 1} of the metric protocol"
    assert TODAY.problem(record()) == ""


def test_the_problems_of_a_row_stand_once_and_seeds_of_different_code_are_mixed(record):
    def problems(*codes):
        return TODAY.problems(record(seed=seed, code=code) for seed, code in enumerate(codes))

    assert problems("today", "today", "today") == problems() == ()
    assert [problem.partition(":")[0] for problem in problems("before", "before")] == ["stale"]
    assert [problem.partition(":")[0] for problem in problems("before", "earlier")] == ["stale", "mixed"]
    partly = problems("today", "before")
    assert [problem.partition(":")[0] for problem in partly] == ["stale", "mixed"]
    assert partly[0].endswith("(in some of its results)")
    known = Staleness(TODAY.sources, equivalence={"tfidf": (make_list("before", "today"),)})
    assert known.problems([record(seed=0), record(seed=1, code="before")]) == ()


@pytest.mark.parametrize(("place", "value"), [("version", VERSION - 1), ("source_sha256", "0" * 64)])
def test_figures_of_other_metrics_are_not_current(record, altered, place, value):
    assert TODAY.has_current_figures(record(), (0.55, 1.5))
    assert not TODAY.has_current_figures(altered(record(), (("protocol", place), value)), (0.55, 1.5))


def test_figures_of_other_propensities_are_not_current(record):
    assert record().protocol.source_sha256 == metrics_digest()
    assert TODAY.has_current_figures(record())
    assert not TODAY.has_current_figures(record(), (0.6, 2.6))


def test_a_cell_is_changed_where_a_parameter_is_not_as_its_preset_has_it(record):
    staleness = Staleness(presets={"tfidf": {"": {"a": 1, "b": 2}, "small": {"a": 3, "b": 2}}})
    cell = record("tfidf", a=3, b=2)
    assert not staleness.has_changed(cell, "small")
    assert staleness.has_changed(cell, "")
    assert not staleness.has_changed(cell, "", ignored=["a"])
    # A parameter that was added later has its default.
    assert not staleness.has_changed(record("tfidf", a=3), "small")
    assert staleness.has_changed(record("tfidf", b=2), "small")
    # What is not known is not judged.
    assert not staleness.has_changed(cell, "large")
    assert not staleness.has_changed(record("bm25", a=9), "")


def test_a_row_named_after_a_preset_is_stale_where_that_has_other_values_today(record, altered):
    presets = {"tfidf": {"": {"steps": 9, "rate": 1, "size": 5}, "small": {"steps": 3, "rate": 2, "size": 5}}}
    today = Staleness(presets=presets, described={"tfidf": ("steps",)})

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


ONE, TWO, THREE = ("1" * 64, "2" * 64, "3" * 64)


def test_a_file_is_read_as_it_was_written(tmp_path):
    lists = {"tfidf": ((evidence(ONE, "first"), evidence(TWO)),), "ranks": ((evidence(None, "first"), evidence(TWO)),)}
    write_file(tmp_path / FILE, lists)
    assert read_file(tmp_path / FILE) == lists
    assert read_file(tmp_path / "elsewhere" / FILE) == {}


@pytest.mark.parametrize("content", ["", "[]", '{"tfidf": [[{}]]}', '{"tfidf": [[{"source": "short"}]]}', "{"])
def test_a_damaged_file_is_named(tmp_path, content):
    (tmp_path / FILE).write_text(content)
    with pytest.raises(StorageError, match=FILE):
        read_equivalence(tmp_path)


def test_the_lists_of_several_folders_stand_side_by_side(tmp_path, monkeypatch):
    board, own = tmp_path / "board", tmp_path / "own"
    monkeypatch.setattr(equivalence, "find_shipped", lambda name: board)
    for folder, listed in ((board, (evidence(ONE), evidence(TWO))), (own, (evidence(TWO), evidence(THREE)))):
        folder.mkdir()
        write_file(folder / FILE, {"tfidf": (listed,)})
    found = read_equivalence(own, board)
    assert equal_sources(found, "tfidf", ONE) == {ONE, TWO}
    assert equal_sources(found, "tfidf", TWO) == {ONE, TWO, THREE}
    assert equal_sources(found, "bm25", TWO) == {TWO}
    assert equal_sources(read_equivalence(board), "tfidf", THREE) == {THREE}


def sources(equivalence):
    return [[entry.source for entry in listed] for listed in equivalence["tfidf"]]


def test_a_source_goes_into_the_list_of_an_earlier_one():
    one = with_evidence({}, "tfidf", ONE, evidence(TWO))
    assert sources(one) == [[ONE, TWO]]
    assert [entry.kind for entry in one["tfidf"][0]] == ["first", "canaries"]
    assert sources(with_evidence(one, "tfidf", TWO, evidence(THREE))) == [[ONE, TWO, THREE]]
    assert sources(with_evidence(one, "tfidf", THREE, evidence("4" * 64))) == [[ONE, TWO], [THREE, "4" * 64]]
    again = with_evidence(one, "tfidf", ONE, Evidence(source=TWO, kind="reruns", date="2026-02-03", processor="P"))
    assert [(entry.source, entry.kind) for entry in again["tfidf"][0]] == [(ONE, "first"), (TWO, "reruns")]
    assert with_evidence(one, "bm25", None, evidence(TWO))["tfidf"] == one["tfidf"]
