"""Checkpoints of the four architectures, from `xmcbench run` to the record, without a network."""

import json
import subprocess
import sys

import pytest

QUICK = {"instance_length": 24, "finetune_steps": 3, "finetune_batch": 8, "finetune_rate": 1e-3}


@pytest.mark.parametrize(
    ("method", "kind"), [("sentbert", "bert"), ("sentbert", "distilbert"), ("sentbert", "roberta"), ("mpnet", "mpnet")]
)
def test_a_local_checkpoint_runs_zero_shot_and_few_shot(xmcbench, tiny, checkpoint, method, kind):
    values = {"backbone": checkpoint(kind), **QUICK}
    changes = [word for name, value in values.items() for word in ("--set", f"{method}.{name}={value}")]
    for setting in (("ez",), ("fs", "--ratio", "0.5")):
        ended = xmcbench(
            "run", "--dataset", tiny, "--setting", *setting, "--methods", method, *changes, "--device", "cpu", "--json"
        )
        assert ended.returncode == 0, ended.stderr
        (record,) = json.loads(ended.stdout)["records"]
        assert record["status"] == "ok"
        assert record["notes"]["backbone"]["name"] == checkpoint(kind).name
        compute = record["environment"]["compute"]
        assert (compute["device"], compute["processes"]) == ("cpu", 1)
        assert compute["threads"] >= 1
        assert ("fine-tuning" in record["notes"]) == (setting != ("ez",))


FRAMEWORKS = {"torch", "transformers", "tokenizers", "accelerate", "safetensors", "sentence_transformers", "faiss"}


def imported(words, folder):
    """What a run of the command line imports, and what it prints."""
    command = [sys.executable, "-X", "importtime", "-m", "xmcbench", *map(str, words)]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    lines = [line for line in ended.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}, ended.stdout


def test_planning_and_finished_cells_import_no_framework(inside, tiny, checkpoint, tmp_path):
    values = {"backbone": checkpoint(), **QUICK}
    changes = [word for name, value in values.items() for word in ("--set", f"sentbert.{name}={value}")]
    words = ("run", "--dataset", tiny, "--setting", "ez", "--methods", "sentbert", *changes)
    names, planned = imported([*words, "--dry-run"], tmp_path)
    assert "to run" in planned
    everything, listed = imported(["run", "--dataset", tiny, "--setting", "ez", "--dry-run"], tmp_path)
    assert listed.count("to run") >= 5  # all methods, encoders among them
    first = inside(*words)
    assert first.returncode == 0, first.stderr
    cached, shown = imported(words, tmp_path)
    assert shown == first.stdout
    for found in (names, everything, cached):
        assert "xmcbench.runner.plan" in found
        assert {name.partition(".")[0] for name in found} & FRAMEWORKS == set()
