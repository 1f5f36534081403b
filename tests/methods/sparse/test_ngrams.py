import copy
import warnings
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import vstack
from sklearn.feature_extraction.text import TfidfVectorizer

from xmcbench import Texts
from xmcbench.methods.sparse import ngrams
from xmcbench.methods.sparse.ngrams import NgramTfidf

BLOCKS = [
    {"ngram_range": (1, 1), "max_df_ratio": 0.98, "analyzer": "word"},
    {"ngram_range": (2, 2), "max_df_ratio": 0.98, "analyzer": "word"},
]
AWKWARD = [
    "",
    " ",
    "\t",
    "naïve  Café",
    " naïve Café ",
    "naïve\tCafé",
    "日本 語 日本",
    "a\nb",
    "a b",
    "b a",
    "A B",
    "😀 a 😀",
]

BOTH = pytest.mark.parametrize("recipe", ["sklearn", "pecos"])


def pecos(training, texts, blocks=BLOCKS):
    """Vectors of the texts by libpecos itself; whitespace as ours, since it splits on the space only."""
    pytest.importorskip("pecos", reason="needs libpecos, to compare with")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from pecos.utils.featurization.text.vectorizers import Vectorizer

        config = {"type": "tfidf", "kwargs": {"base_vect_configs": copy.deepcopy(blocks)}}
        return Vectorizer.train([respace(text) for text in training], config).predict([respace(text) for text in texts])


def respace(text):
    return text.translate(dict.fromkeys(map(ord, "\t\n\v\f\r"), " "))


def ours(training, texts, ngrams=2, max_df=0.98, recipe="pecos"):
    vectorizer = NgramTfidf.fit([Texts.from_lists(training)], recipe, ngrams, max_df)
    return vectorizer.transform(pa.array(texts, pa.large_string()))


def random_texts(rng, count):
    words = [*"abcdefgh", "Ab", "ä", "語", "x1", "-", "naïve", *(f"word{number}" for number in range(30))]
    chance = 1 / np.arange(1, len(words) + 1)
    gaps = [" ", " ", " ", "  ", "\t", "\n", " \r\n"]
    texts = []
    for _ in range(count):
        tokens = rng.choice(words, rng.integers(0, 14), p=chance / chance.sum())
        texts.append("".join(str(part) for token in tokens for part in (rng.choice(gaps), token, rng.choice(gaps))))
    return texts


@pytest.mark.parametrize("seed", range(8))
def test_equals_pecos(seed):
    rng = np.random.default_rng(seed)
    training = random_texts(rng, int(rng.integers(2, 200))) + AWKWARD
    texts = training + random_texts(rng, 50) + ["never seen", "word1 never word1"]
    expected, found = pecos(training, texts), ours(training, texts)
    np.testing.assert_allclose((found @ found.T).toarray(), (expected @ expected.T).toarray(), atol=1e-5)


def test_words_alone_equal_pecos():
    training = random_texts(np.random.default_rng(0), 60)
    expected, found = pecos(training, training, BLOCKS[:1]), ours(training, training, ngrams=1)
    np.testing.assert_allclose((found @ found.T).toarray(), (expected @ expected.T).toarray(), atol=1e-5)


def test_too_frequent_features_are_dropped_as_in_pecos():
    training = [f"all {'most' * (row < 9)} {'half' * (row % 2)} w{row} v{row}" for row in range(10)]
    blocks = [{**block, "max_df_ratio": 0.75} for block in BLOCKS]
    expected, found = pecos(training, training, blocks), ours(training, training, max_df=0.75)
    np.testing.assert_allclose((found @ found.T).toarray(), (expected @ expected.T).toarray(), atol=1e-5)
    assert ours(training, ["all", "most", "half"], max_df=0.75).getnnz(axis=1).tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("recipe", "documents", "max_df", "most"),
    [
        ("sklearn", 10, 0.5, 5),
        ("sklearn", 9, 0.5, 4),
        ("sklearn", 8, 1.0, 8),
        ("pecos", 10, 0.5, 5),
        ("pecos", 9, 0.5, 5),
        ("pecos", 11, 0.5, 6),
    ],
)
def test_a_feature_in_just_as_many_documents_as_may_have_it_is_kept(recipe, documents, max_df, most):
    """``max_df`` of the documents, rounded half up by PECOS; the next one is dropped, as in the references."""
    counts = range(1, documents + 1)
    training = [" ".join(f"in{count}" for count in counts if row < count) for row in range(documents)]
    words = [f"in{count}" for count in counts]
    found = ours(training, words, 1, max_df, recipe).getnnz(axis=1)
    assert found.tolist() == [int(count <= most) for count in counts]
    if recipe == "sklearn":
        expected = TfidfVectorizer(max_df=max_df).fit(training).transform(words)
    else:
        expected = pecos(training, words, [{**BLOCKS[0], "max_df_ratio": max_df}])
    assert np.array_equal(found, expected.getnnz(axis=1))


