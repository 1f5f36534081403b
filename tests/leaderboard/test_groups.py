"""Rows by group of labels as a drawing."""

import csv
import io
import xml.etree.ElementTree as ET
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from xmcbench.leaderboard.blocks import Figures
from xmcbench.leaderboard.figure import draw
from xmcbench.leaderboard.files import files
from xmcbench.leaderboard.groups import GroupFigure, GroupLine, as_csv, group_figure
from xmcbench.leaderboard.pages import pages
from xmcbench.leaderboard.rows import Estimate, rows
from xmcbench.setting import Setting

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert(1)</script> | `x` \\input{x} \" ' \u202e </svg>"
FEW = Setting.of("fs", 0.01)


def figure(lines, groups=("seen", "unseen")):
    def estimates(values):
        return {
            group: dict.fromkeys(("P@1", "R@100"), Estimate(value, 0.02, None))
            for group, value in zip(groups, values, strict=True)
        }

    made = tuple(GroupLine(name, estimates(values), (0,), marks) for name, values, marks in lines)
    return GroupFigure("Tiny", FEW, groups, "self", "tiny-seen", made)


def test_every_group_has_its_dot():
    made = draw(figure([("a", (0.5, 0.1), ()), ("b", (0.25, 0.0), ("stale",))]))
    root = ET.fromstring(made)
    paths = [each.get("d") for each in root.iter(f"{SVG}path") if each.get("stroke-linecap")]
    # The key, then each metric: seen; unseen and its hole.
    assert [path.count("M") for path in paths] == [1, 1, 1, 2, 2, 2, 2, 2, 2]
    marks = [each for each in root.iter(f"{SVG}path") if each.get("stroke-linecap")]
    blank = [each.get("class") == "blank" for each in marks]
    assert blank == [False, False, True, False, False, True, False, False, True]
    for whole, hole in pairwise(marks):
        if hole.get("class") == "blank":  # a ring, of the same dots
            assert whole.get("d") == hole.get("d")
            assert int(whole.get("stroke-width")) - int(hole.get("stroke-width")) == 4
    places = [[float(each.split()[0]) for each in path.split("M")[1:]] for path in paths[3:5]]
    left, right = 24, 230
    assert places[0] == [right, (left + right) / 2]
    assert places[1] == [round(left + (right - left) / 5, 1), left]
    names = [each.text for each in root.iter(f"{SVG}text")]
    assert {"a", "b\u2020", "seen", "unseen"} <= {*names}
    assert "b\u2020: P@1 seen 25.00, unseen 0.00; R@100 seen 25.00, unseen 0.00." in root.find(f"{SVG}desc").text


def test_points_as_csv():
    lines = list(csv.DictReader(io.StringIO(as_csv(figure([("=a", (0.5, 0.1), ()), ("b", (0.2, 0.0), ("@stale",))])))))
    assert len(lines) == 8
    assert lines[0] == {
        "dataset": "Tiny",
        "setting": "fs-label-0.01",
        "group": "seen",
        "method": "'=a",
        "metric": "P@1",
        "value": "50.0000",
        "half_width": "2.0000",
        "seeds": "0",
        "filter": "self",
        "protocol": lines[0]["protocol"],
        "marks": "",
    }
    assert lines[-1]["marks"] == "'@stale"


def test_rows_without_the_groups_are_left_out(record):
    groups = ("seen", "unseen")
    made = rows([record("a", views=groups), record("b", views=groups), record("c")], "self")
    drawn = group_figure(made, groups, "Tiny", FEW, "self", "x")
    assert [line.name for line in drawn.lines] == ["A", "B"]
    assert group_figure(made[:1], groups, "Tiny", FEW, "self", "x") is None


def test_a_setting_has_its_drawings_behind_the_tables(record):
    views = ("seen", "unseen", "head", "middle", "tail")
    made = [record(name, setting=setting, views=views) for name in "ab" for setting in (Setting.of("ez"), FEW)]
    page = next(page for page in pages(made) if page.name == "tiny")
    drawn = [each.stem for block in page.blocks if isinstance(block, Figures) for each in block.figures]
    assert [stem for stem in drawn if not stem.startswith("tiny-label")] == [
        "tiny-ez-head",
        "tiny-fs-label-0.01-seen",
        "tiny-fs-label-0.01-head",
    ]


LINES = st.lists(
    st.tuples(
        st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1, max_size=120),
        st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)),
        st.just(()),
    ),
    min_size=2,
    max_size=8,
)


@settings(max_examples=20)
@given(LINES)
def test_any_rows_are_drawn_with_nothing_cut_or_overlapping(check_boxes, lines):
    check_boxes(draw(figure(lines, ("head", "middle", "tail"))))


def test_names_are_inert(record, altered):
    made = [altered(record(name), (("method", "title"), f"{HOSTILE}{name}")) for name in "ab"]
    drawn = {name: content for name, content in files(pages(made)).items() if "ez-head" in name}
    assert len(drawn) == 2
    for name, content in drawn.items():
        assert "\u202e" not in content
        if name.endswith(".svg"):
            tags = {each.tag.removeprefix(SVG) for each in ET.fromstring(content).iter()}
            assert tags == {"svg", "title", "desc", "style", "rect", "text", "path"}
