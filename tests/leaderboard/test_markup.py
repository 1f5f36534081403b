import csv
import io
import json
from dataclasses import replace

import pytest

from xmcbench.leaderboard import markup
from xmcbench.leaderboard.published import sources
from xmcbench.leaderboard.tables import BEST, TIED, Column, Table, TableCell, TableLine

TABLE = Table(
    "ez",
    "Tiny, 100% of it & more.",
    "Method",
    (Column("P", "@1", ("About a column.",)), Column("P", "@3"), Column("R", "@100"), Column("", "seeds")),
    (
        TableLine(
            "Mine_1 (a|b)",
            (
                TableCell("50.00", "3.0", BEST, value=0.5, half_width=0.03),
                TableCell("40.00", "2.0", TIED),
                TableCell("3.00", "1.0"),
                TableCell("3 (0.10)"),
            ),
        ),
        TableLine(
            "Theirs",
            (TableCell("9.00", "", BEST), TableCell("8.00"), TableCell("7.00", notes=("Of 5%.",)), TableCell()),
            1,
        ),
    ),
)


def test_markdown():
    text = markup.markdown(TABLE, sources())
    assert text.startswith("| Method ")
    assert "\n\nTiny, 100% of it & more.\n\n" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert rows[1] == "| :-- | --: | --: | --: | --: |"
    assert rows[2].startswith("| Mine_1 (a\\|b) | **50.00** <sub>±3.0</sub> | 40.00≈ <sub>±2.0</sub> | 3.00 <sub>")
    assert rows[3].startswith("| *Theirs* [[1]](https://arxiv.org/abs/2112.08652)")
    assert "***9.00***" in rows[3]
    assert "*7.00*<sup>b</sup>" in rows[3]
    assert text.endswith("<sup>a</sup> About a column.  \n<sup>b</sup> Of 5%.")


def test_a_name_is_nothing_but_a_name():
    """Neither a link, as a published row has, nor emphasis, nor a line of its own."""
    line = replace(TABLE.lines[0], name="*M* [[1]](x) _a_ b_c `d` <e>")
    row = next(text for text in markup.markdown(replace(TABLE, lines=(line,)), sources()).splitlines() if "b_c" in text)
    assert row.startswith(r"| \*M\* \[\[1\]\](x) \_a\_ b_c \`d\` \<e\> ")


def test_more_notes_than_letters():
    notes = tuple(f"Note {number}." for number in range(60))
    text = markup.markdown(replace(TABLE, columns=(Column("P", "@1", notes), *TABLE.columns[1:])), sources())
    assert "<sup>z</sup> Note 25.  \n<sup>aa</sup> Note 26.  \n" in text
    assert "<sup>ba</sup> Note 52.  \n" in text


def test_latex_takes_nothing_in_a_name_for_a_command():
    named = [replace(TABLE.lines[0], name=name) for name in ("[1] mine", "* mine", "mine")]
    lines = markup.latex(replace(TABLE, lines=tuple(named)), sources(), "a%b}c-ez").splitlines()
    assert r"\label{tab:a-b-c-ez}" in lines
    starts = [line.partition(" &")[0] for line in lines if "mine &" in line]
    assert starts == ["{}[1] mine", "{}* mine", "mine"]


def test_latex():
    lines = markup.latex(TABLE, sources(), "tiny-ez").splitlines()
    assert lines[0] == "% @inproceedings{xiong2022extreme,"
    assert r"\caption{Tiny, 100\% of it \& more.}" in lines
    assert r"\label{tab:tiny-ez}" in lines
    assert r"\begin{tabular}{lrrrr}" in lines
    assert r" & \multicolumn{2}{c}{Precision} & \multicolumn{1}{c}{Recall} & \multicolumn{1}{c}{} \\" in lines
    assert r"\cmidrule(lr){2-3} \cmidrule(lr){4-4}" in lines
    assert r"Method & @1$^{a}$ & @3 & @100 & seeds \\" in lines
    assert (
        r"Mine\_1 (a|b) & \textbf{50.00} {\scriptsize$\pm$3.0} & 40.00$^{\approx}$ {\scriptsize$\pm$2.0} & "
        r"3.00 {\scriptsize$\pm$1.0} & 3 (0.10) \\"
    ) in lines
    published = r"\textit{Theirs}~\cite{xiong2022extreme} & \textit{\textbf{9.00}} & "
    assert lines[lines.index(next(line for line in lines if line.startswith(published))) - 1] == r"\midrule"
    assert r"\par\smallskip{\footnotesize $^{b}$ Of 5\%.}" in lines
    text = "\n".join(lines)
    assert text.count("{") == text.count("}")


def test_csv():
    mine, theirs = csv.DictReader(io.StringIO(markup.as_csv(TABLE)))
    assert list(mine) == ["Method", "source", "P@1", "P@1 ±", "P@3", "P@3 ±", "R@100", "R@100 ±", "seeds", "notes"]
    assert list(mine.values()) == ["Mine_1 (a|b)", "0", "50.00", "3.0", "40.00", "2.0", "3.00", "1.0", "3 (0.10)", ""]
    assert (theirs["source"], theirs["P@1"], theirs["P@1 ±"]) == ("1", "9.00", "")
    assert theirs["notes"] == "P@1: About a column. R@100: Of 5%."


def test_json():
    mine, theirs = json.loads(json.dumps(markup.as_json(TABLE)))["rows"]
    assert mine["cells"]["P@1"] == {"text": "50.00", "value": 0.5, "half_width": 0.03, "rank": "best"}
    plain = {"value": None, "half_width": None, "rank": ""}
    assert theirs["cells"]["R@100"] == {"text": "7.00", **plain, "notes": ["Of 5%."]}


def test_plain_marks_the_best_and_the_tied_and_says_so():
    text = markup.plain(TABLE)
    assert "50.00* ±3.0" in text
    assert "40.00≈ ±2.0" in text
    assert text.endswith(
        "\n\n* best of its column; ≈ statistically tied with it (paired test, Holm's correction over the column)"
    )
    assert not {"<", "["} & set(text)
    unmarked = replace(TABLE, lines=(TableLine("one", (TableCell("1"),) * 4),))
    assert "*" not in markup.plain(unmarked)
    assert "column" not in markup.plain(unmarked)


def test_words_are_on_the_left():
    table = Table("t", "", "Method", (Column("", "preset", is_text=True), Column("P", "@1")), ())
    assert markup.markdown(table, ()).splitlines()[1] == "| :-- | :-- | --: |"
    assert r"\begin{tabular}{llr}" in markup.latex(table, (), "t")


@pytest.mark.parametrize("text", ["a_b", "50%", "x^2", "~", "\\", "{}", "#1", "$"])
def test_what_latex_would_take_for_a_command_is_escaped(text):
    made = Table("t", "", "", (), (TableLine(text, ()),))
    assert f"\n{text} " not in markup.latex(made, (), "t")
