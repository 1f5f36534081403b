"""Rows, tables and pages, from records made by hand and from a run."""

import json
import random

import pytest

from xmcbench.leaderboard import differences, pages, rows, write
from xmcbench.leaderboard.pages import MARK
from xmcbench.leaderboard.tables import MAIN, SECOND, metric_table

METRICS = (*MAIN, *SECOND)


def record(method="tfidf", seed=0, value=0.5, status="ok", setting=None, processor="P", **parameters):
    made = {
        "cell": {
            "dataset": "Tiny",
            "setting": setting or {"kind": "ez", "by": None, "ratio": None},
            "method": method,
            "parameters": parameters,
            "seed": seed,
        },
        "method": {"title": method.upper(), "variant": ""},
        "protocol": {"version": 1, "filter": "self"},
        "counts": {"train": 60, "labels": 10},
        "status": status,
        "reason": "" if status == "ok" else "ValueError: no",
        "environment": {
            "hardware": {"processor": processor, "cores": 2, "memory_gib": 24, "accelerators": [], "system": "x"}
        },
        "measured": {
            "wall_s": {"fit": 1.5, "pretrain": 2.0, "predict": 1.0},
            "reused_s": 0.25,
            "predict_ms_per_instance": 0.5,
            "peak_memory_bytes": 2**30,
        },
    }
    if status == "ok":
        view = {
            "values": dict.fromkeys(METRICS, value),
            "intervals": {name: [value - 0.02, value + 0.04] for name in METRICS},
            "scored": 30,
            "unlabelled": 0,
        }
        made["metrics"] = {"self": {**view, "views": {"seen": view}}}
    return made


def test_seeds_are_one_row_and_parameters_are_rows_apart():
    made = rows([record(seed=0, value=0.4), record(seed=1, value=0.6), record(value=0.7, k=2)], "self")
    assert [row.seeds for row in made] == [(0,), (0, 1)]
    figure = made[1].figures["P@1"]
    assert figure.value == pytest.approx(0.5)
    assert figure.half_width == pytest.approx(0.03)
    assert figure.seed_sd == pytest.approx(0.02**0.5)
    assert made[1].fit_s == 3.5


def test_a_failed_seed_is_a_problem_of_its_row():
    (row,) = rows([record(seed=0), record(seed=1, status="failed")], "self")
    assert row.seeds == (0,)
    assert row.problems == ("seed 1: failed: ValueError: no",)
    (row,) = rows([record(status="timeout")], "self")
    assert row.figures == {}


def test_best_is_bold_second_underlined_equals_share():
    made = rows(
        [record("a", value=0.5), record("b", value=0.5), record("c", value=0.4), record("d", value=0.3)], "self"
    )
    lines = metric_table(made, ["P@1"], "github").splitlines()[2:]
    assert ["**50.00**" in line for line in lines] == [True, True, False, False]
    assert ["<u>40.00</u>" in line for line in lines] == [False, False, True, False]
    assert "±3.0" in lines[0]
    assert "**" not in metric_table(rows([record()], "self"), ["P@1"], "github")


def test_pages_do_not_depend_on_the_order_of_records():
    made = [record(name, seed, value) for name, value in (("a", 0.1), ("b", 0.2)) for seed in (0, 1)]
    made.append(record("c", setting={"kind": "fs", "by": "label", "ratio": 0.01}))
    shuffled = made.copy()
    random.Random(0).shuffle(shuffled)
    assert pages(made) == pages(shuffled)
    assert list(pages(made)) == ["tiny.md", "README.md"]
    page = pages(made)["tiny.md"]
    assert page.index("## Zero-shot") < page.index("## Few-shot, 1% of the labels")
    assert "filter: self" in page


def test_times_of_two_machines_are_two_tables():
    page = pages([record("a"), record("b", processor="Q")])["tiny.md"]
    assert "### Time and memory on P, 2 cores" in page
    assert "### Time and memory on Q, 2 cores" in page


def test_write_and_differences(tmp_path):
    (tmp_path / "notes.md").write_text("by hand\n")
    made = pages([record()])
    assert len(differences(tmp_path, made)) == 2
    write(tmp_path, made)
    assert differences(tmp_path, made) == []
    (tmp_path / "old.md").write_text(MARK + "\n")
    (tmp_path / "tiny.md").write_text((tmp_path / "tiny.md").read_text().replace("50.00", "51.00", 1))
    assert [line.split()[0] for line in differences(tmp_path, made)] == [
        str(tmp_path / "old.md"),
        str(tmp_path / "tiny.md"),
    ]
    write(tmp_path, made)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "notes.md", "tiny.md"]


def test_the_command_line_of_it(xmcbench, tiny, tmp_path):
    xmcbench("run", "--dataset", tiny, "--setting", "ez", "--methods", "tfidf,bm25", "--runs", "board")
    assert xmcbench("leaderboard", "--out", "board").returncode == 0
    assert xmcbench("leaderboard", "--out", "board", "--check").returncode == 0
    before = (tmp_path / "board" / "tiny.md").read_bytes()
    for path in (tmp_path / "board").glob("*.md"):
        path.unlink()
    assert xmcbench("leaderboard", "--out", "board", "--check").returncode == 1
    xmcbench("leaderboard", "--out", "board")
    assert (tmp_path / "board" / "tiny.md").read_bytes() == before
    (tmp_path / "board" / "tiny.md").write_text("changed")
    ended = xmcbench("leaderboard", "--out", "board", "--check")
    assert (ended.returncode, "tiny.md differs" in ended.stderr) == (1, True)
    assert xmcbench("leaderboard", "--out", "nowhere").returncode == 2
    results = json.loads(xmcbench("ls", "results", "--runs", "board", "--json").stdout)
    assert {each["method"] for each in results} == {"BM25", "TF-IDF"}
    assert all(each["status"] == "ok" for each in results)
