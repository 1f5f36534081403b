import pytest

from xmcbench.leaderboard.published import MAIN
from xmcbench.leaderboard.rows import rows
from xmcbench.leaderboard.tables import BEST, TIED, cost_table, group_table, metric_table

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
