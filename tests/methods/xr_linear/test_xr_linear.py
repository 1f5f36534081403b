from importlib.util import find_spec

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.sparse import random as random_matrix

from xmcbench import Artifacts, Texts, TopK, Unavailable, UsageError, installation, load_dataset
from xmcbench.methods.label_tree.linear import TreeRanker
from xmcbench.methods.tfidf import Tfidf
from xmcbench.methods.xr_linear import PecosRanker, XRLinear, _label_tree, _quiet

IMPLEMENTATIONS = [
    "numba",
    pytest.param("pecos", marks=pytest.mark.skipif(find_spec("pecos") is None, reason="needs libpecos")),
]


@pytest.fixture(params=IMPLEMENTATIONS)
def fitted(fitted, request):
    """A method, trained; XR-Linear with each of its implementations."""

    def fit(kind, *arguments, **values):
        return fitted(kind, *arguments, implementation=request.param, **values)

    return fit


def test_learns_from_pairs(fitted, corpus):
    raw_X, raw_Y, pairs, new = corpus
    method = fitted(XRLinear, raw_X, raw_Y, pairs)
    found = method.predict(new, k=5)
    found.check(len(new), 5, len(raw_Y))
    assert set(found.indices[0, :2]) == {4, 6}
    assert found.indices[1, 0] == 1
    assert set(found.indices[4, :2]) == {0, 2}
    assert method.notes == {"training_instances": 60, "labels_with_a_classifier": 7}


def test_learns_from_pseudo_pairs(fitted, corpus):
    raw_X, raw_Y, _, new = corpus
    method = fitted(XRLinear, raw_X, raw_Y, pseudo_labels=2)
    found = method.predict(new, k=5)
    found.check(len(new), 5, len(raw_Y))
    assert set(found.indices[0, :2]) == {4, 6}
    assert found.indices[1, 0] == 1
    assert method.notes["pseudo_pairs"] > 60


def test_pairs_replace_pseudo_pairs(fitted, corpus):
    """Labels swapped in the pairs are swapped in the predictions: no text of a label is read."""
    raw_X, raw_Y, pairs, new = corpus
    swapped = csr_matrix(pairs[:, ::-1])
    plain, other = (fitted(XRLinear, raw_X, raw_Y, known).predict(new, k=1).indices for known in (pairs, swapped))
    assert set(plain[0]) <= {4, 6}
    assert set(other[0]) <= {len(raw_Y) - 1 - 4, len(raw_Y) - 1 - 6}


def test_parameters_reach_the_tree(fitted, corpus, monkeypatch):
    raw_X, raw_Y, pairs, new = corpus
    values = {"nr_splits": 3, "max_leaf_size": 4, "cost": 2.5, "threshold": 0.02}
    method = fitted(XRLinear, raw_X, raw_Y, pairs, seed=5, beam_size=7, **values)
    given = []

    class Ranker:
        labels = 7

        @classmethod
        def train(cls, X, pairs, **options):
            given.append(options)
            return cls()

        def search(self, X, k, beam):
            given.append(beam)
            return TopK.joined([], k, X.shape[0])

    kind = TreeRanker if method.implementation == "numba" else pecos_ranker()
    monkeypatch.setattr(f"{kind.__module__}.{kind.__name__}", Ranker)
    method.fit(raw_X, raw_Y, pairs)
    method.predict(new, k=5)
    assert given == [{**values, "seed": 5}, 7]


def pecos_ranker():
    from xmcbench.methods.xr_linear import PecosRanker

    return PecosRanker


def test_mixed_keeps_the_labels_that_have_no_known_pair(fitted, corpus):
    """Known pairs of label 1 alone, and those that its text does not tell: the other labels keep their pseudo pairs."""
    raw_X, raw_Y, pairs, new = corpus
    few = csr_matrix(pairs.shape, dtype=np.float32).tolil()
    few[:, 1] = pairs[:, 4]
    few = few.tocsr()
    method = fitted(XRLinear, raw_X, raw_Y, few, mixed=True, pseudo_labels=2)
    found = method.predict(new, k=7)
    found.check(len(new), 7, len(raw_Y))
    assert set(found.indices[0, :3]) == {1, 4, 6}
    assert method.notes["labels_with_a_classifier"] == 7
    assert set(fitted(XRLinear, raw_X, raw_Y, few).predict(new, k=7).indices.ravel()) == {1, -1}


