"""Charts: which rows they show, what is on the Pareto front, and that everything on them can be read."""

import itertools
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xmcbench.leaderboard import canvas, charts
from xmcbench.leaderboard.blocks import CHARTS, Figures, Page, with_few_charts
from xmcbench.leaderboard.files import files
from xmcbench.leaderboard.groups import by_setting
from xmcbench.leaderboard.lines import Axis, Line, Lines, Point
from xmcbench.leaderboard.losses import loss_charts
from xmcbench.leaderboard.pages import pages
from xmcbench.leaderboard.points import Ranking, Scatter, Spot
from xmcbench.leaderboard.rows import rows
from xmcbench.records import Staleness
from xmcbench.setting import Setting

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert(1)</script> | `x` \\input{x} \" ' \u202e </svg>"
EZ, FEW = Setting.of("ez"), Setting.of("fs", 0.01)
TAGS = {"svg", "title", "desc", "style", "rect", "text", "path"}


def texts(chart):
    return [element.text for element in ET.fromstring(chart.draw()).iter(f"{SVG}text")]


def description(chart):
    return ET.fromstring(chart.draw()).find(f"{SVG}desc").text


def tooltips(chart):
    return [path.find(f"{SVG}title").text for path in ET.fromstring(chart.draw()).iter(f"{SVG}path") if len(path)]


def table(chart):
    head, *lines = chart.points()
    return [dict(zip(head, line, strict=True)) for line in lines]


def charts_of(page):
    return [chart for block in page.blocks if isinstance(block, Figures) for chart in block.charts]


class Stale(Staleness):
    def problems(self, records):
        return ("stale",) if any(record.cell.method == "ict" for record in records) else ()

    def problem(self, record):
        return "stale" if record.cell.method == "ict" else ""


# Selection


def at(record, method, *ratios, value=0.5, **more):
    return [record(method, setting=Setting.at(ratio, "label"), value=value, **more) for ratio in ratios]


def test_a_chart_has_one_row_per_method_and_the_best_eight(record, altered):
    made = [found for place in range(10) for found in at(record, f"m{place}", 0, 0.01, 1, value=place / 20)]
    better = [
        altered(found, (("method", "variant"), "another"))  # fewer results than the row of the same method
        for found in at(record, "m9", 0, 1, value=0.9, k=2)
    ]
    flat = record("flat", value=0.01, supervision="unused")
    (chart, *_) = charts.of_dataset(by_setting([*made, *better, flat]), "self", Staleness())
    assert [line.name for line in chart.lines] == [*(f"M{place}" for place in range(9, 2, -1)), "FLAT"]
    assert chart.lines[-1].flat
    assert chart.lines[0].points[0].value == pytest.approx(45)


def test_charts_are_in_a_section_of_their_own(record):
    """The losses of a training are drawn where there is no curve over shares of labels."""
    note = {"losses": ["l"], "curve": [[1, 2.0], [2, 1.0]]}
    made = [
        record(name, setting=setting, notes={f"stage {number}": note for number in range(5)})
        for name in "abc"
        for setting in (EZ, FEW, Setting.of("full"))
    ]
    page = next(page for page in pages(made) if page.name == "tiny")
    found = charts_of(page)
    assert [chart.stem for chart in found] == ["tiny-label-r100", "tiny-label-p5", "tiny-cost-p1"]
    drawn = files([page])
    assert [name for name in drawn if name != "tiny.md"] == [f"figures/{chart.stem}.svg" for chart in found]
    assert "\n## Charts\n" in drawn["tiny.md"]
    assert "![P@1 against time, Tiny, zero-shot (no pairs)](figures/tiny-cost-p1.svg)" in drawn["tiny.md"]
    assert f"figures/{found[0].stem}.csv" in files([page], "csv")
    zero_shot = next(page for page in pages([one for one in made if one.cell.setting == EZ]) if page.name == "tiny")
    assert [chart.stem for chart in charts_of(zero_shot)] == ["tiny-cost-p1", "tiny-training-stage-0-l"]
    several = Figures((*found, *charts_of(zero_shot)))
    few = with_few_charts(Page("x", "x", (several, "text", several)))
    assert (len(charts_of(few)), few.blocks[1:]) == (CHARTS, ("text",))


