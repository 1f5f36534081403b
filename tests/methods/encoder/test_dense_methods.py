import json
import subprocess
import sys

import numpy as np
import pytest

from xmcbench import Artifacts, MethodError, Texts, Unavailable, UsageError
from xmcbench.methods.encoder.tower import Tower
from xmcbench.methods.ict import ICT
from xmcbench.methods.maclr import MACLR
from xmcbench.methods.mpnet import MPNet
from xmcbench.methods.rts import RTS
from xmcbench.methods.sentbert import SentBERT
from xmcbench.methods.simcse import SimCSE

ALL = [SentBERT, MPNet, SimCSE, ICT, RTS]
QUICK = {"instance_length": 24, "finetune_steps": 6, "finetune_batch": 8, "finetune_rate": 1e-3}
LEARNING = {"steps": 6, "batch": 8, "learning_rate": 1e-3}
STRANGE = Texts.from_lists(["", " ", "zyzzyva", "\u4e2d\u6587 \U0001f600", "the " * 900])


def values_of(kind, checkpoint):
    return {"backbone": str(checkpoint), **QUICK, **(LEARNING if hasattr(kind, "pretrain") else {})}


#: How MACLR fine-tunes (section 5.1).
FINE_TUNED = {
    "instance_length": 288, "label_length": 64, "temperature": 0.05, "warmup": 0.1, "negatives": "all",
    "finetune_steps": 2000, "finetune_growth": "labels", "finetune_batch": 256, "finetune_rate": 5e-6,
    "finetune_full_rate": 0, "finetune_epochs": None, "finetune_share": 1.0, "finetune_balanced": False,
}  # fmt: skip
#: What each paper states, beside.
PAPERS = [
    (SentBERT, {"backbone": "sentence-transformers/bert-base-nli-mean-tokens", "head": "native", "clip": None}),
    (MPNet, {"backbone": "sentence-transformers/paraphrase-mpnet-base-v2", "head": "native", "clip": None}),
    (SimCSE, {
        "backbone": "bert-base-uncased", "head": "cls", "steps": 10_000, "batch": 64, "learning_rate": 3e-5,
        "clip": 1.0,
    }),
    (ICT, {
        "backbone": "bert-base-uncased", "head": "paper", "steps": 100_000, "batch": 256, "learning_rate": 1e-5,
        "min_sentences": 1, "title_dropout": 0.0, "clip": None,
    }),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "stated"), PAPERS)
def test_the_preset_of_a_paper(kind, stated):
    stated = FINE_TUNED | stated
    values = kind(**kind.presets["paper"]).parameters()
    assert {name: values[name] for name in stated} == stated


@pytest.fixture
def run(tmp_path_factory):
    """Train as the harness does; returns the predictions and the method."""

    def go(kind, stories, values, new=STRANGE, pairs=None, seed=0, k=7, store=None):
        raw_X, raw_Y, _ = stories
        method = kind(**values)
        method.seed = seed
        method.artifacts = store or Artifacts(tmp_path_factory.mktemp("store"))
        if hasattr(method, "pretrain"):
            method.pretrained = method.pretrain(raw_X, raw_Y)
        method.fit(raw_X, raw_Y, pairs)
        found = method.predict(new, k=k)
        found.check(len(new), k, len(raw_Y))
        return found, method

    return go


@pytest.mark.parametrize("kind", ALL)
def test_zero_shot_and_few_shot(run, checkpoint, stories, kind):
    values = values_of(kind, checkpoint())
    for pairs in (None, stories[2]):
        first, method = run(kind, stories, values, pairs=pairs)
        again, _ = run(kind, stories, values, pairs=pairs)
        assert first.indices.tobytes() == again.indices.tobytes()
        assert first.scores.tobytes() == again.scores.tobytes()
        assert ("fine-tuning" in method.notes) == (pairs is not None)
        json.dumps(method.notes, allow_nan=False)
    assert method.notes["backbone"]["name"] == checkpoint().name
    assert method.notes["cut_instances"] == 1
    assert ("training" in method.notes) == hasattr(kind, "pretrain")


