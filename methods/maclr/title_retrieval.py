"""Retrieval of held-out titles: a measure of an encoder that needs no labels."""

from __future__ import annotations

import numpy as np

from xmcbench.methods.encoder.encoding import encode
from xmcbench.methods.encoder.network import Encoder
from xmcbench.methods.encoder.tokens import TokenStore

#: Contexts that are compared with all titles at a time.
_BLOCK = 1024


def title_retrieval(encoder: Encoder, contexts: TokenStore, titles: TokenStore, rows: np.ndarray) -> dict[str, float]:
    """How well contexts find their titles among those of all ``rows``, by inner product, as fractions.

    Returns ``hit@1``, the share of contexts whose title comes first (a tie counts against it), and
    ``MRR``, its mean.
    """
    sides = []
    for store in (contexts, titles):
        vectors = np.empty((len(rows), encoder.width), np.float32)
        encode(encoder, store, vectors, rows)
        sides.append(vectors)
    contexts_of, titles_of = sides
    ranks = np.empty(len(rows), np.int64)
    for start in range(0, len(rows), _BLOCK):
        scores = contexts_of[start : start + _BLOCK] @ titles_of.T
        own = scores[np.arange(len(scores)), np.arange(start, start + len(scores))]
        ranks[start : start + _BLOCK] = (scores >= own[:, None]).sum(1)
    return {
        "hit@1": round(float((ranks == 1).mean()), 4),
        "MRR": round(float((1 / ranks).mean()), 4),
    }
