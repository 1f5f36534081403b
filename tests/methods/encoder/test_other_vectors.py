"""Embedding models whose texts are not one dense vector each: sparse vectors, and a vector for each token."""

import tracemalloc

import numpy as np
import pytest
import torch

from xmcbench import Texts, UsageError
from xmcbench.methods.embedder import Embedder
from xmcbench.methods.embedder.other import MultiVectorModel
from xmcbench.methods.pefa import PEFA

NEW = Texts.from_lists(["the old apple", "", "red bridge and green island"], ["candle forest", "", "garden"])


@pytest.fixture
def splade(checkpoint, tmp_path):
    """A tiny sparse encoder; returns its folder, and the loaded model."""
    from sentence_transformers import SparseEncoder
    from sentence_transformers.sparse_encoder.modules import MLMTransformer, SpladePooling
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    def save(similarity="dot"):
        torch.manual_seed(3)
        base, folder = checkpoint(pooling=""), tmp_path / f"splade-{similarity}"
        AutoModelForMaskedLM.from_pretrained(base).save_pretrained(tmp_path / "words")
        AutoTokenizer.from_pretrained(base).save_pretrained(tmp_path / "words")
        modules = [MLMTransformer(str(tmp_path / "words")), SpladePooling()]
        model = SparseEncoder(modules=modules, device="cpu", similarity_fn_name=similarity)
        model.save_pretrained(str(folder))
        return folder, model

    return save


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
def test_labels_are_in_the_order_of_the_sparse_products(splade, predicted, stories, similarity):
    folder, model = splade(similarity)
    found, method = predicted(Embedder(model=str(folder), batch=3), NEW, 8)
    queries, labels = (encode([*texts]).to_dense().numpy() for encode, texts in (
        (model.encode_query, NEW), (model.encode_document, stories[1])))  # fmt: skip
    scores = queries @ labels.T
    if similarity == "cosine":
        scores = scores / np.linalg.norm(queries, axis=1)[:, None] / np.linalg.norm(labels, axis=1)
    for row in range(len(NEW)):
        expected = np.argsort(-scores[row], kind="stable")[:8]
        assert found.indices[row].tolist() == expected.tolist()
        np.testing.assert_allclose(found.scores[row], scores[row, expected], rtol=1e-5)
    notes = method.notes["model"]
    assert (notes["similarity"], notes["name"], notes["precision"]) == (similarity, folder.name, "fp32")
    assert notes["words_per_label"] == pytest.approx((labels > 0).sum(axis=1).mean(), abs=0.05)


def test_texts_are_cut(splade, predicted):
    folder, _ = splade()
    long = Texts.from_lists(["apple " * 40], ["candle " * 40])
    whole, cut = (predicted(Embedder(model=str(folder), max_length=length), long, 8)[0] for length in (None, 8))
    assert not np.array_equal(whole.scores, cut.scores)


def test_options_of_dense_vectors_are_refused(splade, predicted):
    folder, _ = splade()
    with pytest.raises(UsageError, match="truncate_dim is for models with one dense vector per text"):
        predicted(Embedder(model=str(folder), truncate_dim=8), NEW, 8)
    with pytest.raises(UsageError, match="PEFA needs one dense vector per text, which .*splade-dot does not give"):
        predicted(PEFA(model=str(folder)), NEW, 8)


@pytest.fixture
def colbert(checkpoint, tmp_path):
    """A tiny multi-vector encoder; returns its folder, and the loaded model."""
    from sentence_transformers import MultiVectorEncoder

    def save(similarity="maxsim", **settings):
        torch.manual_seed(3)
        model = MultiVectorEncoder(str(checkpoint(pooling="")), device="cpu", similarity_fn_name=similarity)
        for name, value in settings.items():
            setattr(model[0], name, value)
        model.save_pretrained(str(tmp_path / f"colbert-{similarity}"))
        return tmp_path / f"colbert-{similarity}", model

    return save


