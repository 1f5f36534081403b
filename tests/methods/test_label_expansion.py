import numpy as np
import pytest
from scipy.sparse import csr_matrix

from xmcbench import Artifacts, Texts, TopK
from xmcbench.methods.label_expansion import LabelExpansion, expand
from xmcbench.methods.tfidf import Tfidf

RAW_X = Texts.from_lists(["red apple cider", "apple pie", "iron bridge", "nothing shared"])
RAW_Y = Texts.from_lists(["apple", "bridge", "zebra"])


def test_a_label_takes_words_of_its_documents(fitted):
    """TF-IDF alone finds nothing in common with a text that names the words around a label."""
    new = Texts.from_lists(["cider", "iron", "zebra"])
    assert fitted(Tfidf, RAW_X, RAW_Y).predict(new, 1).indices.tolist() == [[-1], [-1], [2]]
    assert fitted(LabelExpansion, RAW_X, RAW_Y).predict(new, 1).indices.tolist() == [[0], [1], [2]]


def test_the_vector_of_a_label():
    labels = csr_matrix(np.array([[1, 0, 0, 0], [0, 1, 0, 0]], np.float32))
    instances = csr_matrix(np.array([[0.6, 0, 0.8, 0], [0.8, 0, 0, 0.6]], np.float32))
    nearest = TopK.ranked(np.array([[1, 0], [-1, -1]]), np.array([[0.8, 0.6], [0, 0]]))
    found = expand(labels, instances, nearest, 0.5, 10)
    whole = np.array([1, 0, 0, 0]) + 0.5 * (0.8 * np.array([0.8, 0, 0, 0.6]) + 0.6 * np.array([0.6, 0, 0.8, 0])) / 1.4
    np.testing.assert_allclose(found.toarray()[0], whole / np.linalg.norm(whole), atol=1e-6)
    np.testing.assert_allclose(found.toarray()[1], [0, 1, 0, 0])
    cut = expand(labels, instances, nearest, 0.5, 2).toarray()[0]
    assert np.flatnonzero(cut).tolist() == [0, 2]
    assert np.linalg.norm(cut) == pytest.approx(1)


def test_more_documents_lend_a_label_more_words(fitted):
    one, more = (fitted(LabelExpansion, RAW_X, RAW_Y, documents=number)._features.labels for number in (1, 3))
    assert one.nnz < more.nnz


def test_nothing_is_shared_with_other_parameters(tmp_path):
    found = set()
    for values in ({}, {"documents": 1}, {"terms": 2}, {"weight": 0.1}):
        method = LabelExpansion(**values)
        method.artifacts = Artifacts(tmp_path)
        method.fit(RAW_X, RAW_Y)
        found.add(method._features.labels.toarray().tobytes())
    assert len(found) == 4


@pytest.mark.parametrize("size", [1, 2])
def test_labels_are_expanded_in_blocks(fitted, monkeypatch, size):
    whole = fitted(LabelExpansion, RAW_X, RAW_Y)._features.labels
    sizes = []

    def count(labels, *rest):
        sizes.append(labels.shape[0])
        return expand(labels, *rest)

    monkeypatch.setattr("xmcbench.methods.label_expansion._LABELS", size)
    monkeypatch.setattr("xmcbench.methods.label_expansion.expand", count)
    parts = fitted(LabelExpansion, RAW_X, RAW_Y)._features.labels
    assert sizes == {1: [1, 1, 1], 2: [2, 1]}[size]
    assert (parts.indptr.tolist(), parts.indices.tolist()) == (whole.indptr.tolist(), whole.indices.tolist())
    assert parts.data.tobytes() == whole.data.tobytes()


def test_no_label_and_no_document_in_common(fitted):
    method = fitted(LabelExpansion, Texts.from_lists(["a b"]), Texts.from_lists(["one", ""]))
    method.predict(Texts.from_lists(["one", ""]), 3).check(2, 3, 2)