def test_labels_without_a_pair_are_never_predicted(fitted, corpus):
    raw_X, raw_Y, pairs, new = corpus
    few = pairs.tolil()
    few[:, [0, 2, 3, 5, 6]] = 0
    found = fitted(XRLinear, raw_X, raw_Y, few.tocsr()).predict(new, k=100)
    found.check(len(new), 100, len(raw_Y))
    assert set(found.indices.ravel()) == {1, 4, -1}
    assert (found.indices[:, :2] >= 0).all()


def test_one_pair(fitted, corpus):
    raw_X, raw_Y, _, new = corpus
    one = csr_matrix(([1.0], ([3], [5])), shape=(len(raw_X), len(raw_Y)), dtype=np.float32)
    found = fitted(XRLinear, raw_X, raw_Y, one).predict(new, k=3)
    found.check(len(new), 3, len(raw_Y))
    assert found.indices.tolist() == [[5, -1, -1]] * len(new)


def test_one_label(fitted):
    raw_X, raw_Y = Texts.from_lists(["some text", "other words", "third one"]), Texts.from_lists(["text"])
    found = fitted(XRLinear, raw_X, raw_Y).predict(Texts.from_lists(["a text", "none", ""]), k=2)
    found.check(3, 2, 1)


@pytest.mark.parametrize("pairs", [None, csr_matrix((2, 2), dtype=np.float32)])
def test_nothing_to_learn_from(fitted, pairs):
    """No word in common, or no pair at all: no prediction."""
    raw_X, raw_Y = Texts.from_lists(["one two", ""]), Texts.from_lists(["three", "four"])
    found = fitted(XRLinear, raw_X, raw_Y, pairs).predict(Texts.from_lists(["three", ""]), k=2)
    found.check(2, 2, 2)
    assert (found.indices == -1).all()


def tree_corpus(labels=150, instances=400):
    """More labels than a leaf holds; some training texts are empty."""
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, labels, (instances, 2))
    chosen[:labels, 0] = np.arange(labels)
    texts = [f"topic{a} kind{a % 9} topic{b} kind{b % 9}" if a % 20 else "" for a, b in chosen]
    rows = np.repeat(np.arange(instances), 2)
    pairs = csr_matrix((np.ones(len(rows), np.float32), (rows, chosen.ravel())), shape=(instances, labels))
    pairs.data[:] = 1
    return Texts.from_lists(texts), Texts.from_lists([f"topic{label}" for label in range(labels)]), pairs


@pytest.mark.parametrize("zero_shot", [True, False])
def test_a_seed_gives_the_same_bytes(fitted, zero_shot):
    raw_X, raw_Y, pairs = tree_corpus()
    a, b = (
        fitted(XRLinear, raw_X, raw_Y, None if zero_shot else pairs, max_leaf_size=10, seed=3).predict(raw_X)
        for _ in range(2)
    )
    a.check(len(raw_X), 100, len(raw_Y))
    assert a.indices.tobytes() == b.indices.tobytes()
    assert a.scores.tobytes() == b.scores.tobytes()


def test_another_seed_gives_another_tree(fitted):
    raw_X, raw_Y, pairs = tree_corpus()
    a, b = (fitted(XRLinear, raw_X, raw_Y, pairs, max_leaf_size=10, seed=seed).predict(raw_X) for seed in (0, 1))
    assert not np.array_equal(a.scores, b.scores)


def test_a_wide_beam_leaves_room_for_100_predictions(fitted):
    raw_X, raw_Y, pairs = tree_corpus()
    assert (fitted(XRLinear, raw_X, raw_Y, pairs, max_leaf_size=10).predict(raw_X, k=100).indices >= 0).all()


def test_shares_its_features_with_tfidf(corpus, tmp_path):
    raw_X, raw_Y, pairs, new = corpus
    first = Tfidf()
    first.artifacts = Artifacts(tmp_path)
    first.fit(raw_X, raw_Y)
    assert first.artifacts.reused_s == 0
    second = XRLinear(implementation="numba")
    second.artifacts = Artifacts(tmp_path)
    second.fit(raw_X, raw_Y, pairs)
    assert second.artifacts.reused_s > 0
    second.predict(new).check(len(new), 100, len(raw_Y))


