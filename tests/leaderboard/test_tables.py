import pytest

from xmcbench.leaderboard.published import MAIN
from xmcbench.leaderboard.rows import Estimate, rows
from xmcbench.leaderboard.tables import cost_table, group_table, metric_table, ranks


def figures(*values, half_width=0.03):
    return [Estimate(value, half_width, None) for value in values]


def test_best_and_second_by_value():
    assert ranks(figures(0.3, 0.5, 0.4, 0.2)) == [None, 0, 1, None]
    assert ranks(figures(0.5)) == [None]
    assert ranks([]) == []


def test_what_intervals_cannot_tell_apart_shares_a_rank():
    # Half-widths of 3 points each: differences up to 4.24 points are within that of the difference.
    assert ranks(figures(0.50, 0.458, 0.457, 0.42)) == [0, 0, 1, 1]
    assert ranks(figures(0.50, 0.458, 0.457, half_width=0.02)) == [0, 1, 1]
    assert ranks(figures(0.5, 0.499999, 0.4, half_width=0.0)) == [0, 0, 1]


def test_nothing_found_is_not_second_best():
    assert ranks(figures(0.5, 0.0, 0.0)) == [0, None, None]
    assert ranks(figures(0.0, 0.0)) == [None, None]


def test_what_seeds_cannot_tell_apart_shares_a_rank(record):
    """Half-widths of 1 point; two seeds 4 points apart have a standard error of 2, the one seed is 3 points lower."""
    made = [record("a", 0, 0.52, 0.01), record("a", 1, 0.48, 0.01), record("b", 0, 0.47, 0.01)]
    table = metric_table(rows(made, "self"), MAIN)
    assert [line.cells[0].rank for line in table.lines] == [0, 0]
    table = metric_table(rows([record("a", 0, 0.50, 0.01), *made[2:]], "self"), MAIN)
    assert [line.cells[0].rank for line in table.lines] == [0, 1]


def test_metrics_and_their_spread_are_text_in_percent(record):
    table = metric_table(rows([record("a", value=0.5), record("b", value=0.4)], "self"), MAIN)
    assert [column.text for column in table.columns] == list(MAIN)
    assert [(line.name, line.cells[0].text, line.cells[0].spread, line.cells[0].rank) for line in table.lines] == [
        ("A", "50.00", "3.0", 0),
        ("B", "40.00", "3.0", 1),
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
    assert {cell.rank for cell in table.lines[0].cells} == {None}


@pytest.mark.parametrize("gpu", [0, 3 * 2**30])
def test_gpu_memory_has_a_column_where_one_was_used(record, altered, gpu):
    made = altered(record(), (("measured", "peak_gpu_memory_bytes"), gpu))
    (row,) = rows([made], "self")
    table = cost_table([(row, cost) for cost in row.costs.values()])
    assert table.lines[0].cells[-1].text == f"{gpu / 2**30:.2f}"
