import pytest

from xmcbench.leaderboard.curves import as_csv, curve
from xmcbench.leaderboard.groups import borrow
from xmcbench.leaderboard.names import apart
from xmcbench.leaderboard.published import MAIN
from xmcbench.leaderboard.rows import rows, silence, without_common
from xmcbench.leaderboard.tables import cost_table, metric_table
from xmcbench.metrics import half_width
from xmcbench.records import Staleness
from xmcbench.setting import Setting
from xmcbench.storage.canonical import sha256_json


def test_seeds_are_one_row_and_parameters_are_rows_apart(record):
    made = rows([record(seed=0, value=0.4), record(seed=1, value=0.6), record(value=0.7, k=2)], "self")
    assert [row.seeds for row in made] == [(0,), (0, 1)]
    figure = made[1].figures["P@1"]
    assert figure.value == pytest.approx(0.5)
    assert figure.seed_sd == pytest.approx(0.02**0.5)
    assert made[0].figures["P@1"].half_width == pytest.approx(0.03)
    assert made[0].figures["P@1"].seed_sd is None


def test_a_half_width_is_over_instances_and_seeds(record):
    """The mean of n seeds has an n-th of the variance of one; over the same instances it is as sure as one."""
    values = (0.50, 0.51, 0.49, 0.52, 0.48)
    (row,) = rows([record(seed=seed, value=value) for seed, value in enumerate(values)], "self")
    found = row.figures["R@10"].half_width
    assert found == pytest.approx(half_width(values, [0.03] * 5))
    assert 0.03 < found < 0.04
    (same,) = rows([record(seed=seed) for seed in range(5)], "self")
    assert same.figures["R@10"].half_width == pytest.approx(0.03)


def test_what_is_stale_or_of_mixed_code_is_marked(record):
    def marks(*codes):
        made = [record(seed=seed, code=code) for seed, code in enumerate(codes)]
        (row,) = rows(made, "self", Staleness({"tfidf": sha256_json("today")}))
        (line,) = metric_table([row], MAIN).lines
        assert line.notes == row.marks
        return row.marks

    stale = "stale: the method's code has changed since this result was made"
    mixed = "mixed: its results were made by different code"
    assert marks("today", "today") == ()
    assert marks("before", "before") == (stale,)
    assert marks("today", "before") == (f"{stale} (in some of its results)", mixed)
    assert rows([record(code="before")], "self")[0].marks == ()


def test_a_stale_line_of_a_curve_has_a_dagger(record):
    staleness = Staleness({"tfidf": sha256_json("today")})
    made = curve([record(code="before"), record("bm25")], "label", "P@5", "self", (0, 1), staleness=staleness)
    assert [line.label for line in made.lines] == ["BM25", "TFIDF\u2020"]
    (line,) = [line for line in as_csv(made).splitlines() if "TFIDF" in line]
    assert "stale: the method's code" in line


def test_a_name_is_one_line(record, altered):
    made = altered(record(), (("method", "title"), "A\n| B | 100.00 |"), (("method", "variant"), "x\ty"))
    assert rows([made], "self")[0].name == "A | B | 100.00 | (x y)"


def test_rows_of_one_name_are_told_apart(record, altered):
    """A preset was changed between two runs, or two methods have one title: both are there, and which is which."""
    made = [record(k=1, j=1, value=0.7), record(k=2, j=1, value=0.6), record(method="other", k=1, j=1)]
    made = [altered(record, (("method", "title"), "Same"), (("method", "variant"), "quick")) for record in made]
    names = [row.name for row in rows(made, "self")]
    assert names == [
        f"Same (quick), k={k}, method={method}" for k, method in ((1, "tfidf"), (2, "tfidf"), (1, "other"))
    ]


def test_a_changed_value_may_have_a_comma(record, altered):
    made = altered(record(), (("method", "variant"), "quick, a + b, 60 steps of 32, weights=0.3, 0.7, beta=1"))
    facts = rows([made], "self")[0].facts
    assert (facts.preset, facts.encoder, facts.training) == ("quick", "a + b", "60 steps of 32")
    assert facts.changes == facts.others == "weights=0.3, 0.7, beta=1"