def test_a_method_has_one_look_on_all_charts():
    colors = {title: canvas.look(title) for title in canvas._METHODS}
    assert len({*colors.values()}) == len(colors)
    assert canvas.look("MACLR (small, 20 steps)\u2020") == canvas.look("MACLR") != canvas.look("ICT")
    assert canvas.look("a plug-in (x)") == canvas.look("a plug-in")


def test_rows_of_one_method_are_told_apart():
    names = ["ICT (small)", "ICT (hour, all-MiniLM-L6-v2, 1600 steps)", "BM25 (lucene)\u2020"]
    assert canvas.short_names(names) == ["ICT (small)", "ICT (hour, all-MiniLM-L6-v2,\u2026", "BM25\u2020"]
    line = Line("ICT (small)", ((Point(0, 1, 1, 1), Point(1, 2, 2, 2)),))
    chart = lines_of(line, replace(line, name=names[1]))
    dashes = [path.get("stroke-dasharray") for path in ET.fromstring(chart.draw()).iter(f"{SVG}path")]
    assert dashes.count("7 4") == 1


def test_a_pointer_on_a_point_or_a_line_shows_its_values():
    line = Line("ICT (small, a name that is cut off beside it)", ((Point(0, 1, 1, 1), Point(1, 2.5, 2, 3)),))
    flat = Line("flat", ((Point(0, 1.5, 1.5, 1.5),),), flat=True)
    name = line.name
    assert tooltips(lines_of(line, flat)) == [
        name,
        f"{name}: 1 at first",
        f"{name}: 2.5 at last",
        "flat: 1.5 everywhere",
    ]
    assert tooltips(scatter(spot("a", 50, 10), spot("b <i>", 40, 1234))) == [
        "a: 50.00 at 10",
        "b <i>: 40.00 at 1.23e+03",
    ]
    ranking = Ranking(stem="x", title="x", foot="x", label="rank", spots=(Spot("a", 1.5, 1, 1, 2),))
    assert tooltips(ranking) == ["a: 1.50 (1.00 to 2.00)"]


# Quality against time


def spot(name, value, cost):
    return Spot(name, value, cost)


def scatter(*spots):
    return Scatter(stem="x", title="x", foot="x", label="seconds", spots=spots)


def test_what_another_row_beats_is_not_on_the_front():
    chart = scatter(
        spot("slow and best", 90, 100),
        spot("as good, slower", 90, 200),
        spot("cheap", 50, 1),
        spot("as cheap, worse", 40, 1),
        spot("between, worse than cheap", 45, 10),
        spot("between", 60, 10),
        spot("equal to between", 60, 10),
    )
    assert [point.name for point in chart.front()] == ["cheap", "between", "equal to between", "slow and best"]
    assert "cheap (50.00; 1), between (60.00; 10)" in description(chart)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=12))
def test_a_front_is_what_no_row_dominates(pairs):
    front = {point.name for point in scatter(*(spot(f"{i}", *pair) for i, pair in enumerate(pairs))).front()}
    for place, (value, cost) in enumerate(pairs):
        beaten = any(v >= value and c <= cost and (v, c) != (value, cost) for v, c in pairs)
        assert (f"{place}" in front) == (not beaten)


def test_times_hold_everything_and_rows_of_other_machines_are_told_apart(record, altered):
    """Reused artifacts and the predictions for all test instances count. A row has its time on the usual machine."""

    def with_times(name, value, **measured):
        parts = ((("measured", key), value) for key, value in measured.items())
        return altered(record(name, value=value), *parts)

    fast = with_times("a", 0.5, wall_s={"fit": 1.0}, reused_s=20.0, predict_ms_per_instance=500.0)
    others = [
        with_times(name, 0.4, wall_s={"fit": 2.0}, reused_s=0.0, predict_ms_per_instance=0.0) for name in ("b", "c")
    ]
    elsewhere = [record(name, processor="Q") for name in ("a", "d")]
    chart = charts.tradeoff({EZ: [fast, *others, *elsewhere]}, "self")
    tests = fast.counts["test"]
    (row,) = rows([elsewhere[1]], "self")
    (cost,) = row.costs.values()
    other = cost.fit_s + cost.reused_s + cost.predict_ms * tests / 1000
    assert {point.name: (point.cost, point.elsewhere) for point in chart.spots} == {
        "A": (21 + tests / 2, False),
        "B": (2.0, False),
        "C": (2.0, False),
        "D": (pytest.approx(other), True),
    }
    assert "Filled: P, 2 cores. Hollow: Q, 2 cores." in chart.foot
    assert charts.tradeoff({EZ: [fast, others[0]]}, "self") is None
    far = [with_times(name, 0.1, wall_s={"fit": 2.0}) for name in "bc"]
    assert charts.tradeoff({EZ: [fast, *far]}, "self") is None


