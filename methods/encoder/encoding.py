"""Embeddings of a corpus by an encoder, streamed into a memory map."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from xmcbench import Artifacts, progress
from xmcbench.methods.dense.vectors import shared_vectors, temporary_vectors
from xmcbench.methods.distributed.processes import write_rows
from xmcbench.methods.distributed.threads import in_threads
from xmcbench.methods.encoder.batches import by_length, pad_texts, round_up
from xmcbench.methods.encoder.hardware import TOKENS, inference_tokens, is_fusing_faster
from xmcbench.methods.encoder.network import Encoder
from xmcbench.methods.encoder.tokens import TokenStore

#: How embeddings are kept where nothing else is asked for.
FLOAT32 = np.dtype(np.float32)


def encode(encoder: Encoder, store: TokenStore, out: np.ndarray, rows: np.ndarray | None = None) -> None:
    """Write the vectors of the texts in the store, or of its ``rows``, to ``out`` [n, width], float32 or float16."""
    rows = np.arange(len(store)) if rows is None else rows
    _write(encoder, store, rows, _batches(encoder, store, rows), out)


@dataclass(frozen=True)
class StoreRows:
    """The vectors of a store, as rows that several processes compute. The batches are dealt out, not the texts: all
    processes have about as many tokens, and a vector comes out of the same batch whatever their number."""

    encoder: Encoder
    store: TokenStore

    def shares(self, count: int) -> list[np.ndarray]:
        """The texts of each of ``count`` processes, int64."""
        batches = self._all()
        return [np.concatenate([np.empty(0, np.int64), *batches[share::count]]) for share in range(count)]

    def write(self, out: np.ndarray, share: int, count: int, device: str) -> None:
        """Write the vectors of one of ``count`` shares to their rows of ``out``, computed on a device."""
        self.encoder.to(device)
        _write(self.encoder, self.store, np.arange(len(self.store)), self._all()[share::count], out)

    def identity(self) -> str:
        """The tokens and the weights."""
        return f"{self.store.folder.name} {self.encoder.digest()} {self.encoder.precision}"

    def _all(self) -> list[np.ndarray]:
        return _batches(self.encoder, self.store, np.arange(len(self.store)))


def _batches(encoder: Encoder, store: TokenStore, rows: np.ndarray) -> list[np.ndarray]:
    """Places in ``rows``, in batches of texts of similar length."""
    device = next(encoder.parameters()).device.type
    # Plain products hold the scores of a whole batch, which a smaller batch keeps in the cache of a core.
    fused = is_fusing_faster(device, encoder.precision)
    budget = inference_tokens(device, encoder.precision) if fused else TOKENS[device]
    return by_length(round_up(store.lengths)[rows], budget)


def _write(
    encoder: Encoder, store: TokenStore, rows: np.ndarray, batches: Sequence[np.ndarray], out: np.ndarray
) -> None:
    """Write the vectors of some batches of the texts in ``rows`` to their places in ``out``."""
    device = next(encoder.parameters()).device
    own = sum(map(len, batches))
    was_training = encoder.training
    encoder.eval()
    try:
        vectors = encoder.frozen()
        widths = round_up(store.lengths)[rows]

        def embed(batch: np.ndarray) -> int:
            ids, mask = pad_texts([store[row] for row in rows[batch]], store.pad, int(widths[batch].max()))
            with torch.inference_mode():
                out[batch] = vectors(torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)).cpu().numpy()
            return len(batch)

        done = 0
        for count in _at_once(embed, batches, device.type):
            done += count
            # Other processes are about as far.
            progress.steps(done * len(rows) // own, len(rows), "text")
    finally:
        encoder.train(was_training)


def _at_once(embed: Callable[[np.ndarray], int], batches: Sequence[np.ndarray], device: str) -> Iterator[int]:
    """``embed`` of each batch; on the CPU, as many at once as torch has threads, each on one thread. Threads that share
    a batch wait for each other after every product, the longer the busier the machine."""
    threads = torch.get_num_threads()
    if device != "cpu" or threads == 1:
        yield from map(embed, batches)
        return
    try:
        yield from in_threads(embed, batches, threads, prepare=partial(torch.set_num_threads, 1))
    finally:
        torch.set_num_threads(threads)  # else threads that start later would have one, too


@contextmanager
def embeddings(
    artifacts: Artifacts,
    encoder: Encoder,
    store: TokenStore,
    dtype: np.dtype = FLOAT32,
    processes: int = 1,
    identity: Mapping[str, object] | None = None,
) -> Iterator[np.ndarray]:
    """The vectors of a store, [n, width]. identity: of weights and texts (JSON values), for vectors that are taken from
    the artifacts, or made and put there; None for a file that goes when the block ends. processes: of this machine; on
    several machines all of theirs share the texts, see ``distributed.processes``. Raises XmcbenchError if there is not
    enough space, MethodError where a process fails."""
    device, shape = next(encoder.parameters()).device.type, (len(store), encoder.width)

    def write(out: np.ndarray) -> None:
        write_rows(StoreRows(encoder, store), out, processes, device)

    if identity is None:
        with temporary_vectors(artifacts, shape, dtype, write) as vectors:
            yield vectors
    else:
        key = {**identity, "form": encoder.form, "precision": encoder.precision, "device": device}
        yield shared_vectors(artifacts, key, shape, dtype, write)