@pytest.mark.parametrize(("kind", "none"), [(ICT, {"steps": 0}), (MACLR, {"steps": 0, "pseudo_steps": 0})])
def test_a_checkpoint_without_training_needs_no_context(run, checkpoint, stories, kind, none):
    """The authors' checkpoints, whose training is done, are used like this, on titles alone."""
    titles = Texts.from_lists(list(stories[0].titles)), stories[1], stories[2]
    values = {"backbone": str(checkpoint()), **QUICK}
    for pairs in (None, stories[2]):
        found, _ = run(kind, titles, {**values, **none}, pairs=pairs)
        expected, _ = run(SentBERT, titles, values, pairs=pairs)
        assert np.array_equal(found.scores, expected.scores)
    with pytest.raises(MethodError, match="no document has a title and a content"):
        run(kind, titles, {**values, "steps": 1, "batch": 8})


def test_pseudo_pairs_need_no_context(run, checkpoint, stories):
    titles = Texts.from_lists(list(stories[0].titles)), stories[1], None
    _, method = run(MACLR, titles, {"backbone": str(checkpoint()), "steps": 0, "pseudo_steps": 2, "batch": 8})
    assert method.notes["stage II"]["steps"] == 2


@pytest.mark.parametrize("kind", ["bert", "distilbert", "roberta", "mpnet"])
@pytest.mark.parametrize("head", ["native", "paper"])
def test_architectures(run, checkpoint, stories, kind, head):
    folder = checkpoint(kind)
    found, _ = run(SentBERT, stories, {**values_of(SentBERT, folder), "head": head}, pairs=stories[2])
    trained, _ = run(ICT, stories, {**values_of(ICT, folder), "head": head}, pairs=stories[2])
    assert not np.array_equal(found.scores, trained.scores)


def test_simcse_under_the_head_of_the_paper(run, checkpoint, stories):
    """The head is the projection, and its inner products have no temperature."""
    values = {**values_of(SimCSE, checkpoint()), "head": "paper"}
    found = [run(SimCSE, stories, {**values, "temperature": temperature})[0].scores for temperature in (0.05, 0.5)]
    assert np.array_equal(*found)
    _, method = run(SimCSE, stories, values)
    assert method._tower.encoder.projection is None
    assert run(SimCSE, stories, values_of(SimCSE, checkpoint()))[1]._tower.encoder.projection is not None


def test_simcse_is_fine_tuned_without_its_projection(run, checkpoint, stories):
    """The weights trained on the pairs rank, as in the other methods."""
    found = []
    for kind in (SentBERT, SimCSE):
        values = {**values_of(kind, checkpoint(dropout=0.0)), "finetune_share": None}
        own = {"steps": 0} if kind is SimCSE else {}
        found.append(run(kind, stories, {**values, **own}, pairs=stories[2])[0])
    assert np.array_equal(found[0].scores, found[1].scores)


def test_pairs_teach(run, checkpoint, stories):
    raw_X, _, pairs = stories
    values = {**values_of(SentBERT, checkpoint()), "finetune_steps": 120, "finetune_rate": 5e-3}
    hits = []
    for known in (None, pairs):
        found, _ = run(SentBERT, stories, values, new=raw_X, pairs=known, k=2)
        hits.append(np.take_along_axis(pairs.toarray(), found.indices, 1).mean())
    assert hits[1] > hits[0] + 0.3


def test_the_store_changes_nothing(run, checkpoint, stories, tmp_path):
    """A second cell takes tokens, training and embeddings from the store."""
    store = Artifacts(tmp_path)
    values = values_of(ICT, checkpoint())
    first, _ = run(ICT, stories, values, pairs=stories[2], store=store)
    before = store.reused_s
    again, _ = run(ICT, stories, values, pairs=stories[2], store=store)
    assert store.reused_s > before
    assert first.scores.tobytes() == again.scores.tobytes()
    other, _ = run(ICT, stories, {**values, "temperature": 0.5}, pairs=stories[2], store=store)
    assert first.scores.tobytes() != other.scores.tobytes()


def test_rts_is_trained_again_for_other_labels(run, checkpoint, stories, tmp_path):
    raw_X, raw_Y, _ = stories
    values = {**values_of(RTS, checkpoint()), "min_words": 2, "max_words": 4}
    found = []
    for labels in (raw_Y, Texts.from_lists(["red garden island", *list(raw_Y)[1:]])):
        store = Artifacts(tmp_path)
        run(RTS, (raw_X, labels, None), values, store=store)
        found.append({artifact for artifact in store.used if artifact.startswith("training/")})
    assert found[0]
    assert not found[0] & found[1]


