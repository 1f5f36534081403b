from functools import partial

import numpy as np
import pytest

from xmcbench import Artifacts, MethodError, TopK
from xmcbench.methods.dense import search
from xmcbench.methods.dense.search import Index, top_k, top_k_batches


def vectors(rows, width=12, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, width)).astype(np.float32)


def exact(queries, items, k):
    return TopK.from_scores((queries.astype(np.float64) @ items.astype(np.float64).T).astype(np.float32), k)


@pytest.fixture
def artifacts(tmp_path):
    return Artifacts(tmp_path)


@pytest.fixture(params=["faiss", "numpy", "torch"])
def engine(request, monkeypatch):
    """All ways to scan; that of GPUs is tried on the CPU."""
    if request.param != "numpy":
        pytest.importorskip(request.param)
    else:
        monkeypatch.setattr(search, "find_spec", lambda name: None)
    if request.param == "torch":
        monkeypatch.setattr(search, "_cpu_scan", partial(search._torch_scan, device="cpu"))
    return request.param


@pytest.mark.parametrize("k", [1, 7, 100])
@pytest.mark.parametrize("block", [None, 600])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_equals_a_dense_product(engine, monkeypatch, k, block, kind):
    """Blocks of fewer items than there are, too: what is best in each is merged."""
    if block:
        monkeypatch.setattr(search, "_BLOCK", block)
    queries, items = vectors(50).astype(kind), vectors(300, seed=1).astype(kind)
    found = top_k(queries, items, k)
    found.check(50, k, 300)
    expected = exact(queries, items, k)
    assert np.array_equal(found.indices, expected.indices)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_ties_by_lower_number_also_at_the_last_place(engine, seed):
    """Small whole numbers and every item twelve times: far more equals than the margin holds."""
    rng = np.random.default_rng(seed)
    queries, items = rng.integers(-2, 3, (40, 4)), np.tile(rng.integers(-2, 3, (30, 4)), (12, 1))
    found = top_k(queries.astype(np.float32), items.astype(np.float32), 9)
    found.check(40, 9, 360)
    assert np.array_equal(found.indices, exact(queries.astype(np.float32), items.astype(np.float32), 9).indices)


@pytest.mark.parametrize("count", [0, 1, 50])
def test_queries_are_dealt_out_to_devices(engine, monkeypatch, count):
    """Two processors stand for two GPUs; ties at the last place included."""
    queries, items = vectors(count), np.tile(vectors(60, seed=1), (3, 1))
    expected = top_k(queries, items, 7)
    used = []
    monkeypatch.setattr(search, "_devices", lambda device, processes: used.append(processes) or ["cpu"] * processes)
    found = top_k(queries, items, 7, processes=2)
    assert used == [2]
    assert np.array_equal(found.indices, expected.indices)
    assert np.array_equal(found.scores, expected.scores)


def test_where_an_exact_search_runs():
    assert search._devices("cuda", 1) == ["cuda"]
    assert search._devices("cuda", 2) == ["cuda:0", "cuda:1"]
    assert search._devices("cpu", 2) == ["cpu"], "it uses all cores"


def test_equal_vectors_have_equal_scores(engine):
    items = np.repeat(vectors(40, 384, seed=1), 3, axis=0)
    found = top_k(vectors(20, 384), items, 30)
    found.check(20, 30, 120)
    assert (found.scores.reshape(20, 10, 3) == found.scores.reshape(20, 10, 3)[:, :, :1]).all()


@pytest.mark.parametrize("block", [1, 600])
def test_items_that_coincide_are_scored_a_block_at_a_time(engine, monkeypatch, block):
    """All of them are as close as the last place, and would be gathered once more for every query."""
    queries, items = vectors(5), np.tile(vectors(1, seed=1), (500, 1))
    expected, original, gathered = top_k(queries, items, 4), search.pair_scores, []

    def watch(queries, items, candidates):
        gathered.append(candidates.size * items.shape[1] if len(queries) == 1 else 0)
        return original(queries, items, candidates)

    monkeypatch.setattr(search, "pair_scores", watch)
    monkeypatch.setattr(search, "_BLOCK", block)
    found = top_k(queries, items, 4)
    assert np.array_equal(found.indices, expected.indices)
    assert np.array_equal(found.scores, expected.scores)
    assert 0 < max(gathered) <= max(block, 12 * (4 + search.MARGIN))


def test_a_query_of_zeros_takes_the_first_items(engine):
    found = top_k(np.zeros((2, 12), np.float32), vectors(500), 3)
    assert found.indices.tolist() == [[0, 1, 2]] * 2
    assert (found.scores == 0).all()


@pytest.mark.parametrize(("queries", "items"), [(0, 5), (3, 0), (0, 0), (3, 1)])
def test_few_or_none(engine, queries, items):
    found = top_k(vectors(queries), vectors(items), 4)
    found.check(queries, 4, items)
    assert (found.indices[:, items:] == -1).all()


