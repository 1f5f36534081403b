"""Runs and qrels: other programs read them and give the same figures, and what they write is read."""

import gzip
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import pytrec_eval
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import random as random_matrix

from xmcbench import TopK, trec
from xmcbench.errors import DataError, StorageError
from xmcbench.metrics import Evaluation, TruePairs, true_ranks
from xmcbench.texts import Texts

QUERIES = [f"q{row:03}" for row in range(60)]
DOCUMENTS = [f"d{label}" for label in range(40)]
NAMES = {"P_1": "P@1", "P_5": "P@5", "recall_10": "R@10", "recall_100": "R@100", "ndcg_cut_3": "nDCG@3"}


def evaluate(predictions, truth):
    pairs = TruePairs.of(truth)
    return Evaluation(pairs)(true_ranks(predictions.indices, pairs))


@pytest.fixture
def files(tmp_path):
    """A run with many ties and rows of any length, its qrels, and the scores of the protocol."""
    random = np.random.RandomState(0)
    truth = random_matrix(60, 40, 0.08, "csr", random_state=random, dtype=np.float32)
    truth.data[:] = 1
    scores = random.randint(0, 6, (60, 40)).astype(np.float32) / 3
    scores[random.uniform(size=scores.shape) < 0.4] = -np.inf
    scores[7] = -np.inf  # no prediction
    predictions = TopK.from_scores(scores, 30)
    run, qrels = tmp_path / "run.txt", tmp_path / "qrels.txt"
    trec.write_run(run, predictions, QUERIES, DOCUMENTS, "my method")
    trec.write_qrels(qrels, truth, QUERIES, DOCUMENTS)
    return run, qrels, predictions, truth


def test_pytrec_eval_gives_the_same_figures(files):
    run, qrels, predictions, truth = files
    measures = {"P.1,5", "recall.10,100", "ndcg_cut.3"}
    with run.open() as ranked, qrels.open() as judged:
        evaluator = pytrec_eval.RelevanceEvaluator(pytrec_eval.parse_qrel(judged), measures)
        found = evaluator.evaluate(pytrec_eval.parse_run(ranked))
    scores = evaluate(predictions, truth)
    queries = [query for query, row in zip(QUERIES, truth, strict=True) if row.nnz]
    for theirs, ours in NAMES.items():
        values = [found[query][theirs] if query in found else 0.0 for query in queries]
        assert scores.per_instance[ours] == pytest.approx(values, abs=1e-9)


def test_ir_measures_gives_the_same_figures(files):
    ir_measures = pytest.importorskip("ir_measures")
    run, qrels, predictions, truth = files
    names = {"P@1": "P@1", "P@5": "P@5", "R@10": "R@10", "nDCG@3": "nDCG@3"}
    measures = {ours: ir_measures.parse_measure(name) for ours, name in names.items()}
    ranked = list(ir_measures.read_trec_run(str(run)))
    found = ir_measures.calc_aggregate(measures.values(), list(ir_measures.read_trec_qrels(str(qrels))), ranked)
    scores = evaluate(predictions, truth)
    assert {name: found[measure] for name, measure in measures.items()} == {
        name: pytest.approx(scores.values[name], abs=1e-9) for name in names
    }


#: Prints four metrics of a run and its qrels.
RANX = """
import sys
from ranx import Qrels, Run, evaluate
qrels, run = Qrels.from_file(sys.argv[1], kind="trec"), Run.from_file(sys.argv[2], kind="trec")
found = evaluate(qrels, run, ["precision@1", "precision@5", "recall@10", "ndcg@3"], make_comparable=True)
print(*map(float, found.values()))
"""


def test_ranx_gives_the_same_figures(files):
    run, qrels, predictions, truth = files
    # Compiling its metrics takes a minute.
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "ignore", "-c", RANX, str(qrels), str(run)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    scores = evaluate(predictions, truth).values
    expected = [scores[name] for name in ("P@1", "P@5", "R@10", "nDCG@3")]
    assert [*map(float, ended.stdout.split())] == pytest.approx(expected, abs=1e-9)


def test_what_is_written_is_read(files):
    run, qrels, predictions, truth = files
    found = trec.read_run(run, QUERIES, DOCUMENTS)
    assert np.array_equal(found.indices, predictions.indices[:, : found.k])
    assert (trec.read_qrels(qrels, QUERIES, DOCUMENTS) != truth).nnz == 0
    there = found.scores[:, 1:] > -np.inf
    assert (found.scores[:, 1:] < found.scores[:, :-1])[there].all()
    assert "my-method" in run.read_text()


