import pytest

from xmcbench.leaderboard import rows


def test_seeds_are_one_row_and_parameters_are_rows_apart(record):
    made = rows([record(seed=0, value=0.4), record(seed=1, value=0.6), record(value=0.7, k=2)], "self")
    assert [row.seeds for row in made] == [(0,), (0, 1)]
    figure = made[1].figures["P@1"]
    assert figure.value == pytest.approx(0.5)
    assert figure.half_width == pytest.approx(0.03)
    assert figure.seed_sd == pytest.approx(0.02**0.5)


def test_a_name_is_one_line(record):
    made = record()
    made["method"].update(title="A\n| B | 100.00 |", variant="x\ty")
    assert rows([made], "self")[0].name == "A | B | 100.00 | (x y)"


def test_rows_of_one_name_are_told_apart(record):
    """A preset was changed between two runs, or two methods have one title: both are there, and which is which."""
    made = [record(k=1, j=1, value=0.7), record(k=2, j=1, value=0.6), record(method="other", k=1, j=1)]
    for each in made:
        each["method"].update(title="Same", variant="quick")
    names = [row.name for row in rows(made, "self")]
    assert names == [
        f"Same (quick), k={k}, method={method}" for k, method in ((1, "tfidf"), (2, "tfidf"), (1, "other"))
    ]


def test_costs_of_two_machines_stay_apart(record):
    (row,) = rows([record(seed=0), record(seed=1), record(seed=2, processor="Q")], "self")
    assert [machine.split(",")[0] for machine in row.costs] == ["P", "Q"]
    assert {cost.fit_s for cost in row.costs.values()} == {3.5}
    assert {cost.peak_gpu_bytes for cost in row.costs.values()} == {None}


def test_a_failed_seed_is_a_problem_of_its_row(record):
    (row,) = rows([record(seed=0), record(seed=1, status="failed")], "self")
    assert row.seeds == (0,)
    assert row.problems == ("seed 1: failed: ValueError: no",)
    (row,) = rows([record(status="timeout")], "self")
    assert row.figures == {}
