"""Embeddings of a corpus by an encoder, streamed into a memory map."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import numpy as np
import torch

from xmcbench import progress
from xmcbench.methods.dense.vectors import shared_vectors, temporary_vectors
from xmcbench.methods.encoder.hardware import inference_tokens
from xmcbench.methods.encoder.network import Encoder
from xmcbench.methods.encoder.tokens import TokenStore, by_length, padded

if TYPE_CHECKING:
    from xmcbench import Artifacts

#: How embeddings are kept where nothing else is asked for.
FLOAT32 = np.dtype(np.float32)


def encode(encoder: Encoder, store: TokenStore, out: np.ndarray, rows: np.ndarray | None = None) -> None:
    """Write the vectors of the texts in the store, or of its ``rows``, to ``out`` [n, width], float32 or float16."""
    rows = np.arange(len(store)) if rows is None else rows
    device = next(encoder.parameters()).device
    was_training = encoder.training
    encoder.eval()
    try:
        with torch.inference_mode():
            vectors = encoder.frozen()
            done = 0
            for batch in by_length(store.lengths[rows], inference_tokens(device.type, encoder.precision)):
                ids, mask = padded([store[row] for row in rows[batch]], store.pad)
                out[batch] = vectors(torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)).cpu().numpy()
                done += len(batch)
                progress.steps(done, len(rows), "text")
    finally:
        encoder.train(was_training)


def temporary_embeddings(
    encoder: Encoder, store: TokenStore, artifacts: Artifacts, dtype: np.dtype = FLOAT32
) -> AbstractContextManager[np.ndarray]:
    """The vectors of a store, [n, width], in a file beside the artifacts that goes when the block ends.

    Raises XmcbenchError if there is not enough space.
    """
    return temporary_vectors(artifacts, (len(store), encoder.width), dtype, _writer(encoder, store))


def shared_embeddings(
    artifacts: Artifacts,
    encoder: Encoder,
    store: TokenStore,
    identity: Mapping[str, object],
    dtype: np.dtype = FLOAT32,
) -> np.ndarray:
    """The vectors of a store, [n, width], taken from the artifacts, or made and put there.

    identity: of weights and texts (JSON values).
    """
    key = {
        **identity,
        "form": encoder.form,
        "precision": encoder.precision,
        "device": next(encoder.parameters()).device.type,
    }
    return shared_vectors(artifacts, key, (len(store), encoder.width), dtype, _writer(encoder, store))


def _writer(encoder: Encoder, store: TokenStore) -> Callable[[np.ndarray], None]:
    def write(out: np.ndarray) -> None:
        encode(encoder, store, out)

    return write
