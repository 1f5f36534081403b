"""Steps and rate of a fine-tuning, the labels held out to choose its share of the weights, and what they measure."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from scipy.sparse import csr_matrix

from xmcbench.methods.encoder.encoding import encode
from xmcbench.methods.encoder.network import Encoder
from xmcbench.methods.encoder.tokens import TokenStore

#: ``fixed``: always as many steps; ``labels``: as many for every hundredth of the labels that a pair is known of.
Growth = Literal["fixed", "labels"]
#: Shares of the fine-tuned weights that are tried, and the one that is taken where too few labels are known to try.
SHARES, TOO_FEW_LABELS = (0.0, 0.25, 0.5, 0.75, 1.0), 0.5
#: One label of so many is held out; fewer known labels than this are too few. Unknown labels to rank them among.
_FOLDS, _CANDIDATES = 5, 2000


def effort(
    pairs: csr_matrix,
    *,
    steps: int,
    batch: int,
    rate: float,
    growth: Growth = "fixed",
    epochs: float | None = None,
    full_rate_pairs: int = 0,
) -> tuple[int, float]:
    """Return steps and rate for pairs, a CSR matrix [N, L]. growth: ``labels`` is the paper's rule, 2,000 steps for 1%
    of the labels and 10,000 for 5%. batch: rows of a step. epochs: passes over the pairs at most. full_rate_pairs: with
    fewer pairs the rate falls with the square root of their number."""
    if growth == "labels":
        known = len(np.unique(pairs.indices)) / pairs.shape[1]
        steps = max(1, round(steps * known / 0.01))
    if epochs is not None:
        steps = min(steps, max(1, math.ceil(epochs * pairs.nnz / batch)))
    return steps, rate * min(1.0, math.sqrt(pairs.nnz / full_rate_pairs)) if full_rate_pairs else rate


def hold_out_labels(pairs: csr_matrix, seed: int) -> tuple[csr_matrix, csr_matrix, np.ndarray]:
    """Known pairs in two parts with no label in common, both CSR of the shape of ``pairs`` [N, L]. Returns the pairs to
    train on, those held out, and the labels among which to rank the latter: all that have a known pair and some that
    have none, int64, in order. The second part is empty where too few labels are known."""
    rng = np.random.default_rng([seed, 8])
    known = np.unique(pairs.indices)
    count = len(known) // _FOLDS
    held = np.isin(pairs.indices, rng.permutation(known)[:count])
    rows = np.repeat(np.arange(pairs.shape[0]), np.diff(pairs.indptr))
    parts = [
        csr_matrix((pairs.data[part], (rows[part], pairs.indices[part])), shape=pairs.shape) for part in (~held, held)
    ]
    unknown = np.setdiff1d(np.arange(pairs.shape[1]), known)
    others = rng.permutation(unknown)[:_CANDIDATES]
    return parts[0], parts[1], np.sort(np.concatenate([known, others])).astype(np.int64)


def label_retrieval(
    encoder: Encoder,
    instances: TokenStore,
    labels: TokenStore,
    pairs: csr_matrix,
    trained: csr_matrix,
    candidates: np.ndarray,
) -> float:
    """Mean reciprocal rank of the labels of ``pairs`` [N, L] among the ``candidates`` (int64, in order). A label's rank
    counts no other true label of the instance: neither of ``pairs`` nor of ``trained`` [N, L], the pairs that the
    encoder learned from, which would rank before it. A tie counts against it."""
    documents, vectors = _embed(encoder, instances, np.arange(len(instances))), _embed(encoder, labels, candidates)
    wanted, learned = pairs[:, candidates].tocsr(), trained[:, candidates].tocsr()
    reciprocal = 0.0
    for row in range(len(instances)):
        true = wanted.indices[wanted.indptr[row] : wanted.indptr[row + 1]]
        known = learned.indices[learned.indptr[row] : learned.indptr[row + 1]]
        scores = vectors @ documents[row]
        others = np.sort(np.delete(scores, np.concatenate([true, known])))
        reciprocal += float((1 / (1 + len(others) - np.searchsorted(others, scores[true], "left"))).sum())
    return float(round(reciprocal / max(1, wanted.nnz), 5))


def _embed(encoder: Encoder, store: TokenStore, rows: np.ndarray) -> np.ndarray:
    vectors = np.empty((len(rows), encoder.width), np.float32)
    encode(encoder, store, vectors, rows)
    return vectors


#: Contexts that are compared with all titles at a time.
_BLOCK = 1024


def title_retrieval(encoder: Encoder, contexts: TokenStore, titles: TokenStore, rows: np.ndarray) -> dict[str, float]:
    """Measure by inner product how contexts find their titles among those of all ``rows``. Returns ``hit@1``, the share
    of contexts whose title comes first (a tie counts against it), and ``MRR``."""
    contexts_of, titles_of = _embed(encoder, contexts, rows), _embed(encoder, titles, rows)
    ranks = np.empty(len(rows), np.int64)
    for start in range(0, len(rows), _BLOCK):
        scores = contexts_of[start : start + _BLOCK] @ titles_of.T
        own = scores[np.arange(len(scores)), np.arange(start, start + len(scores))]
        ranks[start : start + _BLOCK] = (scores >= own[:, None]).sum(1)
    return {"hit@1": round(float((ranks == 1).mean()), 4), "MRR": round(float((1 / ranks).mean()), 4)}