def test_compression_that_is_not_written_is_refused(tmp_path):
    """A plain file with the ending of a compressed one could not be read again."""
    with pytest.raises(StorageError, match=r"run.xz would not be compressed.*name it run.gz"):
        trec.write_run(
            tmp_path / "run.xz", TopK.from_scores(np.eye(2, dtype=np.float32), 1), ["a", "b"], ["x", "y"], "one"
        )
    assert not list(tmp_path.iterdir())


def test_a_run_is_read_by_score_with_ties_by_label(tmp_path):
    path = tmp_path / "run"
    path.write_text("b Q0 z 1 0.5 t\nb Q0 x 9 0.5 t\nb\tQ0  y 3 1e0 t\n")
    found = trec.read_run(path, ["a", "b"], ["x", "y", "z"])
    assert found.indices.tolist() == [[-1, -1, -1], [1, 0, 2]]
    path.write_text("")
    assert trec.read_run(path, ["a"], ["x"]).indices.tolist() == [[-1]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a Q0 x 1 0.5 t\nc Q0 x 1 0.5 t\n", "line 2 names the query 'c', which is not a test instance"),
        ("a Q0 w 1 0.5 t\n", "line 1 names the document 'w', which is not a label"),
        ("a Q0 x 1 high t\n", "line 1 has the score 'high'"),
        ("a Q0 x 1 nan t\n", "line 1 has the score 'nan'"),
        ("a Q0 x 1 0.5 t\na Q0 y 1 1e39 t\n", "line 2 has the score '1e39', not a finite 32-bit number"),
        ("a Q0 x 1 3.4028236e38 t\n", "line 1 has the score '3.4028236e38', not a finite 32-bit number"),
        ("a Q0 x 1 -1e39 t\n", "line 1 has the score '-1e39', not a finite 32-bit number"),
        ("a Q0 x 1 0.5 t\na Q0 y 1 0.5 t\na Q0 x 1 0.4 t\n", "line 3 repeats a document of the same query"),
        ("a Q0 x 1 0.5 t\na Q0 y 1 0.5\n", "line 2 has too few columns"),
        ("\na Q0 x 1 0.5 t\n \n\na Q0 y 1 best t\n", "line 5 has the score 'best', not a finite 32-bit number"),
        ("a Q0 x 1 0.5 t\na Q0 y 1 0.5 t u v\n", "line 2 has too many columns"),
        ("a Q0 x 1 0.5 t u\n", "line 1 has too many columns"),
        ("a Q0 x 1 0.5 t u v\n", "line 1 has too many columns"),
        ("a Q0 x 1 0.5 t u v w\na Q0 x 1 0.5 t u v w\n", "line 1 has too many columns"),
        ("a Q0 x 1 0.5 t u v w z\n", "line 1 has too many columns"),
        ("a Q0 x 1 1_0 t\n", "line 1 has the score '1_0'"),
        ("a Q0 x 1 0.5 t\na Q0 y 1 0.5 t u\n", "line 2 has too many columns"),
        ("a 0 x 1\n", "line 1 has too few columns"),
    ],
)
def test_a_damaged_run_is_refused(tmp_path, text, said):
    path = tmp_path / "run"
    path.write_text(text)
    with pytest.raises(DataError, match=f"(?s).*{said}"):
        trec.read_run(path, ["a"], ["x", "y"])
    with pytest.raises(DataError, match=f"(?s).*{said}"):
        trec.read_run(gzip_file(path), ["a"], ["x", "y"])
    with pytest.raises(DataError, match="no file at"):
        trec.read_run(tmp_path / "missing", ["a"], ["x"])


@pytest.mark.parametrize("more", [1, 2, 3, 4, 5])
def test_qrels_with_more_columns_are_refused(tmp_path, more):
    """pandas took the first columns for an index, and the query was reported as a number that is none."""
    path = tmp_path / "qrels"
    path.write_text(f"a 0 x 1{' more' * more}\n")
    for read in (lambda: trec.read_qrels(path, ["a"], ["x"]), lambda: trec.names_in(path, path)):
        with pytest.raises(
            DataError, match="qrels: line 1 has too many columns .a line is `query 0 document relevance`"
        ):
            read()


