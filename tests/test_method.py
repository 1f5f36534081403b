"""The base class: ``predict`` and ``predict_batches`` follow from each other."""

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from xmcbench import Method, MethodError, Texts, TopK, UsageError
from xmcbench.method import contents

TEXTS = Texts.from_lists(["a", "b", "c"])


def rank_first(first, rows):
    """Predictions of some rows, ``first`` before all other labels."""
    return TopK.from_scores(np.tile(np.arange(5) == first, (rows, 1)).astype(float), 2)


class Whole(Method):
    """Defines predict."""

    def predict(self, raw_X, k=100):
        return rank_first(1, len(raw_X))


class Batches(Method):
    """Defines predict_batches."""

    def predict_batches(self, raw_X, k=100):
        for _ in raw_X:
            yield rank_first(2, 1)


def rows(method):
    """The first labels by predict, of Texts and of a list, and those of the batches."""
    method = method()
    batches = list(method.predict_batches(TEXTS, 2))
    predicted = [method.predict(texts, 2) for texts in (TEXTS, ["a", "b", "c"])]
    assert predicted[0].indices.tolist() == predicted[1].indices.tolist() == TopK.joined(batches, 2).indices.tolist()
    return predicted[0].indices[:, 0].tolist(), [len(batch) for batch in batches]


def test_batches_follow_from_predict():
    assert rows(Whole) == ([1, 1, 1], [3])


@pytest.mark.parametrize(("part", "said"), [(2, "2 rows, not 3"), (4, "4 rows or more, not 3")])
def test_batches_of_other_rows_are_refused(part, said):
    class Wrong(Method):
        def predict_batches(self, raw_X, k=100):
            yield rank_first(1, part)

    with pytest.raises(MethodError, match=said):
        Wrong().predict(TEXTS, 2)


def test_batches_of_lists_are_refused():
    class Wrong(Method):
        def predict_batches(self, raw_X, k=100):
            yield TopK([[0] * k] * len(raw_X), [[1.0] * k] * len(raw_X))

    with pytest.raises(MethodError, match="the indices are of type list, not an array of rows"):
        Wrong().predict(TEXTS, 2)


def test_predict_follows_from_batches():
    assert rows(Batches) == ([2, 2, 2], [1, 1, 1])


@pytest.mark.parametrize("base", [Whole, Batches])
def test_a_subclass_replaces_both_with_one(base):
    class OtherWhole(base):
        def predict(self, raw_X, k=100):
            return rank_first(3, len(raw_X))

    class OtherBatches(base):
        def predict_batches(self, raw_X, k=100):
            yield rank_first(4, len(raw_X))

    assert rows(OtherWhole) == ([3, 3, 3], [3])
    assert rows(OtherBatches) == ([4, 4, 4], [3])


@pytest.mark.parametrize("base", [Whole, Batches])
def test_a_subclass_builds_on_its_parent(base):
    class OnWhole(base):
        def predict(self, raw_X, k=100):
            found = super().predict(raw_X, k)
            return TopK.ranked(found.indices + 1, found.scores)

    class OnBatches(base):
        def predict_batches(self, raw_X, k=100):
            for found in super().predict_batches(raw_X, k):
                yield TopK.ranked(found.indices + 1, found.scores)

    first = rows(base)[0][0]
    assert rows(OnWhole)[0] == rows(OnBatches)[0] == [first + 1] * 3


@pytest.mark.parametrize("base", [Method, Whole, Batches])
def test_a_mixin_can_define_either(base):
    class WholeMixin:
        def predict(self, raw_X, k=100):
            return rank_first(3, len(raw_X))

    class BatchesMixin:
        def predict_batches(self, raw_X, k=100):
            yield rank_first(4, len(raw_X))

    class OfWhole(WholeMixin, base):
        pass

    class OfBatches(BatchesMixin, base):
        pass

    class Below(OfBatches):
        pass

    assert rows(OfWhole) == ([3, 3, 3], [3])
    assert rows(OfBatches) == rows(Below) == ([4, 4, 4], [3])


@pytest.mark.parametrize("shape", [(2, 5), (4, 5), (3, 4)])
def test_pairs_of_other_texts_are_refused(shape):
    class Trained(Whole):
        def fit(self, raw_X, raw_Y, pairs=None):
            self.fitted = pairs

    class Below(Trained):
        def fit(self, raw_X, raw_Y, pairs=None):
            super().fit(raw_X, raw_Y)

    class Mixin:
        def fit(self, raw_X, raw_Y, pairs=None):
            """Learn nothing."""

    class Mixed(Mixin, Whole):
        pass

    labels, pairs = Texts.from_lists(list("vwxyz")), csr_matrix(shape, dtype=np.float32)
    for method in (Trained(), Below(), Mixed()):
        method.fit(TEXTS, labels, csr_matrix((3, 5)))
        method.fit(TEXTS, labels)
        for call in (lambda: method.fit(TEXTS, labels, pairs), lambda: method.fit(TEXTS, labels, pairs=pairs)):  # noqa: B023
            with pytest.raises(UsageError, match=f"^the pairs are {shape[0]} x {shape[1]}, not 3 x 5 "):
                call()


def test_a_method_without_either_says_so():
    class Neither(Method):
        pass

    for ask in (lambda: Neither().predict(TEXTS), lambda: list(Neither().predict_batches(TEXTS))):
        with pytest.raises(TypeError, match="Neither does not define predict"):
            ask()


def test_a_part_is_no_folder_of_its_name(tmp_path, monkeypatch):
    class Backup(Method):
        first: str = "tfidf"
        table: str = "none"

        def uses(self):
            return (self.first,)

    (tmp_path / "bm25").mkdir()
    monkeypatch.chdir(tmp_path)
    assert Backup(first="bm25", table="bm25/../bm25").inputs() == {"table": Path("bm25/../bm25")}
    assert Backup(first="bm25").inputs() == {}


@pytest.mark.parametrize("kind", [Path, str])
def test_a_file_counts_by_its_content_however_its_path_is_returned(tmp_path, kind):
    class Reading(Method):
        table: str = "none"

        def inputs(self):
            return {"table": kind(self.table)}

    file, found = tmp_path / "table.txt", set()
    for text in ("one", "two"):
        file.write_text(text)
        found |= {contents(Reading(table=str(file)))["table"]}
    assert len(found) == 2
    assert all(identity.startswith("sha256:") for identity in found)


def test_a_model_counts_by_its_name():
    class Reading(Method):
        one: str = ""
        list: str = ""
        odd: str = ""

        def inputs(self):
            return {"one": "intfloat/e5@0123", "list": "e5@01," * 300, "odd": "e5\0"}

    assert contents(Reading()) == Reading().inputs()