def test_a_chart_of_costs_has_methods_that_ignore_pairs_and_no_changed_parameters(record, altered):
    few = Setting.of("fs", 0.01)
    ignores = record("ignores", value=0.4, supervision="unused")
    made = [record(name, value=0.5, setting=few) for name in ("a", "b", "c")]
    changed = altered(record("d", value=0.6, setting=few, k=1), (("method", "variant"), "k=1"))
    chart = charts.tradeoff({EZ: [ignores], few: [*made, changed]}, "self")
    assert sorted(spot.name for spot in chart.spots) == ["A", "B", "C", "IGNORES"]


def test_stale_rows_and_those_far_below_the_others_are_named(record):
    made = [record("ict", value=0.8), record("a", value=0.7), record("b", value=0.6), record("c", value=0.1)]
    chart = charts.tradeoff({EZ: made}, "self", Stale())
    assert [point.name for point in chart.spots] == ["ICT\u2020", "A", "B"]
    assert "Below two thirds of the best: C 10.0. \u2020: see the notes of the table." in chart.foot


@pytest.mark.parametrize("count", [3, 30])
def test_rows_in_one_place_have_names_that_can_be_read(check_boxes, count):
    check_boxes(scatter(*(spot(f"row {place}", 40, 60) for place in range(count))).draw())


# Budgets


@pytest.fixture
def trained(record, altered):
    """A record of a method that embedded so many texts."""

    def make(method, steps, value, seed=0, note=None, **parameters):
        note = {"texts": 64 * steps, "parameters": ["steps"]} if note is None else note
        made = record(method, seed, value, notes={"budget": note}, steps=steps, **parameters)
        variant = ", ".join(
            ["small", f"{steps} steps of 32", *(f"{name}={value}" for name, value in parameters.items())]
        )
        return altered(made, (("method", "variant"), variant))

    return make


def test_rows_that_differ_in_their_budget_are_one_line(trained):
    records = [trained("ict", steps, 0.1 + steps / 1000, seed) for steps in (0, 60, 240) for seed in (0, 1)]
    records[1] = trained("ict", 0, 0.3, 1)
    records += [trained("rts", steps, 0.2, k=3) for steps in (60, 240)]  # two budgets
    records += [trained("maclr", steps, 0.4, k=k) for steps in (0, 60, 120) for k in (1, 2)]
    chart = charts.budget(records, "self")
    assert [canvas.title_of(line.name) for line in chart.lines] == ["MACLR", "ICT"]
    ict = chart.lines[1]
    assert ict.name == "ICT (small)"
    (point, *_) = ict.points
    assert (point.x, point.value, point.low, point.high) == (0, pytest.approx(20), 10, 30)
    assert [words for _, words in chart.axis.ticks] == ["0", "3.84K", "7.68K", "15.4K"]
    assert [line["x"] for line in table(chart) if line["line"] == "ICT (small)"] == ["0", "1", "2.321928095"]
    assert table(chart)[0]["value"] == "40"


