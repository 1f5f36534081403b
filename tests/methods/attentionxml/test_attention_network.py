"""The network of a level: its formulas, its gradients, padding, where it starts, and its input."""

import numpy as np
import pytest
import torch

from xmcbench import Texts
from xmcbench.methods.attentionxml.network import Sequences
from xmcbench.methods.words.vocabulary import Vocabulary


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


def literal_lstm(vectors, weights, suffix):
    """The states of one direction, by the equations of the LSTM: vectors [T, d] in the order in which it reads them."""
    from_input, from_state = weights[f"lstm.weight_ih_l0{suffix}"], weights[f"lstm.weight_hh_l0{suffix}"]
    bias = weights[f"lstm.bias_ih_l0{suffix}"] + weights[f"lstm.bias_hh_l0{suffix}"]
    width = from_state.shape[1]
    state, cell, states = np.zeros(width), np.zeros(width), []
    for vector in vectors:
        gates = from_input @ vector + from_state @ state + bias
        enter, forget, new, out = (gates[place * width : (place + 1) * width] for place in range(4))
        cell = sigmoid(forget) * cell + sigmoid(enter) * np.tanh(new)
        state = sigmoid(out) * np.tanh(cell)
        states.append(state)
    return np.array(states)


def literal_logit(network, words, node):
    """Section 3 of the paper for one text and one node: all layers come after the attention; nothing is padded."""
    weights = {name: value.detach().numpy().astype(np.float64) for name, value in network.state_dict().items()}
    vectors = weights["words.weight"][words]
    forward = literal_lstm(vectors, weights, "")
    backward = literal_lstm(vectors[::-1], weights, "_reverse")[::-1]
    states = np.concatenate([forward, backward], axis=1)
    likeness = np.exp([state @ weights["attention.weight"][node] for state in states])
    hidden = sum(share * state for share, state in zip(likeness / likeness.sum(), states, strict=True))
    for place in range(len(network.connected)):
        layer = weights[f"connected.{place}.weight"], weights[f"connected.{place}.bias"]
        hidden = np.maximum(0, layer[0] @ hidden + layer[1])
    return float(weights["output.weight"][0] @ hidden + weights["output.bias"][0])


