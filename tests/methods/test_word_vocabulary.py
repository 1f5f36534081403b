import numpy as np

from xmcbench import Texts
from xmcbench.methods.words.vocabulary import Vocabulary, WordVectors

TEXTS = Texts.from_lists(
    ["The cat, the dog", "", "CAT's-cradle", "!?", "naïve Straße 42"], ["a cat", "the", "", "", "\u0939\u093f\u0928"]
)


def test_frequent_words_first_then_by_spelling():
    words = Vocabulary.count([TEXTS[:2], TEXTS[2:]], 1, 100, lowercase=True).words.to_pylist()
    assert words == ["cat", "the", "42", "a", "cradle", "dog", "naïve", "s", "straße", "\u0939\u093f\u0928"]
    assert Vocabulary.count([TEXTS], 2, 100, lowercase=True).words.to_pylist() == ["cat", "the"]
    assert Vocabulary.count([TEXTS], 1, 1, lowercase=True).words.to_pylist() == ["cat"]
    assert "CAT" in Vocabulary.count([TEXTS], 1, 100, lowercase=False).words.to_pylist()


def test_the_stream_ends_every_text_and_skips_unknown_words():
    known = Vocabulary.count([TEXTS], 2, 100, lowercase=True)
    assert known.stream([TEXTS]).tolist() == [1, 0, 1, 0, -1, 1, -1, 0, -1, -1, -1]
    assert known.stream([TEXTS[:0]]).tolist() == []


def test_arrays_bring_the_words_back():
    known = Vocabulary.count([TEXTS], 1, 100, lowercase=True)
    again = Vocabulary.from_arrays(**known.arrays(), lowercase=True)
    assert again.words.equals(known.words)
    empty = Vocabulary.count([TEXTS[3:4]], 1, 100, lowercase=True)
    assert len(Vocabulary.from_arrays(**empty.arrays(), lowercase=True)) == 0


def test_a_text_is_the_mean_of_its_words():
    words = WordVectors(Vocabulary.count([TEXTS], 2, 100, lowercase=True), np.array([[3, 0], [0, 4]], np.float32))
    means, known = words.embed(TEXTS, normalize=False)
    np.testing.assert_allclose(means, [[1.5, 2], [0, 4], [3, 0], [0, 0], [0, 0]], rtol=1e-6)
    assert known.tolist() == [True, True, True, False, False]
    lengths = np.linalg.norm(words.embed(TEXTS, normalize=True)[0], axis=1)
    np.testing.assert_allclose(lengths, [1, 1, 1, 0, 0], rtol=1e-6)
