import bm25s
import numpy as np
import pyarrow as pa
import pytest
import Stemmer
from hypothesis import example, given
from hypothesis import strategies as st

from xmcbench import Texts, TopK, UsageError
from xmcbench.methods.bm25 import BM25
from xmcbench.methods.words.analysis import number_terms

WORDS = [
    "network",
    "networks",
    "graph",
    "the",
    "learning",
    "deep",
    "learned",
    "of",
    "theory",
    "über",
    "speech",
    "ocean",
]


def random_texts(rng, count, longest):
    return [" ".join(rng.choice(WORDS, rng.integers(0, longest))) for _ in range(count)]


def fit(labels, **values):
    method = BM25(**values)
    method.fit(Texts.from_lists(["unused"]), Texts.from_lists(labels))
    return method


def reference(labels, queries, k, k1=1.5, b=0.75, variant="lucene", stemmer="english", stopwords="english"):
    """Dense scores by bm25s; a label scored 0 shares no term with the query and is not a prediction."""
    options = {"stopwords": stopwords, "stemmer": Stemmer.Stemmer(stemmer) if stemmer else None, "show_progress": False}
    scorer = bm25s.BM25(k1=k1, b=b, method=variant)
    scorer.index(bm25s.tokenize(labels, **options), show_progress=False)
    tokens = bm25s.tokenize(queries, return_ids=False, **options)
    scores = np.array([scorer.get_scores(query) if query else np.zeros(len(labels)) for query in tokens])
    return TopK.from_scores(np.where(scores > 0, scores, -np.inf), k)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"variant": "robertson"},
        {"variant": "atire", "b": 0.3},
        {"k1": 1.2},
        {"stemmer": None},
        {"stopwords": None},
    ],
)
def test_equals_bm25s(values):
    rng = np.random.default_rng(0)
    labels, queries = random_texts(rng, 50, 6), random_texts(rng, 40, 12)
    found, expected = (
        fit(labels, **values).predict(Texts.from_lists(queries), k=50),
        reference(labels, queries, 50, **values),
    )
    found.check(40, 50, 50)
    # bm25s adds in float32 and in the order of the query: what is equal here may differ there by a rounding.
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)
    assert [set(row) for row in found.indices] == [set(row) for row in expected.indices]


#: Characters that the versions of Unicode of Python and of Arrow agree on, with those that lowering treats in its own
#: way (a final sigma, a dotted capital I) and digits that are no decimals.
CHARACTERS = st.one_of(
    st.characters(min_codepoint=1, max_codepoint=0x17F), st.sampled_from("ΣσςİıªΌΔЖжשع中文かな²½Ⅷ①_́ \t\u2003'-")
)


@given(
    st.lists(st.text(CHARACTERS, max_size=30), min_size=1, max_size=5),
    st.sampled_from(["english", None]),
    st.sampled_from(["english", None]),
)
@example(["ΟΔΥΣΣΕΥΣ the İstanbul", "a_b 1 22 don't"], None, "english")
def test_terms_are_those_of_bm25s(texts, stemmer, stopwords):
    lists, numbers = number_terms(
        [BM25(stemmer=stemmer, stopwords=stopwords)._analyze(pa.array(texts, pa.large_string()))]
    )
    names = {number: name for name, number in numbers.items()}
    options = {"stemmer": Stemmer.Stemmer(stemmer) if stemmer else None, "stopwords": stopwords, "show_progress": False}
    expected = bm25s.tokenize(texts, return_ids=False, **options)
    assert [[names[number] for number in row] for row in lists] == expected


def test_equals_retrieve():
    labels = ["deep learning", "graph theory", "ocean speech theory", "learning oceans of words"]
    query = "a theory of deep speech: a theory, oceans, oceans, oceans"
    stemmer = Stemmer.Stemmer("english")
    scorer = bm25s.BM25()
    scorer.index(bm25s.tokenize(labels, stemmer=stemmer, show_progress=False), show_progress=False)
    tokens = bm25s.tokenize([query], stemmer=stemmer, show_progress=False)
    documents, scores = scorer.retrieve(tokens, k=4, show_progress=False)
    found = fit(labels).predict(Texts.from_lists([query]), k=4)
    assert found.indices[0].tolist() == documents[0].tolist()
    np.testing.assert_allclose(found.scores[0], scores[0], rtol=1e-6)


def test_empty_queries_and_labels_have_no_predictions():
    found = fit(["", "the", "deep network"]).predict(Texts.from_lists(["", "the of", "unheard", "networks"]), k=3)
    found.check(4, 3, 3)
    assert found.indices.tolist() == [[-1, -1, -1]] * 3 + [[2, -1, -1]]


def test_labels_without_a_single_term():
    found = fit(["", "the"]).predict(Texts.from_lists(["", "deep"]), k=2)
    found.check(2, 2, 2)
    assert (found.indices == -1).all()


def test_one_label_and_k_beyond_the_labels():
    found = fit(["ocean"]).predict(Texts.from_lists(["deep ocean"]), k=10)
    found.check(1, 10, 1)
    assert found.indices[0].tolist() == [0] + [-1] * 9


def test_same_bytes_twice():
    rng = np.random.default_rng(1)
    labels, queries = random_texts(rng, 200, 6), Texts.from_lists(random_texts(rng, 100, 12))
    a, b = (fit(labels).predict(queries, k=20) for _ in range(2))
    assert a.indices.tobytes() == b.indices.tobytes()
    assert a.scores.tobytes() == b.scores.tobytes()


@pytest.mark.parametrize("values", [{"k1": -1.0}, {"b": 1.5}, {"b": -0.1}])
def test_parameters_out_of_range(values):
    with pytest.raises(UsageError, match=next(iter(values))):
        fit(["ocean"], **values)


def test_variants_that_score_absent_terms_are_refused():
    with pytest.raises(UsageError, match=r"bm25\+"):
        BM25(variant="bm25+")
