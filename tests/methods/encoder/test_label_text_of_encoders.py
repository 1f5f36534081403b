"""Encoders read of labels what they are asked to: as if it were the text of the labels."""

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules

from xmcbench import LabelTexts, Texts
from xmcbench.methods.embedder import Embedder
from xmcbench.methods.ict import ICT
from xmcbench.methods.label_text import read_labels
from xmcbench.methods.maclr import MACLR
from xmcbench.methods.sentbert import SentBERT

X = Texts.from_lists([f"story {row}" for row in range(6)], ["An old apple. A new bridge."] * 6)
LABELS = LabelTexts.with_details(
    ["the apple", "the bridge"], [(("a fruit",), "it grows", ()), ((), "", ("a",))], ["a", "b"]
)
SMALL = {"instance_length": 16, "label_length": 16, "precision": "fp32"}
TRAINED = {**SMALL, "steps": 2, "batch": 4}


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (SentBERT, SMALL),
        (ICT, TRAINED),
        (MACLR, {**TRAINED, "sampled_labels": 2, "clusters": 2, "pseudo_steps": 2}),
        (Embedder, {"precision": "fp32"}),
    ],
)
def test_what_is_read_is_the_text_of_labels(kind, values, checkpoint, tmp_path):
    where = {"backbone": str(checkpoint())}
    if kind is Embedder:
        where = {"model": str(tmp_path / "model")}
        layers = [modules.Transformer(str(checkpoint(pooling=""))), modules.Pooling(16, "mean")]
        SentenceTransformer(modules=layers, device="cpu").save(where["model"])

    def embed(labels, part):
        method = kind(**where, **values, label_text=part)
        if hasattr(method, "pretrain"):
            method.pretrained = method.pretrain(X, labels)
        method.fit(X, labels)
        return method._labels

    titles, read = embed(LABELS, "title"), embed(LABELS, "all")
    assert np.array_equal(titles, embed(Texts.from_lists([*LABELS.titles]), "title"))
    assert not np.array_equal(titles, read)
    if kind is not MACLR:  # it compares titles of instances with those of labels, whatever else it reads
        assert np.array_equal(read, embed(read_labels(LABELS, "all"), "title"))
