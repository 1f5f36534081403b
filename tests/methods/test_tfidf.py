import numpy as np
import pytest

from xmcbench import Artifacts, Texts, UsageError
from xmcbench.methods.tfidf import Tfidf

BOTH = pytest.mark.parametrize("preset", ["sklearn", "pecos"])


def test_the_first_preset_is_the_default():
    assert {name: getattr(Tfidf, name) for name in Tfidf.presets["sklearn"]} == Tfidf.presets["sklearn"]


@BOTH
def test_finds_the_labels_that_a_text_names(fitted, corpus, preset):
    raw_X, raw_Y, _, new = corpus
    found = fitted(Tfidf, raw_X, raw_Y, **Tfidf.presets[preset]).predict(new, k=3)
    found.check(len(new), 3, len(raw_Y))
    assert set(found.indices[0]) == {4, 6, -1}
    assert found.indices[1].tolist() == [1, -1, -1]
    assert found.indices[2:4].max() == -1
    assert set(found.indices[4]) == {0, 2, -1}


def test_case_counts_for_pecos_only(fitted, corpus):
    raw_X, raw_Y, _, _ = corpus
    query = Texts.from_lists(["linear algebra"])
    assert fitted(Tfidf, raw_X, raw_Y, vectorizer="pecos").predict(query, k=1).indices[0, 0] == -1
    assert fitted(Tfidf, raw_X, raw_Y, vectorizer="sklearn").predict(query, k=1).indices[0, 0] == 2


@BOTH
def test_same_bytes_twice(fitted, corpus, preset):
    raw_X, raw_Y, _, new = corpus
    a, b = (fitted(Tfidf, raw_X, raw_Y, **Tfidf.presets[preset]).predict(new) for _ in range(2))
    assert a.indices.tobytes() == b.indices.tobytes()
    assert a.scores.tobytes() == b.scores.tobytes()


@BOTH
def test_one_label_and_k_beyond_the_labels(fitted, preset):
    raw_X, raw_Y = Texts.from_lists(["some text", "other words", "third one"]), Texts.from_lists(["text"])
    found = fitted(Tfidf, raw_X, raw_Y, **Tfidf.presets[preset]).predict(Texts.from_lists(["a text", "none"]), k=100)
    found.check(2, 100, 1)
    assert found.indices[:, 0].tolist() == [0, -1]


def test_no_text_at_all_to_predict(fitted, corpus):
    raw_X, raw_Y, _, new = corpus
    assert fitted(Tfidf, raw_X, raw_Y).predict(new[:0], k=4).indices.shape == (0, 4)


def test_the_store_serves_only_the_same_texts_and_parameters(corpus, tmp_path):
    raw_X, raw_Y, _, new = corpus

    def is_reused(instances, **values):
        method = Tfidf(**values)
        method.artifacts = Artifacts(tmp_path)
        method.fit(instances, raw_Y)
        method.predict(new).check(len(new), 100, len(raw_Y))
        return method.artifacts.reused_s > 0

    assert not is_reused(raw_X)
    assert is_reused(raw_X)
    assert not is_reused(raw_X[:50])
    assert not is_reused(raw_X, ngrams=1)
    assert not is_reused(raw_X, max_df=0.5)
    assert not is_reused(raw_X, vectorizer="pecos")


@pytest.mark.parametrize("max_df", [0.0, -0.1, 1.5])
def test_a_share_lies_between_0_and_1(fitted, corpus, max_df):
    raw_X, raw_Y, _, _ = corpus
    with pytest.raises(UsageError, match="max_df"):
        fitted(Tfidf, raw_X, raw_Y, max_df=max_df)


def test_pairs_are_never_looked_at(fitted, corpus):
    raw_X, raw_Y, pairs, new = corpus
    with_pairs, without = (fitted(Tfidf, raw_X, raw_Y, known).predict(new) for known in (pairs, None))
    assert np.array_equal(with_pairs.indices, without.indices)
