import gzip
import hashlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from xmcbench import MethodError, Texts, Unavailable, UsageError, evaluate, load_dataset
from xmcbench.methods.dense.search import top_k
from xmcbench.methods.glove import GloVe

QUICK = {"min_count": 1, "dimensions": 24, "epochs": 20}
WORDS = ["speech", "ocean", "graph", "theory", "Ünïcode"]
VECTORS = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0.5, 1], [0.25, 0, 0]], np.float32)


def text():
    rows = zip(WORDS, VECTORS.tolist(), strict=True)
    return "".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in rows).encode()


def binary():
    body = b"".join(word.encode() + b" " + vector.tobytes() for word, vector in zip(WORDS, VECTORS, strict=True))
    return b"5 3\n" + body


FILES = {
    "glove.txt": text(),
    "glove.txt.gz": gzip.compress(text()),
    "word2vec.txt": b"5 3\n" + text(),
    "word2vec.bin": binary(),
    "word2vec.bin.gz": gzip.compress(binary()),
}


def test_the_first_preset_is_the_default():
    assert {name: getattr(GloVe, name) for name in GloVe.presets["quick"]} == GloVe.presets["quick"]


def test_importing_it_is_light():
    heavy = ["scipy", "numba", "torch", "gensim", "pyarrow", "faiss"]
    code = f"import sys, xmcbench.methods.glove; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_texts_without_a_known_word(fitted, corpus):
    raw_X, raw_Y, _, new = corpus
    method = fitted(GloVe, raw_X, Texts.from_lists([*raw_Y, "", "!"]), **QUICK)
    strange = Texts.from_lists(["", "xyzzy quux", "speech"])
    found = method.predict(strange, k=20)
    found.check(3, 20, 9)
    assert found.indices[:2].max() == -1
    assert sorted(found.indices[2]) == [-1] * 13 + list(range(7))
    assert method.notes["instances_without_a_known_word"] == 2
    assert method.notes["labels_without_a_known_word"] == 2
    assert method.predict(new[:0], k=4).indices.shape == (0, 4)


def test_same_bytes_twice_whatever_comes_from_the_store(fitted, corpus):
    raw_X, raw_Y, pairs, new = corpus
    a, b = (fitted(GloVe, raw_X, raw_Y, known, **QUICK).predict(new) for known in (None, pairs))
    stored = GloVe(**QUICK)
    arrays = stored.pretrain(raw_X, raw_Y)
    assert {name: array.dtype.kind for name, array in arrays.items()} == {
        "word_bytes": "u",
        "word_ends": "i",
        "vectors": "f",
    }
    stored.pretrained = arrays
    stored.fit(raw_X, raw_Y)
    for other in (b, stored.predict(new)):
        assert a.indices.tobytes() == other.indices.tobytes()
        assert a.scores.tobytes() == other.scores.tobytes()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("normalize", [False, True])
def test_given_vectors(fitted, corpus, tmp_path, name, normalize):
    raw_X, raw_Y, _, _ = corpus
    path = tmp_path / name
    path.write_bytes(FILES[name])
    method = fitted(GloVe, raw_X, raw_Y, vectors=str(path), normalize=normalize)
    found = method.predict(Texts.from_lists(["the graph", "Ocean speech", "Linear Algebra"]), k=3)
    # Labels with a known word: 1 "graph theory", 4 "speech", 6 "ocean".
    assert found.indices.tolist() == [[1, 4, 6], [4, 6, 1], [-1, -1, -1]]
    graph_theory = np.array([0, 0.25, 1]) / (np.hypot(0.25, 1) if normalize else 1)
    np.testing.assert_allclose(found.scores[0], [graph_theory[2], 0, 0], rtol=1e-6)
    assert method.notes["words"] == 5
    assert method.notes["dimensions"] == 3
    digest = hashlib.sha256(FILES[name]).hexdigest()
    assert method.notes["vectors"] == {"name": name, "source": "a local file", "sha256": digest, "width": 3}


