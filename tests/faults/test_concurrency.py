"""Commands that share a runs folder and a cache at the same time: the same results as one after another."""

import json

import pytest
from process_tree import World
from test_kills import results


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_concurrent_runs_give_what_serial_ones_give(faults, tiny, tmp_path):
    few = ("--setting", "fs", "--ratio", "0.5")
    commands = [
        ("run", "--dataset", tiny, "--setting", "ez", "--methods", "tfidf,bm25"),
        ("run", "--dataset", tiny, *few, "--methods", "bm25,xr-linear"),
        ("run", "--dataset", tiny, *few, "--methods", "xr-linear,bm25,tfidf"),
        ("run", "--dataset", tiny, "--setting", "ez", "--methods", "bm25,tfidf", "--seed", "0,1"),
    ]
    serial = World(tmp_path / "serial")
    for words in commands:
        assert serial.run(*words).returncode == 0
    expected = results(serial.runs)
    assert len(expected) == 7
    for number in range(faults.number(1, 12)):
        world = World(tmp_path / f"world{number}")
        world.environment["XMCBENCH_CACHE"] = str(world.folder / "cache")
        chosen = faults.random.sample(commands, len(commands))
        running = [world.start(*words, "--json") for words in chosen]
        for process in running:
            out, err = process.communicate(timeout=900)
            assert process.returncode == 0, err
            assert {record["status"] for record in json.loads(out)["records"]} == {"ok"}
        assert results(world.runs) == expected
        assert world.left_processes() == []
        assert world.left_files() == []
        faults.count("concurrent trials of 4 commands", "equal to serial")
