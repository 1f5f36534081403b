"""DEXML: its losses and their gradients, pools of labels, gradient caching, and edge cases."""

from functools import partial

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.sparse import csr_matrix

from xmcbench import UsageError
from xmcbench.methods.dexml import DEXML, pool
from xmcbench.methods.dexml.pool import HardNegatives, LabelPool, decoupled_softmax, nearest_labels, soft_top_k
from xmcbench.methods.encoder.contrastive import Vectors
from xmcbench.methods.encoder.opening import open_encoder, open_tokenizer
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.training import DistributedContext

QUICK = {
    "instance_length": 24,
    "label_length": 16,
    "finetune_steps": 6,
    "finetune_batch": 8,
    "finetune_rate": 1e-3,
    "mined_every": 3,
    "precision": "fp32",
}


@pytest.fixture
def scored():
    """Logits of 5 documents for 7 labels. One document has no label, one has all."""
    rng = np.random.default_rng(0)
    true = rng.random((5, 7)) < 0.4
    true[1], true[4] = False, True
    return rng.normal(0, 2, (5, 7)), true


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


def test_the_decoupled_softmax_equals_its_transcription(scored):
    logits, true = scored
    total = 0.0
    for row in range(5):
        wrong = np.exp(logits[row][~true[row]]).sum()
        costs = [-np.log(np.exp(score) / (np.exp(score) + wrong)) for score in logits[row][true[row]]]
        total += np.mean(costs) if costs else 0.0
    assert decoupled_softmax(*map(torch.from_numpy, scored)).item() == pytest.approx(total / 5, abs=1e-9)


@pytest.mark.parametrize(("k", "sharpness"), [(1, 2.0), (3, 0.5), (5, 1.0)])
def test_soft_top_k_equals_its_transcription(scored, k, sharpness):
    logits, true = scored
    wanted, total = min(k, 3.5), 0.0
    for row in range(5):
        scaled = sharpness * logits[row]
        threshold = brentq(lambda t, scaled=scaled: sigmoid(scaled + t).sum() - wanted, -99, 99, xtol=1e-12)
        costs = -np.log(sigmoid(scaled + threshold))[true[row]]
        total += costs.mean() if len(costs) else 0.0
    found = soft_top_k(*map(torch.from_numpy, scored), k, sharpness).item()
    assert found == pytest.approx(total / 5, abs=1e-9)
    narrow = soft_top_k(torch.from_numpy(logits.astype(np.float32)), torch.from_numpy(true), k, sharpness).item()
    assert narrow == pytest.approx(total / 5, abs=1e-5)


@pytest.mark.parametrize(
    "loss", [decoupled_softmax, lambda logits, true: soft_top_k(logits, true, 2, 1.5)], ids=["decoupled", "top-k"]
)
def test_the_gradients_of_the_losses(scored, loss):
    logits, true = scored
    asked = torch.from_numpy(logits).requires_grad_()
    assert torch.autograd.gradcheck(lambda products: loss(products, torch.from_numpy(true)), (asked,))
    single = torch.zeros(2, 1, requires_grad=True)
    loss(single, torch.tensor([[True], [False]])).backward()
    assert torch.isfinite(single.grad).all()


@pytest.fixture
def task(token_pairs):
    stores, dense = token_pairs(13, 0.2)

    def make(hard=None, seed=0, batch=4):
        made = LabelPool(*stores, csr_matrix(dense.astype(np.float32)), batch, 0.1, seed, decoupled_softmax, hard)
        made.resume({"nearest": np.stack([np.random.default_rng(row).permutation(13)[:9] for row in range(20)])})
        return made

    return make, dense


def test_a_pool_of_all_labels_can_be_shared(task):
    made, _ = task
    views = made().draw(0)
    assert len(views["anchor"].rows) == 4
    assert views["pool"].rows.tolist() == [*range(13), 0, 1, 2]


def test_a_hard_pool_has_a_label_of_each_document_and_hard_ones(task):
    made, dense = task
    one = made(HardNegatives(1, 9, 5))
    near = one.state()["nearest"]
    drawn = set()
    for step in range(30):
        views = one.draw(step)
        rows, labels = views["anchor"].rows, views["pool"].rows
        assert len({*labels.tolist()}) == 8
        assert (dense[rows][:, labels].any(axis=1)).all()
        assert all(
            ({*near[row].tolist()} - {*np.flatnonzero(dense[row]).tolist()}) & {*labels.tolist()} for row in rows
        )
        drawn |= {*labels.tolist()}
        again = made(HardNegatives(1, 9, 5)).draw(step)
        assert again["pool"].rows.tolist() == labels.tolist()
    assert drawn == {*range(13)}
    assert len({tuple(made(HardNegatives(1, 9, 5), seed).draw(0)["pool"].rows.tolist()) for seed in range(4)}) > 1
    whole = made(HardNegatives(5, 9, 5)).draw(0)["pool"].rows
    assert sorted({*whole.tolist()}) == [*range(13)]


