import csv
import io
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from xmcbench.errors import UsageError
from xmcbench.leaderboard.charts import coverage
from xmcbench.leaderboard.curves import as_csv, curve, table
from xmcbench.leaderboard.rows import rows
from xmcbench.metrics.seeds import half_width
from xmcbench.setting import Setting

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def seven(record):
    """A learner at seven shares with two seeds, one that needs pairs, and one that never looks at any."""

    def at(ratio, *names, **more):
        return record(*names, setting=Setting.at(ratio, "label"), **more)

    shares = (0, 0.01, 0.05, 0.1, 0.25, 0.5, 1)
    made = [at(share, "learner", seed=seed, value=0.2 + share / 2 + seed / 50) for share in shares for seed in (0, 1)]
    made += [at(share, "hungry", value=share / 2, supervision="required") for share in shares[1:]]
    return [*made, at(0, "flat", value=0.3, supervision="unused")]


def test_the_setting_of_a_share():
    assert Setting.at(0, "pair") == Setting.of("ez")
    assert Setting.at(1.0, "pair") == Setting.of("full")
    assert Setting.at(0.05, "pair") == Setting.of("fs", 0.05, "pair")
    with pytest.raises(UsageError):
        Setting.at(1.5, "label")


def test_a_whole_curve(seven):
    made = curve(seven, "label", "P@5", "self")
    assert made.ratios == (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
    assert made.missing == ()
    flat, hungry, learner = made.lines
    assert (flat.name, flat.flat, list(flat.points)) == ("FLAT", True, [0.0])
    assert list(hungry.points) == list(made.ratios[1:])
    assert learner.points[0.5].value == pytest.approx(0.46)
    assert (learner.points[0.5].low, learner.points[0.5].high) == pytest.approx((0.45, 0.47))
    assert learner.points[0.5].seeds == (0, 1)


def test_a_half_finished_curve_draws_what_it_has_and_names_what_is_missing(seven, record):
    left = [
        record
        for record in seven
        if (record.cell.method, record.cell.setting.ratio) not in {("hungry", 0.1), ("hungry", 0.25)}
        and (record.cell.method, record.cell.setting.ratio, record.cell.seed) != ("learner", 0.5, 1)
    ]
    absent = record("absent", setting=Setting.at(0.1, "label"))
    made = curve(left, "label", "P@5", "self", (0, 0.01, 0.05, 0.1, 0.25, 0.5, 1), [(absent.cell, "ABSENT")])
    assert made.missing == ("ABSENT at 10%", "HUNGRY at 10%, 25%", "LEARNER at 50% (seed 1)")
    # The line is broken where points are missing: two strokes.
    drawing = coverage(made).draw()
    assert ET.fromstring(drawing).find(f"{SVG}desc").text == (
        "By % of the labels with known pairs (steps, not to scale). FLAT: 30 everywhere. "
        "HUNGRY: 0.5 at 1, 2.5 at 5, 25 at 50, 50 at 100. "
        "LEARNER: 21 at 0, 21.5 at 1, 23.5 at 5, 26 at 10, 33.5 at 25, 45 at 50, 71 at 100."
    )
    strokes = [path for path in ET.fromstring(drawing).iter(f"{SVG}path") if path.get("stroke-width") == "1.8"]
    assert len(strokes) == 4  # one of them flat
    assert "ABSENT" not in drawing


def test_the_half_width_of_a_point_is_that_of_the_table(record):
    """It was the mean of those of its runs: of rows alone, where the seeds matter more."""
    made = [
        record(
            setting=Setting.at(share, "label"), seed=seed, value=0.5 + share * seed / 10, half_width=0.01 + seed / 20
        )
        for share in (0, 0.5)
        for seed in (0, 1)
    ]
    (line,) = curve(made, "label", "P@5", "self").lines
    assert line.points[0].half_width == pytest.approx(0.035)
    (row,) = rows([record for record in made if record.cell.setting.kind == "fs"], "self")
    assert line.points[0.5].half_width == pytest.approx(row.figures["P@5"].half_width)
    assert row.figures["P@5"].half_width > 0.1


def test_a_flat_line_that_lacks_a_seed_names_it(seven, record):
    expected = [record("flat", seed, setting=Setting.at(ratio, "label")) for ratio, seed in ((0, 0), (0.5, 1))]
    made = curve(seven, "label", "P@5", "self", (0, 0.5), [(one.cell, one.name) for one in expected])
    assert made.missing == ("FLAT at 50% (seed 1)",)


def test_a_seed_that_changes_nothing_is_not_missing(record):
    """Only the first seed of a method without chance is run where no pairs are drawn."""

    def at(ratio, seed):
        return record("knn", seed, setting=Setting.at(ratio, "label"), supervision="required", deterministic=True)

    made = [at(0.5, 0), at(0.5, 1), at(1, 0)]
    assert curve(made, "label", "P@5", "self").missing == ()
    assert curve(made[:-1], "label", "P@5", "self", (0, 0.5, 1)).missing == ("KNN at 100%",)
    drawn = [at(0.1, 0), *made[1:]]  # other pairs by each seed
    assert curve(drawn, "label", "P@5", "self").missing == ("KNN at 10% (seed 1), 50% (seed 0)",)


def test_no_row_hides_behind_another_of_its_name(record, altered):
    made = [record(setting=Setting.at(share, "label"), value=k / 4, k=k) for share in (0, 0.01) for k in (1, 2)]
    made = [altered(record, (("method", "variant"), "quick")) for record in made]
    drawn = curve(made, "label", "P@5", "self")
    assert [line.name for line in drawn.lines] == ["TFIDF (quick), k=1", "TFIDF (quick), k=2"]
    expected = [(one.cell, "TFIDF (quick)") for one in made]
    assert curve(made, "label", "P@5", "self", (0, 0.01), expected).missing == ()
    assert curve(made[:-1], "label", "P@5", "self", (0, 0.01), expected).missing == ("TFIDF (quick), k=2 at 1%",)


def test_what_is_not_a_curve(record, seven):
    assert curve([], "label", "P@5", "self") is None
    assert curve([record()], "label", "P@5", "self") is None
    assert curve([record(), record(setting=Setting.of("full"))], "label", "P@5", "self") is None
    assert curve(seven, "pair", "P@5", "self") is None
    assert curve([record()], "label", "P@5", "self", (0, 1)).lines[0].points.keys() == {0.0}


def test_points_as_csv_and_as_a_table(seven):
    made = curve(seven, "label", "R@100", "self")
    lines = list(csv.DictReader(io.StringIO(as_csv(made))))
    assert len(lines) == 7 + 6 + 7
    (point,) = [line for line in lines if (line["method"], line["ratio"]) == ("LEARNER", "0.5")]
    assert (point["value"], point["lowest_seed"], point["highest_seed"]) == ("46.0000", "45.0000", "47.0000")
    assert (point["seeds"], point["filter"]) == ("0 1", "self")
    assert float(point["half_width"]) == pytest.approx(100 * half_width([0.45, 0.47], [0.03, 0.03]), abs=1e-4)
    texts = [[cell.text for cell in line.cells] for line in table(made).lines]
    assert texts[0] == ["30.00"] * 7
    assert texts[1][0] == ""
    assert texts[2][0] == "21.00 (20.00 to 22.00)"


def texts(drawing):
    return list(ET.fromstring(drawing).iter(f"{SVG}text"))


def test_nothing_is_cut_and_no_texts_overlap(seven, check_boxes):
    made = curve(seven, "label", "P@5", "self")
    long = replace(made.lines[1], name="A method with a name of its own (paper, all-MiniLM-L6-v2, 100000 steps of 256)")
    check_boxes(
        coverage(replace(made, lines=(*made.lines, long, *[replace(long, name=f"x{i}") for i in range(9)]))).draw()
    )


def test_the_drawing_is_sound_and_has_no_surroundings(seven):
    drawing = coverage(curve(seven, "label", "P@5", "self")).draw()
    assert drawing == coverage(curve(reversed(seven), "label", "P@5", "self")).draw()
    assert "prefers-color-scheme:dark" in drawing
    assert "20:" not in drawing  # no time
    ET.fromstring(drawing)
    names = [element.text for element in texts(drawing)]
    assert {"0", "1", "5", "10", "25", "50", "100", "LEARNER", "HUNGRY", "FLAT"} <= set(names)


def test_names_are_escaped(record):
    made = curve([record("a<b", k="&")], "label", "P@5", "self", (0, 1))
    assert "A<B" in [element.text for element in texts(coverage(made).draw())]


@pytest.mark.parametrize("value", [0.0, 0.0004, 0.5, 0.501, 1.0])
def test_any_value_has_an_axis(record, value):
    made = curve([record(value=value)], "label", "P@5", "self", (0, 1))
    ticks = [element for element in texts(coverage(made).draw()) if element.get("text-anchor") == "end"]
    heights = [float(element.get("y")) for element in ticks]
    assert 2 <= len(ticks) <= 8
    assert heights == sorted(heights, reverse=True)
    low, high = float(ticks[0].text), float(ticks[-1].text)
    assert low <= 100 * value <= high