def test_capitals_of_given_vectors(fitted, corpus, tmp_path):
    raw_X, raw_Y, _, _ = corpus
    path = tmp_path / "cased.txt"
    path.write_text("Linear 1 0\nspeech 0 1\n")
    query = Texts.from_lists(["Linear"])
    assert fitted(GloVe, raw_X, raw_Y, vectors=str(path)).predict(query, 1).indices.tolist() == [[-1]]
    cased = fitted(GloVe, raw_X, raw_Y, vectors=str(path), lowercase=False)
    assert cased.predict(query, 1).indices.tolist() == [[2]]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("twice.txt", b"3 2\nspeech 1 0\nspeech 0 1\nocean 1 1\n"),
        # Two words of one text: some published files break a word within a character.
        ("broken.bin", b"".join([b"3 2\n", *(word + b" \0\0\x80?\0\0\0\0" for word in (b"speech", b"\xff", b"\xfe"))])),
    ],
)
def test_a_word_that_is_there_twice(fitted, corpus, tmp_path, name, content):
    """The first one counts, as in GloVe's own format."""
    (tmp_path / name).write_bytes(content)
    method = fitted(GloVe, *corpus[:2], vectors=str(tmp_path / name))
    assert method.notes["words"] == 2
    found = method.predict(Texts.from_lists(["speech"]), k=1)
    assert (found.indices.tolist(), found.scores.tolist()) == ([[4]], [[1.0]])


def test_a_word_with_spaces(fitted, corpus, tmp_path):
    (tmp_path / "840B.txt").write_text("speech 1 0\n. . . 0 1\nocean 0 1\n")
    assert fitted(GloVe, *corpus[:2], vectors=str(tmp_path / "840B.txt")).notes["words"] == 3


@pytest.mark.parametrize(
    "content", ["speech\t1\t0\nocean\t0\t1\n", "speech 1 0 \r\nocean 0 1\r\n", "speech 1 0\n\nocean 0 1\n\n"]
)
def test_white_space_between_the_numbers_does_not_count(fitted, corpus, tmp_path, content):
    (tmp_path / "glove.txt").write_bytes(content.encode())
    assert fitted(GloVe, *corpus[:2], vectors=str(tmp_path / "glove.txt")).notes["words"] == 2


def test_only_the_first_words_of_a_file(fitted, corpus, tmp_path):
    raw_X, raw_Y, _, _ = corpus
    path = tmp_path / "glove.txt"
    path.write_bytes(text())
    assert fitted(GloVe, raw_X, raw_Y, vectors=str(path), max_words=2).notes["words"] == 2