def test_documents_without_a_context_are_in_the_notes(run, checkpoint, stories):
    raw_X, raw_Y, pairs = stories
    shorter = Texts.from_lists(
        list(raw_X.titles), ["One sentence." if row < 4 else content for row, content in enumerate(raw_X.contents)]
    )
    _, method = run(ICT, (shorter, raw_Y, pairs), values_of(ICT, checkpoint()))
    assert method.notes["documents_without_a_context"] == 4
    assert "sentences_of_a_context" not in method.notes
    short = Texts.from_lists(list(raw_X.titles), ["One sentence."] * len(raw_X))
    _, method = run(ICT, (short, raw_Y, pairs), values_of(ICT, checkpoint()))
    assert (method.notes["documents_without_a_context"], method.notes["sentences_of_a_context"]) == (0, 1)
    titles_only = (Texts.from_lists(list(raw_X.titles)), raw_Y, pairs)
    with pytest.raises(MethodError, match="no document has a title and a content"):
        run(ICT, titles_only, values_of(ICT, checkpoint()))


def test_pairs_that_are_none_teach_nothing(run, checkpoint, stories):
    none = stories[2].copy()
    none.data[:] = 0
    none.eliminate_zeros()
    without, method = run(SentBERT, stories, values_of(SentBERT, checkpoint()))
    empty, _ = run(SentBERT, stories, values_of(SentBERT, checkpoint()), pairs=none)
    assert without.scores.tobytes() == empty.scores.tobytes()
    assert "fine-tuning" not in method.notes


def test_one_document_one_label(run, checkpoint):
    from scipy.sparse import csr_matrix

    tiny = Texts.from_lists(["apple"], ["The old. The new."]), Texts.from_lists(["apple"]), csr_matrix([[1.0]])
    for kind in ALL:
        run(kind, tiny, values_of(kind, checkpoint()), pairs=tiny[2])


def test_weights_that_are_nowhere_are_not_a_reason_to_take_others(run, stories, tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(Unavailable, match="paraphrase-mpnet-base-v2") as raised:
        run(MPNet, stories, {})
    assert "hf download" in raised.value.hint


@pytest.mark.parametrize(
    "wrong",
    [{"temperature": 0.0}, {"label_length": 2}, {"finetune_batch": 1}, {"title_dropout": 1.5}, {"steps": -1}],
)
def test_parameters_out_of_range(run, checkpoint, stories, wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        run(ICT, stories, {**values_of(ICT, checkpoint()), **wrong})


def test_a_scratch_backbone(run, stories):
    values = {**values_of(ICT, ""), "backbone": "scratch:1x32", "mlm_steps": 5}
    _, method = run(ICT, stories, values)
    assert method.notes["backbone"]["name"] == "scratch:1x32"


def test_importing_the_dense_methods_is_light():
    heavy = ["torch", "transformers", "sentence_transformers", "faiss", "accelerate", "pyarrow", "scipy", "tokenizers"]
    code = (
        "import sys, xmcbench.methods.sentbert, xmcbench.methods.mpnet, xmcbench.methods.simcse, xmcbench.methods.ict;"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_fine_tuning_is_kept_for_its_pairs(checkpoint, stories, monkeypatch, artifacts):
    """Other pairs, even of the same number, are another fine-tuning; nothing is trained to find out."""
    raw_X, raw_Y, pairs = stories
    identities = []
    monkeypatch.setattr(
        Tower, "train", lambda self, task, plan, identity, batch, **_: identities.append(identity) or {}
    )

    def identity(known, texts=raw_X):
        method = SentBERT(**values_of(SentBERT, checkpoint()))
        method.artifacts = artifacts
        method._finetune(method._open(texts, raw_Y), texts, raw_Y, known)
        return json.dumps(identities.pop(), sort_keys=True)

    moved = pairs.copy()
    moved.indices = (moved.indices + 1) % len(raw_Y)
    moved.sort_indices()
    fewer = pairs.copy()
    fewer.data[:2] = 0
    fewer.eliminate_zeros()
    found = [identity(matrix) for matrix in (pairs, pairs.copy(), moved, fewer)]
    assert found[0] == found[1]
    assert len({*found}) == 3
    assert identity(pairs, Texts.from_lists([f"{text} more" for text in raw_X])) != found[0]
