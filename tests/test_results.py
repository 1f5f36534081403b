import re
import shlex

import pytest

from xmcbench import UsageError
from xmcbench.choice import choices
from xmcbench.records import Staleness
from xmcbench.results import Ablated, Coverage, Results
from xmcbench.setting import Setting

EZ, HALF = Setting.of("ez"), Setting.of("fs", 0.5)


@pytest.fixture
def two(record, altered):
    """Records of the datasets Tiny, shown under `self`, and Other, under `none`."""

    def make(*names, **more):
        first = record(*names, **more)
        moved = (("cell", "dataset"), "Other"), (("protocol", "filter"), "none"), (("metrics",), {})
        if first.ok:
            moved = (*moved[:2], (("metrics",), {"none": first.metrics["self"]}))
        return [first, altered(first, *moved)]

    return make


def test_results_have_a_part_for_each_dataset_and_setting(two):
    made = [*two("a"), *two("a", setting=HALF, value=0.25), *two("b", status="failed")]
    results = Results(tuple(made), "", "runs")
    parts = results.parts()
    assert [(part.title, part.filter, len(part)) for part in parts] == [
        ("Tiny, zero-shot (no pairs)", "self", 2),
        ("Other, zero-shot (no pairs)", "none", 2),
        ("Tiny, few-shot, 50% of the labels", "self", 1),
        ("Other, few-shot, 50% of the labels", "none", 1),
    ]
    shown = [line for line in str(results).splitlines() if line]
    assert [line for line in shown if line in [part.title for part in parts]] == [part.title for part in parts]
    assert [row.figures["P@1"].value for row in results.rows() if row.figures] == [0.5, 0.5, 0.25, 0.25]
    assert [problem.partition(":")[0] for problem in results.problems()] == [
        "B, Tiny, ez, seed 0",
        "B, Other, ez, seed 0",
    ]
    shown = results._repr_html_()
    assert re.findall("<caption[^>]*><span>(.*?)[.]", shown)[:3] == [
        "Tiny, zero-shot (no pairs)",
        "Tiny, zero-shot (no pairs)",
        "Other, zero-shot (no pairs)",
    ]
    assert len(set(re.findall('<table id="(.*?)"', shown))) == shown.count("<table ") == 8
    assert repr(results) == str(results)
    assert list(results.frame()["filter"][:2]) == ["self", "none"]


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("out of luck", ": out of luck"),
        ("ValueError: no", ""),
        ("no", ""),
        ("[worker 1] ValueError: no", ""),
        ("", ""),
        (
            "Fatal Python error: Segmentation fault\n\n"
            "Thread 0x00007f6171b826c0 (most recent call first):\n"
            '  File "threading.py", line 982 in run\n\n'
            "Current thread 0x00007f6188636b80 (most recent call first):\n"
            '  File "segv.py", line 9 in fit\n'
            '  File "worker.py", line 44 in main\n\n'
            "Extension modules: numpy.core._multiarray_umath, numpy.linalg._umath_linalg (total: 2)",
            ': File "segv.py", line 9 in fit',
        ),
        ("trained\nExtension modules: numpy.core._multiarray_umath (total: 1)", ": trained"),
    ],
)
def test_a_problem_says_nothing_twice(record, altered, tmp_path, last, said):
    """The last line of its log may be a part of the reason, or hold it; that of a crash says nothing."""
    log = tmp_path / "x.log"
    log.write_text(f"{last}\n\n")
    failed = altered(record(status="failed"), (("log",), "x.log"))
    assert Results((failed,), "self", tmp_path).problems() == [
        f"TFIDF, seed 0: failed: ValueError: no (log: {log}{said})"
    ]


def test_a_row_has_its_problems_in_each_dataset_by_itself(two, altered):
    tiny, other = two("a")
    fresh = altered(other, (("method", "source_sha256"), "f" * 64))
    staleness = Staleness({"a": "f" * 64})
    stale = "stale: the method's code has changed since this result was made"
    assert Results((tiny, fresh), "", "runs", staleness).problems() == [f"A, Tiny: {stale}"]
    assert Results((tiny, other), "", "runs", staleness).problems() == [f"A: {stale}"]


def test_a_curve_of_several_datasets_is_one_for_each(two):
    made = [record for share in (0, 0.5, 1) for record in two("a", setting=Setting.at(share, "label"), value=share)]
    more = [
        pair[place] for place, pair in enumerate(two("a", setting=Setting.at(share, "label")) for share in (0.1, 0.2))
    ]
    expected = tuple((one.cell, one.name) for one in more)
    coverage = Coverage(tuple(made), "", "runs", by="label", ratios=(0, 0.5, 1), expected=expected)
    with pytest.raises(UsageError, match="there is a curve for each of Other, Tiny"):
        coverage.curve("P@1")
    curves = [part.curve("P@1") for part in coverage.parts()]
    assert [(curve.dataset, curve.filter) for curve in curves] == [("Tiny", "self"), ("Other", "none")]
    assert [curve.missing for curve in curves] == [("A at 10%",), ("A at 20%",)]


