"""Encoders that are kept: a folder of sentence-transformers, and equal predictions when it is opened."""

import logging

import numpy as np
import pytest

from xmcbench import Artifacts, Texts, load_arrays
from xmcbench.methods.dexml import DEXML
from xmcbench.methods.ict import ICT
from xmcbench.methods.lmtx import LMTX
from xmcbench.methods.maclr import MACLR
from xmcbench.methods.mpnet import MPNet
from xmcbench.methods.ngame import NGAME
from xmcbench.methods.rae import RAE
from xmcbench.methods.renee import Renee
from xmcbench.methods.rts import RTS
from xmcbench.methods.sentbert import SentBERT
from xmcbench.methods.simcse import SimCSE

NEW = Texts.from_lists(["the old bridge", "a green desert", "", "story of an engine"])
TRAINED = {"finetune_steps": 2, "finetune_batch": 8, "finetune_rate": 1e-2}
CASES = {
    "untrained": (SentBERT, {"finetune_steps": 0}),
    "trained": (SentBERT, TRAINED),
    "prompts": (SentBERT, {**TRAINED, "instance_prompt": "find: ", "label_prompt": "the "}),
    "cls": (SentBERT, {**TRAINED, "head": "cls"}),
    "paper": (SentBERT, {**TRAINED, "head": "paper"}),
    "half": (SentBERT, {**TRAINED, "stored_as": "float16"}),
    "simcse": (SimCSE, {**TRAINED, "steps": 2, "batch": 8}),
    "ict": (ICT, {**TRAINED, "steps": 2, "batch": 8}),
    "rts": (RTS, {**TRAINED, "steps": 2, "batch": 8, "min_words": 1, "max_words": 4}),
    "maclr": (MACLR, {**TRAINED, "steps": 2, "batch": 8, "pseudo_steps": 2}),
    "mpnet": (MPNet, TRAINED),
    "ngame": (NGAME, {**TRAINED, "classifier_epochs": 1}),
    "lmtx": (LMTX, {**TRAINED, "steps": 2, "batch": 8, "rounds": 1, "shortlist": 4, "checked": 0, "relevant": 0.2}),
    "dexml": (DEXML, {**TRAINED, "mined_every": 2}),
    "renee": (Renee, {"frozen_epochs": 1, "epochs": 1, "batch": 8}),
    "rae": (RAE, {**TRAINED, "keys": 8}),
    "rae in half": (RAE, {**TRAINED, "keys": 8, "stored_as": "float16"}),
}


@pytest.fixture(scope="module", params=CASES)
def kept(request, tmp_path_factory, checkpoint, stories):
    """A trained method, and the folder in which it was kept."""
    kind, values = CASES[request.param]
    root = tmp_path_factory.mktemp(request.param)
    method = kind(backbone=str(checkpoint()), precision="fp32", instance_length=24, label_length=12, **values)
    method.artifacts = Artifacts(root / "store")
    method.fit(*stories)
    (root / "model").mkdir()
    method.save(root / "model")
    return method, root / "model", {**values, "backbone": str(checkpoint())}


def test_an_opened_encoder_predicts_as_the_trained_one(kept):
    method, folder, values = kept
    opened = type(method)(precision="fp32", instance_length=24, label_length=12, **values)
    opened.load(folder)
    expected, found = method.predict(NEW, 4), opened.predict(NEW, 4)
    assert np.array_equal(found.indices, expected.indices)
    assert np.array_equal(found.scores, expected.scores)


def test_sentence_transformers_loads_it(kept, caplog):
    from sentence_transformers import SentenceTransformer

    method, folder, values = kept
    if isinstance(method, RAE):
        pytest.skip("its scores are no inner products")
    caplog.set_level(logging.ERROR)
    model = SentenceTransformer(str(folder), device="cpu")
    texts = [text for text in NEW if text]
    vectors = model.encode(texts, prompt=values.get("instance_prompt"))
    labels = load_arrays(folder / "labels.safetensors")["vectors"].astype(np.float32)
    scores = np.asarray(model.similarity(vectors, labels))
    found = method.predict(Texts.from_lists(texts), labels.shape[0])
    expected = np.take_along_axis(scores, found.indices.astype(np.int64), axis=1)
    width = 1.0 if model.similarity_fn_name == "dot" else np.linalg.norm(labels, axis=1)[found.indices]
    assert found.scores == pytest.approx(expected * width, abs=1e-3)
    # As docs/keep-a-model.md has it for NGAME and Renee.
    is_cosine = model.similarity_fn_name == "cosine"
    vectors = model.encode(texts, prompt=values.get("instance_prompt"), normalize_embeddings=is_cosine)
    products = np.take_along_axis(vectors @ labels.T, found.indices.astype(np.int64), axis=1)
    assert found.scores == pytest.approx(products, abs=1e-3)
    assert model.max_seq_length == 24
