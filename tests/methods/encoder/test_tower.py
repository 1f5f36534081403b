"""An opened encoder over the life of a cell: how often it is opened, what it starts from, what is left on disk."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from transformers import AutoTokenizer

from xmcbench import Artifacts, Compute, MethodError, Texts, TopK, Unavailable, UsageError
from xmcbench.methods.encoder import tower as tower_module
from xmcbench.methods.encoder.backbone import weights_sha256
from xmcbench.methods.encoder.settings import read_settings
from xmcbench.methods.encoder.tower import Tower
from xmcbench.methods.ict import ICT
from xmcbench.methods.maclr import MACLR
from xmcbench.methods.rts import RTS
from xmcbench.methods.sentbert import SentBERT
from xmcbench.methods.simcse import SimCSE
from xmcbench.runner.prediction import Phases, predict
from xmcbench.storage import artifact_store
from xmcbench.storage.tensors import load_arrays

FINETUNING = {"instance_length": 24, "finetune_steps": 4, "finetune_batch": 8, "finetune_rate": 1e-3}
LEARNING = {"steps": 4, "batch": 8, "learning_rate": 1e-3}
STAGES = {
    "pseudo_steps": 3,
    "clusters": 3,
    "clusters_doubled_every": 2,
    "clusters_updated_every": 2,
    "kmeans_restarts": 1,
}
ALL = {
    SentBERT: FINETUNING,
    SimCSE: {**FINETUNING, **LEARNING},
    RTS: {**FINETUNING, **LEARNING},
    ICT: {**FINETUNING, **LEARNING},
    MACLR: {**FINETUNING, **LEARNING, **STAGES},
}
NEW = Texts.from_lists(["the old apple", "a red bridge", ""])


@pytest.fixture
def made(checkpoint):
    """A method over a tiny checkpoint."""

    def make(kind, **values):
        return kind(backbone=str(checkpoint()), **ALL[kind], **values)

    return make


@pytest.fixture
def cell(stories):
    """Run a cell as the harness does, with a store of its own for the object, which lies where others do."""

    def run(method, root, pairs=None, seed=0):
        raw_X, raw_Y, _ = stories
        store, phases = Artifacts(root), Phases()
        found = predict(
            method,
            (raw_X, raw_Y, NEW),
            pairs,
            10,
            seed=seed,
            artifacts=store,
            compute=Compute("cpu"),
            identity={"method": type(method).__name__, "parameters": method.parameters()},
            phases=phases,
        )
        return TopK.joined(found, 10), store

    return run


@pytest.fixture
def opened(monkeypatch):
    """Record each encoder that is opened."""
    calls, original = [], tower_module.open_encoder

    def count(*arguments):
        calls.append(arguments)
        return original(*arguments)

    monkeypatch.setattr(tower_module, "open_encoder", count)
    return calls


@pytest.mark.parametrize("kind", ALL)
def test_an_encoder_is_opened_once_for_its_pretraining_and_once_for_a_cell(made, cell, opened, stories, tmp_path, kind):
    cold, _ = cell(made(kind), tmp_path, stories[2])
    trained = int(hasattr(kind, "pretrain"))
    assert len(opened) == trained + 1
    warm, store = cell(made(kind), tmp_path, stories[2])
    assert len(opened) == trained + 2
    assert store.reused_s > 0
    assert cold.scores.tobytes() == warm.scores.tobytes()
    assert cold.indices.tobytes() == warm.indices.tobytes()


@pytest.mark.parametrize("kind", ALL)
def test_a_second_fit_starts_from_the_pretrained_weights_again(made, cell, stories, tmp_path, kind):
    """On another subset, on none, and on the first again: as if it were the only one."""
    raw_X, raw_Y, pairs = stories
    few = pairs.copy()
    few.data[pairs.indptr[10] :] = 0
    few.eliminate_zeros()
    alone = [cell(made(kind), tmp_path, subset)[0] for subset in (pairs, few, None)]
    assert len({ranking.scores.tobytes() for ranking in alone}) == 3
    method = made(kind)
    first, _ = cell(method, tmp_path / "own", pairs)
    assert first.scores.tobytes() == alone[0].scores.tobytes()
    for known, expected in ((few, alone[1]), (None, alone[2]), (pairs, alone[0])):
        method.fit(raw_X, raw_Y, known)
        found = method.predict(NEW, 10)
        assert found.scores.tobytes() == expected.scores.tobytes()
        assert found.indices.tobytes() == expected.indices.tobytes()


def test_a_pretraining_counts_without_the_harness(made, cell, stories, tmp_path):
    """Its labels are not kept as those of the backbone, which other methods take."""
    expected, _ = cell(made(ICT), tmp_path / "harness")
    method = made(ICT)
    method.artifacts = Artifacts(tmp_path / "own")
    method.pretrained = method.pretrain(*stories[:2])
    method.fit(*stories[:2])
    assert method.predict(NEW, 10).scores.tobytes() == expected.scores.tobytes()
    assert not (tmp_path / "own" / "embeddings").exists()
    cell(made(SentBERT), tmp_path / "own")
    assert len(list((tmp_path / "own" / "embeddings").glob("*/embeddings.bin"))) == 1


@pytest.mark.parametrize("kind", [SimCSE, RTS, ICT, MACLR])
def test_a_pretraining_belongs_to_its_checkpoint(cell, checkpoint, tmp_path, kind):
    """Words that training has not changed would be those of the checkpoint that was saved over it since."""
    folder = shutil.copytree(checkpoint(), tmp_path / "checkpoint")

    def run():
        method = kind(backbone=str(folder), **ALL[kind])
        return cell(method, tmp_path / "store")[0], method

    _, method = run()
    noted = f"{weights_sha256(folder)} {read_settings(folder).architecture}"
    assert bytes(method.pretrained["checkpoint"]) == hashlib.sha256(noted.encode()).digest()
    before, _ = run()
    weights = load_arrays(folder / "model.safetensors")
    table = weights["embeddings.word_embeddings.weight"]
    table += np.random.default_rng(0).normal(size=table.shape).astype(table.dtype)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(MethodError, match="the pre-training started from another checkpoint than checkpoint") as raised:
        run()
    assert "\n" not in raised.value.message
    assert raised.value.hint.startswith("xmcbench clean --kind pretraining --remove ")
    shutil.rmtree(tmp_path / "store" / "pretraining")
    found, _ = run()
    assert found.scores.tobytes() != before.scores.tobytes()


@pytest.mark.parametrize("kind", ALL)
def test_what_is_left_on_disk(made, cell, stories, tmp_path, monkeypatch, kind):
    """The weights that other cells start from, once; neither those after fine-tuning nor embeddings of instances."""
    monkeypatch.setattr(artifact_store, "_SHARED_FROM", 1)
    method = made(kind)
    _, store = cell(method, tmp_path, stories[2])
    assert "fine-tuning" in method.notes
    trainings = {SentBERT: 0, SimCSE: 1, RTS: 1, ICT: 1, MACLR: 2}[kind]
    weights = list(tmp_path.glob("training/*/weights.safetensors"))
    assert len(weights) == trainings
    pretrained = list(tmp_path.glob("pretraining/*/pretrained.safetensors"))
    assert len(pretrained) == (trainings > 0)
    if trainings:
        same = [file for file in weights if file.read_bytes() == pretrained[0].read_bytes()]
        assert [file.stat().st_ino for file in same] == [pretrained[0].stat().st_ino]
        assert set(load_arrays(pretrained[0])) == set(method.pretrained)
        notes = json.loads(pretrained[0].with_name("notes.json").read_text())
        assert "fine-tuning" not in notes
        assert notes["backbone"] == method.notes["backbone"]
    assert not list(tmp_path.rglob("*.tmp"))
    assert not list(tmp_path.rglob("checkpoint.safetensors"))
    assert not (tmp_path / "embeddings").exists() or kind is MACLR  # of documents, by the backbone as it is
    kinds = {name.partition("/")[0] for name in store.used}
    assert kinds == {path.name for path in tmp_path.iterdir()} - {"content", "unfinished"}
    # A second cell with other pairs keeps no more.
    before = {path for path in tmp_path.rglob("*.*") if path.is_file() and path.suffix != ".lock"}
    few = stories[2].copy()
    few.data[20:] = 0
    few.eliminate_zeros()
    cell(made(kind), tmp_path, few)
    after = {path for path in tmp_path.rglob("*.*") if path.is_file() and path.suffix != ".lock"}
    assert {path.relative_to(tmp_path).parts[0] for path in after - before} <= {"tokens"}  # of the known instances


def test_a_tokenizer_with_more_tokens_than_the_network(checkpoint, stories, tmp_path):
    """Such a text would end the training in the middle."""
    folder = shutil.copytree(checkpoint(), tmp_path / "wider")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    vectors = len(tokenizer)
    tokenizer.add_tokens(["zyzzyva"])
    tokenizer.save_pretrained(folder)
    method = SentBERT(backbone=str(folder))
    method.artifacts = Artifacts(tmp_path / "store")
    with pytest.raises(UsageError, match=f"gives tokens up to {vectors}, and its network has {vectors} of them"):
        method.fit(*stories[:2])


@pytest.mark.parametrize("side", ["instance", "label"])
def test_a_prompt_that_leaves_no_room_for_a_text(made, stories, artifacts, side):
    """All texts would have one vector. One token of a text is enough."""
    method = made(SentBERT, **{f"{side}_prompt": "find the old "})  # five tokens with [CLS] and [SEP]
    method.artifacts = artifacts
    setattr(method, f"{side}_length", 5)
    with pytest.raises(UsageError, match=f"the prompt of {side}s fills all 5 tokens of a text") as refused:
        method.fit(*stories[:2])
    assert refused.value.hint == f"raise {side}_length, or shorten {side}_prompt"
    setattr(method, f"{side}_length", 6)
    method.fit(*stories[:2])


def test_a_tower_is_told_where_to_compute(checkpoint, artifacts, stories, monkeypatch):
    values = {
        "head": "native",
        "projection": False,
        "precision": "fp32",
        "mlm_steps": 0,
        "temperature": 0.05,
        "lengths": (24, 1000),
        "prompts": (None, None),
        "seed": 3,
    }

    def open_tower(compute):
        return Tower.open(str(checkpoint()), stories[:2], artifacts, compute, **values)

    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    tower = open_tower(Compute("auto", 2))
    assert (tower.device, tower.processes, tower.seed) == ("cpu", 2, 3)
    architecture = read_settings(checkpoint()).architecture
    assert tower.computed == ["cpu", "fp32", architecture, "mean", "_UnitLength()", "16", "cosine"]
    assert (tower.longest, tower.limit(24), tower.limit(1000)) == (64, 24, 64)
    assert tower.instance_tokens(Texts.from_lists(["the " * 900]), 1000).lengths.tolist() == [64]
    with pytest.raises(Unavailable, match="no CUDA device found"):
        open_tower(Compute("cuda"))


def test_the_note_says_how_large_the_encoder_is_and_what_its_card_declares(made, stories, artifacts):
    method = made(SimCSE)
    method.artifacts = artifacts
    folder = Path(method.backbone)
    (folder / "README.md").write_text("---\nlicense: mit\ndatasets:\n- snli\n- multi_nli\n---\n# A model\n")
    tower, _ = method._open_initial(*stories[:2])
    note = method.notes["backbone"]
    assert tower.encoder.projection is not None
    stored = load_arrays(folder / "model.safetensors")
    assert note["parameters"] == sum(array.size for name, array in stored.items() if not name.startswith("pooler."))
    assert note["width"] == tower.encoder.width == 16
    assert note["card"] == {"license": "mit", "training_sets": ["snli", "multi_nli"]}
    (folder / "README.md").unlink()
    assert tower.note()["card"] == {}


def test_embeddings_are_shared_or_go(made, stories, artifacts):
    method = made(SentBERT)
    method.artifacts = artifacts
    tower, unchanged = method._open_initial(*stories[:2])
    assert unchanged
    labels = tower.label_tokens(stories[1], 24)
    with tower.embeddings(labels) as vectors:
        alone = np.array(vectors)
    assert not (artifacts.root / "embeddings").exists()
    for _ in range(2):
        with tower.embeddings(labels, shared=True) as vectors:
            assert np.array_equal(vectors, alone)
    assert len(list((artifacts.root / "embeddings").glob("*/embeddings.bin"))) == 1
