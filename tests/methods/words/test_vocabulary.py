"""Words of texts: their analysis, their vocabulary, and the means of their vectors."""

import sys
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest
import Stemmer

from xmcbench import Artifacts, Texts, Unavailable
from xmcbench.methods.bm25 import BM25
from xmcbench.methods.sparse.features import TfidfFeatures
from xmcbench.methods.sparse.ngrams import NgramTfidf
from xmcbench.methods.tfidf import Tfidf
from xmcbench.methods.words.analysis import Language, analyze, number_terms
from xmcbench.methods.words.vocabulary import Vocabulary, WordVectors


def terms(texts, analyzer):
    """The terms of each text."""
    tokens = analyze(pa.array(texts, pa.large_string()), analyzer)
    words = tokens.words.to_pylist()
    assert len(set(words)) == len(words)
    assert tokens.texts == len(texts)
    return [[words[code] for code in tokens.codes[tokens.rows == row]] for row in range(len(texts))]


def test_stems_of_a_language_without_its_stop_words():
    assert terms(["Die Netzwerke der Rechner", "", "und"], "german") == [["netzwerk", "rechn"], [], []]
    assert terms(["The cities' networks!"], "english") == [["citi", "network"]]
    # Not in bm25s's lists of stop words.
    assert terms(["talojen katot"], "finnish") == [Stemmer.Stemmer("finnish").stemWords(["talojen", "katot"])]


def test_words_with_combining_marks_stay_whole():
    assert terms(["हिन्दी भाषा"], "hindi") == [Stemmer.Stemmer("hindi").stemWords(["हिन्दी", "भाषा"])]
    composed = terms(["Caf\u00e9"], "french") + terms(["\u00e9"], "characters")
    assert terms(["Cafe\u0301"], "french") + terms(["e\u0301"], "characters") == composed
    assert terms(["\uff23\uff21\uff26\u00c9"], "french") == composed[:1]  # of full width
    # Bold letters of mathematics, whose capitals have no lower case of their own.
    assert terms(["\U0001d407\U0001d41e\U0001d425\U0001d425\U0001d428"], "english") == [["hello"]]


def test_snowball_has_every_language():
    assert set(get_args(Language)) <= set(Stemmer.algorithms())


def test_characters_are_ngrams_of_a_word_and_its_edges():
    assert terms(["Ab, c"], "characters") == [["_a", "ab", "b_", "_ab", "ab_", "_ab_", "_c", "c_", "_c_"]]
    assert terms(["a_b"], "characters") == terms(["a b"], "characters")
    first, second = terms(["数据库 数据", "数据"], "characters")
    assert set(second) <= set(first)
    assert terms([], "characters") == []
    assert analyze(pa.array(["", "..."], pa.large_string()), "characters").words.to_pylist() == []


def test_icu_finds_words_without_spaces():
    pytest.importorskip("icu4py", reason="icu4py is not installed: pip install icu4py")
    assert terms(["我爱北京天安门。"], "icu") == [["我", "爱", "北京", "天安门"]]
    assert terms(["日本語のテキスト"], "icu") == [["日本語", "の", "テキスト"]]
    # A sign outside of the basic plane takes two places in ICU's count.
    assert terms(["🎉 a हिन्दी 3.14", ""], "icu") == [["a", "हिन्दी", "3.14"], []]


def test_without_icu_the_row_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "icu4py", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for method in (Tfidf(analyzer="icu"), BM25(analyzer="icu")):
        with pytest.raises(Unavailable, match="icu4py"):
            method.require()
    Tfidf(analyzer="german").require()


@pytest.mark.parametrize("recipe", ["sklearn", "pecos"])
def test_a_vectorizer_counts_the_terms_of_an_analyzer(recipe):
    """Single characters too, which the recipe for plain texts leaves out."""
    texts = ["Die Wagen der Städte, Wagens", "x 数", ""]
    vectorizer = NgramTfidf.fit([Texts.from_lists(texts)], recipe, 1, 1.0, "german")
    found = vectorizer.transform(pa.array(texts, pa.large_string()))
    assert np.diff(found.indptr).tolist() == [2, 2, 0]


DOCUMENTS = ["Die Wagen einer Stadt", "数据库系统", "Netzwerke", "…"]
LABELS = ["Wagens", "数据", "Netzwerk", "Auto", ""]


@pytest.mark.parametrize("method", [Tfidf, BM25])
def test_methods_predict_by_terms(method):
    def first(analyzer):
        fitted = method(analyzer=analyzer)
        fitted.fit(Texts.from_lists(DOCUMENTS), Texts.from_lists(LABELS))
        found = fitted.predict(Texts.from_lists(DOCUMENTS), k=2)
        found.check(len(DOCUMENTS), 2, len(LABELS))
        return found.indices[:, 0].tolist()

    assert first(None)[:2] == ([-1, -1] if method is Tfidf else [0, -1])  # by itself BM25 takes English stems
    assert first("german") == [0, -1, 2, -1]
    assert first("characters") == [0, 1, 2, -1]


def test_lists_number_terms_over_batches():
    batches = [pa.array(texts, pa.large_string()) for texts in (["b a", ""], ["a c"])]
    lists, numbers = number_terms(analyze(batch, "dutch") for batch in batches)
    names = {number: name for name, number in numbers.items()}
    assert [[names[number] for number in row] for row in lists] == [["b", "a"], [], ["a", "c"]]


def test_features_are_shared_by_analyzer(tmp_path):
    artifacts = Artifacts(tmp_path)
    texts, labels = Texts.from_lists(DOCUMENTS), Texts.from_lists(LABELS)
    asked = [None, "german", "characters", "german"]
    made = [TfidfFeatures.shared(artifacts, texts, labels, "sklearn", 2, 1.0, analyzer) for analyzer in asked]
    assert type(made[0]) is TfidfFeatures
    assert len(set(artifacts.used)) == 3
    assert (made[1].labels != made[3].labels).nnz == 0
    # Pairs of n-grams of characters would say where each one stands: they are no features.
    ngrams = {term for text in terms(DOCUMENTS + LABELS, "characters") for term in text}
    assert made[2].vectorizer.features == len(ngrams)


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
