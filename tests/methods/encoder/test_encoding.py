import resource
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from xmcbench import Texts, Unavailable, XmcbenchError, progress
from xmcbench.methods.dense.search import top_k
from xmcbench.methods.distributed import processes
from xmcbench.methods.encoder import hardware
from xmcbench.methods.encoder.encoding import StoreRows, embeddings, encode
from xmcbench.methods.encoder.opening import open_encoder, open_tokenizer
from xmcbench.methods.encoder.tokens import TokenStore


@pytest.fixture
def prepared(artifacts, checkpoint, stories):
    store = TokenStore.of(artifacts, stories[0], open_tokenizer(checkpoint()), 32)
    return open_encoder(checkpoint(), "native", 0), store


def test_batches_do_not_matter(prepared, monkeypatch):
    encoder, store = prepared
    whole, single = np.empty((2, len(store), 16), np.float32)
    encode(encoder, store, whole)
    monkeypatch.setitem(hardware.TOKENS, "cpu", 1)
    encode(encoder, store, single)
    np.testing.assert_allclose(whole, single, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(whole, axis=1), 1, atol=1e-5)


@pytest.fixture
def threads():
    """Set torch's number of threads; the old one comes back."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_batches_run_at_once_on_a_thread_each(prepared, threads, monkeypatch):
    encoder, store = prepared
    monkeypatch.setitem(hardware.TOKENS, "cpu", 64)
    vectors = np.empty((2, len(store), 16), np.float32)
    running, most, lock = [], [], threading.Lock()
    plain = encoder.frozen()

    def watch(ids, mask):
        with lock:
            running.append(torch.get_num_threads())
            most.append(list(running))
        time.sleep(0.02)
        found = plain(ids, mask)
        with lock:
            running.pop()
        return found

    monkeypatch.setattr(encoder, "frozen", lambda: watch)
    for count, out in zip((1, 3), vectors, strict=True):
        threads(count)
        encode(encoder, store, out)
        assert max(map(len, most)) == count
        assert {number for one in most for number in one} == {1}
        most.clear()
        assert torch.get_num_threads() == count
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(torch.get_num_threads).result() == count, "later threads have their number too"
    assert np.array_equal(*vectors)


def test_a_batch_that_fails_on_a_thread_is_an_error(prepared, threads, monkeypatch):
    encoder, store = prepared
    threads(2)

    def fails(ids, mask):
        raise RuntimeError("no memory")

    monkeypatch.setattr(encoder, "frozen", lambda: fails)
    with pytest.raises(RuntimeError, match="no memory"):
        encode(encoder, store, np.empty((len(store), 16), np.float32))


def test_some_rows(prepared):
    encoder, store = prepared
    whole, some = np.empty((len(store), 16), np.float32), np.empty((3, 16), np.float32)
    encode(encoder, store, whole)
    encode(encoder, store, some, np.array([7, 0, 21]))
    np.testing.assert_allclose(some, whole[[7, 0, 21]], atol=1e-6)


@pytest.mark.slow
def test_several_processes_write_the_same_vectors(artifacts, checkpoint, stories, monkeypatch):
    """Two batches: a third process has none."""
    monkeypatch.setitem(processes.WORTHWHILE, "cpu", 0)
    texts = Texts.from_lists([*stories[0]] * 4)
    store = TokenStore.of(artifacts, texts, open_tokenizer(checkpoint()), 32)
    encoder = open_encoder(checkpoint(), "native", 0)
    expected = np.empty((len(store), 16), np.float32)
    encode(encoder, store, expected)
    for count in (1, 2, 3):
        found = np.zeros_like(expected)
        for share, numbers in enumerate(StoreRows(encoder, store).shares(count)):
            StoreRows(encoder, store).write(found, share, count, "cpu")
            assert np.array_equal(found[numbers], expected[numbers])
            assert np.array_equal(found, expected) == (share >= min(count, 2) - 1)
    monkeypatch.setenv(progress.VARIABLE, str(artifacts.root / "progress"))
    with embeddings(artifacts, encoder, store, processes=3) as found:
        assert progress.read(artifacts.root / "progress").done == len(store)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        assert np.array_equal(top_k(found, found, 5).indices, top_k(expected, expected, 5).indices)
    monkeypatch.undo()
    monkeypatch.setattr(processes, "run_in_processes", None)
    with embeddings(artifacts, encoder, store, processes=2) as found:
        assert np.array_equal(found, expected), "few texts are not worth a process"


def test_the_mode_is_left_as_it_was(prepared):
    encoder, store = prepared
    encoder.train()
    encode(encoder, store, np.empty((len(store), 16), np.float32))
    assert encoder.training


def shared(artifacts, encoder, store, identity):
    with embeddings(artifacts, encoder, store, identity=identity) as vectors:
        return vectors


def test_shared_by_weights_and_texts(artifacts, prepared):
    encoder, store = prepared
    first = np.array(shared(artifacts, encoder, store, {"backbone": "a"}))
    before = artifacts.reused_s
    assert np.array_equal(shared(artifacts, encoder, store, {"backbone": "a"}), first)
    assert artifacts.reused_s > before
    before = artifacts.reused_s
    shared(artifacts, encoder, store, {"backbone": "b"})
    assert artifacts.reused_s == before


def test_nothing_to_embed(artifacts, prepared, checkpoint):
    encoder, _ = prepared
    none = TokenStore.of(artifacts, Texts.from_lists([]), open_tokenizer(checkpoint()), 32)
    with embeddings(artifacts, encoder, none) as vectors:
        assert vectors.shape == (0, 16)
    assert shared(artifacts, encoder, none, {}).shape == (0, 16)


def test_no_room_for_the_embeddings(artifacts, prepared):
    """A map of a full disk would end the process without a word."""
    encoder, store = prepared
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with (
            pytest.raises(XmcbenchError, match="cannot write 30 embeddings"),
            embeddings(artifacts, encoder, store),
        ):
            pass
        with pytest.raises(XmcbenchError, match="no space left to write"):
            shared(artifacts, encoder, store, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(artifacts.root.rglob("embeddings.bin"))
    assert not list(artifacts.root.rglob("*.tmp"))


def test_more_processes_than_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [hardware.choose_device("auto", 2), hardware.choose_device("cpu", 3)] == ["cuda", "cpu"]
    with pytest.raises(Unavailable, match="3 processes need a GPU each, but only 2 found") as raised:
        hardware.choose_device("auto", 3)
    assert "--processes 2" in raised.value.hint


def test_bf16_where_the_processor_has_it(monkeypatch):
    monkeypatch.setattr(hardware, "_cpu_flags", lambda: {"avx2", "avx512_bf16"})
    assert hardware.choose_precision("auto", "cpu") == "bf16"
    assert hardware.choose_precision("fp32", "cpu") == "fp32"
    monkeypatch.setattr(hardware, "_cpu_flags", lambda: {"avx2"})
    assert hardware.choose_precision("auto", "cpu") == "fp32"


def test_a_processor_that_no_file_tells_computes_in_float32(monkeypatch):
    def missing(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(hardware.Path, "read_text", missing)
    assert hardware.choose_precision("auto", "cpu") == "fp32"


@pytest.mark.parametrize(
    ("amx", "precision", "fused", "batches"),
    [(False, "bf16", False, 3), (True, "bf16", True, 2), (None, "bf16", False, 3), (False, "fp32", True, 3)],
)
def test_how_a_processor_computes_attention(artifacts, checkpoint, monkeypatch, amx, precision, fused, batches):
    """Fused where it is faster, then in larger batches. The vectors are the same but for rounding."""
    calls, attention = [], torch.nn.functional.scaled_dot_product_attention

    def watch(*values, **named):
        calls.append(named)
        return attention(*values, **named)

    if amx is None:
        monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)  # as in an older torch
    else:
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": amx}, raising=False)
    texts = Texts.from_lists(["the old apple " * 20] * 40)
    store = TokenStore.of(artifacts, texts, open_tokenizer(checkpoint()), 62)
    expected, found = np.empty((2, len(store), 16), np.float32)
    encode(open_encoder(checkpoint(), "native", 0), store, expected)
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watch)
    encoder = open_encoder(checkpoint(), "native", 0, precision=precision)
    assert (
        len(StoreRows(encoder, store).shares(100)[batches - 1])
        > 0
        == len(StoreRows(encoder, store).shares(100)[batches])
    )
    encode(encoder, store, found)
    assert bool(calls) is fused
    assert (expected * found).sum(1).min() > 0.999