@pytest.mark.parametrize(("ngrams", "max_df"), [(2, 1.0), (1, 1.0), (2, 0.3)])
@pytest.mark.parametrize("seed", range(4))
def test_equals_scikit_learn(seed, ngrams, max_df):
    rng = np.random.default_rng(seed)
    punctuation = ["don't", "e-mail", "C++", "x_1", "Éa", "½ ½x", "naïve.Bayes", "a1", "٣٤", "कि"]
    training = [*random_texts(rng, 80), *AWKWARD, *punctuation]
    texts = [*training, "never seen", " ".join(punctuation)]
    vectorizer = TfidfVectorizer(ngram_range=(1, ngrams), max_df=max_df, dtype=np.float32)
    expected = vectorizer.fit(training).transform(texts)
    found = ours(training, texts, ngrams, max_df, recipe="sklearn")
    np.testing.assert_allclose((found @ found.T).toarray(), (expected @ expected.T).toarray(), atol=1e-5)
    assert np.array_equal(np.diff(found.indptr), np.diff(expected.indptr))


def test_a_tab_separates_words():
    """The text of an instance is its title, a TAB, and its content."""
    training = Texts.from_lists(["one two", "three", "four"], ["five six", "", "seven"])
    vectorizer = NgramTfidf.fit([training], "pecos", 2, 0.98)
    glued, spaced_out = (
        vectorizer.transform(pa.array([text], pa.large_string())) for text in ("two\tfive", "two five")
    )
    assert glued.nnz == 3
    assert (glued != spaced_out).nnz == 0


def test_batches_do_not_matter(monkeypatch):
    rng = np.random.default_rng(1)
    texts = Texts.from_lists(random_texts(rng, 100))
    whole = NgramTfidf.fit([texts], "pecos", 2, 0.98)
    batches = Texts.batches
    monkeypatch.setattr(Texts, "batches", lambda self, rows=7: batches(self, rows))
    parts = NgramTfidf.fit([texts], "pecos", 2, 0.98)
    a = vstack([whole.transform(batch) for batch in texts.batches()])
    b = vstack([parts.transform(batch) for batch in texts.batches()])
    assert a.shape == b.shape
    assert (a != b).nnz == 0


@BOTH
def test_survives_storage(tmp_path, recipe):
    training = random_texts(np.random.default_rng(2), 50)
    fitted = NgramTfidf.fit([Texts.from_lists(training)], recipe, 2, 0.98)
    fitted.save(tmp_path)
    loaded = NgramTfidf.load(tmp_path, recipe)
    batch = pa.array(training, pa.large_string())
    assert loaded.features == fitted.features
    assert (loaded.transform(batch) != fitted.transform(batch)).nnz == 0


@BOTH
@pytest.mark.parametrize("training", [[], [""], ["", " \t "]])
def test_texts_without_a_word(training, recipe, tmp_path):
    vectorizer = NgramTfidf.fit([Texts.from_lists(training)], recipe, 2, 1.0)
    vectorizer.save(tmp_path)
    found = NgramTfidf.load(tmp_path, recipe).transform(pa.array(["a b", ""], pa.large_string()))
    assert found.shape[0] == 2
    assert found.nnz == 0


def test_rows_are_unit_vectors_or_empty():
    training = random_texts(np.random.default_rng(3), 80)
    norms = np.sqrt(ours(training, [*training, "unheard of", ""]).power(2).sum(axis=1).A1)
    assert np.all(np.isclose(norms, 1, atol=1e-6) | (norms == 0))
    assert norms[-2:].tolist() == [0, 0]


@pytest.mark.parametrize("recipe", ["sklearn", "pecos"])
def test_bigrams_that_are_sorted_in_parts_are_the_same(recipe, monkeypatch):
    random = np.random.RandomState(0)
    corpora = [
        Texts.from_lists([" ".join(random.choice(["ab", "cd", "ef", "gh"], 9)) for _ in range(20)]) for _ in range(3)
    ]

    def fit(size):
        monkeypatch.setattr("xmcbench.methods.sparse.ngrams._SORTED", size)
        return NgramTfidf.fit(corpora, recipe, 2, 1.0)

    whole = fit(1_000_000)
    assert len(whole._bigrams) == 16
    assert (np.diff(whole._bigrams) > 0).all()
    for size in (1, 7, 100):
        parts = fit(size)
        assert np.array_equal(parts._bigrams, whole._bigrams)
        assert np.array_equal(parts._bigram_idf, whole._bigram_idf)


@given(st.lists(st.integers(0, 40), max_size=60), st.sampled_from([6, 62]))
def test_keys_in_order_beside_their_places_or_without(keys, bits):
    """62 bits leave no room for the places."""
    keys = np.array(keys, np.int64)
    ordered, order = ngrams._in_order(keys, bits)
    assert order.tolist() == np.argsort(keys, kind="stable").tolist()
    assert ordered.tolist() == sorted(keys.tolist())


@given(st.lists(st.lists(st.sampled_from(["aa", "bb", "cc"]), max_size=6), max_size=6))
def test_a_bigram_is_counted_once_in_a_text(texts):
    tokens = ngrams._tokens(pa.array([" ".join(words) for words in texts], pa.large_string()), "pecos", None)
    found = ngrams._Bigrams.of(tokens)
    names = tokens.words.to_pylist()
    counted = {
        (names[left], names[right]): frequency
        for left, right, frequency in zip(found.left, found.right, found.document_frequency(), strict=True)
    }
    assert counted == Counter(pair for words in texts for pair in {*pairwise(words)})
