"""Embeddings of a corpus, written to a memory map."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from xmcbench import XmcbenchError
from xmcbench.methods.encoder.hardware import TOKENS
from xmcbench.methods.encoder.network import Encoder
from xmcbench.methods.encoder.tokens import TokenStore, by_length, padded

if TYPE_CHECKING:
    from xmcbench import Artifacts


def encode(encoder: Encoder, store: TokenStore, out: np.ndarray, rows: np.ndarray | None = None) -> None:
    """Write the vectors of the texts in the store, or of its ``rows``, to ``out`` (float32 [n, width])."""
    rows = np.arange(len(store)) if rows is None else rows
    device = next(encoder.parameters()).device
    was_training = encoder.training
    encoder.eval()
    try:
        with torch.inference_mode():
            for batch in by_length(store.lengths[rows], TOKENS[device.type]):
                ids, mask = padded([store[row] for row in rows[batch]], store.pad)
                vectors = encoder([torch.from_numpy(ids).to(device)], [torch.from_numpy(mask).to(device)])
                out[batch] = vectors.cpu().numpy()
    finally:
        encoder.train(was_training)


def mapped(path: Path, rows: int, width: int) -> np.ndarray:
    """A new float32 [rows, width] array in a file. Raises OSError if there is not enough space.

    The space is allocated at once: a memory map that fills the disk while it is written to kills the process.
    """
    size = rows * width * 4
    if size == 0:
        return np.empty((rows, width), np.float32)
    with path.open("wb") as stream:
        os.posix_fallocate(stream.fileno(), 0, size)
    return np.memmap(path, np.float32, "r+", shape=(rows, width))


@contextmanager
def temporary_embeddings(encoder: Encoder, store: TokenStore, artifacts: Artifacts) -> Iterator[np.ndarray]:
    """The vectors of a store, float32 [n, width], in a temporary file beside the artifacts.

    Raises XmcbenchError if there is not enough space.
    """
    with artifacts.temporary() as folder:
        try:
            vectors = mapped(folder / "embeddings.bin", len(store), encoder.width)
        except OSError as error:
            size = f"{len(store) * encoder.width * 4 / 1e9:.1f} GB"
            raise XmcbenchError(
                f"cannot write {len(store)} embeddings ({size}) below {artifacts.root}: {error.strerror or error}",
                "free some space or choose another --runs folder, then run again",
            ) from error
        encode(encoder, store, vectors)
        yield vectors


def shared_embeddings(
    artifacts: Artifacts, encoder: Encoder, store: TokenStore, identity: Mapping[str, object]
) -> np.ndarray:
    """The vectors of a store, float32 [n, width], from the artifacts, or made and stored.

    identity: of weights and texts (JSON values).
    """
    key = {
        **identity,
        "pooling": encoder.pooling,
        "precision": encoder.precision,
        "device": next(encoder.parameters()).device.type,
    }
    shape = (len(store), encoder.width)

    def build(folder: Path) -> None:
        encode(encoder, store, mapped(folder / "embeddings.bin", *shape))

    path = artifacts.get("embeddings", key, build) / "embeddings.bin"
    return np.memmap(path, np.float32, "r", shape=shape) if len(store) else np.empty(shape, np.float32)
