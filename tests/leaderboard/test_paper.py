"""Tables for papers: what is in them, and that LaTeX sets them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from xmcbench.errors import UnknownName, UsageError
from xmcbench.leaderboard.paper import latex, paper_table
from xmcbench.leaderboard.sections import Context
from xmcbench.records import Staleness, Store
from xmcbench.setting import Setting

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
    tied = type(table)(table.setting, table.columns, table.rows, {"A": {"P@1": {"TWO"}}})
    assert body(latex(tied)) == [["ONE", r"\bfseries 50.0"], ["TWO", r"49.0\xmctie"]]


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


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex with siunitx (texlive-science)")
def test_latex_sets_it_in_two_columns_at_the_size_of_the_text(tmp_path, inside):
    words = ("export", "table", "--runs", BOARD, "--setting", "full", "--out", "full.tex")
    ended = inside(*words)
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
