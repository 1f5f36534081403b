"""Training with pairs: its length, the labels it holds out, and what methods make of strange labels and few pairs."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix, random

from xmcbench import Texts
from xmcbench.methods.attentionxml import AttentionXML
from xmcbench.methods.dexml import DEXML
from xmcbench.methods.encoder.batches import BalancedEpochs
from xmcbench.methods.encoder.fine_tuning import effort, hold_out_labels, label_retrieval
from xmcbench.methods.encoder.opening import open_encoder, open_tokenizer
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.ngame import NGAME
from xmcbench.methods.renee import Renee
from xmcbench.methods.sentbert import SentBERT
from xmcbench.methods.xr_transformer import XRTransformer

LENGTHS = {"instance_length": 24, "label_length": 16}
TUNED = {**LENGTHS, "finetune_steps": 6, "finetune_batch": 8, "finetune_rate": 1e-3}
RENEE = {**LENGTHS, "frozen_epochs": 2, "epochs": 2, "batch": 8, "learning_rate": 1e-3}
TREE = {"leaf": 2, "branches": 2, "batch": 8}
ATTENTION = {"vectors": "random", "dimensions": 8, "min_count": 1, "hidden": 6, "connected": 8, "epochs": 1}
#: Methods that learn from pairs, small; the last two have no score for a label without pairs.
SUPERVISED = [
    (Renee, RENEE),
    (Renee, {**RENEE, "label_texts": False}),
    (DEXML, {**TUNED, "pool": "all"}),
    (DEXML, {**TUNED, "pool": "hard", "mined_every": 3}),
    (DEXML, {**TUNED, "pool": "all", "loss": "top-k"}),
    (DEXML, {**TUNED, "pool": "hard", "mined_every": 3, "loss": "top-k"}),
    (NGAME, {**TUNED, "clusters_updated_every": 3, "cluster_size": 4, "classifier_epochs": 3}),
    (XRTransformer, {**TREE, "instance_length": 24, "steps": 4, "min_clusters": 2}),
    (AttentionXML, {**TREE, **ATTENTION}),
]


class Store(str):
    """The name of a store that has a length."""

    def __new__(cls, name, count):
        made = super().__new__(cls, name)
        made.count = count
        return made

    def __len__(self):
        return self.count


def pairs_of_labels(labels, of, each=1):
    """``each`` pairs of every one of the first ``labels`` labels, of ``of``."""
    rows, columns = np.arange(labels * each), np.repeat(np.arange(labels), each)
    return csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=(len(rows), of))


def test_the_steps_of_the_paper():
    """2,000 at 1% of the labels, 10,000 at 5% (MACLR, section 5.1)."""
    options = {"steps": 2000, "batch": 256, "rate": 5e-6, "growth": "labels"}
    assert effort(pairs_of_labels(10, 1000), **options)[0] == 2000
    assert effort(pairs_of_labels(50, 1000, each=7), **options)[0] == 10_000
    assert effort(pairs_of_labels(1, 10**6), **options)[0] == 1
    assert effort(pairs_of_labels(50, 1000), **{**options, "growth": "fixed"})[0] == 2000


def test_passes_over_the_pairs_at_most():
    options = {"steps": 60, "batch": 32, "rate": 2e-5}
    assert effort(pairs_of_labels(320, 400), **options, epochs=2)[0] == 20
    assert effort(pairs_of_labels(320, 400), **options, epochs=0.01)[0] == 1
    assert effort(pairs_of_labels(320, 400), **options, epochs=1000)[0] == 60


def test_few_pairs_have_a_lower_rate():
    pairs = random(60, 40, 0.1, "csr", random_state=0)
    assert effort(pairs, steps=1, batch=2, rate=1e-4, full_rate_pairs=4 * pairs.nnz)[1] == pytest.approx(5e-5)
    assert effort(pairs, steps=1, batch=2, rate=1e-4, full_rate_pairs=pairs.nnz)[1] == 1e-4
    assert effort(pairs, steps=1, batch=2, rate=1e-4)[1] == 1e-4


def test_balanced_draws_take_every_label_once():
    labels = np.array([5] * 60 + [2, 2, 9, 7])
    drawn = BalancedEpochs(labels, 2, seed=0)
    steps = [drawn(step) for step in range(40)]
    for step in range(0, 40, 2):
        assert sorted(labels[np.concatenate(steps[step : step + 2])]) == [2, 5, 7, 9]
    assert len({int(pair) for pair in np.concatenate(steps) if labels[pair] == 5}) > 10
    assert drawn(3).tolist() == BalancedEpochs(labels, 2, seed=0)(3).tolist()
    assert len(BalancedEpochs(labels, 100, seed=0)(0)) == 4


def test_held_out_labels_are_not_trained_on():
    pairs = random(60, 5000, 0.001, "csr", random_state=0)
    training, held_out, candidates = hold_out_labels(pairs, seed=0)
    assert ((training + held_out) != pairs).nnz == 0
    assert not set(training.indices) & set(held_out.indices)
    assert len(set(held_out.indices)) == len(set(pairs.indices)) // 5 > 20
    assert set(pairs.indices) < set(candidates.tolist())
    assert len(candidates) == len(set(pairs.indices)) + 2000
    assert candidates.tolist() == sorted(set(candidates.tolist()))
    assert set(hold_out_labels(pairs, seed=1)[1].indices) != set(held_out.indices)
    assert hold_out_labels(pairs_of_labels(4, 9), seed=0)[1].nnz == 0


def test_label_retrieval(artifacts, checkpoint, stories):
    """Against ranks counted one by one, among some labels only."""
    encoder, tokenizer = open_encoder(checkpoint(), "native", seed=0).eval(), open_tokenizer(checkpoint())
    instances, labels = (TokenStore.of(artifacts, texts, tokenizer, 32) for texts in stories[:2])
    pairs, candidates = stories[2], np.array([0, 2, 3, 5, 8, 9])
    trained = csr_matrix(np.roll(pairs.toarray(), 5, axis=1))
    vectors = []
    for store in (instances, labels):
        ids = [torch.from_numpy(store[row].astype(np.int64))[None] for row in range(len(store))]
        with torch.no_grad():
            vectors.append(encoder(ids, [tokens > -1 for tokens in ids]).numpy())
    found = []
    for row, label in zip(*pairs.nonzero(), strict=True):
        if label in candidates:
            rivals = [other for other in candidates if not pairs[row, other] and not trained[row, other]]
            scores = vectors[1] @ vectors[0][row]
            found.append(1 / (1 + sum(scores[other] >= scores[label] for other in rivals)))
    assert 0 < np.mean(found) < 1
    value = label_retrieval(encoder, instances, labels, pairs, trained, candidates)
    assert value == pytest.approx(np.mean(found), abs=1e-4)


def test_labels_that_were_trained_on_are_no_rivals(monkeypatch):
    """Two instances, labels 0 to 4 by falling score: the true ones are 2 and 3, the known ones 0, and 0 and 1."""
    from xmcbench.methods.encoder import fine_tuning as module

    vectors = {"instances": [[1, 0], [1, 0]], "labels": [[0.9, 0], [0.8, 0], [0.7, 0], [0.6, 0], [0.5, 0]]}

    def encode(encoder, store, out, rows):
        out[:] = np.array(vectors[store])[rows]

    monkeypatch.setattr(module, "encode", encode)
    true, known = csr_matrix([[0, 0, 1, 0, 0], [0, 0, 0, 1, 0]]), csr_matrix([[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]])
    arguments = SimpleNamespace(width=2), Store("instances", 2), "labels", true
    assert label_retrieval(*arguments, known, np.arange(5)) == 0.5  # both are second, of 4 labels and of 3
    assert label_retrieval(*arguments, csr_matrix((2, 5)), np.arange(5)) == pytest.approx((1 / 3 + 1 / 4) / 2, abs=1e-5)


def test_the_share_is_chosen_on_held_out_labels(checkpoint, stories, monkeypatch):
    """The best of the shares, with the weights before it untouched; half where too few labels are known."""
    from xmcbench.methods.encoder import fine_tuning as module

    values = {"finetune_steps": 4, "finetune_batch": 8, "finetune_rate": 1e-3, "instance_length": 24}
    asked = []

    def prefer(encoder, instances, labels, held_out, training, candidates):
        asked.append(encoder.digest())
        rows = np.flatnonzero(np.isin(stories[2].indices, held_out.indices)) // 2  # two labels a document
        assert ((held_out + training) != stories[2][np.unique(rows)]).nnz == 0
        assert not {*held_out.indices} & {*training.indices}
        return [0.1, 0.2, 0.7, 0.7, 0.3][(len(asked) - 1) % 5]

    monkeypatch.setattr(module, "label_retrieval", prefer)
    ends = {}
    for share in (None, 0.5, 1.0):
        method = SentBERT(backbone=str(checkpoint()), **values, finetune_share=share)
        method.fit(*stories)
        ends[share] = method._labels
        assert method.notes["fine-tuning"]["share"] == (share or 0.5)
    assert len(asked) == len(set(asked)) == 5
    assert np.array_equal(ends[None], ends[0.5])
    assert not np.array_equal(ends[1.0], ends[0.5])
    few = csr_matrix((np.ones(2, np.float32), ([0, 1], [2, 3])), shape=stories[2].shape)
    method = SentBERT(backbone=str(checkpoint()), **values, finetune_share=None)
    method.fit(*stories[:2], few)
    assert method.notes["fine-tuning"]["share"] == 0.5
    assert "too few" in method.notes["held-out labels"]


@pytest.fixture(params=SUPERVISED, ids=lambda case: case[0].__name__)
def run(request, fitted, checkpoint, stories):
    """Train a method on the stories, and rank labels."""
    kind, values = request.param
    if kind is not AttentionXML:
        values = {**values, "backbone": str(checkpoint())}

    def go(pairs, k, raw_Y=stories[1], new=stories[0]):
        method = fitted(kind, stories[0], raw_Y, pairs, **values)
        if kind is AttentionXML:  # it ranks nothing for a text without a known word
            new = stories[0]
        found = method.predict(new, k)
        found.check(len(new), k, len(raw_Y))
        json.dumps(method.notes, allow_nan=False)
        return found, method

    return go


@pytest.mark.parametrize("known", [[], [(3, 2)], [(3, 2), (3, 4)], [(0, 1), (5, 1)], [(0, 1), (5, 2), (7, 2)]])
def test_hardly_any_pairs(run, stories, known):
    rows, columns = ([pair[i] for pair in known] for i in (0, 1))
    found, method = run(csr_matrix((np.ones(len(known), np.float32), (rows, columns)), shape=stories[2].shape), 20)
    if isinstance(method, XRTransformer | AttentionXML):
        assert {*found.indices.ravel().tolist()} == {-1, *columns}
        assert method.notes["labels_with_a_classifier"] == len({*columns})
    else:
        assert np.isfinite(found.scores[:, :10]).all()


@pytest.mark.parametrize("labels", [["garden"], ["garden", "garden", "", "story"], ["", ""]])
def test_strange_labels(run, labels):
    """One label, equal ones, ones without text; a text without a known word; shortlist, pool and beam larger than L."""
    pairs = csr_matrix(np.arange(30 * len(labels)).reshape(30, -1) % 3 == 0, dtype=np.float32)
    found, _ = run(pairs, 100, Texts.from_lists(labels), Texts.from_lists(["red garden", "", "中文", "zyzzyva"]))
    assert (found.indices[:, : len(labels)] >= 0).all()
    assert (found.indices[:, len(labels) :] == -1).all()
    assert np.isfinite(found.scores[:, : len(labels)]).all()
