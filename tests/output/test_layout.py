"""Tables that fit a terminal, and quantities in words."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from xmcbench.output.layout import _pieces, fill, format_table, in_markdown, limit_in_pipes
from xmcbench.output.quantities import duration, format_count, format_p

HEADS = ["Method", "P@1", "P@3", "R@100"]
LINES = [
    ["MACLR (quick, all-MiniLM-L6-v2, 20 steps of 32)", "32.60 ±2.7", "14.70 ±1.1", "74.01 ±2.4"],
    ["BM25", "1", "", "2"],
]
RIGHT = ["left", "right", "right", "right"]


def widest(text):
    return max(map(len, text.splitlines()))


def test_what_fits_is_as_it_is():
    whole = format_table(LINES, HEADS, RIGHT)
    assert widest(whole) == 47 + 3 * 12
    assert format_table(LINES, HEADS, RIGHT, width=widest(whole)) == whole
    assert "32.60 ±2.7" in whole


def test_text_is_wrapped_and_figures_stay_whole():
    narrow = format_table(LINES, HEADS, RIGHT, width=60)
    assert widest(narrow) <= 60
    assert "32.60 ±2.7  14.70 ±1.1  74.01 ±2.4" in narrow
    first = "".join(line.partition("  ")[0].replace(" ", "") for line in narrow.splitlines()[2:])
    assert first == "MACLR(quick,all-MiniLM-L6-v2,20stepsof32)BM25"


def test_columns_that_do_not_fit_come_below_with_the_first():
    narrow = format_table(LINES, HEADS, RIGHT, width=45)
    assert widest(narrow) <= 45
    tables = narrow.split("\n\n")
    assert [table.splitlines()[0].split() for table in tables] == [["Method", "P@1", "P@3"], ["Method", "R@100"]]
    assert narrow.count("BM25") == 2
    hopeless = format_table(LINES, HEADS, RIGHT, width=5)  # a column alone is never cut
    assert [table.splitlines()[0].split() for table in hopeless.split("\n\n")] == [
        ["Method", head] for head in HEADS[1:]
    ]


def test_wide_characters_take_two_columns():
    """Characters of Chinese, Japanese and Korean; a mark that is put on a letter takes none."""
    lines = [["\u6a5f\u68b0\u5b66\u4e60", "1.00"], ["e\u0301", "10.00"], ["machine", "2.00"]]
    shown = format_table(lines, ["label", "score"], ["left", "right"]).splitlines()
    assert [cell_len(line) for line in shown] == [8 + 2 + 7] * len(shown)
    for width in (50, 51):
        narrow = format_table([["\u6a5f" * 40, "1.00"]], ["label", "score"], ["left", "right"], width=width)
        assert max(map(cell_len, narrow.splitlines())) <= width
        assert narrow.count("\u6a5f") == 40
    assert format_table([["a\x07b"]], ["label"]).splitlines()[-1] == "a\x07b"


def test_numbers_are_text_whatever_they_look_like():
    """8,176,668 was read as a number where another column was wrapped."""
    narrow = format_table([["a method with a long name", "8,176,668", "1e5", "0x1"]], ["Rows", "a", "b", "c"], width=45)
    assert narrow.splitlines()[2].split()[-3:] == ["8,176,668", "1e5", "0x1"]


def test_heads_of_figures_are_wrapped():
    heads = ["Rows", "seeds, 5,115 instances", "detectable, 5,115 instances"]
    assert format_table([["a and b", "no", "1.65"]], heads, ["left", "right", "right"], width=34).splitlines() == [
        "Rows          seeds,   detectable,",
        "               5,115         5,115",
        "           instances     instances",
        "-------  -----------  ------------",
        "a and b           no          1.65",
    ]


def test_no_word_is_cut():
    """Lines end at spaces, in a path behind a slash, and beside characters of scripts without spaces."""
    text = "see https://example.org/a/long/place or \u6a5f\u68b0\u5b66\u4e60 e\u0301\u6a5f\u0301"
    for width in range(5, 80):
        lines = format_table([[text]], ["text"], width=width).splitlines()[2:]
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")
        assert [line for line in lines if line.startswith(("\u0301", "ttps", "xample"))] == []


def test_a_cell_is_one_line():
    assert format_table([["a\nb", "1"]], ["text", "n"]) == format_table([["a b", "1"]], ["text", "n"])


def test_markdown():
    lines = [["a", "1.00", ""], ["\u6a5f\u68b0", "10.00", "<u>2</u>"]]
    assert in_markdown(lines, ["Method", "P@1", "x"]).splitlines() == [
        "| Method | P@1 | x |",
        "| :-- | --: | --: |",
        "| a | 1.00 |  |",
        "| \u6a5f\u68b0 | 10.00 | <u>2</u> |",
    ]
    assert in_markdown([], ["Method", "P@1"], (0, 1)).splitlines()[1:] == ["| :-- | :-- |"]


def test_nothing_and_one_column():
    assert format_table([], HEADS, RIGHT, width=10).split()[:1] == ["Method"]
    assert format_table([["a"]], ["x"], width=1).splitlines()[0].strip() == "x"


@pytest.mark.parametrize(("terminal", "most"), [(True, 50), (False, 83)])
def test_the_width_is_that_of_the_terminal(monkeypatch, terminal, most):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    monkeypatch.setenv("COLUMNS", "50")
    assert widest(format_table(LINES, HEADS, RIGHT)) <= most
    assert (widest(format_table(LINES, HEADS, RIGHT)) > 50) == (not terminal)


@given(st.lists(st.text("ab ", min_size=3, max_size=60), min_size=2, max_size=2), st.integers(8, 60))
def test_two_columns_of_texts_fit_any_terminal(texts, width):
    """Two columns of at least 20 took 42 columns of 40."""
    words = max(len(word) for text in (*texts, "first", "second") for word in text.split() or [""])
    if 2 * words + 2 <= width:
        assert widest(format_table([texts], ["first", "second"], width=width)) <= width


def test_a_pipe_can_have_a_limit(capsys):
    assert widest(format_table(LINES, HEADS, RIGHT)) > 60
    with limit_in_pipes(60):
        assert format_table(LINES, HEADS, RIGHT) == format_table(LINES, HEADS, RIGHT, width=60)
    assert widest(format_table(LINES, HEADS, RIGHT)) > 60


@given(st.text(alphabet="ab /\t", max_size=12))
def test_lines_of_ascii_end_where_those_of_any_text_do(text):
    """Text in ASCII is split by an expression, which is faster."""
    wide = [piece.replace("\u00e9", "a") for piece in _pieces(text.replace("a", "\u00e9"))]
    assert [*_pieces(text)] == wide
    assert "".join(wide) == text


TEXT = "Two rows differ:\n  in a slice of the instances\n\n  xmcbench compare tfidf bm25 --setting ez"


@pytest.fixture
def narrow_terminal(monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "24")


@pytest.mark.usefixtures("narrow_terminal")
def test_a_paragraph_is_wrapped_at_words_and_a_command_is_not():
    expected = ["Two rows differ:", "  in a slice of the", "  instances", "", TEXT.splitlines()[-1]]
    assert fill(TEXT).split("\n") == expected
    assert fill("a description of many words", hang=90) == "a description of many\n            words"
    assert fill("  name  a long description of it", hang=6) == "  name  a long\n        description of\n        it"


def test_a_paragraph_in_a_pipe_stays_as_it_is():
    with limit_in_pipes(24):
        assert fill(TEXT) == TEXT


def test_a_number_and_its_noun():
    assert [format_count(number, "cell") for number in (0, 1, 2, 1234)] == [
        "0 cells",
        "1 cell",
        "2 cells",
        "1,234 cells",
    ]
    assert [format_count(number, "query", "queries") for number in (0, 1, 2)] == ["0 queries", "1 query", "2 queries"]


def test_seconds_as_a_person_says_them():
    assert [duration(seconds) for seconds in (0.4, 89, 90, 3600, 12000)] == [
        "0 s",
        "89 s",
        "2 min",
        "60 min",
        "3 h 20 min",
    ]


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.0, "< 0.0001"), (9.9e-5, "< 0.0001"), (1e-4, "0.0001"), (0.05, "0.0500"), (1.0, "1.0000")],
)
def test_no_p_value_is_printed_as_zero(p, text):
    assert format_p(p) == text
