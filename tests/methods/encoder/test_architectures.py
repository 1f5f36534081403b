"""Checkpoints of the four architectures, from `xmcbench run` to the record, without a network."""

import json
import subprocess
import sys

import pytest

QUICK = {"instance_length": 24, "finetune_steps": 3, "finetune_batch": 8, "finetune_rate": 1e-3}


@pytest.mark.parametrize(
    ("method", "kind"), [("sentbert", "bert"), ("sentbert", "distilbert"), ("sentbert", "roberta"), ("mpnet", "mpnet")]
)
def test_a_local_checkpoint_runs_few_shot(inside, tiny, checkpoint, method, kind):
    """Fine-tuned, after what zero shot does with it."""
    ended = inside(
        *("run", "--dataset", tiny, "--setting", "fs", "--ratio", "0.5", "--methods", method),
        *(*changes(method, checkpoint(kind)), "--device", "cpu", "--json"),
    )
    assert ended.returncode == 0, ended.stderr
    (record,) = json.loads(ended.stdout)["records"]
    check(record, checkpoint(kind))
    assert "fine-tuning" in record["notes"]


def changes(method, checkpoint):
    """The words of the command line that set the checkpoint and a short training."""
    values = {"backbone": checkpoint, **QUICK}
    return [word for name, value in values.items() for word in ("--set", f"{method}.{name}={value}")]


def check(record, checkpoint):
    """A result of this checkpoint, computed on the CPU."""
    assert record["status"] == "ok"
    assert record["notes"]["backbone"]["name"] == checkpoint.name
    compute = record["environment"]["compute"]
    assert (compute["device"], compute["processes"]) == ("cpu", 1)
    assert compute["threads"] >= 1


FRAMEWORKS = {"torch", "transformers", "tokenizers", "accelerate", "safetensors", "sentence_transformers", "faiss"}


def list_imports(words, folder):
    """Return the modules that a run of the command line imports, and its output."""
    command = [sys.executable, "-X", "importtime", "-m", "xmcbench", *map(str, words)]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    lines = [line for line in ended.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}, ended.stdout


def test_zero_shot_and_planning_and_finished_cells_import_no_framework(inside, tiny, checkpoint, tmp_path):
    backbones = {"sentbert": checkpoint(), "mpnet": checkpoint("mpnet")}
    sets = [word for method, backbone in backbones.items() for word in changes(method, backbone)]
    words = ("run", "--dataset", tiny, "--setting", "ez", "--methods", ",".join(backbones), *sets, "--device", "cpu")
    names, planned = list_imports([*words, "--dry-run"], tmp_path)
    assert "to run" in planned
    everything, listed = list_imports(["run", "--dataset", tiny, "--setting", "ez", "--dry-run"], tmp_path)
    assert listed.count("to run") >= 5  # all methods, encoders among them
    first = inside(*words)
    assert first.returncode == 0, first.stderr
    made = [json.loads(path.read_text()) for path in (tmp_path / "runs" / "records").rglob("*.json")]
    assert {record["cell"]["method"] for record in made} == {*backbones}
    for record in made:
        check(record, backbones[record["cell"]["method"]])
        assert "fine-tuning" not in record["notes"]
    cached, shown = list_imports(words, tmp_path)
    assert shown == first.stdout
    for found in (names, everything, cached):
        assert "xmcbench.runner.plan" in found
        assert {name.partition(".")[0] for name in found} & FRAMEWORKS == set()
