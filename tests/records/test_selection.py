"""Which runs a comparison takes: those that belong together."""

import pytest

from xmcbench.errors import UsageError
from xmcbench.records import Store
from xmcbench.records.selection import Choice, choose
from xmcbench.setting import Setting

FEW = Setting.of("fs", 0.1)


@pytest.fixture
def chosen(record, tmp_path):
    """Write rows, (method, seeds, what else) each, and choose the first two by their names."""

    def choose_from(*rows, **choice):
        store = Store(tmp_path / "runs")
        for method, seeds, more in rows:
            for seed in seeds:
                store.write(record(method, seed, **{"setting": FEW, **more}))
        return choose(store.root, rows[0][0], rows[1][0], Choice(**choice))

    return choose_from


def test_runs_that_saw_other_subsets_than_the_other_side_are_left_out(chosen):
    first, second = chosen(("a", (0, 1, 2), {}), ("b", (1, 2, 3), {}))
    assert first.seeds == second.seeds == [1, 2]
    assert first.subsets == second.subsets
    assert None not in first.subsets


def test_without_a_common_subset_all_runs_stay(chosen):
    first, second = chosen(("a", (0, 1), {}), ("b", (2, 3), {}))
    assert (first.seeds, second.seeds) == ([0, 1], [2, 3])


def test_a_side_that_depends_on_no_seed_leaves_the_other_all_of_its_runs(chosen):
    flat = {"deterministic": True, "supervision": "unused"}
    first, second = chosen(("a", (0, 1, 2), {}), ("flat", (0,), flat))
    assert (first.seeds, second.seeds) == ([0, 1, 2], [0])
    assert (first.deterministic, second.deterministic) == (False, True)


def test_a_method_without_chance_depends_on_the_draw_of_its_pairs(chosen):
    first, second = chosen(("a", (0, 1, 2), {}), ("b", (1,), {"deterministic": True}))
    assert (first.seeds, second.seeds) == ([1], [1])
    assert not second.deterministic
    full = {"setting": Setting.of("full"), "deterministic": True}
    first, second = chosen(("c", (0, 1), {"setting": Setting.of("full")}), ("d", (0,), full))
    assert (first.seeds, second.seeds) == ([0, 1], [0])
    assert second.deterministic


def test_at_zero_shot_no_run_is_left_out(chosen):
    ez = {"setting": Setting.of("ez")}
    first, second = chosen(("a", (0, 1, 2), ez), ("b", (1, 3), ez))
    assert (first.seeds, second.seeds) == ([0, 1, 2], [1, 3])
    assert {*first.subsets, *second.subsets} == {None}


def test_seeds_that_are_asked_for_are_taken(chosen):
    first, second = chosen(("a", (0, 1, 2), {}), ("b", (1, 2, 3), {}), seeds=(2, 3))
    assert first.seeds == second.seeds == [2]
    with pytest.raises(UsageError, match="a has no result in this dataset and setting"):
        chosen(("a", (0,), {}), ("b", (9,), {}), seeds=(9,))
