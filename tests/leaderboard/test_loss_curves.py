import csv
import io
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmcbench.leaderboard import canvas
from xmcbench.leaderboard.figure import draw
from xmcbench.leaderboard.files import files
from xmcbench.leaderboard.losses import LossCurve, LossLine, LossPoint, as_csv, loss_curves
from xmcbench.leaderboard.pages import pages
from xmcbench.setting import Setting

SVG = "{http://www.w3.org/2000/svg}"


def training(points, *losses):
    return {"losses": [*losses], "curve": [[step, *values] for step, *values in points], "batch": 32}


def texts(drawing):
    return [element.text for element in ET.fromstring(drawing).iter(f"{SVG}text")]


def test_a_line_is_the_mean_over_seeds_with_the_lowest_and_the_highest(record):
    made = loss_curves(
        [
            record(seed=0, notes={"stage I": training([(1, 2.0, 0.5), (2, 1.0, 0.4)], "cluster", "label")}),
            record(seed=1, notes={"stage I": training([(1, 3.0, 0.5), (2, 2.0, 0.4)], "cluster", "label")}),
            record(seed=2, status="failed"),
            record("untrained"),
        ],
        "stem",
    )
    assert [(each.training, each.loss, each.stem) for each in made] == [
        ("stage I", "cluster", "stem-stage-i-cluster"),
        ("stage I", "label", "stem-stage-i-label"),
    ]
    assert made[0].lines == (
        LossLine("TFIDF", ("TFIDF",), (0, 1), (LossPoint(1, 2.5, 2.0, 3.0), LossPoint(2, 1.5, 1.0, 2.0))),
    )
    rows = list(csv.DictReader(io.StringIO(as_csv(made[0]))))
    assert rows[1] == {"dataset": "Tiny", "setting": "ez", "training": "stage I", "loss": "cluster"} | {
        "method": "TFIDF",
        "step": "2",
        "value": "1.5",
        "lowest_seed": "1",
        "highest_seed": "2",
        "seeds": "0 1",
    }


def test_seeds_of_different_lengths_are_drawn_where_all_have_a_point(record):
    notes = [{"t": training([(step, 1.0) for step in range(1, last)], "l")} for last in (9, 5, 2)]
    (made,) = loss_curves([record(seed=seed, notes=each) for seed, each in enumerate(notes[:2])], "x")
    assert [point.step for point in made.lines[0].points] == [1, 2, 3, 4]
    # One point is not a line.
    assert loss_curves([record(seed=seed, notes=each) for seed, each in enumerate(notes)], "x") == ()


def test_neighboring_points_become_their_mean_weighted_by_their_steps(record):
    # 61 points need 21 of three; the first point stands for ten steps, the others for one each.
    first = [(step, float(step)) for step in range(10, 71)]
    (made,) = loss_curves([record(notes={"t": training(first, "l")})], "x")
    points = made.lines[0].points
    assert [point.step for point in points] == [*range(12, 70, 3), 70]
    assert points[0].value == pytest.approx((10 * 10 + 11 + 12) / 12)
    assert points[1].value == pytest.approx(14)
    assert points[-1].value == pytest.approx(70)
    (kept,) = loss_curves([record(notes={"t": training(first[:30], "l")})], "x")
    assert [(point.step, point.value) for point in kept.lines[0].points] == first[:30]


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
    assert loss_curves([record(notes={"note": note})], "x") == ()


def test_files_of_different_curves_have_different_names(record):
    points = [(1, 2.0, 2.0), (2, 1.0, 1.0)]
    notes = {"stage I": training(points, "a b", "a-b"), "stage-i": training(points, "ä", "a" * 300)}
    stems = [each.stem for each in loss_curves([record(notes=notes)], "x")]
    assert len({*stems}) == 4
    assert all(len(stem) < 100 and stem.isascii() for stem in stems)


def test_trained_zero_shot_rows_are_drawn_behind_the_settings(record):
    notes = {"training": training([(1, 2.0), (2, 1.0)], "contrastive")}
    full = [record("b", setting=Setting.of("full"), notes={"fine-tuning": notes["training"]})]
    board = files(pages([record("a", notes=notes), record("c"), *full]))
    page = board["tiny.md"]
    assert page.index("## Full") < page.index("## Training")
    assert "![Loss (contrastive) in training, Tiny](figures/tiny-training-training-contrastive.svg)" in page
    assert "[training, contrastive](figures/tiny-training-training-contrastive.csv)" in page
    drawn = [name for name in board if name.endswith(".svg") and "training" in name]
    assert drawn == ["figures/tiny-training-training-contrastive.svg"]
    assert "## Training" not in files(pages(full))["tiny.md"]


def test_lines_of_different_lengths_share_an_axis_of_percent(record):
    def row(name, steps):
        return record(name, notes={"t": training([(step, 1 / step) for step in range(1, steps + 1)], "l")})

    (same,) = loss_curves([row("a", 20), row("b", 20)], "x")
    assert {"steps", "0", "5", "10", "15", "20"} <= {*texts(draw(same))}
    assert "<desc>By steps. A; B: 1 at 1, 0.05 at 20.</desc>" in draw(same)
    (apart,) = loss_curves([row("a", 20), row("b", 40)], "x")
    assert {"% of the steps of each line", "A, 20 steps", "B, 40 steps", "100"} <= {*texts(draw(apart))}


names = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=120).filter(str.strip)
values = st.floats(0, 1e7) | st.floats(-10, 10)


@st.composite
def loss_curve(draw_):
    lines = []
    for _ in range(draw_(st.integers(1, 9))):
        steps = sorted(draw_(st.sets(st.integers(1, 2_000_000), min_size=2, max_size=60)))
        points = []
        for step in steps:
            low, value, high = sorted(draw_(st.tuples(values, values, values)))
            points.append(LossPoint(step, value, low, high))
        lines.append(LossLine(draw_(names), ("row",), (0, 1), tuple(points)))
    return LossCurve(draw_(names), "ez", draw_(names), draw_(names), "stem", tuple(lines))


@given(loss_curve())
def test_any_loss_curve_is_drawn_with_nothing_cut_or_overlapping(check_boxes, made):
    drawing = draw(made)
    assert drawing == draw(made)
    assert "nan" not in "".join(part for part in drawing.split('"') if part.startswith("M"))
    check_boxes(drawing)


@given(st.tuples(values, values).map(sorted))
def test_ticks_enclose_the_values_and_begin_at_zero_unless_that_wastes_half(ends):
    low, high = ends
    ticks = canvas.scale(low, high, 3)
    assert 2 <= len(ticks) <= 8
    assert ticks[0] <= low + 1e-9
    assert ticks[-1] >= high - 1e-9
    assert ticks == sorted({*ticks})
    if 0 <= low < high / 2:
        assert ticks[0] == 0
    elif high > low > 0:
        assert ticks[0] > 0 or low <= ticks[1]
    assert len({*canvas.tick_texts(ticks)}) == len(ticks)


def test_a_step_is_written_to_its_last_digit(record):
    long = [(1_234_567, 2.0), (1_234_568, 1.0)]
    made = loss_curves(
        [
            record("a", notes={"t": training(long, "loss")}),
            record("b", notes={"t": training([(1, 2.0), (2, 1.0)], "loss")}),
        ],
        "stem",
    )
    steps = [line["step"] for line in csv.DictReader(io.StringIO(as_csv(made[0]))) if line["method"] == "A"]
    assert steps == ["1234567", "1234568"]
    assert "A, 1234568 steps" in texts(draw(made[0]))