@pytest.mark.parametrize("similarity", ["maxsim", "meanmaxsim"])
@pytest.mark.parametrize("products", [1, 64_000_000])
def test_labels_are_in_the_order_of_their_best_vectors(colbert, predicted, stories, monkeypatch, similarity, products):
    monkeypatch.setattr("xmcbench.methods.embedder.other._PRODUCTS", products)
    folder, model = colbert(similarity)
    found, method = predicted(Embedder(model=str(folder), batch=3), NEW, 8)
    queries, labels = model.encode_query([*NEW]), model.encode_document([*stories[1]])
    for row, query in enumerate(queries):
        scores = np.array([(np.asarray(query) @ np.asarray(label).T).max(axis=1).sum() for label in labels])
        scores = scores / len(query) if similarity == "meanmaxsim" else scores
        expected = np.argsort(-scores, kind="stable")[:8]
        assert found.indices[row].tolist() == expected.tolist()
        np.testing.assert_allclose(found.scores[row], scores[expected], rtol=1e-4)
    notes = method.notes["model"]
    assert notes["vectors_per_label"] == pytest.approx(np.mean([*map(len, labels)]), abs=0.05)
    assert notes["vectors_per_instance"] == pytest.approx(np.mean([*map(len, queries)]), abs=0.05)
    assert notes["label_vectors_bytes"] == sum(np.asarray(label).nbytes for label in labels)


def test_labels_are_multiplied_a_block_at_a_time(monkeypatch):
    """In float64 their vectors would take twice the memory once more."""
    rng = np.random.default_rng(0)
    model = MultiVectorModel(None, {}, 1, {"similarity": "maxsim"})
    model._labels = rng.standard_normal((40_000, 32), np.float32)
    model._starts = np.flatnonzero(rng.random(40_000) < 0.1)
    model._starts[0] = 0
    queries = [rng.standard_normal((3, 32), np.float32) for _ in range(2)]
    expected = model._score(queries)
    monkeypatch.setattr("xmcbench.methods.embedder.other._PRODUCTS", 50_000)
    tracemalloc.start()
    np.testing.assert_allclose(model._score(queries), expected, rtol=1e-6)
    assert tracemalloc.get_traced_memory()[1] < 2e6
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("settings", "max_length", "stated"),
    [
        ({}, 8, 8),
        ({"query_length": 20, "document_length": 30}, None, {"query": 20, "document": 30}),
        ({"query_length": 20, "document_length": 30}, 8, {"query": 8, "document": 8}),
        ({"query_length": 20}, 24, {"query": 20, "document": 24}),
        ({"query_expansion": {"strategy": "fixed", "attend": True, "length": 12}}, 8, {"query": 12, "document": 8}),
    ],
)
def test_each_side_is_cut_at_its_length(colbert, predicted, settings, max_length, stated):
    folder, _ = colbert(**settings)
    long = Texts.from_lists(["apple " * 40], ["candle " * 40])
    _, method = predicted(Embedder(model=str(folder), max_length=max_length), long, 8)
    notes = method.notes["model"]
    assert notes["max_seq_length"] == stated
    assert notes["vectors_per_instance"] == (stated if isinstance(stated, int) else stated["query"])


def test_labels_of_equal_texts_have_equal_scores(colbert, artifacts):
    """In any batch: a product in float32 depends on the place of a label in the matrix."""
    folder, _ = colbert()
    words = ("apple", "bridge", "candle", "desert", "engine", "forest", "garden", "island")
    rng = np.random.default_rng(0)
    names = [" ".join(rng.choice(words, 3)) for _ in range(20)]
    labels = [names[row % 20] for row in range(203)]
    queries = [" ".join(rng.choice(words, 5)) for _ in range(60)]
    method = Embedder(model=str(folder), batch=8)
    method.artifacts = artifacts
    method.fit(Texts.from_lists(["a story"]), Texts.from_lists(labels))
    found = method.predict(Texts.from_lists(queries), 203)
    for row in range(len(queries)):
        scores = {}
        for label, score in zip(found.indices[row].tolist(), found.scores[row].tolist(), strict=True):
            scores.setdefault(labels[label], set()).add(score)
        assert {name: len(own) for name, own in scores.items() if len(own) > 1} == {}
    few = method.predict(Texts.from_lists(queries[:7]), 203)
    assert few.indices.tolist() == found.indices[:7].tolist()