def test_rows_of_one_budget_are_one_point(trained):
    """Seeds may embed a few texts more or less, where a batch has all pairs that one of them found."""
    notes = [{"texts": texts, "parameters": ["steps"]} for texts in (140, 144, 290, 280)]
    records = [trained("ict", 60, 0.1, 0, notes[0]), trained("ict", 60, 0.3, 1, notes[1])]
    records += [trained("ict", 120, 0.4, 0, notes[2]), trained("ict", 120, 0.4, 1, notes[3])]
    assert charts.budget(records, "self") is None  # two budgets
    (line,) = charts.budget([*records, trained("ict", 0, 0.2)], "self").lines
    assert [(point.value, point.low, point.high) for point in line.points] == [
        (pytest.approx(20), 20, 20),
        (pytest.approx(20), 10, 30),
        (pytest.approx(40), 40, 40),
    ]


def test_names_that_coincide_are_told_apart(trained, altered):
    records = [trained("ict", steps, 0.1, k=k) for steps in (0, 60, 240) for k in (1, 2)]
    records = [altered(found, (("method", "variant"), "small")) for found in records]
    assert charts.budget(records, "self").lines[0].name in ("ICT (small), k=1", "ICT (small), k=2")


def test_budgets_have_a_logarithmic_axis_and_stale_rows_a_dagger(trained, check_boxes):
    records = [trained("ict", steps, 0.1 + steps / 9000) for steps in (0, 60, 120, 240, 480, 1620, 1630)]
    chart = charts.budget(records, "self", Stale())
    check_boxes(chart.draw())
    assert texts(chart).count("104K") == 1, "ticks that would overlap are left out"
    assert "stale or mixed" in chart.foot
    assert "ICT\u2020" in texts(chart)


@pytest.mark.parametrize(
    "note",
    [
        7,
        {},
        {"texts": 5},
        {"texts": -1, "parameters": []},
        {"texts": 1.5, "parameters": []},
        {"texts": 1, "parameters": [1]},
    ],
)
def test_other_notes_of_that_name_are_no_budget(trained, note):
    assert charts.budget([trained("ict", steps, 0.1, note=note) for steps in (0, 60, 120)], "self") is None


def test_failed_rows_have_no_budget(trained, record):
    failed = [record("ict", status="failed", steps=steps) for steps in (0, 60)]
    assert charts.budget([*failed, *(trained("ict", steps, 0.1) for steps in (120, 240))], "self") is None


# Losses


def a_training(points, *losses):
    return {"losses": [*losses], "curve": [[step, *values] for step, *values in points], "batch": 32}


def test_a_loss_is_the_mean_over_seeds_with_the_lowest_and_the_highest(record):
    first, second = loss_charts(
        [
            record(seed=0, notes={"stage I": a_training([(1, 2.0, 0.5), (2, 1.0, 0.4)], "cluster", "label")}),
            record(seed=1, notes={"stage I": a_training([(1, 3.0, 0.5), (2, 2.0, 0.4)], "cluster", "label")}),
            record(seed=2, status="failed"),
            record("untrained"),
        ],
        "stem",
    )
    assert (first.stem, second.stem) == ("stem-stage-i-cluster", "stem-stage-i-label")
    assert first.title == "Loss (cluster) in stage I, Tiny"
    assert first.lines == (Line("TFIDF", ((Point(1, 2.5, 2.0, 3.0), Point(2, 1.5, 1.0, 2.0)),)),)
    assert table(first)[1] == {"chart": first.title, "line": "TFIDF", "x": "2"} | {
        "value": "1.5",
        "lowest_seed": "1",
        "highest_seed": "2",
    }


def test_seeds_of_different_lengths_are_drawn_where_all_have_a_point(record):
    notes = [{"t": a_training([(step, 1.0) for step in range(1, last)], "l")} for last in (9, 5, 2)]
    (chart,) = loss_charts([record(seed=seed, notes=note) for seed, note in enumerate(notes[:2])], "x")
    assert [point.x for point in chart.lines[0].points] == [1, 2, 3, 4]
    # One point is not a line.
    assert not [*loss_charts([record(seed=seed, notes=note) for seed, note in enumerate(notes)], "x")]