def test_documents_are_compared_with_the_pool_without_its_padding(task):
    made, dense = task
    one = made()
    views = one.draw(3)
    rng = torch.manual_seed(0)
    anchors, labels = torch.rand(4, 3, generator=rng), torch.rand(16, 3, generator=rng)
    vectors = {"anchor": Vectors(anchors[2:], anchors, 2), "pool": Vectors(labels, labels, 0)}
    found = one.compare(3, views, vectors)["labels"]
    true = torch.from_numpy(dense[views["anchor"].rows[2:]])
    assert found.item() == pytest.approx(decoupled_softmax(anchors[2:] @ labels[:13].T / 0.1, true).item())


def test_nearest_labels_are_found_again(task, monkeypatch):
    made, _ = task
    one, at = made(HardNegatives(1, 40, 3)), []
    monkeypatch.setattr(pool, "nearest_labels", lambda *arguments: at.append(arguments[3]) or np.zeros((20, 9), int))
    monkeypatch.setattr(pool, "Encoder", torch.nn.Module)
    for step in range(7):
        one.prepare(step, torch.nn.Module(), None)
    assert at == [13, 13, 13]
    made().prepare(0, torch.nn.Module(), None)
    assert len(at) == 3


def test_nearest_labels_equal_the_whole_product(checkpoint, stories, artifacts):
    encoder, tokenizer = open_encoder(checkpoint(), "native", 0), open_tokenizer(checkpoint())
    stores = [TokenStore.of(artifacts, side, tokenizer, 16) for side in stories[:2]]
    found = nearest_labels(encoder, *stores, 4, 0, DistributedContext.of("cpu"))
    sides = []
    for store in stores:
        sides.append(np.empty((len(store), encoder.width), np.float32))
        pool.encode(encoder, store, sides[-1])
    scores = sides[0] @ sides[1].T
    expected = -np.sort(-scores, axis=1)[:, :4]
    np.testing.assert_allclose(np.take_along_axis(scores, found, 1), expected, atol=1e-6)


def test_gradient_caching_changes_no_gradient(task, checkpoint):
    """Of one step against all labels, without dropout: cached, in batches of few tokens, and at once."""
    made, _ = task
    gradients = []
    for cached in (None, 16):
        encoder = open_encoder(checkpoint(dropout=0.0), "native", 0)
        encoder.save_memory(cached, False)
        encoder.train()
        made().losses(0, encoder, DistributedContext.of("cpu"))["labels"].backward()
        gradients.append({name: weights.grad for name, weights in encoder.named_parameters()})
    assert any(gradient is not None and gradient.abs().max() > 1e-3 for gradient in gradients[0].values())
    for name, gradient in gradients[0].items():
        if gradient is not None:
            torch.testing.assert_close(gradients[1][name], gradient, atol=1e-5, rtol=1e-5)


@pytest.fixture
def run(fit_and_predict):
    return partial(fit_and_predict, DEXML, QUICK)


@pytest.mark.parametrize("values", [{"negatives": "all"}, {"finetune_balanced": True}])
def test_what_a_pool_replaces_is_refused(values):
    with pytest.raises(UsageError, match="DEXML compares documents with a pool"):
        DEXML(**values).require()


@pytest.mark.parametrize("values", [{}, {"pool": "hard"}, {"loss": "top-k", "top_k": 2}])
def test_pairs_teach_the_encoder(run, stories, values):
    pairs = stories[2].toarray()

    def hits(steps):
        found, _ = run(k=1, finetune_steps=steps, finetune_rate=5e-3, **values)
        return np.take_along_axis(pairs, found.indices, 1).mean()

    assert hits(80) > hits(0) + 0.2


def test_equal_runs_are_equal_and_a_seed_is_another(run):
    hard = run(pool="hard")[0].scores
    assert hard.tobytes() == run(pool="hard")[0].scores.tobytes()
    for values in ({"seed": 1}, {"hard_negatives": 3}, {"shortlist": 3}, {"mined_every": 1}, {"temperature": 0.5}):
        assert not np.array_equal(hard, run(pool="hard", **values)[0].scores), values
    whole = run()[0].scores
    top = run(loss="top-k")[0].scores
    assert not np.array_equal(whole, hard)
    assert not np.array_equal(whole, top)
    for values in ({"top_k": 2}, {"top_k_sharpness": 1.0}):
        assert not np.array_equal(top, run(loss="top-k", **values)[0].scores), values
