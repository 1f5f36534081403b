import gzip
import tracemalloc

import numpy as np
import pytest
from gensim.models import KeyedVectors

from xmcbench import Unavailable, UsageError
from xmcbench.methods.words.vector_file import read

WORDS = ["speech", "ocean", "graph", "theory", "Ünïcode"]
VECTORS = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0.5, 1], [0.25, -1e-3, 0]], np.float32)


def lines(words=WORDS, vectors=VECTORS):
    return [f"{word} {' '.join(map(str, vector))}\n" for word, vector in zip(words, vectors.tolist(), strict=True)]


def binary(words=WORDS, vectors=VECTORS, header=None, between=b""):
    records = (word.encode() + b" " + vector.tobytes() for word, vector in zip(words, vectors, strict=True))
    return (header or f"{len(words)} {vectors.shape[1]}\n").encode() + b"".join(record + between for record in records)


TEXT = "".join(lines()).encode()
FORMS = {
    "glove": TEXT,
    "word2vec text": b"5 3\n" + TEXT,
    "word2vec binary": binary(),
    "word2vec binary with line ends": binary(between=b"\n"),
}


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"], ids=["plain", "BOM"])
@pytest.mark.parametrize("name", ["v.txt", "v.gz", "gzip without a suffix"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read(tmp_path, form, name, start):
    content = start + FORMS[form]
    (tmp_path / name).write_bytes(content if name == "v.txt" else gzip.compress(content))
    words, vectors = read(tmp_path / name)
    assert (words, vectors.dtype) == (WORDS, np.float32)
    assert np.array_equal(vectors, VECTORS)
    some, few = read(tmp_path / name, max_words=2)
    assert (some, few.tolist()) == (WORDS[:2], VECTORS[:2].tolist())
    one, only = read(tmp_path / name, wanted={"theory", "other"})
    assert (one, only.tolist()) == (["theory"], VECTORS[3:4].tolist())
    assert read(tmp_path / name, wanted=set())[1].shape == (0, 3)


@pytest.mark.parametrize("dimensions", [1, 2, 3, 50])
@pytest.mark.parametrize("seed", range(5))
def test_binary_and_text_are_told_apart(tmp_path, seed, dimensions):
    """As gensim reads them when it is told which one it is."""
    random = np.random.default_rng(seed)
    words = [f"word{row}" for row in range(40)]
    vectors = random.standard_normal((40, dimensions)).astype(np.float32)
    (tmp_path / "v.bin").write_bytes(binary(words, vectors))
    (tmp_path / "v.txt").write_text(f"40 {dimensions}\n" + "".join(lines(words, vectors)))
    for name in ("v.bin", "v.txt"):
        found, values = read(tmp_path / name)
        right = KeyedVectors.load_word2vec_format(str(tmp_path / name), binary=name == "v.bin")
        assert found == right.index_to_key
        assert np.array_equal(values, right.vectors)


REFUSED = {
    "a phrase": ("2 2\nbig ocean 1 0\nspeech 0 1\n", "line 2 is not a word and 2 numbers, as line 1 says"),
    "a later phrase": ("2 2\nspeech 0 1\nbig ocean 1 0\n", "line 3 is not a word and 2 numbers, as line 1 says"),
    "decimal commas": ("2 2\nspeech 0,5 1,0\nocean 1,0 0,5\n", "line 2 is not a word and 2 numbers, as line 1 says"),
    "no word": ("2 2\n  0.5 1.5\nocean 1 0\n", "line 2 is not a word and 2 numbers, as line 1 says"),
    "too many dimensions": ("2 3\nspeech 0 1\nocean 1 0\n", "line 2 is not a word and 3 numbers, as line 1 says"),
    "too few dimensions": ("2 1\nspeech 0 1\nocean 1 0\n", "line 2 is not a word and 1 numbers, as line 1 says"),
    "Latin-1": ("2 2\ncafé bar 1 0\nspeech 0 1\n".encode("latin-1"), "line 2 is not a word and 2 numbers"),
    "a control character": ("2 2\na\x01 b 1 0\nspeech 0 1\n", "line 2 is not a word and 2 numbers"),
    "a ragged line": ("2 2\nspeech 0 1\nocean 1\n", "line 3 is not a word and 2 numbers, as line 1 says"),
    "an underscore": ("2 2\nspeech 0 1\nocean 1_0 1\n", "line 3 is not a word and 2 numbers, as line 1 says"),
    "a word missing": ("3 2\nspeech 0 1\nocean 1 0\n", "it ends after 2 of the 3 words that line 1 says"),
    "a word too many": ("1 2\nspeech 0 1\nocean 1 0\n", "line 3 is a word more than the 1 that line 1 says"),
    "no dimensions": ("2 0\nspeech\nocean\n", "line 1 says 2 words of 0 numbers"),
    "GloVe, no word at first": ("0.5 1.5 2.5\nocean 1 0 2\n", "line 2 is not a word and 2 numbers, as line 1 is"),
    "GloVe, no word": ("ocean 1 0 2\n 0.5 1.5 2.5\n", "line 2 is not a word and 3 numbers, as line 1 is"),
    "GloVe, a longer vector": ("speech 0 1\nocean 1 0 2\n", "line 2 is not a word and 2 numbers, as line 1 is"),
    "GloVe, decimal commas": ("speech 0,5 1,0 2\n", "line 1 is neither 'words dimensions' nor a word with its vector"),
    "not finite": ("2 2\nspeech 0 1\nocean 1 nan\n", "line 3: the vector of 'ocean' is not finite"),
    "beyond float32": ("speech 0 1\nocean 1 1e39\n", "line 2: the vector of 'ocean' is not finite"),
    "binary, not finite": (binary(vectors=np.full((5, 3), np.inf, np.float32)), "word 1: .* 'speech' is not finite"),
    "binary, too many dimensions": (binary(header="5 4\n"), "word 5 of 5 has no vector"),
    "binary, too few dimensions": (binary(header="5 2\n"), "more than the 5 words that line 1 says follow"),
    "binary, a word missing": (binary(header="6 3\n"), "word 6 of 6 has no vector"),
    "binary, a word too many": (binary(header="4 3\n"), "more than the 4 words that line 1 says follow"),
    "UTF-16": ("2 2\nspeech 0 1\n".encode("utf-16"), "line 1 is neither"),
    "huge": (b"9999999999999 9999999999999\nspeech ", "line 1 says 9999999999999 words of 9999999999999 numbers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_neither_for_certain_is_refused_with_its_line(tmp_path, name):
    content, said = REFUSED[name]
    (tmp_path / "v.txt").write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(UsageError, match=rf"v.txt is not a file of word vectors: .*{said}"):
        read(tmp_path / "v.txt")


@pytest.mark.parametrize("name", [name for name in REFUSED if name.startswith("binary, too")])
def test_a_binary_file_is_followed_to_its_end(tmp_path, name):
    """Its first words alone would not tell that the number of dimensions is wrong; lines of text do."""
    content, said = REFUSED[name]
    (tmp_path / "v.bin").write_bytes(content)
    with pytest.raises(UsageError, match=said):
        read(tmp_path / "v.bin", max_words=1)
    (tmp_path / "v.txt").write_text(REFUSED["a later phrase"][0])
    assert read(tmp_path / "v.txt", max_words=1)[0] == ["speech"]


@pytest.mark.parametrize("name", ["a phrase", "a later phrase", "decimal commas", "no word", "a word missing"])
def test_gensim_refuses_it_too(tmp_path, name):
    (tmp_path / "v.txt").write_text(REFUSED[name][0])
    with pytest.raises((ValueError, EOFError)):
        KeyedVectors.load_word2vec_format(str(tmp_path / "v.txt"), binary=False)


def test_a_pointer_of_git_lfs_is_named(tmp_path):
    (tmp_path / "v.txt").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 12345\n")
    with pytest.raises(Unavailable, match=r"v.txt is a Git LFS pointer.*git lfs pull"):
        read(tmp_path / "v.txt")


def test_a_file_without_a_line_end_takes_no_more_memory_than_a_line(tmp_path):
    (tmp_path / "v.bin").write_bytes(b"5 3\n" + bytes(50_000_000))
    tracemalloc.start()
    with pytest.raises(UsageError, match="word 1 of 5 has no vector"):
        read(tmp_path / "v.bin")
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()
