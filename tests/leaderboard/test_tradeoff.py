"""Quality against cost: what is on a front, what is drawn together, and how it is drawn."""

import csv
import io
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xmcbench.leaderboard.blocks import Figures
from xmcbench.leaderboard.figure import draw
from xmcbench.leaderboard.files import files
from xmcbench.leaderboard.pages import pages
from xmcbench.leaderboard.rows import Cost, Estimate, Row
from xmcbench.leaderboard.tradeoff import Tradeoff, TradePoint, as_csv, tradeoffs
from xmcbench.setting import Setting

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert(1)</script> | `x` \\input{x} \" ' \u202e </svg>"


def point(name, value, fit_s, predict_ms=1.0, marks=()):
    return TradePoint(name, value, 0.01, fit_s, predict_ms, (0,), marks)


def figure(*points):
    return Tradeoff("Tiny", Setting.of("ez"), "P@1", "self", "a machine, 2 cores", "tiny-ez-p1", points)


def test_what_another_row_beats_is_not_on_the_front():
    made = figure(
        point("slow and best", 0.9, 100),
        point("as good, slower", 0.9, 200),
        point("cheap", 0.5, 1),
        point("as cheap, worse", 0.4, 1),
        point("between, worse than cheap", 0.45, 10),
        point("between", 0.6, 10),
        point("equal to between", 0.6, 10),
    )
    assert [each.name for each in made.front(0)] == ["cheap", "between", "equal to between", "slow and best"]


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12))
def test_a_front_is_what_no_row_dominates(pairs):
    made = figure(*(point(f"{place}", value, cost) for place, (value, cost) in enumerate(pairs)))
    front = {each.name for each in made.front(0)}
    for place, (value, cost) in enumerate(pairs):
        beaten = any(v >= value and c <= cost and (v, c) != (value, cost) for v, c in pairs)
        assert (f"{place}" in front) == (not beaten)


def test_the_fit_holds_what_was_reused():
    def row(name, value, cost):
        figures = dict.fromkeys(("P@1", "R@100"), Estimate(value, 0.01, None))
        return Row(name, {}, (0,), figures, {}, {"m": cost}), cost

    first = row("a", 0.5, Cost(1.0, 20.0, 0.5, 1, None))
    others = [row("b", 0.6, Cost(2.0, 0.0, 0.5, 1, None)), row("c", 0.1, Cost(3.0, 0.0, 0.5, 1, None))]
    arguments = "Tiny", Setting.of("ez"), "self", "m", "tiny-ez"
    made, recall = tradeoffs([first, *others], *arguments)
    assert [(each.name, each.fit_s) for each in made.points] == [("b", 2.0), ("a", 21.0), ("c", 3.0)]
    assert [each.name for each in made.front(0)] == ["b"]
    assert (made.stem, recall.metric) == ("tiny-ez-p1", "R@100")
    assert tradeoffs([first, others[0]], *arguments) == ()


def test_a_drawing_is_of_one_class_of_machine(record, altered):
    """Other processors, threads or neighbors, and threads that are not recorded, have drawings of their own."""

    def noted(name, threads, neighbors=0):
        compute = {"device": "auto", "processes": 1, "threads": threads}
        return altered(record(name), (("environment", "compute"), compute), (("measured", "neighbors"), neighbors))

    records = [noted(f"{kind}{i}", *how) for kind, how in (("a", (2, 0)), ("b", (1, 0)), ("c", (2, 1))) for i in "123"]
    records += [record(f"d{i}") for i in "123"] + [record(f"e{i}", processor="Q") for i in "12"]
    page = next(page for page in pages(records) if page.name == "tiny")
    drawn = [each for block in page.blocks if isinstance(block, Figures) for each in block.figures]
    found = {each.machine: [one.name for one in each.points] for each in drawn if isinstance(each, Tradeoff)}
    kind = records[0].environment.hardware.kind
    assert found == {
        kind: ["A1", "A2", "A3"],
        f"{kind}, 1 thread per cell": ["B1", "B2", "B3"],
        f"{kind}, beside 1 other cell": ["C1", "C2", "C3"],
        f"{kind}, threads not recorded": ["D1", "D2", "D3"],
    }
    assert len({each.stem for each in drawn}) == len(drawn)


def test_a_stale_row_is_marked_in_the_drawing_and_in_the_points():
    made = figure(point("old", 0.9, 1, marks=("stale",)), point("new", 0.5, 2), point("third", 0.4, 3))
    texts = [each.text for each in ET.fromstring(draw(made)).iter(f"{SVG}text")]
    assert "old\u2020" in texts
    assert "new" in texts
    lines = list(csv.DictReader(io.StringIO(as_csv(made))))
    assert [(each["method"], each["on_fit_front"], each["marks"]) for each in lines] == [
        ("old", "yes", "stale"),
        ("new", "no", ""),
        ("third", "no", ""),
    ]
    assert lines[0]["value"] == "90.0000"


def test_the_front_is_told_in_words_and_in_bold():
    made = figure(point("best", 0.9, 10, 5), point("fast", 0.5, 1, 3), point("quick to ask", 0.4, 20, 1))
    root = ET.fromstring(draw(made))
    assert "fast (50.00; 1), best (90.00; 10)." in root.find(f"{SVG}desc").text
    assert "quick to ask (40.00; 1), fast (50.00; 3), best (90.00; 5)." in root.find(f"{SVG}desc").text
    bold = [each.text for each in root.iter(f"{SVG}text") if each.get("font-weight")]
    assert bold[1:] == ["best", "fast", "quick to ask"]
    below = figure(point("best", 0.9, 10), point("worse", 0.5, 20), point("worst", 0.4, 30))
    bold = [each.text for each in ET.fromstring(draw(below)).iter(f"{SVG}text") if each.get("font-weight")]
    assert bold[1:] == ["best"]


POINTS = st.lists(
    st.builds(
        point,
        st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1, max_size=90).filter(str.strip),
        st.floats(0, 1),
        st.floats(0, 1e9),
        st.floats(0, 1e9),
    ),
    min_size=3,
    max_size=12,
    unique_by=lambda each: each.name,
)


@settings(max_examples=30)
@given(POINTS)
def test_any_rows_are_drawn_with_nothing_cut_or_overlapping(check_boxes, points):
    drawing = draw(figure(*points))
    check_boxes(drawing)
    assert drawing == draw(figure(*points))


@pytest.mark.parametrize("count", [3, 30])
def test_rows_in_one_place_have_numbers_that_can_be_read(check_boxes, count):
    check_boxes(draw(figure(*(point(f"row {place}", 0.4, 60, 5) for place in range(count)))))


def test_names_are_inert(record, altered):
    records = [
        altered(record(name), (("method", "title"), f"{HOSTILE}{name}"), (("method", "variant"), HOSTILE))
        for name in "abc"
    ]
    records = [altered(each, (("environment", "hardware", "processor"), HOSTILE)) for each in records]
    made = files(pages(records))
    stems = [name for name in made if "efficiency" in name]
    assert sorted(name.rpartition(".")[2] for name in stems) == ["csv", "csv", "svg", "svg"]
    for name in stems:
        assert "\u202e" not in made[name]
        if name.endswith(".svg"):
            root = ET.fromstring(made[name])
            assert {each.tag.removeprefix(SVG) for each in root.iter()} <= {
                "svg",
                "title",
                "desc",
                "style",
                "rect",
                "text",
                "path",
            }
    formula = replace(point("=1+1", 0.5, 1), marks=("@x",))
    assert "'=1+1" in as_csv(figure(formula))
    assert "'@x" in as_csv(figure(formula))