def test_engine_and_threads_do_not_show():
    faiss = pytest.importorskip("faiss")
    queries, items = vectors(64, 96), vectors(2000, 96, seed=1)
    many = top_k(queries, items, 50)
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    one = top_k(queries, items, 50)
    faiss.omp_set_num_threads(threads)
    assert many.scores.tobytes() == one.scores.tobytes()
    assert many.indices.tobytes() == one.indices.tobytes()


def test_queries_are_searched_a_batch_at_a_time(engine, monkeypatch):
    monkeypatch.setattr(search, "_BLOCK", 1200)
    queries, items = vectors(50), vectors(500, seed=1)
    parts = list(top_k_batches(queries, items, 9))
    assert len(parts) > 1 or engine != "faiss", "blocks of a product have a size of their own"
    assert sum(map(len, parts)) == 50
    joined = TopK.joined(parts, 9)
    assert joined.indices.tolist() == exact(queries, items, 9).indices.tolist()


def test_hnsw_above_the_stated_size_says_its_recall():
    queries, items = vectors(300), vectors(3000, seed=1)
    notes: dict = {}
    found = top_k(queries, items, 10, exact_up_to=2999, notes=notes)
    found.check(300, 10, 3000)
    said = notes["search"]
    assert (said["index"], said["recall_queries"]) == ("HNSW", 200)
    expected = exact(queries, items, 10)
    true = np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(found.indices, expected.indices, strict=True)])
    assert said["recall"] == pytest.approx(true, abs=0.03)
    assert true > 0.95
    again = top_k(queries, items, 10, exact_up_to=2999)
    assert again.indices.tobytes() == found.indices.tobytes()
    top_k(queries, items, 10, exact_up_to=3000, notes=notes)
    assert notes["search"] == {"index": "exact", "items": 3000}


@pytest.mark.parametrize("exact_up_to", [3000, 2999], ids=["exact", "hnsw"])
def test_parts_of_the_queries_find_what_all_find(monkeypatch, exact_up_to):
    """With one graph for all, also for another k, and the same sample for the recall."""
    pytest.importorskip("faiss")
    built, hnsw = [], search._hnsw
    monkeypatch.setattr(search, "_hnsw", lambda items: built.append(len(items)) or hnsw(items))
    monkeypatch.setattr(search, "LINKS", 2)  # so that much is missed
    queries, items = vectors(500), vectors(3000, seed=1)
    index = Index(items, exact_up_to=exact_up_to, seed=3)
    for k in (10, 150):
        notes: dict = {}
        whole = top_k(queries, items, k, exact_up_to=exact_up_to, seed=3, notes=notes)
        built.clear()
        found = index.search(k)
        parts = [
            part for start in (0, 240, 241) for part in found.batches(queries[start : {0: 240, 240: 241}.get(start)])
        ]
        joined = TopK.joined(parts, k)
        assert joined.indices.tobytes() == whole.indices.tobytes()
        assert joined.scores.tobytes() == whole.scores.tobytes()
        assert found.note() == notes["search"]
        assert built == []
    if exact_up_to < 3000:
        assert notes["search"]["recall"] < 0.9
        assert (notes["search"]["recall_queries"], notes["search"]["ef_search"]) == (200, 300)


def test_the_recall_is_that_of_its_sample(monkeypatch):
    """Of all queries, where there are fewer than a sample has."""
    pytest.importorskip("faiss")
    monkeypatch.setattr(search, "EF_CONSTRUCTION", 2)
    monkeypatch.setattr(search, "LINKS", 2)
    queries, items = vectors(150), vectors(3000, seed=1)
    notes: dict = {}
    found = top_k(queries, items, 10, exact_up_to=0, notes=notes)
    both = zip(found.indices, exact(queries, items, 10).indices, strict=True)
    recall = np.mean([len(np.intersect1d(a[a >= 0], b)) / 10 for a, b in both])
    assert recall < 0.9
    assert notes["search"]["recall"] == pytest.approx(recall, abs=1e-4)


def test_a_vector_that_is_not_finite(engine):
    broken = vectors(5)
    broken[3, 2] = np.nan
    for queries, items in ((broken, vectors(5)), (vectors(5), broken)):
        with pytest.raises(MethodError, match="NaN or infinite"):
            top_k(queries, items, 2)
    later = Index(vectors(5)).search(2)
    with pytest.raises(MethodError, match="NaN or infinite"):
        list(later.batches(broken))


@pytest.mark.gpu
def test_a_gpu_finds_the_same():
    queries, items = vectors(64, 96), vectors(2000, 96, seed=1)
    assert np.array_equal(top_k(queries, items, 50, device="cuda").indices, top_k(queries, items, 50).indices)
