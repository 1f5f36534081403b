"""Quality against the training budget."""

import csv
import io
import xml.etree.ElementTree as ET

import pytest

from xmcbench.leaderboard.budgets import budget_curves
from xmcbench.leaderboard.figure import as_csv, draw
from xmcbench.leaderboard.files import files
from xmcbench.leaderboard.pages import pages
from xmcbench.records import Standing

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def trained(record, altered):
    """A record of a method that embedded so many texts."""

    def make(method, steps, value, seed=0, note=None, **parameters):
        note = {"texts": 64 * steps, "parameters": ["steps"]} if note is None else note
        made = record(method, seed, value, notes={"budget": note}, steps=steps, **parameters)
        variant = ", ".join(["small", f"{steps} steps of 32", *(f"{name}={each}" for name, each in parameters.items())])
        return altered(made, (("method", "variant"), variant))

    return make


def test_rows_that_differ_in_their_budget_are_one_line(trained):
    records = [trained("ict", steps, 0.1 + steps / 1000, seed) for steps in (0, 60, 240) for seed in (0, 1)]
    records[1] = trained("ict", 0, 0.3, 1)
    records += [trained("rts", steps, 0.2, k=3) for steps in (60, 240)]  # two budgets
    records += [trained("maclr", steps, 0.4, k=k) for steps in (0, 60, 120) for k in (1, 2)]
    (made, other) = budget_curves(records, "self")
    assert (made.metric, other.metric) == ("P@1", "R@100")
    assert [line.name for line in made.lines] == ["ICT (small)", "MACLR (small, k=1)", "MACLR (small, k=2)"]
    point = made.lines[0].points[0]
    assert (point.value, point.low, point.high, point.seeds) == (pytest.approx(0.2), 0.1, 0.3, (0, 1))
    assert made.texts == [0, 3840, 7680, 15360]
    assert [made.place(texts) for texts in (0, 3840, 3 * 3840)] == [0, 1, 2]
    lines = [*csv.DictReader(io.StringIO(as_csv(made)))]
    assert [line["texts"] for line in lines if line["method"] == "ICT (small)"] == ["0", "3840", "15360"]
    assert lines[0]["value"] == "20.0000"


def test_names_that_coincide_are_told_apart(trained, altered):
    records = [trained("ict", steps, 0.1, k=k) for steps in (0, 60, 240) for k in (1, 2)]
    records = [altered(each, (("method", "variant"), "small")) for each in records]
    (made, _) = budget_curves(records, "self")
    assert [line.name for line in made.lines] == ["ICT (small), k=1", "ICT (small), k=2"]


def test_two_methods_of_equal_parameters_are_two_lines(trained):
    methods = {"ict": 0.1, "rts": 0.5}
    records = [trained(method, steps, value) for method, value in methods.items() for steps in (0, 60, 120)]
    (made, _) = budget_curves(records, "self")
    assert [(line.name, line.points[0].value) for line in made.lines] == [("ICT (small)", 0.1), ("RTS (small)", 0.5)]


def test_a_drawing_and_its_place_on_the_page(trained, check_boxes):
    records = [trained("ict", steps, 0.1 + steps / 9000) for steps in (0, 60, 120, 240, 480, 1620, 1630)]
    (made, _) = budget_curves(records, "self")
    drawing = draw(made)
    check_boxes(drawing)
    texts = [each.text for each in ET.fromstring(drawing).iter(f"{SVG}text")]
    assert {"0", "3.84K", "7.68K", "15.4K", "30.7K", "104K"} <= {*texts}
    assert texts.count("104K") == 1, "ticks that would overlap are left out"
    page = files(pages(records, ()))["tiny.md"]
    assert "## Training budget, zero-shot (no pairs)" in page
    assert "![P@1 against budget, Tiny, zero-shot (no pairs)](figures/tiny-ez-budget-p1.svg)" in page


def test_stale_rows_are_marked(trained):
    class Stale(Standing):
        def problems(self, records):
            return ("stale",) if any(record.cell.method == "ict" for record in records) else ()

    records = [trained(method, steps, 0.1) for steps in (0, 60, 120) for method in ("ict", "rts")]
    (made, _) = budget_curves(records, "self", Stale())
    assert made.marks == {"stale": ["ICT (small)"]}
    assert "stale or mixed" in draw(made)
    assert "ICT (small)\u2020" in draw(made)


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
    assert budget_curves([trained("ict", steps, 0.1, note=note) for steps in (0, 60, 120)], "self") == ()


def test_failed_rows_are_left_out(trained, record):
    failed = [record("ict", status="failed", steps=steps) for steps in (0, 60)]
    assert budget_curves([*failed, *(trained("ict", steps, 0.1) for steps in (120, 240))], "self") == ()