@pytest.mark.parametrize("connected", [(6,), (6, 3)], ids=["one layer", "two layers"])
def test_logits_equal_their_transcription(network, texts, connected):
    made = network(7, connected=connected)
    rows = np.array([4, 1, 2, 0])
    nodes = np.random.default_rng(1).integers(0, 7, (4, 3))
    padded = texts.pad(rows)
    some = made(*padded, torch.from_numpy(nodes)).detach().numpy()
    every = made(*padded).detach().numpy()
    assert (some.shape, every.shape) == ((4, 3), (4, 7))
    for place, row in enumerate(rows):
        words = texts.words[texts.starts[row] : texts.starts[row + 1]]
        expected = [literal_logit(made, words, node) for node in range(7)]
        np.testing.assert_allclose(every[place], expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(some[place], np.array(expected)[nodes[place]], rtol=1e-4, atol=1e-5)
    # Nodes differ, although they share all layers; but not for a text of one word, which all of them attend to.
    assert (every.std(axis=1) > 0.01).tolist() == [True, False, True, True]


def test_padding_counts_nothing(network, texts):
    made, (words, lengths) = network(7), texts.pad(np.arange(5))
    junk = np.where(words == 0, 8, words)
    for row, length in enumerate(lengths):
        junk[row, :length] = words[row, :length]
    wider = np.hstack([junk, np.full((5, 3), 4)])
    expected = made(words, lengths).detach().numpy()
    for other in (junk, wider):
        np.testing.assert_allclose(made(other, lengths).detach().numpy(), expected, rtol=1e-5, atol=1e-6)


def test_gradients_are_those_of_differences(network, texts):
    made = network(7, connected=(6, 3)).double()
    padded, nodes = texts.pad(np.arange(5)), torch.from_numpy(np.random.default_rng(1).integers(0, 6, (5, 3)))
    target = torch.from_numpy(np.random.default_rng(2).standard_normal((5, 3)))

    def total():
        return (made(*padded, nodes) * target).sum()

    total().backward()
    assert made.attention.weight.grad.is_sparse
    assert made.attention.weight.grad._indices().tolist() == [sorted({*nodes.ravel().tolist()})]  # each node once
    assert made.words.weight.grad.is_sparse
    rng, step = np.random.default_rng(3), 1e-6
    for name, weight in made.named_parameters():
        gradient = weight.grad.to_dense()
        assert gradient.abs().max() > 0, name
        for place in rng.integers(0, weight.numel(), 6):
            with torch.no_grad():
                values = []
                for sign in (1, -2):
                    weight.view(-1)[place] += sign * step
                    values.append(float(total()))
                weight.view(-1)[place] += step
            expected = (values[0] - values[1]) / (2 * step)
            assert float(gradient.reshape(-1)[place]) == pytest.approx(expected, rel=1e-4, abs=1e-7), name


def test_dropout_of_word_vectors_and_of_states(network, texts):
    made = network(3, dropouts=(0.25, 0.75)).train()
    kept = {}
    for place, dropout in enumerate(made.dropouts):
        dropout.register_forward_hook(lambda _, given, made, place=place: kept.update({place: (given[0], made)}))
    many = np.tile(np.arange(5), 100)
    made(*texts.pad(many))
    for place, (width, share) in enumerate([(5, 0.25), (8, 0.75)]):
        given, left = kept[place]
        assert given.shape == (500, 6, width)
        assert float((left[given != 0] == 0).float().mean()) == pytest.approx(share, abs=0.02)


def test_a_level_starts_from_the_one_above_but_for_its_attention(network, texts):
    above, made = network(3, seed=1, connected=(6, 3)), network(7, seed=2, connected=(6, 3))
    attention = made.attention.weight.detach().clone()
    made.start_from(above)
    for name, value in made.state_dict().items():
        expected = attention if name == "attention.weight" else above.state_dict()[name]
        assert torch.equal(value, expected), name
    before = above(*texts.pad(np.arange(5))).detach().clone()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(1)
    assert torch.equal(above(*texts.pad(np.arange(5))), before)


def test_an_output_that_starts_at_a_share(network, texts):
    made = network(3)
    torch.nn.init.zeros_(made.output.weight)
    made.start_at(0.2)
    assert made(*texts.pad(np.arange(5))).sigmoid().detach().numpy() == pytest.approx(0.2)
    for share in (0.0, 1.0):
        made.start_at(share)
        assert torch.isfinite(made.output.bias).all()


def test_words_in_their_order_cut_at_a_length():
    vocabulary = Vocabulary.count([Texts.from_lists(["b a c b a b"])], 1, 10, True)
    assert vocabulary.words.to_pylist() == ["b", "a", "c"]
    texts = Texts.from_lists(["A c b", "", "zyzzyva", "c zyzzyva b a a"], ["b", "", "", ""])
    whole, cut = (Sequences.of(texts, vocabulary, length) for length in (9, 3))
    assert (whole.starts.tolist(), whole.words.tolist()) == ([0, 4, 4, 4, 8], [1, 2, 0, 0, 2, 0, 1, 1])
    assert (cut.starts.tolist(), cut.words.tolist()) == ([0, 3, 3, 3, 6], [1, 2, 0, 2, 0, 1])
    assert len(cut) == 4
    assert cut.lengths.tolist() == [3, 0, 0, 3]
    assert len(Sequences.of(texts[:0], vocabulary, 3)) == 0


def test_taken_and_padded():
    texts = Sequences(np.array([0, 3, 3, 5, 6]), np.array([7, 8, 9, 4, 5, 6], np.int32))
    taken = texts.take(np.array([3, 1, 0]))
    assert (taken.starts.tolist(), taken.words.tolist()) == ([0, 1, 1, 4], [6, 7, 8, 9])
    words, lengths = texts.pad(np.array([2, 3]))
    assert (words.tolist(), lengths.tolist()) == ([[4, 5], [6, 6]], [2, 1])
    assert texts.pad(np.array([0, 3]))[0].tolist() == [[7, 8, 9], [6, 6, 6]]
    assert texts.pad(np.array([1]))[0].shape == (1, 0)
    assert words.dtype == lengths.dtype == np.int64
