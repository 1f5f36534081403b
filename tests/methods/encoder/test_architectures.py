"""Checkpoints of the four architectures, from `xmcbench run` to the record, without a network."""

import json

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
        assert record["environment"]["compute"] == {"device": "cpu", "processes": 1}
        assert ("fine-tuning" in record["notes"]) == (setting != ("ez",))
