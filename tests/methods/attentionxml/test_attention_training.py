"""The loss of a level, and the training: averaged weights, divergence."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from xmcbench import MethodError, TopK
from xmcbench.methods.attentionxml.network import Sequences, level_loss, train
from xmcbench.methods.label_tree.tree import Level, shortlist

#: Six nodes below three.
CHILDREN = csr_matrix(np.kron(np.eye(3), np.ones((1, 2))).astype(np.float32))
#: Of five texts, how many labels are below each node.
LABELS = csr_matrix(np.array([[2, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 1]] * 2 + [[0, 0, 0, 0, 3, 0]], np.float32))
LEVEL = Level(CHILDREN, LABELS)


def literal_loss(logits, nodes, true):
    """Binary cross-entropy of one text, summed over these nodes."""
    total = 0.0
    for node in nodes:
        chance = 1 / (1 + np.exp(-float(logits[node])))
        total -= np.log(chance if node in true else 1 - chance)
    return total


def guesses(*listed):
    return TopK(np.array(listed, np.int32), np.zeros((len(listed), len(listed[0])), np.float32))


@pytest.mark.parametrize("guessed", [None, guesses([1, 2], [0, 2], [0, -1], [1, 0], [0, 1])], ids=["all", "listed"])
def test_the_loss_of_a_level_equals_its_transcription(network, texts, guessed):
    made, rows = network(6), np.array([4, 0, 2])
    logits = made(*texts.pad(rows)).detach().numpy()
    expected = 0.0
    for place, row in enumerate(rows):
        true = {*LABELS[row].indices.tolist()}
        nodes = range(6)
        if guessed is not None:
            parents = {node // 2 for node in true} | {*guessed.indices[row].tolist()} - {-1}
            nodes = [node for node in range(6) if node // 2 in parents]
        expected += literal_loss(logits[place], nodes, true)
    found = level_loss(made, texts, LEVEL, guessed, 6, 0, rows)
    assert float(found.detach()) == pytest.approx(expected / 3, rel=1e-4)


def test_a_short_list_keeps_the_own_nodes(network, texts):
    made = network(6)
    logits = made(*texts.pad(np.array([4]))).detach().numpy()[0]
    found = level_loss(made, texts, LEVEL, guesses(*[[0, 1]] * 5), 2, 0, np.array([4]))
    assert float(found.detach()) == pytest.approx(literal_loss(logits, [4, 5], {4}), rel=1e-4)
    # The third place goes to one of two equals.
    drawn = [level_loss(made, texts, LEVEL, guesses(*[[0, -1]] * 5), 3, seed, np.array([4])) for seed in range(9)]
    either = {round(literal_loss(logits, [4, 5, other], {4}), 3) for other in (0, 1)}
    assert {round(float(loss.detach()), 3) for loss in drawn} == either


@pytest.fixture
def trained(network, texts):
    def go(epochs, averaged=0, rate=0.01, dropouts=(0.1, 0.1), loss=None):
        made = network(6, dropouts=dropouts)
        loss_of = loss or partial(level_loss, made, texts, LEVEL, None, 6, 0)
        curve = train(made, loss_of, 5, batch=2, epochs=epochs, rate=rate, averaged=averaged, seed=3)
        return made, curve

    return go


def test_training_lowers_the_loss(trained):
    made, curve = trained(15, rate=0.03, dropouts=(0.0, 0.0))
    assert [point[0] for point in curve] == [3 * (epoch + 1) for epoch in range(15)]
    assert curve[-1][1] < 0.6 * curve[0][1]
    assert not made.training


def test_all_weights_are_trained(trained, network):
    before, (made, _) = network(6).state_dict(), trained(2)
    assert not any(torch.equal(before[name], value) for name, value in made.state_dict().items())


@pytest.mark.parametrize(("averaged", "ends"), [(2, [3, 4]), (4, [1, 2, 3, 4]), (9, [1, 2, 3, 4]), (0, [4]), (1, [4])])
def test_weights_are_the_mean_of_the_last_epochs(trained, averaged, ends):
    """The rate is the same in all steps, so that a shorter training is the beginning of a longer one."""
    found = trained(4, averaged)[0].state_dict()
    kept = [trained(end)[0].state_dict() for end in ends]
    for name, value in found.items():
        np.testing.assert_allclose(value, sum(weights[name] for weights in kept) / len(kept), rtol=1e-4, atol=1e-6)
    if len(ends) > 1:
        assert not torch.equal(found["attention.weight"], kept[-1]["attention.weight"])


def test_no_epoch_leaves_all_as_it_is(trained, network):
    made, curve = trained(0, averaged=3)
    assert curve == []
    assert all(torch.equal(value, network(6).state_dict()[name]) for name, value in made.state_dict().items())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_training_that_diverges_is_an_error(trained, value):
    with pytest.raises(MethodError, match="the loss of step 1 is NaN or infinite"):
        trained(1, loss=lambda rows: torch.tensor(value, requires_grad=True))


def test_padding_trains_no_node(network, texts, monkeypatch):
    """Node 0 is that of one text alone; in the steps of the others its momentum would move it."""
    labels = csr_matrix(np.array([[1, 0, 0, 0, 0, 0], *[[0, 0, 1, 0, 0, 0]] * 4], np.float32))
    level, guessed = Level(CHILDREN, labels), guesses([0], [1], [1], [1], [1])
    original = shortlist

    def train_padded(padding):
        def pad_shortlist(*arguments):
            nodes, shares = original(*arguments)
            widths = (0, 0), (0, padding)
            return np.pad(nodes, widths, constant_values=-1), np.pad(shares, widths)

        monkeypatch.setattr("xmcbench.methods.attentionxml.network.shortlist", pad_shortlist)
        made = network(6)
        loss_of = partial(level_loss, made, texts, level, guessed, 6, 0)
        train(made, loss_of, 5, batch=1, epochs=3, rate=0.05, averaged=0, seed=0)
        return made.state_dict()

    found, padded = train_padded(0), train_padded(3)
    for name, value in found.items():
        # A product of another width may be rounded in another way; a moved node would differ by about the rate.
        torch.testing.assert_close(value, padded[name], rtol=1e-4, atol=1e-5, msg=name)


def test_padding_trains_no_word(network, monkeypatch):
    """Word 0 is that of one text alone. Texts differ in length, and more padding changes no more than rounding does."""
    words = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7], np.int32)
    texts, original = Sequences(np.array([0, 3, 4, 9, 10, 16]), words), Sequences.pad

    def train_padded(padding):
        def pad(self, rows):
            found, lengths = original(self, rows)
            return np.pad(found, ((0, 0), (0, padding)), mode="edge"), lengths

        def loss_of(rows):
            steps.append((0 in rows, made.words.weight[0].tolist()))
            return level_loss(made, texts, LEVEL, None, 6, 0, rows)

        monkeypatch.setattr(Sequences, "pad", pad)
        made, steps = network(6), []
        train(made, loss_of, 5, batch=2, epochs=3, rate=0.05, averaged=0, seed=0)
        steps.append((False, made.words.weight[0].tolist()))
        for (own, before), (_, after) in pairwise(steps):
            assert (before != after) == own
        return made.state_dict()

    found, padded = train_padded(0), train_padded(4)
    for name, value in found.items():
        torch.testing.assert_close(padded[name], value, rtol=1e-4, atol=1e-5)
