import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmcbench import Texts
from xmcbench.errors import DataError, UsageError

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def save(corpus, path, chunk):
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


@given(st.lists(st.tuples(texts, texts), max_size=30), st.integers(1, 9), st.integers(1, 60))
def test_what_is_streamed_is_bounded_in_rows_and_in_bytes(pairs, rows, most):
    """But for a single text, which may be any size."""
    corpus = Texts.from_lists([title for title, _ in pairs], [content for _, content in pairs])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("xmcbench.texts._BYTES", most)
        batches = [batch.to_pylist() for batch in corpus.batches(rows)]
        assert list(corpus.contents) == [content for _, content in pairs]
    assert [text for batch in batches for text in batch] == list(corpus)
    sizes = [len(title.encode()) + len(content.encode()) for title, content in pairs]
    expected = []
    for start in range(0, len(sizes), rows):
        group: list[int] = []
        for size in sizes[start : start + rows]:
            if group and sum(group) + size > most:
                expected.append(len(group))
                group = []
            group.append(size)
        expected.append(len(group))
    assert [len(batch) for batch in batches] == expected


@given(st.lists(texts, min_size=1, max_size=20), st.integers(-25, 25), st.integers(-25, 25))
def test_slices_like_a_list(titles, start, stop):
    corpus = Texts.from_lists(titles)
    assert list(corpus[start:stop]) == titles[start:stop]
    assert list(corpus.titles[start:stop]) == titles[start:stop]
    assert corpus[-1] == titles[-1]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ((["a", None],), "the title of row 1 is not text, but of type NoneType"),
        ((["a", float("nan")],), "the title of row 1 is not text, but of type float"),
        ((["a", "b"], ["", 3]), "the content of row 1 is not text, but of type int"),
        ((["a"], None, [7]), "the uid of row 0 is not text, but of type int"),
        ((["a\ud800"],), r"the title of row 0 has a character that no UTF-8 text has: 'a\\ud800'"),
        ((["a", "b"], ["c"]), "there are 2 titles and 1 contents"),
    ],
)
def test_what_is_not_text_is_refused_by_row(columns, said):
    with pytest.raises(UsageError, match=said):
        Texts.from_lists(*columns)


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
    mapped = save(corpus, tmp_path_factory.mktemp("texts") / "t.arrow", chunk)
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


def test_a_dict_or_a_table_is_no_list_of_texts():
    """Its keys, or the names of its columns, would be the texts."""
    columns = {"text": ["a", "b"]}
    for values in (columns, pa.table(columns)):
        for make in (Texts.of, Texts.from_lists, lambda contents: Texts.from_lists(["a"], contents)):
            with pytest.raises(UsageError, match=r'is no list of texts \(pass one column of it: df\["text"\]\)'):
                make(values)


def test_a_generator_is_read_once():
    made = Texts.from_lists((text for text in "ab"), (text for text in "cd"))
    assert list(made) == ["a\tc", "b\td"]
    assert list(Texts.of(text for text in "ab")) == ["a", "b"]
    with pytest.raises(UsageError, match="there are 2 titles and 1 contents"):
        Texts.from_lists((text for text in "ab"), (text for text in "c"))