def gzip_file(path, name=None):
    packed = path.with_name(name or f"{path.name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    return packed


def test_gzipped_files_are_read(files, tmp_path):
    """Whatever they are called."""
    run, qrels, predictions, truth = files
    for name in ("packed.gz", "packed"):
        found = trec.read_run(gzip_file(run, name), QUERIES, DOCUMENTS)
        assert np.array_equal(found.indices, predictions.indices[:, : found.k])
        assert (trec.read_qrels(gzip_file(qrels, name), QUERIES, DOCUMENTS) != truth).nnz == 0
    assert trec.names_in(gzip_file(run), gzip_file(qrels)) == trec.names_in(run, qrels)
    packed = gzip_file(run)
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(DataError, match="run.txt.gz is truncated"):
        trec.read_run(packed, QUERIES, DOCUMENTS)
    packed.write_bytes(run.read_bytes())
    with pytest.raises(DataError, match="not a gzip file.*remove the suffix .gz from a plain file"):
        trec.read_run(packed, QUERIES, DOCUMENTS)


def test_names_are_bytes(tmp_path):
    """As trec_eval reads them: in whatever encoding, equal bytes are equal names."""
    run, qrels = tmp_path / "run", tmp_path / "qrels"
    run.write_bytes(b"caf\xe9 Q0 \xe4 1 0.5 t\n")
    qrels.write_bytes(b"caf\xe9 0 \xe4 1\n")
    *names, others = trec.names_in(run, qrels)
    assert others == []
    assert trec.read_run(run, *names).indices.tolist() == [[0]]
    assert trec.read_qrels(qrels, *names).toarray().tolist() == [[1]]


def test_the_line_of_an_error_is_that_of_the_file(tmp_path):
    """Lines of queries that are left out count too."""
    path = tmp_path / "run"
    path.write_text("c Q0 x 1 0.5 t\na Q0 x 1 0.5 t\n\na Q0 y 1 best t\n")
    with pytest.raises(DataError, match="line 4 has the score 'best'"):
        trec.read_run(path, ["a"], ["x", "y"], others=True)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a Q0 x 1 0.5 t\ra Q0 y 1 best t\r", 2),
        ("a Q0 x 1 0.5 t\r\n\t \r\n\ra Q0 y 1 best t", 4),
        ("a Q0 x 1 0.5 t\n\x0b\n\x0c\na Q0 y 1 best t\n", 4),
        ("a Q0 x 1 0.5 t\n\u3000\n", 2),
        ("a Q0 x 1 0.5 t\n\u2028\n", 2),
        ("\ufeff\na Q0 x 1 0.5 t\na Q0 y 1 best t\n", 3),
        ("\ufeffa Q0 x 1 0.5 t\na Q0 y 1 best t\n", 2),
        ("\ufeff \na Q0 x 1 0.5 t\na Q0 y 1 best t", 3),
    ],
)
def test_lines_are_counted_as_they_are_read(tmp_path, text, line):
    path = tmp_path / "run"
    path.write_bytes(text.encode())
    with pytest.raises(DataError, match=f"run: line {line} has (the score 'best'|too few columns)"):
        trec.read_run(path, ["a"], ["x", "y"])


def test_uids_that_cannot_be_written_give_way_to_row_numbers():
    assert trec.identifiers(Texts.from_lists(["t", "u"], uids=["007", "a"])) == ["007", "a"]
    for uids in (["a", "a"], ["a", ""], ["a", "b c"], ["a", "b\u00a0c"], ["a", " a"], ["a", "b "]):
        assert trec.identifiers(Texts.from_lists(["t", "u"], uids=uids)) == ["0", "1"]


def test_relevance_of_zero_is_no_pair(tmp_path):
    path = tmp_path / "qrels"
    path.write_text("a 0 x 0\na 0 y 2\nb 0 x -1\n")
    assert trec.read_qrels(path, ["a", "b"], ["x", "y"]).toarray().tolist() == [[0, 1], [0, 0]]


@given(hnp.arrays(np.float32, (3, 4), elements=st.floats(width=32, allow_nan=False)))
@example(np.full((3, 4), np.finfo(np.float32).max, np.float32))
@example(np.full((3, 4), -np.finfo(np.float32).max, np.float32))
def test_scores_that_are_written_are_read(scores):
    """Nine digits of the largest number are above it."""
    predictions = TopK(np.tile(np.arange(4, dtype=np.int32), (3, 1)), -np.sort(-scores, axis=1))
    predictions.indices[predictions.scores == -np.inf] = -1
    with TemporaryDirectory() as folder:
        path = Path(folder, "run")
        trec.write_run(path, predictions, QUERIES[:3], DOCUMENTS, "tag")
        found = TopK.joined([trec.read_run(path, QUERIES[:3], DOCUMENTS)], 4)
    assert np.array_equal(found.indices, predictions.indices)
    assert np.array_equal(found.scores, trec.separate(predictions.scores))


def test_scores_without_ties_differ_by_the_least():
    scores = np.array([[1, 1, 1, 0.5, -np.inf]], np.float32)
    made = trec.separate(scores)
    assert (np.diff(made[0, :4]) < 0).all()
    assert made == pytest.approx(scores, abs=1e-6)
    largest = np.finfo(np.float32).max
    ends = np.array([[np.inf, np.inf, largest, -largest, -largest], [-largest] * 4 + [-np.inf]], np.float32)
    made = trec.separate(ends)
    assert (made[:, 1:] < made[:, :-1]).all()
    assert np.isfinite(made).tolist() == [[True] * 5, [True] * 4 + [False]]
