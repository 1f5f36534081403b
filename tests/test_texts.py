import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmcbench import Texts
from xmcbench.errors import DataError

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def saved(corpus, path, chunk):
    table = corpus._table
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=chunk)
    return Texts.open(path)


@given(st.lists(st.tuples(texts, texts), max_size=30))
def test_is_title_or_title_tab_content(pairs):
    corpus = Texts.from_lists([title for title, _ in pairs], [content for _, content in pairs])
    expected = [f"{title}\t{content}" if content else title for title, content in pairs]
    assert list(corpus) == expected
    assert [corpus[row] for row in range(len(corpus))] == expected
    assert [text for batch in corpus.batches(7) for text in batch.to_pylist()] == expected


@given(st.lists(texts, min_size=1, max_size=20), st.integers(-25, 25), st.integers(-25, 25))
def test_slices_like_a_list(titles, start, stop):
    corpus = Texts.from_lists(titles)
    assert list(corpus[start:stop]) == titles[start:stop]
    assert list(corpus.titles[start:stop]) == titles[start:stop]
    assert corpus[-1] == titles[-1]


def test_columns_take_and_bounds():
    corpus = Texts.from_lists(["a", "b", "c"], ["x", "", "z"], ["0001", "0002", "0003"])
    assert list(corpus.uids) == ["0001", "0002", "0003"]
    assert list(corpus.contents) == ["x", "", "z"]
    assert corpus.titles[2] == "c"
    assert list(corpus.take(np.array([2, 0]))) == ["c\tz", "a\tx"]
    with pytest.raises(IndexError):
        corpus[3]
    with pytest.raises(ValueError, match="a step of 1"):
        corpus[::2]


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=20), st.integers(1, 9))
def test_digest_is_of_the_content_not_the_layout(tmp_path_factory, pairs, chunk):
    corpus = Texts.from_lists([title for title, _ in pairs], [content for _, content in pairs])
    mapped = saved(corpus, tmp_path_factory.mktemp("texts") / "t.arrow", chunk)
    assert list(mapped) == list(corpus)
    assert mapped.digest == corpus.digest
    if len(pairs) > 1:
        assert mapped[1:].digest == corpus[1:].digest


def test_digest_tells_a_shifted_boundary():
    assert Texts.from_lists(["ab", "c"]).digest != Texts.from_lists(["a", "bc"]).digest
    assert Texts.from_lists(["a"], ["b"]).digest != Texts.from_lists(["ab"]).digest


def test_damaged_store_is_a_clear_error(tmp_path):
    (tmp_path / "t.arrow").write_bytes(b"no arrow")
    with pytest.raises(DataError, match=r"cannot read the text store .*t\.arrow"):
        Texts.open(tmp_path / "t.arrow")