def test_digests_are_short_in_what_tells_rows_apart():
    files, commits = (f"sha256:{'ab' * 32}", f"sha256:{'cd' * 32}"), (f"me/mini@{'1' * 40}", f"me/mini@{'2' * 40}")
    assert apart([{"table": file} for file in files]) == [", table=sha256:abababababab", ", table=sha256:cdcdcdcdcdcd"]
    assert apart([{"model": commit} for commit in commits]) == [f", model=me/mini@{digit * 12}" for digit in "12"]
    assert apart([{"name": "deadbeefdeadbeef"}, {}]) == [", name=deadbeefdeadbeef", ""]


def test_costs_of_two_machines_stay_apart(record):
    (row,) = rows([record(seed=0), record(seed=1), record(seed=2, processor="Q")], "self")
    assert [machine.split(",")[0] for machine in row.costs] == ["P", "Q"]
    assert {cost.fit_s for cost in row.costs.values()} == {3.5}
    assert {cost.peak_gpu_bytes for cost in row.costs.values()} == {None}


def test_costs_with_other_threads_or_neighbors_stay_apart(record, altered):
    def with_note(seed, threads, neighbors):
        compute = {"device": "auto", "processes": 1, "threads": threads}
        places = (("environment", "compute"), compute), (("measured", "neighbors"), neighbors)
        return altered(record(seed=seed), *places)

    told = [(None, 0), (2, 0), (1, 0), (1, 1), (2, 3)]
    (row,) = rows([with_note(seed, *told_of_seed) for seed, told_of_seed in enumerate(told)], "self")
    machine = record().environment.hardware.kind
    assert list(row.costs) == [
        machine,
        f"{machine}, 1 thread per cell",
        f"{machine}, 1 thread per cell, beside 1 other cell",
        f"{machine}, beside 3 other cells",
        f"{machine}, threads not recorded",
    ]
    short = ["alone", "1 thread per cell", "1 thread per cell, beside 1 other cell", "beside 3 other cells"]
    short.append("threads not recorded")
    assert without_common([*row.costs]) == short
    assert without_common([machine, machine]) == ["alone", "alone"]
    table = cost_table([(row, cost) for cost in row.costs.values()], machines=list(row.costs))
    assert table.columns[-1].text == "measured on"
    assert [line.cells[-1].text for line in table.lines] == list(row.costs)


def test_a_failed_seed_is_a_problem_of_its_row(record):
    (row,) = rows([record(seed=0), record(seed=1, status="failed")], "self")
    assert row.seeds == (0,)
    assert row.problems == ("seed 1: failed: ValueError: no",)
    (row,) = rows([record(status="timeout")], "self")
    assert row.figures == {}


def test_a_failed_row_lends_nothing(record):
    done, failed = record("a", supervision="unused"), record("b", supervision="unused", status="failed")
    assert borrow([done, failed], [record("c", setting=Setting.of("fs", 0.01))]) == [done]


def test_a_row_says_where_it_predicts_nothing_for_many_instances(record, altered):
    def marks(*empty):
        made = [record(seed=seed) for seed in range(len(empty))]
        changed = [altered(record, (("predictions", "empty"), rows)) for record, rows in zip(made, empty, strict=True)]
        (row,) = rows(changed, "self")
        assert silence(changed) == row.marks
        return row.marks

    assert marks(12) == ("no prediction for 40.0% of the test instances",)
    assert marks(0) == marks(None) == ()
    assert marks(3, 0, None) == ("no prediction for 5.0% of the test instances",)
    with pytest.raises(ValueError, match="fewer test rows than are without one"):
        marks(31)
    with pytest.raises(ValueError, match="predictions for no test rows"):
        altered(record(), (("counts", "test"), 0))


def test_a_row_says_what_the_answers_of_its_judge_cost(record, altered):
    def marks(*notes):
        made = [record(seed=seed) for seed in range(len(notes))]
        changed = [altered(record, (("notes",), note)) for record, note in zip(made, notes, strict=True)]
        (row,) = rows(changed, "self")
        return row.marks

    first = {"judgments": {"judge": "judge-7b", "asked": 3000, "kept": 0, "seconds": 120.0, "prompt_tokens": 1000}}
    other = {"judgments": {"judge": "judge-7b", "asked": 0, "kept": 1000, "seconds": 5.0, "prompt_tokens": 0}}
    assert marks(first, other) == ("judged by judge-7b: 4,000 answers, 25% kept from before, 2 min, 1,000 tokens",)
    assert marks(other) == ("judged by judge-7b: 1,000 answers, 100% kept from before, 5 s",)
    assert marks({}) == marks({"judgments": {"asked": 3}}) == marks({"judgments": 3}) == ()
