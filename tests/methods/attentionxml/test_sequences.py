import numpy as np

from xmcbench import Texts
from xmcbench.methods.attentionxml.network import Sequences
from xmcbench.methods.words.vocabulary import Vocabulary


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
