"""Tables: of a page, and for papers, which LaTeX sets."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from xmcbench.errors import UnknownName, UsageError
from xmcbench.leaderboard.paper import latex, paper_table
from xmcbench.leaderboard.published import MAIN
from xmcbench.leaderboard.rows import rows
from xmcbench.leaderboard.sections import Context
from xmcbench.leaderboard.tables import BEST, TIED, cost_table, group_table, metric_table
from xmcbench.records import Staleness, Store
from xmcbench.setting import Setting

MODEL = {"name": "m", "source": "the hub", "sha256": "x"}


def ranks(table, place=0):
    return {line.name: line.cells[place].rank for line in table.lines}


def test_the_best_figure_of_a_column_is_marked_alone(record):
    table = metric_table(
        rows([record(name, value=value) for name, value in zip("abc", (0.3, 0.5, 0.4), strict=True)], "self"), MAIN
    )
    assert ranks(table) == {"B": BEST, "C": "", "A": ""}


def test_figures_that_are_shown_as_equal_are_best_together(record):
    table = metric_table(rows([record("a", value=0.5), record("b", value=0.499999)], "self"), MAIN)
    assert ranks(table) == {"A": BEST, "B": BEST}


def test_one_row_and_zeros_are_not_best(record):
    assert ranks(metric_table(rows([record("a", value=0.5)], "self"), MAIN)) == {"A": ""}
    assert ranks(metric_table(rows([record(name, value=0.0) for name in "ab"], "self"), MAIN)) == {"A": "", "B": ""}


def test_rows_that_are_tied_with_the_best_are_marked_in_their_column(record):
    made = rows([record(name, value=value) for name, value in zip("abc", (0.5, 0.4, 0.3), strict=True)], "self")
    table = metric_table(made, MAIN, ties={"P@1": {"B"}})
    assert ranks(table) == {"A": BEST, "B": TIED, "C": ""}
    assert ranks(table, 1) == {"A": BEST, "B": "", "C": ""}


def test_the_parts_of_a_name_are_columns(record, altered):
    named = altered(record("a", notes={"backbone": MODEL}), (("method", "variant"), "small, m, 5 steps of 2, rate=0.1"))
    fused = altered(record("b", value=0.1), (("method", "variant"), "quick, tfidf + ict:small"))
    table = metric_table(rows([named, fused, record("c", value=0.05)], "self"), MAIN)
    assert [column.text for column in table.columns[:5]] == [
        *("preset", "encoder or parts", "training", "other parameters", "P@1"),
    ]
    assert {line.name: (line.shown, *(cell.text for cell in line.cells[:4])) for line in table.lines} == {
        "A (small, m, 5 steps of 2, rate=0.1)": ("A", "small", "m", "5 steps of 2", "rate=0.1"),
        "B (quick, tfidf + ict:small)": ("B", "quick", "tfidf + ict:small", "", ""),
        "C": ("C", "", "", "", ""),
    }


def test_a_table_without_these_columns_has_short_names_that_differ(record, altered):
    made = [
        altered(record("a", value=value), (("method", "variant"), variant), (("cell", "parameters"), {"x": value}))
        for value, variant in ((0.1, "small, 5 steps"), (0.2, "hour, 9 steps"), (0.3, "hour, 9 steps, x=0.3"))
    ]
    table = metric_table(rows([*made, record("b", value=0.05)], "self"), MAIN, with_facts=False)
    assert [line.shown for line in table.lines] == [
        *("A (hour, x=0.3)", "A (hour)", "A (small)", "B"),
    ]
    # A changed parameter that the method describes is not after the preset.
    today = Staleness(presets={"a": {"hour": {"x": 0.2}, "small": {"x": 9}, "": {}}}, described={"a": ("x",)})
    table = metric_table(rows(made, "self", today), MAIN, with_facts=False)
    assert [line.shown for line in table.lines] == [
        *("A (hour, 9 steps, x=0.3)", "A (hour)", "A (small, 5 steps)"),
    ]


def test_metrics_and_their_spread_are_text_in_percent(record):
    table = metric_table(rows([record("a", value=0.5), record("b", value=0.4)], "self"), MAIN)
    assert [column.text for column in table.columns] == list(MAIN)
    assert [(line.name, line.cells[0].text, line.cells[0].spread) for line in table.lines] == [
        ("A", "50.00", "3.0"),
        ("B", "40.00", "3.0"),
    ]


@pytest.mark.parametrize(
    ("half_width", "text"), [(0.03, "3.0"), (0.0006, "0.1"), (0.00049, "0.05"), (0.00012, "0.01"), (0.0, "0.0")]
)
def test_a_narrow_interval_is_not_shown_as_none(record, half_width, text):
    table = metric_table(rows([record(half_width=half_width)], "self"), MAIN)
    assert {cell.spread for cell in table.lines[0].cells} == {text}


def test_the_spread_over_seeds_stands_apart(record):
    table = metric_table(rows([record(seed=0, value=0.4), record(seed=1, value=0.6)], "self"), MAIN)
    assert table.columns[-1].text == "seeds (sd of P@1)"
    assert table.lines[0].cells[-1].text == "2 (14.14)"


def test_rows_without_a_result_are_left_out(record):
    assert metric_table(rows([record(status="failed")], "self"), MAIN).lines == ()


def test_groups_stand_side_by_side(record):
    table = group_table(rows([record()], "self"), ("head", "tail"), "x", "")
    assert [column.text for column in table.columns] == [
        *("head P@1", "head P@5", "head R@100", "tail P@1", "tail P@5", "tail R@100")
    ]
    assert group_table(rows([record()], "self"), ("seen", "unseen"), "x", "").lines == ()


def test_costs_are_not_ranked(record):
    (row,) = rows([record()], "self")
    table = cost_table([(row, cost) for cost in row.costs.values()])
    assert [cell.text for cell in table.lines[0].cells] == ["3.5", "0.2", "0.50", "1.00"]
    assert {cell.rank for cell in table.lines[0].cells} == {""}


@pytest.mark.parametrize("gpu", [0, 3 * 2**30])
def test_gpu_memory_has_a_column_where_one_was_used(record, altered, gpu):
    made = altered(record(), (("measured", "peak_gpu_memory_bytes"), gpu))
    (row,) = rows([made], "self")
    table = cost_table([(row, cost) for cost in row.costs.values()])
    assert table.lines[0].cells[-1].text == f"{gpu / 2**30:.2f}"


BOARD = Path(__file__).parents[2] / "leaderboards"
EZ = Setting("ez")
NONE = Context((), Staleness())


@pytest.fixture
def on(record, altered):
    """A record on a dataset."""

    def make(dataset, method, value, variant="", **other):
        made = record(method, value=value, **other)
        return altered(made, (("cell", "dataset"), dataset), (("method", "variant"), variant))

    return make


def body(text):
    return [line.removesuffix(r" \\").split(" & ") for line in text.splitlines() if " & " in line][2:]


def test_methods_are_rows_and_datasets_are_columns(on):
    made = [on("A", "one", 0.5), on("A", "two", 0.25), on("B", "two", 0.4), on("B-dev", "two", 0.9)]
    text = latex(paper_table(made, EZ, ["P@1", "R@100"], NONE))
    assert r"\multicolumn{2}{c}{A} & \multicolumn{2}{c}{B} \\" in text
    assert r"Method & {P@1} & {R@100} & {P@1} & {R@100} \\" in text
    assert r"\cmidrule(lr){2-3} \cmidrule(lr){4-5}" in text
    assert body(text) == [
        ["ONE", r"\bfseries 50.0", r"\bfseries 50.0", "", ""],
        ["TWO", "25.0", "25.0", "40.0", "40.0"],
    ]


def test_rows_datasets_and_digits_are_chosen(on):
    made = [on("A", "one", 0.5), on("A", "two", 0.25, "small"), on("A", "two", 0.2, "hour", k=1), on("B", "one", 0.1)]
    table = paper_table(made, EZ, ["P@1"], NONE, ["a"], ["two:small", "one"])
    assert body(latex(table, 2)) == [["TWO (small)", "25.00"], ["ONE", r"\bfseries 50.00"]]
    assert body(latex(table, 0, with_spread=True))[0] == ["TWO (small)", r"25{\,\scriptsize$\pm$3}"]


def test_ties_have_their_sign(on):
    table = paper_table([on("A", "one", 0.5), on("A", "two", 0.49)], EZ, ["P@1"], NONE)
    assert body(latex(replace(table, ties={"A": {"P@1": {"TWO"}}}))) == [
        ["ONE", r"\bfseries 50.0"],
        ["TWO", r"49.0\xmctie"],
    ]


def test_rows_of_one_name_and_other_parameters_are_apart(on):
    made = [on("A", "one", 0.5, alpha=1), on("B", "one", 0.4, alpha=2), on("A", "two", 0.3), on("B", "two", 0.2)]
    assert body(latex(paper_table(made, EZ, ["P@1"], NONE))) == [
        ["ONE (alpha=1)", r"\bfseries 50.0", ""],
        ["TWO", "30.0", "20.0"],
        ["ONE (alpha=2)", "", r"\bfseries 40.0"],
    ]


def test_of_the_values_of_a_preset_todays_are_shown(on):
    made = [on("A", "one", 0.5, alpha=1), on("A", "one", 0.4, alpha=2), on("A", "two", 0.3)]
    today = Context((), Staleness(presets={"one": {"": {"alpha": 2}}}))
    for methods in ([], ["one", "two"]):
        table = paper_table(made, EZ, ["P@1"], today, methods=methods)
        assert body(latex(table)) == [["ONE", r"\bfseries 40.0"], ["TWO", "30.0"]]


def test_a_row_with_a_changed_parameter_that_is_described_is_no_row_of_its_preset(on):
    made = [on("A", "one", 0.5, "quick, x + y", parts="x,y"), on("A", "two", 0.3)]
    today = Context((), Staleness(presets={"one": {"": {}, "quick": {"parts": "x"}}}, described={"one": ("parts",)}))
    for methods in ([], ["one", "two"]):
        table = paper_table(made, EZ, ["P@1"], today, methods=methods)
        assert [line[0] for line in body(latex(table))] == ["ONE (quick, x + y)", "TWO"]
    with pytest.raises(UsageError, match="no row of one:quick with the parameters of a preset"):
        paper_table(made, EZ, ["P@1"], today, methods=["one:quick"])


def test_two_methods_of_one_title_are_two_rows(on, altered):
    made = [on("A", "one", 0.5), altered(on("A", "two", 0.25), (("method", "title"), "ONE"))]
    table = paper_table(made, EZ, ["P@1"], NONE, methods=["two", "one"])
    assert [line[0] for line in body(latex(table))] == ["ONE (method=two)", "ONE (method=one)"]


def test_no_name_is_an_option_of_the_line_before(on, altered):
    made = [altered(on("A", title, 0.5), (("method", "title"), title)) for title in ("[odd]", "*odd")]
    found = {line[0] for line in body(latex(paper_table(made, EZ, ["P@1"], NONE)))}
    assert found == {"{}[odd]", "{}*odd"}


def test_marks_of_rows_are_comments(on):
    stale = Context((), Staleness(sources={"one": "0" * 64}))
    text = latex(paper_table([on("A", "one", 0.5), on("A", "two", 0.4)], EZ, ["P@1"], stale))
    assert [line for line in text.splitlines() if line.startswith("% ONE")] == [
        "% ONE, A: stale: the method's code has changed since this result was made"
    ]
    assert "% TWO" not in text


def test_a_metric_that_a_dataset_lacks_is_blank(on):
    """Without propensities there is no PSP."""
    lacking = on("B", "one", 0.25)
    for figures in lacking.metrics.values():
        del figures.values["PSP@1"], figures.intervals["PSP@1"]
    made = [on("A", "one", 0.5), on("A", "two", 0.4), lacking, on("B", "two", 0.2)]
    assert body(latex(paper_table(made, EZ, ["P@1", "PSP@1"], NONE))) == [
        ["ONE", r"\bfseries 50.0", r"\bfseries 50.0", r"\bfseries 25.0", ""],
        ["TWO", "40.0", "40.0", "20.0", "20.0"],
    ]


def test_bold_is_the_best_whatever_the_digits(on):
    made = [on("A", "one", 0.344), on("A", "two", 0.336)]
    assert body(latex(paper_table(made, EZ, ["P@1"], NONE), 0)) == [["ONE", r"\bfseries 34"], ["TWO", "34"]]
    nothing = [on("A", "one", 0.0, half_width=0), on("A", "two", 0.0, half_width=0)]
    assert [line[1] for line in body(latex(paper_table(nothing, EZ, ["P@1"], NONE)))] == ["0.0", "0.0"]


def test_methods_that_ignore_pairs_are_there(on):
    few = Setting.of("fs", 0.01)
    made = [on("A", "ignores", 0.5, supervision="unused"), on("A", "looks", 0.25, setting=few)]
    assert [line[0] for line in body(latex(paper_table(made, few, ["P@1"], NONE)))] == ["IGNORES", "LOOKS"]


def test_what_is_not_there_is_refused(on):
    made = [on("A", "one", 0.5)]
    with pytest.raises(UnknownName, match="unknown metric"):
        paper_table(made, EZ, ["P@7"], NONE)
    with pytest.raises(UnknownName, match="unknown dataset 'B' with results, zero-shot"):
        paper_table(made, EZ, ["P@1"], NONE, ["B"])
    with pytest.raises(UsageError, match="no result in the setting full"):
        paper_table(made, Setting("full"), ["P@1"], NONE)
    with pytest.raises(UsageError, match="no row of: two"):
        paper_table(made, EZ, ["P@1"], NONE, methods=["one", "two"])
    odd = on("A", "odd", 0.4, "k=3")
    for records, methods in (([*made, odd], ["one", "odd"]), ([odd], ["odd"])):
        with pytest.raises(UsageError, match="no row of odd with the parameters of a preset"):
            paper_table(records, EZ, ["P@1"], NONE, methods=methods)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex with siunitx (texlive-science)")
def test_latex_sets_it_in_two_columns_at_the_size_of_the_text(tmp_path, inside):
    datasets = "lf-debian-20k,lf-debian-de,lf-manseealso,lf-wordnet"
    ended = inside("export", "table", "--runs", BOARD, "--setting", "full", "--dataset", datasets, "--out", "full.tex")
    assert ended.returncode == 0, ended.stderr
    (tmp_path / "paper.tex").write_text(
        r"\documentclass[twocolumn]{article}\usepackage{booktabs,siunitx,etoolbox}\begin{document}"
        r"\begin{table*}\input{full.tex}\end{table*}\end{document}"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
    assert "Overfull" not in ended.stdout
    assert "resizebox" not in (tmp_path / "full.tex").read_text()


def test_the_figures_are_those_of_the_records(inside, tmp_path):
    words = ("export", "table", "--runs", BOARD, "--dataset", "lf-debian-20k", "--setting", "ez", "--metric", "P@1")
    ended = inside(*words, "--methods", "tfidf,bm25", "--out", "t.tex")
    assert ended.returncode == 0, ended.stderr
    shown = {name: re.sub(r"[^\d.]", "", figure) for name, figure in body((tmp_path / "t.tex").read_text())}
    records = [
        record
        for record in Store(BOARD).records()
        if (record.cell.dataset, record.cell.setting.kind) == ("LF-Debian-20K", "ez")
        and record.cell.method in ("tfidf", "bm25")
        and not record.method.changes
    ]
    figures = {record.name: f"{100 * record.metrics['self'].values['P@1']:.1f}" for record in records}
    assert shown == figures
    assert ended.stdout == f"{len(figures)} rows in t.tex\n"