def test_neighboring_points_become_their_mean_weighted_by_their_steps(record):
    # 61 points need 21 of three; the first point stands for ten steps, the others for one each.
    first = [(step, float(step)) for step in range(10, 71)]
    (chart,) = loss_charts([record(notes={"t": a_training(first, "l")})], "x")
    points = chart.lines[0].points
    assert [point.x for point in points] == [*range(12, 70, 3), 70]
    assert points[0].value == pytest.approx((10 * 10 + 11 + 12) / 12)
    assert points[1].value == pytest.approx(14)
    assert points[-1].value == pytest.approx(70)
    (kept,) = loss_charts([record(notes={"t": a_training(first[:30], "l")})], "x")
    assert [(point.x, point.value) for point in kept.lines[0].points] == first[:30]


@pytest.mark.parametrize(
    "note",
    [
        3,
        [1, 2],
        {"curve": [[1, 2.0], [2, 1.0]]},
        {"losses": ["l"]},
        {"losses": 1, "curve": 1},
        {"losses": ["l"], "curve": [1, 2]},
        {"losses": ["l"], "curve": [[1], [2]]},
        {"losses": ["l"], "curve": [[1, "x"], [2, "y"]]},
        {"losses": ["l"], "curve": [[1, True], [2, False]]},
        {"losses": ["l"], "curve": [[2, 1.0], [1, 1.0]]},
        {"losses": ["l"], "curve": [[1, float("nan")], [2, 1.0]]},
        {"losses": [], "curve": [[1], [2]]},
        {"losses": ["l"], "curve": []},
        {"losses": ["l"], "curve": [[1, 1.0]]},
    ],
)
def test_other_notes_are_not_trainings(record, note):
    assert not [*loss_charts([record(notes={"note": note})], "x")]


def test_files_of_different_losses_have_different_names(record):
    points, three = [(1, 2.0, 2.0), (2, 1.0, 1.0)], [(1, 2.0, 2.0, 2.0), (2, 1.0, 1.0, 1.0)]
    notes = {"stage I": a_training(points, "a b", "a-b"), "stage-i": a_training(points, "ä", "a" * 300)}
    stems = [chart.stem for chart in loss_charts([record(notes=notes)], "x")]
    assert len({*stems}) == 4
    assert all(len(stem) < 100 and stem.isascii() for stem in stems)
    stems = [chart.stem for chart in loss_charts([record(notes={"t": a_training(three, "l", "l-3", "l.")})], "x")]
    assert stems == ["x-t-l", "x-t-l-3", "x-t-l-2"]


def test_losses_of_different_lengths_share_an_axis_of_percent_and_equal_ones_a_line(record):
    def row(name, steps):
        return record(name, notes={"t": a_training([(step, 1 / step) for step in range(1, steps + 1)], "l")})

    (same,) = loss_charts([row("a", 20), row("b", 20)], "x")
    assert {"steps", "0", "5", "10", "15", "20"} <= {*texts(same)}
    assert description(same) == "By steps. A; B: 1 at 1, 0.05 at 20."
    (apart,) = loss_charts([row("a", 20), row("b", 1_234_567 % 41)], "x")
    assert {"% of the steps of each line", "A", "B", "100"} <= {*texts(apart)}


# Drawing

NAMES = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=120).filter(str.strip)
VALUES = st.floats(0, 1e7) | st.floats(-10, 10)


def lines_of(*lines, low=0.0, high=1.0, digits=1):
    axis = Axis(low, high, ((low, "first"), (high, "last")), "steps")
    return Lines(stem="x", title="x", foot="x " * 80, axis=axis, lines=lines, digits=digits)


@st.composite
def line_charts(draw):
    lines = []
    for _ in range(draw(st.integers(1, 9))):
        steps = sorted(draw(st.sets(st.integers(1, 2_000_000), min_size=2, max_size=60)))
        bands = [sorted(draw(st.tuples(VALUES, VALUES, VALUES))) for _ in steps]
        points = tuple(Point(x, value, low, high) for x, (low, value, high) in zip(steps, bands, strict=True))
        lines.append(Line(draw(NAMES), (points[:1],) if draw(st.booleans()) else (points,), draw(st.booleans())))
    flat = tuple(replace(line, runs=(line.runs[0][:1],)) if line.flat else line for line in lines)
    return replace(lines_of(*flat, low=1, high=2_000_000, digits=3), title=draw(NAMES))


