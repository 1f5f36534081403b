"""Methods that need pairs, end to end on a small real dataset: what they reach, and that they refuse to go without."""

import json
from itertools import chain
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parents[1] / "sample"

#: P@1 and R@100 under the file filter with all training pairs: another processor may round a training otherwise.
REACHED = {
    "knn": (0.345, 0.755),
    "zestxml": (0.518, 0.741),
    "siamesexml": (0.145, 0.557),
    "astec": (0.227, 0.481),
    "attentionxml": (0.236, 0.501),
    "renee": (0.136, 0.469),
    "dexml": (0.300, 0.721),
}

#: The training of the last two, from an encoder that is learned from the texts.
ENCODERS = {
    "renee": ("frozen_epochs=20", "epochs=5", "batch=32", "learning_rate=1e-3"),
    "dexml": (
        *("finetune_steps=100", "finetune_batch=32", "finetune_rate=1e-3", "finetune_full_rate=0"),
        *("pool=hard", "mined_every=500"),
    ),
}


REFUSED = (*REACHED, "mllm", "ngame", "xr-transformer")


@pytest.mark.slow
def test_all_pairs(inside, tmp_path):
    pytest.importorskip("torch", reason="needs torch")
    words = ["run", "--dataset", SAMPLE, "--setting", "full", "--methods", ",".join(REACHED), "--runs", "runs"]
    for value in ("dimensions=64", "epochs=5", "classifier_epochs=2"):
        words += ["--set", f"siamesexml.{value}", "--set", f"astec.{value}"]
    for value in (
        "dimensions=64",
        "length=48",
        "hidden=32",
        "batch=8",
        "epochs=6",
        "learning_rate=0.01",
        "vectors=random",
    ):
        words += ["--set", f"attentionxml.{value}"]
    for method, values in ENCODERS.items():
        shared = ("backbone=scratch:1x64", "mlm_steps=100", "precision=fp32", "instance_length=48", "label_length=16")
        words += chain(*(("--set", f"{method}.{value}") for value in (*shared, *values)))
    ended = inside(*words)
    assert ended.returncode == 0, ended.stderr + ended.stdout
    records = [json.loads(path.read_text()) for path in (tmp_path / "runs" / "records").rglob("*.json")]
    found = {record["cell"]["method"]: record["metrics"]["file"]["values"] for record in records}
    assert {*found} == {*REACHED}
    for method, expected in REACHED.items():
        assert (found[method]["P@1"], found[method]["R@100"]) == pytest.approx(expected, abs=0.03), method


@pytest.mark.parametrize("method", REFUSED)
def test_without_pairs_they_are_refused(inside, method):
    if method == "mllm":
        pytest.importorskip("sklearn", reason="needs scikit-learn")
    elif method not in ("knn", "zestxml"):
        pytest.importorskip("torch", reason="needs torch")
        pytest.importorskip("transformers", reason="needs transformers")
    ended = inside("run", "--dataset", SAMPLE, "--setting", "ez", "--methods", method)
    assert ended.returncode != 0
    assert f"{method} needs pairs" in ended.stdout + ended.stderr