def test_a_curve_is_shown_by_its_points_and_never_as_their_mean(record):
    """Shares are not seeds."""
    made = [record("a", setting=Setting.at(share, "label"), value=share) for share in (0, 0.5, 1)]
    coverage = Coverage(tuple(made), "self", "runs", by="label", ratios=(0, 0.5, 1), metrics=("P@1",))
    head, _, line = str(coverage).partition("\n\n")
    assert head == "P@1 on Tiny, in percent, by share of the labels; filter self"
    assert [row.split() for row in line.splitlines() if row.startswith(("Method", "A "))] == [
        ["Method", "0%", "50%", "100%"],
        ["A", "0.00", "50.00", "100.00"],
    ]
    shown = coverage._repr_html_()
    assert shown.count("<table ") == shown.count("<svg ") == 1
    assert all(f"<td>{figure}</td>" in shown for figure in ("0.00", "50.00", "100.00"))
    assert [(row.seeds, row.figures["P@1"].value) for row in coverage.rows()] == [
        ((0,), value) for value in (0, 0.5, 1)
    ]


def test_the_rows_of_an_ablation_stay_with_their_dataset(two):
    by_row = {row: tuple(two("a", up=row == "on")) for row in ("on", "off")}
    made = [record for group in by_row.values() for record in group]
    changes = {"on": {"up": True}, "off": {"up": False}}
    parts = Ablated(tuple(made), "", "runs", by_row=by_row, changes=changes).parts()
    assert [[*part.by_row] for part in parts] == [["on", "off"]] * 2
    for part, dataset in zip(parts, ("Tiny", "Other"), strict=True):
        assert {record.cell.dataset for group in part.by_row.values() for record in group} == {dataset}
        assert [line.split()[:2] for line in part.tables().splitlines()[2:4]] == [["on", "yes"], ["off", "no"]]


def test_the_best_row_of_each_method(two, record, altered):
    made = [*two("a", value=0.3, k=1), *two("a", value=0.35, k=2), *two("a", value=0.6, k=3), *two("b", value=0.9)]
    lost = record("a", seed=1, status="failed", k=3)
    tiny, tiny_b, *other = choices(Results((*made, lost), "", "runs"), "P@1")
    assert (tiny.dataset, tiny.method, tiny.figure.value, tiny.rows) == ("Tiny", "a", 0.35, 2)
    assert (tiny.close, tiny.parameters) == (0, {"k": 2})
    assert str(tiny).endswith("A (k=2), 35.00 ±3.0; select it with --set a.k=2")
    assert (tiny_b.rows, tiny_b.parameters) == (1, {})
    assert [(choice.dataset, choice.figure.value) for choice in other] == [("Other", 0.6), ("Other", 0.9)]
    with_variant = [altered(made, (("method", "variant"), "small, k=2")) for made in two("c", value=0.5, k=2, steps=9)]
    assert choices(Results(tuple(with_variant), "", "runs"), "P@1")[0].parameters == {"k": 2}
    hostile = "a b; $(rm -rf ~) 'c' \"d\" `e` \x1b[2J"
    (odd, _) = choices(Results((*two("a", text=hostile), *two("a", text="x", value=0.1)), "", "runs"), "P@1")
    flags = str(odd).partition("select it with ")[2]
    assert shlex.split(flags) == ["--set", f"a.text={hostile}"]
    (near,) = choices(Results((record("a", value=0.3, k=1), record("a", value=0.34, k=2)), "self", "runs"), "P@1")
    assert (near.close, near.as_json()["close"]) == (1, 1)


def test_the_best_row_is_selected_also_by_parameters_that_its_method_describes(record, altered):
    presets = {"a": {"": {"mode": "x", "k": 1}, "quick": {"mode": "y", "k": 1}}}
    today = Staleness(presets=presets, described={"a": ("mode",)})
    made = [
        altered(record("a", value=value, mode=mode, k=k), (("method", "variant"), f"quick, mode {mode}, k={k}"))
        for value, mode, k in ((0.3, "z", 2), (0.35, "z", 3))
    ]
    (choice,) = choices(Results(tuple(made), "self", "runs", staleness=today), "P@1")
    assert choice.parameters == {"mode": "z", "k": 3}
    # What the preset has today needs no flag.
    of_preset = altered(made[1], (("cell", "parameters", "mode"), "y"))
    (choice,) = choices(Results((of_preset,), "self", "runs", staleness=today), "P@1")
    assert choice.parameters == {"k": 3}


def test_of_methods_that_find_themselves_unable_only_a_named_one_is_missed(record):
    made, missed = record("a", k=1), record("b", k=2, status="skipped")
    assert Results((made, missed), "self", "runs").ok
    assert not Results((made, missed), "self", "runs", named=frozenset(["b"])).ok
    assert Results((made, missed), "self", "runs", named=frozenset(["a"])).ok
