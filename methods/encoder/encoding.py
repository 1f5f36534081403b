"""Embeddings of a corpus, streamed into a memory map."""

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
            vectors = encoder.frozen()
            for batch in by_length(store.lengths[rows], TOKENS[device.type]):
                ids, mask = padded([store[row] for row in rows[batch]], store.pad)
                out[batch] = vectors(torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)).cpu().numpy()
    finally:
        encoder.train(was_training)


def mapped(path: Path, rows: int, width: int) -> np.ndarray:
    """A new float32 [rows, width] array in a file. Raises OSError where there is no room for all of it.

    The room is taken at once: a map that finds the disk full while it is written to ends the process.
    """
    size = rows * width * 4
    if size == 0:
        return np.empty((rows, width), np.float32)
    with path.open("wb") as stream:
        os.posix_fallocate(stream.fileno(), 0, size)
    return np.memmap(path, np.float32, "r+", shape=(rows, width))


@contextmanager
def temporary_embeddings(encoder: Encoder, store: TokenStore, artifacts: Artifacts) -> Iterator[np.ndarray]:
    """The vectors of a store, float32 [n, width], in a file beside the artifacts that goes when the block ends.

    Raises XmcbenchError where there is no room for them.
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
    """The vectors of a store, float32 [n, width], taken from the artifacts, or made and put there.

    identity: what weights and texts these are (JSON values).
    """
    key = {
        **identity,
        "form": encoder.form,
        "precision": encoder.precision,
        "device": next(encoder.parameters()).device.type,
    }
    shape = (len(store), encoder.width)

    def build(folder: Path) -> None:
        encode(encoder, store, mapped(folder / "embeddings.bin", *shape))

    path = artifacts.get("embeddings", key, build) / "embeddings.bin"
    return np.memmap(path, np.float32, "r", shape=shape) if len(store) else np.empty(shape, np.float32)
