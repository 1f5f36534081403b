"""Artifacts of encoders that cells share, and what does not count: test_every_artifact_key.py has what does."""

import json
import shutil

import pytest

from xmcbench import Artifacts, MethodError
from xmcbench.methods.ict import ICT
from xmcbench.methods.maclr import MACLR
from xmcbench.methods.rts import RTS
from xmcbench.methods.sentbert import SentBERT

# The precision by name: with auto it would be that of this machine's hardware.
SHORT = {"precision": "fp32", "instance_length": 24, "label_length": 16}
TRAINING = {**SHORT, "steps": 2, "batch": 4, "learning_rate": 1e-3}
CLUSTERS = {"clusters": 3, "clusters_doubled_every": 1, "clusters_updated_every": 1, "kmeans_restarts": 1}
VALUES = {
    SentBERT: SHORT,
    RTS: {**TRAINING, "min_words": 2, "max_words": 4},
    ICT: TRAINING,
    MACLR: {**TRAINING, **CLUSTERS, "steps": 4, "pseudo_steps": 2, "sampled_labels": 4},
}
SECOND = {
    "pseudo_top": 1, "pseudo_mix": "sum", "pseudo_twice": True, "pseudo_loss": "equation-2", "hard_negatives": 1,
    "negative_margin": 0.1, "pseudo_replay": 0.5, "pseudo_steps": 3, "pseudo_tfidf": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One folder for all tests, as a runs folder has one for all cells."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def used(checkpoint, stories, store):
    """The artifacts of a kind that a method takes or makes, in order."""

    def of(wanted, kind, seed=0, **values):
        method = kind(**{"backbone": str(checkpoint()), **VALUES[kind], **values})
        method.seed, method.artifacts = seed, Artifacts(store)
        if hasattr(method, "pretrain"):
            method.pretrained = method.pretrain(*stories[:2])
        method.fit(*stories[:2])
        return [artifact for artifact in method.artifacts.used if artifact.startswith(f"{wanted}/")]

    return of


@pytest.mark.parametrize(("name", "value"), SECOND.items())
def test_another_second_stage_after_the_same_first(used, name, value):
    plain, other = used("training", MACLR), used("training", MACLR, **{name: value})
    assert len(plain) == len(other) == 2
    assert plain[0] == other[0]
    assert plain[1] != other[1]


@pytest.mark.parametrize(("name", "value"), [("finetune_rate", 1e-2), ("stored_as", "float16"), ("finetune_steps", 5)])
def test_the_same_training(used, name, value):
    assert used("training", ICT) == used("training", ICT, **{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("label_length", 3), ("label_prompt", "the "), ("precision", "bf16"), ("head", "cls"), ("stored_as", "float16")],
)
def test_other_embeddings(used, name, value):
    plain, other = used("embeddings", SentBERT), used("embeddings", SentBERT, **{name: value})
    assert plain == used("embeddings", SentBERT, instance_length=20)
    assert len({*plain, *other}) == 2


@pytest.fixture
def other_heads(checkpoint, tmp_path):
    """The same weights, read by another number of attention heads."""
    folder = shutil.copytree(checkpoint(), tmp_path / "heads")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_attention_heads": 4}))
    return folder


@pytest.mark.parametrize(("wanted", "kind"), [("embeddings", SentBERT), ("training", ICT)])
def test_another_architecture_of_the_same_weights(used, other_heads, wanted, kind):
    plain, other = used(wanted, kind), used(wanted, kind, backbone=str(other_heads))
    assert plain[0] != other[0]


def test_where_a_checkpoint_comes_from_does_not_count(used, checkpoint, tmp_path):
    folder = shutil.copytree(checkpoint(), tmp_path / "copy")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "_name_or_path": "a/b", "transformers_version": "9"}))
    assert used("training", ICT) == used("training", ICT, backbone=str(folder))


def test_a_pre_training_of_another_architecture(checkpoint, other_heads, stories, store):
    methods = [ICT(backbone=str(folder), **TRAINING) for folder in (checkpoint(), other_heads)]
    for method in methods:
        method.artifacts = Artifacts(store)
    methods[1].pretrained = methods[0].pretrain(*stories[:2])
    with pytest.raises(MethodError, match="started from another checkpoint than heads is now"):
        methods[1].fit(*stories[:2])