@pytest.mark.parametrize(
    "values",
    [{"pseudo_labels": 0}, {"nr_splits": 1}, {"max_leaf_size": 1}, {"beam_size": 0}, {"cost": 0.0}, {"max_df": 2.0}],
)
def test_parameters_out_of_range(fitted, corpus, values):
    raw_X, raw_Y, _, _ = corpus
    with pytest.raises(UsageError, match=next(iter(values))):
        fitted(XRLinear, raw_X, raw_Y, **values)


def test_a_row_says_that_it_is_not_pecos():
    assert XRLinear().describe() == ""
    assert XRLinear(**XRLinear.presets["numba"]).describe() == "without PECOS"


def test_without_pecos_there_is_a_command_or_the_preset(monkeypatch):
    monkeypatch.setattr("xmcbench.methods.xr_linear.find_spec", lambda name: None)
    with pytest.raises(Unavailable, match="needs libpecos") as raised:
        XRLinear().require()
    assert raised.value.hint == f"{installation('libpecos')}; --methods xr-linear:numba works without it"
    XRLinear(implementation="numba").require()


@pytest.mark.skipif(find_spec("pecos") is None, reason="needs libpecos")
def test_implementations_are_equally_good():
    """P@1 and R@100 on all pairs of LF-Debian-2K differ by 2 points at most. Seeds alone make half a point."""
    dataset = load_dataset("lf-debian-2k")
    truth = dataset.test_pairs().toarray() > 0
    has_label = truth.any(axis=1)
    figures = []
    for implementation in ("pecos", "numba"):
        method = XRLinear(implementation=implementation)
        method.artifacts = Artifacts()
        method.fit(dataset.train, dataset.labels, dataset.train_pairs())
        found = method.predict(dataset.test, k=100).indices
        right = np.take_along_axis(truth, found, 1)[has_label] & (found[has_label] >= 0)
        figures.append([right[:, 0].mean(), (right.sum(axis=1) / truth[has_label].sum(axis=1)).mean()])
    np.testing.assert_allclose(*figures, atol=0.02)
    assert min(figures[0]) > 0.3


@pytest.mark.parametrize(("cost", "threshold"), [(1.0, 0.0), (0.05, 0.0), (1.0, 0.3)])
def test_it_ranks_as_the_trained_model_does(cost, threshold):
    pytest.importorskip("pecos")
    from pecos.xmc.xlinear.model import XLinearModel

    rng = np.random.default_rng(1)
    X, asked = (random_matrix(n, 60, 0.2, "csr", np.float32, rng) for n in (300, 40))
    pairs = random_matrix(300, 50, 0.05, "csr", np.float32, rng)
    pairs.data[:] = 1
    pairs = pairs[:, np.arange(50) != 7].tocsr()
    pairs.resize(300, 60)  # labels 49 to 59 have no pair
    seen = np.unique(pairs.indices)
    tree = {"nr_splits": 4, "max_leaf_size": 5}
    found = PecosRanker.train(X, pairs, **tree, cost=cost, threshold=threshold, seed=3).search(asked, 8, 6)
    with _quiet():
        known = pairs[:, seen].tocsc()
        options = {"solver_type": "L2R_L2LOSS_SVC_DUAL", "negative_sampling_scheme": "tfn", "nr_splits": 4}
        chain = _label_tree(X, known, *tree.values(), 3)
        model = XLinearModel.train(X, known, C=chain, Cp=cost, Cn=cost, threshold=threshold, **options)
        expected = model.predict(asked, beam_size=6, only_topk=8).toarray()
    assert found.indices.shape == (40, 8)
    assert set(found.indices.ravel()) <= {-1, *seen}
    for row, (labels, scores) in enumerate(zip(found.indices, found.scores, strict=True)):
        there = labels >= 0
        np.testing.assert_allclose(scores[there], expected[row, np.searchsorted(seen, labels[there])], rtol=1e-6)
        assert there.sum() == np.count_nonzero(expected[row])
