"""MLLM: its matches against a plain implementation, its features on a small thesaurus, its trees, and its ranking."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from xmcbench import LabelTexts, Texts
from xmcbench.methods.mllm import MLLM
from xmcbench.methods.mllm.matching import Terms, Thesaurus, Trees

pytest.importorskip("sklearn", reason="needs scikit-learn")

#: Columns of the features of a candidate.
FREQUENCY, PREFERRED, TOKENS, AMBIGUITY, FIRST, LAST, SPREAD, LENGTH, BROADER, NARROWER, SIBLINGS = range(11)

LABELS = LabelTexts.with_details(
    ["cats", "big cats", "dogs", "the", "animals"],
    [
        (("felines", "small feline"), "", ("uid-4",)),
        ((), "", ("uid-4", "uid-0", "uid-1", "elsewhere")),
        (("hound",), "", ("uid-4",)),
        ((), "", ()),
        ((), "", ()),
    ],
    [f"uid-{number}" for number in range(5)],
)


def features_of(title, content="", labels=LABELS):
    """The features of each candidate of a text."""
    found, features = Thesaurus(Terms(labels, "english"), labels).candidates(Texts.from_lists([title], [content]))
    return dict(zip(found.indices.tolist(), features, strict=True))


words = st.lists(st.sampled_from("abc"), max_size=3).map(" ".join)
names = st.lists(st.tuples(words, st.lists(words, max_size=2)), max_size=6)


def plain_matches(labels, sentences):
    """Each match as a tuple, by sentence and label."""
    expected = []
    for number, sentence in enumerate(sentences):
        chosen = {}
        for label, (title, others) in enumerate(labels):
            terms = [(set(name.split()), place == 0) for place, name in enumerate((title, *others))]
            fitting = [term for term in terms if term[0] and term[0] <= set(sentence.split())]
            if fitting:
                chosen[label] = max(fitting, key=lambda term: (term[1], len(term[0])))
        for label, (term, preferred) in chosen.items():
            wider = sum(term <= other for other, _ in chosen.values()) - 1
            expected.append((number, label, preferred, len(term), wider))
    return expected


@settings(max_examples=150)
@given(names, st.lists(words, max_size=4))
def test_matches_are_those_of_a_plain_implementation(labels, sentences):
    titles = [title for title, _ in labels]
    details = [(tuple(others), "", ()) for _, others in labels]
    terms = Terms(LabelTexts.with_details(titles, details, [str(row) for row in range(len(labels))]), "finnish")
    found = terms.match(sentences)
    columns = (found.sentences, found.labels, found.preferred, found.sizes, found.ambiguity)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == plain_matches(labels, sentences)


def test_thousands_of_labels_may_share_a_name():
    """Each of their terms is in each, which is not written down pair by pair."""
    tracemalloc.start()
    terms = Terms(Texts.from_lists(["big cat"] * 3000 + ["cat"]), "finnish")
    found = terms.match(["a big cat", "cat"])
    assert tracemalloc.get_traced_memory()[1] < 30e6
    tracemalloc.stop()
    assert found.labels.tolist() == [*range(3001), 3000]
    assert found.ambiguity.tolist() == [2999] * 3000 + [3000, 0]


def test_tokens_of_a_name_in_two_sentences_are_no_match():
    assert 1 in features_of("a cat that is big")
    assert 1 not in features_of("a cat", "It is big.")


def test_stems_match_and_a_label_of_stop_words_never_does():
    assert [*features_of("The cat and the animal")] == [0, 4]


def test_features_of_places():
    found = features_of("Nothing", "A cat here. Nothing. Felines, cats. Nothing.")[0]
    assert found[[FREQUENCY, FIRST, LAST, SPREAD, LENGTH]] == pytest.approx([2 / 5, 1 / 5, 3 / 5, 2 / 5, 5])
    assert found[[PREFERRED, TOKENS]] == pytest.approx([1, 1])


def test_the_title_goes_before_other_names_and_longer_ones_before_shorter():
    found = features_of("a small feline", "Cats. A feline.")[0]
    assert found[[FREQUENCY, PREFERRED, TOKENS]] == pytest.approx([1, 1 / 3, (2 + 1 + 1) / 3])


def test_a_name_in_a_longer_one_is_ambiguous():
    found = features_of("big cats", "A cat and a dog.")
    assert {label: values[AMBIGUITY] for label, values in found.items()} == {0: 0.5, 1: 0, 2: 0}


def test_features_of_relations():
    found = features_of("big cats and animals", "Hounds.")
    assert [*found] == [0, 1, 2, 4]
    columns = [BROADER, NARROWER, SIBLINGS]
    assert found[0][columns] * 4 == pytest.approx([1, 1, 2])
    assert found[1][columns] * 4 == pytest.approx([2, 0, 2])
    assert found[2][columns] * 4 == pytest.approx([1, 0, 2])
    assert found[4][columns] * 4 == pytest.approx([0, 3, 0])
    plain = features_of("big cats and animals", labels=LABELS.titles_only())
    assert np.stack([*plain.values()])[:, columns].tolist() == [[0, 0, 0]] * 3


def test_a_text_without_sentences_has_no_candidates():
    thesaurus = Thesaurus(Terms(LABELS, "english"), LABELS)
    found, features = thesaurus.candidates(Texts.from_lists(["", "cats", ""], ["", "", "nothing"]))
    assert found.indptr.tolist() == [0, 0, 1, 1]
    assert features.shape == (1, 11)
    empty, none = thesaurus.candidates(Texts.from_lists(["", "nothing"]))
    assert (empty.nnz, none.shape) == (0, (0, 11))


def test_trees_predict_as_scikit_learn_does():
    from sklearn.ensemble import BaggingClassifier
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(3)
    features = rng.integers(0, 5, (300, 4)).astype(np.float32)
    classes = (features[:, 0] > features[:, 1]) ^ (rng.random(300) < 0.2)
    few = np.arange(300) == 7  # the samples of some trees lack it
    for known in (classes, few):
        forest = BaggingClassifier(DecisionTreeClassifier(), n_estimators=7, max_samples=200, random_state=0)
        forest.fit(features, known)
        found = Trees(forest.estimators_).predict(features)
        np.testing.assert_allclose(found, forest.predict_proba(features)[:, 1], atol=1e-12)
    assert any(7 not in sample for sample in forest.estimators_samples_)
    assert Trees(forest.estimators_).predict(features[:0]).shape == (0,)


def corpus(size=120):
    """Texts that name two labels of ten, of which the one in the first sentence is right."""
    rng = np.random.default_rng(1)
    names = [f"thing{number}" for number in range(10)]
    chosen = np.array([rng.choice(10, 2, replace=False) for _ in range(size)])
    raw_X = Texts.from_lists([names[first] for first, _ in chosen], [names[second] for _, second in chosen])
    pairs = csr_matrix((np.ones(size, np.float32), (np.arange(size), chosen[:, 0])), (size, 10))
    return raw_X, Texts.from_lists(names), pairs, chosen


def test_the_right_candidate_is_first(fitted):
    raw_X, raw_Y, pairs, chosen = corpus()
    method = fitted(MLLM, raw_X, raw_Y, pairs)
    top = method.predict(raw_X, 3)
    assert np.array_equal(top.indices[:, :2], chosen)
    assert (top.indices[:, 2] == -1).all()
    assert method.notes["candidates"] == {"learned from": 240, "right": 120}


def test_only_texts_and_labels_with_a_known_pair_are_learned_from(fitted):
    raw_X, raw_Y, pairs, chosen = corpus()
    few = pairs.copy()
    few.data[(chosen[:, 0] >= 3) | (np.arange(120) % 2 == 0)] = 0
    few.eliminate_zeros()
    method = fitted(MLLM, raw_X, raw_Y, few, min_samples_leaf=2)
    known = chosen[np.diff(few.indptr) > 0]
    assert method.notes["candidates"] == {"learned from": int((known < 3).sum()), "right": len(known)}
    assert 0 < (known[:, 1] < 3).sum() < len(known)
    # The labels that nobody has seen are ranked too, by what is learned from others.
    assert np.array_equal(method.predict(raw_X, 2).indices, chosen)
    # Frequencies are those of all texts.
    assert method._of_labels[:, 0].tolist() == np.bincount(chosen.ravel(), minlength=10).tolist()
    assert method._of_labels[:3, 1].tolist() == (np.bincount(few.indices, minlength=3) - 1).tolist()
    assert not method._of_labels[3:, 1].any()


@pytest.mark.parametrize("known", [[(0, 3)], [(0, 0), (1, 0), (1, 2), (2, 4)]])
def test_without_both_kinds_of_candidates_tf_idf_ranks(fitted, known):
    """There are no candidates to learn from, or none but right ones."""
    raw_X = Texts.from_lists(["cats", "cats cats. dogs", "animals", "cats. Dogs. Cats"])
    pairs = csr_matrix((np.ones(len(known), np.float32), np.transpose(known)), (4, 5))
    method = fitted(MLLM, raw_X, LABELS, pairs)
    assert method._trees is None
    top = method.predict(Texts.from_lists(["dogs, animals", "nothing", "cats. Dogs. Cats"]), 5)
    # Animals are in one text, dogs in two, cats in three; the last text has cats twice.
    assert top.indices.tolist() == [[4, 2, -1, -1, -1], [-1] * 5, [0, 2, -1, -1, -1]]


def test_labels_without_tokens_and_texts_without_matches(fitted):
    raw_X, pairs = Texts.from_lists(["x", "y"]), csr_matrix(np.eye(2, dtype=np.float32))
    method = fitted(MLLM, raw_X, Texts.from_lists(["", "the"]), pairs)
    assert (method.predict(Texts.from_lists(["the x", ""]), 2).indices == -1).all()


def test_equal_probabilities_are_ordered_by_tf_idf(fitted):
    raw_X, raw_Y, pairs, _ = corpus()
    method = fitted(MLLM, raw_X, raw_Y, pairs, min_samples_leaf=1000)
    found = method.predict(Texts.from_lists(["thing1. Thing2. Thing2"]), 2)
    assert found.indices.tolist() == [[2, 1]]
    assert found.scores == pytest.approx(0.5, abs=0.05)


def test_the_number_of_texts_learned_from_is_bounded_and_drawn_by_the_seed(fitted):
    raw_X, raw_Y, pairs, _ = corpus()
    methods = [fitted(MLLM, raw_X, raw_Y, pairs, seed=seed, documents=30, min_samples_leaf=1) for seed in (0, 0, 1)]
    assert [method.notes["candidates"]["right"] for method in methods] == [30, 30, 30]
    drawn = [method._draw(np.ones(120, bool)) for method in methods]
    assert np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])


@pytest.mark.parametrize(("name", "value"), [("trees", 3), ("max_samples", 0.5), ("max_leaf_nodes", 3)])
def test_the_trees_are_trained_as_the_parameters_say(fitted, name, value):
    rng = np.random.default_rng(0)
    raw_X, raw_Y, pairs, _ = corpus()
    shuffled = csr_matrix((pairs.data, rng.permutation(pairs.indices), pairs.indptr), pairs.shape)
    default, changed = (
        fitted(MLLM, raw_X, raw_Y, shuffled, min_samples_leaf=2, **values).predict(raw_X, 2).scores
        for values in ({}, {name: value})
    )
    assert not np.allclose(default, changed)


def test_equal_seeds_give_equal_scores_and_others_do_not(fitted):
    rng = np.random.default_rng(0)
    raw_X, raw_Y, pairs, _ = corpus()
    shuffled = csr_matrix((pairs.data, rng.permutation(pairs.indices), pairs.indptr), pairs.shape)
    first, same, other = (
        fitted(MLLM, raw_X, raw_Y, shuffled, seed=seed, min_samples_leaf=2).predict(raw_X, 2).scores
        for seed in (0, 0, 1)
    )
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)


def test_texts_are_matched_in_blocks(fitted, monkeypatch):
    raw_X, raw_Y, pairs, _ = corpus()
    whole = fitted(MLLM, raw_X, raw_Y, pairs).predict(raw_X, 2)
    monkeypatch.setattr("xmcbench.methods.mllm._TEXTS", 7)
    monkeypatch.setattr("xmcbench.methods.mllm.matching._NAMES", 3)
    method = fitted(MLLM, raw_X, raw_Y, pairs)
    assert len([*method.predict_batches(raw_X, 2)]) == 18
    assert np.array_equal(method.predict(raw_X, 2).scores, whole.scores)
