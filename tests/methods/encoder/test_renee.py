"""Renee: the loss and its gradient in parts, the training of both, the score, and edge cases."""

from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from xmcbench import Artifacts, MethodError, UsageError
from xmcbench.methods.encoder.opening import open_encoder, open_tokenizer
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.training import TrainingPlan, train
from xmcbench.methods.renee import Renee, classifier
from xmcbench.methods.renee.classifier import EndToEnd, LabelClassifier, fit_on_frozen, start_weights

QUICK = {
    "instance_length": 24,
    "label_length": 16,
    "frozen_epochs": 2,
    "epochs": 2,
    "batch": 8,
    "learning_rate": 1e-3,
    "precision": "fp32",
}


@pytest.fixture
def problem():
    """Vectors of 6 texts, a classifier of 11 labels, and the truth; one text has no label."""
    rng = np.random.default_rng(0)
    true = (rng.random((6, 11)) < 0.3).astype(np.float32)
    true[2] = 0
    vectors = torch.from_numpy(rng.normal(size=(6, 4)).astype(np.float32))
    return vectors, rng.normal(size=(11, 4)).astype(np.float32), csr_matrix(true)


@pytest.mark.parametrize("logits", [1 << 22, 12, 1])
def test_parts_equal_the_whole_loss_and_the_optimizer_of_torch(problem, monkeypatch, logits):
    """Three steps, of all labels at once, of two labels at a time, and of one."""
    monkeypatch.setattr(classifier, "_LOGITS", logits)
    vectors, start, true = problem
    found = LabelClassifier(start, offset=1.5, momentum=0.8)
    weight = torch.nn.Parameter(torch.from_numpy(start.copy()))
    optimizer = torch.optim.SGD([weight], momentum=0.8)
    for rate in (0.3, 0.1, 0.2):
        whole = vectors.clone().requires_grad_()
        costs = torch.nn.functional.binary_cross_entropy_with_logits(
            whole @ weight.T - 1.5, torch.from_numpy(true.toarray()), reduction="none"
        )
        optimizer.zero_grad()
        costs.sum().backward()
        losses, gradient = found.step(vectors, true, rate)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        torch.testing.assert_close(losses, costs.sum(dim=1).detach(), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(gradient, whole.grad, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(found.weight, weight.detach(), atol=1e-5, rtol=1e-5)


def test_logits_never_exist_as_a_whole(problem, monkeypatch):
    monkeypatch.setattr(classifier, "_LOGITS", 18)
    shapes, softplus = [], torch.nn.functional.softplus
    monkeypatch.setattr(
        torch.nn.functional, "softplus", lambda logits: shapes.append(tuple(logits.shape)) or softplus(logits)
    )
    vectors, start, true = problem
    LabelClassifier(start, 0.0, 0.0).step(vectors, true, 0.1)
    assert shapes == [(6, 3), (6, 3), (6, 3), (6, 2)]


def test_a_label_starts_between_its_documents_and_its_text():
    documents, labels = np.eye(3, dtype=np.float32), np.eye(3, dtype=np.float32)[::-1]
    pairs = csr_matrix(np.array([[1, 0, 0], [1, 0, 0], [0, 0, 0]], np.float32))
    found = start_weights(documents, np.ascontiguousarray(labels), pairs, 2.0, 20.0)
    np.testing.assert_allclose(found[0], 20 * np.array([1, 1, 2]) / np.sqrt(6), rtol=1e-5)
    np.testing.assert_allclose(found[1:], 20 * labels[1:], rtol=1e-5)


class Alone:
    """A training of one process that records nothing."""

    processes, device = 1, torch.device("cpu")
    gather = staticmethod(lambda vectors: vectors)
    local_slice = staticmethod(lambda rows: slice(0, rows))


def test_the_encoder_gets_the_gradient_of_the_mean_loss(problem, monkeypatch):
    """Of documents and of label texts, where the labels of each are those of its row."""
    vectors, start, true = problem
    targets = csr_matrix(np.vstack([true.toarray(), np.eye(11, dtype=np.float32)]))
    texts = torch.from_numpy(np.random.default_rng(1).normal(size=(11, 4)).astype(np.float32))
    table = torch.cat([vectors, texts]).requires_grad_()
    drawn = []

    def embed(network, parts, device):
        (_, documents), (_, labels) = parts
        drawn.append((documents, labels))
        return [table[torch.from_numpy(documents)], table[6 + torch.from_numpy(labels)]]

    monkeypatch.setattr(classifier, "embed_parts", embed)
    network = torch.nn.Module()
    network.precision = "fp32"
    network.add_module("classifier", LabelClassifier(start, 1.5, 0.9))
    task = EndToEnd(range(6), range(11), targets, TrainingPlan(4, 0.1), 8, 0.0)
    found = task.losses(0, network, Alone())["binary cross-entropy"]
    found.backward()
    rows = torch.from_numpy(np.concatenate([drawn[0][0], 6 + drawn[0][1]]))
    assert len({*rows.tolist()}) == 8
    whole = table.detach().clone().requires_grad_()
    logits = whole[rows] @ torch.from_numpy(start).T - 1.5
    costs = torch.nn.functional.binary_cross_entropy_with_logits(
        logits, torch.from_numpy(targets[rows.numpy()].toarray()), reduction="sum"
    )
    (costs / 8).backward()
    assert found.item() == pytest.approx(costs.item() / 8, rel=1e-5)
    torch.testing.assert_close(table.grad, whole.grad, atol=1e-5, rtol=1e-5)
    assert not torch.equal(network.classifier.weight, torch.from_numpy(start))


def test_the_classifier_learns_on_frozen_vectors(problem):
    vectors, start, true = problem
    found = LabelClassifier(start, 0.0, 0.9)
    curve = fit_on_frozen(found, vectors.numpy(), true, TrainingPlan(60, 0.1), 3, 0.0, torch.float32)
    assert [point[0] for point in curve] == [*range(2, 61, 2)]
    assert curve[-1][1] < curve[0][1] / 3
    with pytest.raises(MethodError, match="step 1 is NaN or infinite") as raised:
        fit_on_frozen(found, np.full((6, 4), np.nan, np.float32), true, TrainingPlan(2, 0.1), 3, 0.0, torch.float32)
    assert "classifier_rate" in raised.value.hint


def test_an_interrupted_training_ends_as_one_that_was_not(checkpoint, stories, tmp_path):
    """Weights and velocity of the classifier are in the checkpoint."""
    ends = []
    for name in ("whole", "interrupted"):
        for last in (4, None) if name == "interrupted" else (None,):
            encoder, tokenizer = open_encoder(checkpoint(), "native", 0), open_tokenizer(checkpoint())
            sides = [TokenStore.of(Artifacts(tmp_path / "tokens"), side, tokenizer, 16) for side in stories[:2]]
            encoder.add_module("classifier", LabelClassifier(np.ones((10, encoder.width), np.float32), 3.0, 0.9))
            task = Stopping(*sides, stories[2], TrainingPlan(7, 0.1), 8, 0.5)
            task.last = last
            plan = TrainingPlan(7, 1e-3, checkpoint_s=0)
            with pytest.raises(KeyboardInterrupt) if last else nullcontext():
                history = train(encoder, task, plan, tmp_path / name, {}, "cpu")
        ends.append(encoder.weights())
    assert history.resumed_at == 4
    assert {"classifier.weight", "classifier.velocity"} < {*ends[0]}
    for name, weights in ends[0].items():
        assert np.array_equal(weights, ends[1][name]), name


class Stopping(EndToEnd):
    def losses(self, step, network, context):
        if step == self.last:
            raise KeyboardInterrupt
        return super().losses(step, network, context)


@pytest.fixture
def run(fit_and_predict):
    return partial(fit_and_predict, Renee, QUICK)


def test_a_head_with_inner_products_is_refused(run):
    with pytest.raises(UsageError, match="renee compares by cosine, and .* with head=paper by inner product") as raised:
        run(head="paper")
    assert raised.value.hint == "head=cls compares by cosine"


def test_pairs_teach_classifier_and_encoder(run, stories):
    pairs = stories[2].toarray()

    def hits(**values):
        return np.take_along_axis(pairs, run(k=1, label_texts=False, text_weight=99.0, **values)[0].indices, 1).mean()

    untrained = hits(frozen_epochs=0, epochs=0)
    assert hits(frozen_epochs=40, epochs=0, dropout=0.0) > untrained + 0.2
    assert hits(frozen_epochs=0, epochs=30, dropout=0.0, learning_rate=5e-3) > untrained + 0.2


def test_equal_runs_are_equal_and_a_seed_is_another(run):
    first, method = run()
    assert first.scores.tobytes() == run()[0].scores.tobytes()
    assert method.notes["classifier"]["curve"][-1][0] == 10
    assert method.notes["fine-tuning"]["steps"] == 10
    changed = (
        {"seed": 1}, {"label_texts": False}, {"momentum": 0.5}, {"dropout": 0.1}, {"offset": 3.0}, {"text_weight": 1.0},
        {"temperature": 0.1}, {"classifier_rate": 0.01}, {"epochs": 0}, {"frozen_epochs": 0}, {"learning_rate": 1e-2},
    )  # fmt: skip
    for values in changed:
        assert not np.array_equal(first.scores, run(**values)[0].scores), values


def test_the_score_is_that_of_the_trained_classifier(run, monkeypatch, stories):
    made = []

    class Watched(LabelClassifier):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(classifier, "LabelClassifier", Watched)
    found, method = run(k=10)
    documents = method._tower.instance_tokens(stories[0], 24)
    with method._tower.embeddings(documents) as vectors:
        expected = vectors @ made[0].weight.numpy().T
    np.testing.assert_allclose(found.scores, -np.sort(-expected, axis=1), rtol=1e-4, atol=1e-4)
    assert not hasattr(method._tower.encoder, "classifier")