BAD = {
    "empty": b"",
    "prose": b"This is not a file of vectors.\nAt all.\n",
    "pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01a\x94K\x01s.",
    "cut.txt": b"5 3\nspeech 1 0 0\nocean 0 1 0\n",
    "cut.bin": binary()[:40],
    "ragged.txt": b"speech 1 0 0\nocean 0 1\n",
    "letters.txt": b"speech 1 0 0\nocean 0 x 0\n",
    "nothing.txt": b"0 3\n",
    "huge.bin": b"99999999999 99999999999\nspeech ",
    "cut.txt.gz": gzip.compress(text())[:30],
    "plain.gz": b"speech 1 0 0\n",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_of_vectors(fitted, corpus, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(BAD[name])
    with pytest.raises(UsageError, match="is not a file of word vectors: .+ \\(formats: GloVe text"):
        fitted(GloVe, *corpus[:2], vectors=str(path))


def test_vectors_that_are_not_finite(fitted, corpus, tmp_path):
    (tmp_path / "nan.txt").write_text("speech 1 0\nocean nan 1\n")
    with pytest.raises(UsageError, match="'ocean' .* not finite"):
        fitted(GloVe, *corpus[:2], vectors=str(tmp_path / "nan.txt"))


@pytest.mark.parametrize(("name", "reason"), [("missing.txt", "No such file"), (".", "not a file of word vectors")])
def test_a_path_that_is_not_a_file(fitted, corpus, tmp_path, name, reason):
    with pytest.raises(UsageError, match=reason):
        fitted(GloVe, *corpus[:2], vectors=str(tmp_path / name))


def test_a_home_of_nobody(corpus, fitted):
    with pytest.raises(UsageError, match="~nosuchuser/x"):
        fitted(GloVe, *corpus[:2], vectors="~nosuchuser/x")


def test_no_overlap(fitted, corpus, tmp_path):
    (tmp_path / "other.txt").write_text("mare 1 0\nlingua 0 1\n")
    with pytest.raises(UsageError, match="none of the 2 words with a vector occurs in a label"):
        fitted(GloVe, *corpus[:2], vectors=str(tmp_path / "other.txt"))


def test_nothing_to_learn_from(fitted, corpus):
    raw_X, raw_Y, _, _ = corpus
    with pytest.raises(UsageError, match="min_count"):
        fitted(GloVe, raw_X, raw_Y, min_count=10_000)
    with pytest.raises(UsageError, match="no two of the 1 words"):
        fitted(GloVe, Texts.from_lists(["word"] * 9), Texts.from_lists(["word"]))


def test_a_diverged_training_is_named(fitted, corpus):
    with pytest.raises(MethodError, match="loss of GloVe is NaN or infinite"):
        fitted(GloVe, *corpus[:2], learning_rate=1e30, **QUICK)


@pytest.mark.parametrize("value", [{"epochs": 0}, {"dimensions": -1}, {"x_max": 0.0}, {"learning_rate": -1.0}])
def test_parameters_out_of_range(fitted, corpus, value):
    with pytest.raises(UsageError, match=next(iter(value))):
        fitted(GloVe, *corpus[:2], **value)


def test_a_folder_of_gensim_below_no_home_is_taken_literally(monkeypatch):
    monkeypatch.setenv("GENSIM_DATA_DIR", "~nosuchuser/data")
    assert GloVe(vectors="gensim:tiny").inputs() == {"vectors": Path("~nosuchuser/data/tiny/tiny.gz")}
    monkeypatch.delenv("GENSIM_DATA_DIR")
    assert GloVe(vectors="gensim:tiny").inputs() == {"vectors": Path.home() / "gensim-data" / "tiny" / "tiny.gz"}


def test_the_downloader_without_a_network(fitted, corpus, tmp_path, monkeypatch):
    downloader = pytest.importorskip("gensim.downloader", reason="needs gensim")
    monkeypatch.setattr(downloader, "BASE_DIR", str(tmp_path))
    with pytest.raises(Unavailable, match="cannot download the word vectors 'glove-wiki-gigaword-50'"):
        fitted(GloVe, *corpus[:2], vectors="gensim:glove-wiki-gigaword-50")


def test_the_downloader_with_what_it_has(fitted, corpus, tmp_path, monkeypatch):
    downloader = pytest.importorskip("gensim.downloader", reason="needs gensim")
    monkeypatch.setattr(downloader, "BASE_DIR", str(tmp_path))
    (tmp_path / "information.json").write_text(
        '{"corpora": {}, "models": {"tiny": {"parts": 1, "file_name": "tiny.gz"}}}'
    )
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "tiny.gz").write_bytes(FILES["glove.txt.gz"])
    # What gensim's own load would run.
    (tmp_path / "tiny" / "__init__.py").write_text("raise SystemExit('downloaded code was run')")
    assert fitted(GloVe, *corpus[:2], vectors="gensim:tiny").notes["words"] == 5
    with pytest.raises(UsageError, match="known: tiny"):
        fitted(GloVe, *corpus[:2], vectors="gensim:small")


def recall(vectors, queries, items, normalize):
    """Share of the rows whose item is among the first 100."""
    found = top_k(*(vectors.embed(texts, normalize)[0] for texts in (queries, items)), 100).indices
    return (found == np.arange(len(queries))[:, None]).any(axis=1).mean()


def test_trained_vectors_know_what_random_ones_cannot():
    """LF-Debian: a description is found from its title though they share no word; and labels, far above chance.

    Where texts share words, random vectors are no weak rival but a random projection of the bag of words.
    """
    data = load_dataset("lf-debian-2k")
    method = GloVe()
    method.pretrained = method.pretrain(data.train, data.labels)
    method.fit(data.train, data.labels)

    def without(title, content):
        return " ".join(re.sub(r"\w+", lambda word: "" if word[0] in title else word[0], content.lower()).split())

    titles = [title.lower() for title in data.train.titles]
    contents = [without(*texts) for texts in zip(titles, data.train.contents, strict=True)]
    queries, items = Texts.from_lists(titles), Texts.from_lists(contents)
    trained = recall(method._words, queries, items, normalize=True)
    shape = method._words.vectors.shape
    method._words.vectors = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    drawn = recall(method._words, queries, items, normalize=True)
    chance = 100 / len(titles)
    print(f"title -> description R@100: trained {trained:.3f}, random {drawn:.3f}, chance {chance:.3f}")
    assert trained > 3 * chance
    assert trained > 5 * drawn

    method.fit(data.train, data.labels)
    scores = evaluate(method.predict(data.test, k=101), data, filter="self").values
    print({name: round(scores[name], 4) for name in ("P@1", "R@100")})
    assert scores["R@100"] > 3 * 100 / len(data.labels)