@settings(max_examples=50)
@given(line_charts())
def test_any_lines_are_drawn_with_nothing_cut_or_overlapping(check_boxes, chart):
    drawing = chart.draw()
    assert drawing == chart.draw()
    assert "nan" not in "".join(part for part in drawing.split('"') if part.startswith("M"))
    check_boxes(drawing)


def test_a_point_without_a_title_has_its_whole_name(check_boxes):
    drawing = scatter(spot("0", 0.0, 1.0), spot("1", 0.0, 1.0), spot(" (", 0.0, 1.0)).draw()
    check_boxes(drawing)
    assert "> (</text>" in drawing


@settings(max_examples=30)
@given(
    st.lists(
        st.builds(spot, NAMES, st.floats(0, 100), st.floats(0.01, 1e9)),
        min_size=3,
        max_size=12,
        unique_by=lambda s: s.name,
    )
)
def test_any_rows_are_drawn_with_nothing_cut_or_overlapping(check_boxes, spots):
    check_boxes(scatter(*spots).draw())
    ranked = [replace(point, low=point.value - 1, high=point.value + 1) for point in spots]
    check_boxes(Ranking(stem="x", title="x", foot="x", label="rank", spots=tuple(ranked)).draw())


def test_an_axis_starts_near_the_data():
    line = Line("a", ((Point(0, 60, 60, 60), Point(1, 66, 66, 66)),))
    assert {"60", "66"} <= {*texts(lines_of(line))} - {"0"}
    assert "0" not in texts(lines_of(line))
    assert "0" not in texts(scatter(spot("a", 60, 1), spot("b", 66, 2)))


@given(st.tuples(VALUES, VALUES).map(sorted))
def test_ticks_enclose_the_values(ends):
    low, high = ends
    ticks = canvas.scale(low, high, 3)
    assert 2 <= len(ticks) <= 8
    assert ticks[0] <= low + 1e-9
    assert ticks[-1] >= high - 1e-9
    assert ticks == sorted({*ticks})
    assert len({*canvas.tick_texts(ticks)}) == len(ticks)


@given(st.lists(st.floats(0, 300), min_size=1, max_size=20))
def test_names_are_spread_in_their_order(places):
    found = canvas.spread(places, 15, 0, 300)
    ordered = [found[place] for place in sorted(range(len(places)), key=places.__getitem__)]
    assert all(lower - upper >= 15 - 1e-6 for upper, lower in itertools.pairwise(ordered))
    assert min(found) >= -1e-6
    assert max(found) <= max(300, 15 * (len(places) - 1)) + 1e-6


def test_charts_have_a_dark_scheme_and_every_name_in_words():
    line = Line("TF-IDF (a long variant, of many words)", ((Point(0, 1, 1, 1), Point(1, 2, 2, 2)),))
    drawing = lines_of(line).draw()
    assert "prefers-color-scheme:dark" in drawing
    assert "TF-IDF (a long variant, of many words): 1 at first, 2 at last." in description(lines_of(line))


def test_names_are_inert(record, altered):
    changes = [(("method", "variant"), HOSTILE), (("environment", "hardware", "processor"), HOSTILE)]
    note = {"t": a_training([(1, 2.0), (2, 1.0)], HOSTILE)}
    made = [
        altered(record(name, setting=setting, notes=note), (("method", "title"), f"{HOSTILE}{name}"), *changes)
        for name in "abc"
        for setting in (EZ, FEW)
    ]
    boards = pages(made), pages([one for one in made if one.cell.setting == EZ])
    drawn = {name: text for board in boards for name, text in files(board).items() if name.endswith(".svg")}
    assert len(drawn) == 4
    for content in drawn.values():
        assert "\u202e" not in content
        assert {element.tag.removeprefix(SVG) for element in ET.fromstring(content).iter()} <= TAGS
    points = {name: text for board in boards for name, text in files(board, "csv").items() if "figures/" in name}
    assert len(points) == 4
    assert not any("\u202e" in content for content in points.values())
    page = next(page for page in boards[0] if charts_of(page))
    formula = replace(charts_of(page)[0], title="=1+1")
    (content, *_) = files([Page("x", "x", (Figures((formula,)),))], "csv").values()
    assert "'=1+1" in content
