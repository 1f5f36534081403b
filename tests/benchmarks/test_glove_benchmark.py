"""GloVe training on LF-Debian's co-occurrence counts against the same AdaGrad in plain NumPy.

The bar: at least 5 times faster for an entry. NumPy's loop takes the entries in batches, gathers their vectors, and
adds gradients with ``np.add.at``, since a word occurs many times in a batch; the batch is the size at which it was
fastest. It is timed on a part of the entries, the trainer on all of them, its compilation outside the timed part.
"""

from __future__ import annotations

import numpy as np
import pytest

from xmcbench import load_dataset
from xmcbench.methods.words import glove
from xmcbench.methods.words.glove import Cooccurrence
from xmcbench.methods.words.vocabulary import Vocabulary

DIMENSIONS, X_MAX, ALPHA, RATE = 300, 100.0, 0.75, 0.05
BATCH, PART = 64, 60_000
BAR = 5


@pytest.fixture(scope="module")
def counts():
    data = load_dataset("lf-debian-20k")
    corpora = [data.train, data.labels]
    vocabulary = Vocabulary.count(corpora, 5, 400_000, lowercase=True)
    return Cooccurrence.of(vocabulary.stream(corpora), len(vocabulary), 10)


@pytest.fixture(scope="module")
def measurements():
    """Measurements of the first benchmark for the second one: seconds for an entry."""
    return {}


def numpy_epoch(entries, main, context, batch):
    """One pass over (rows, columns, logs): mean loss of an entry."""
    rows, columns, logs = entries
    loss = 0.0
    for first in range(0, len(rows), batch):
        i, j, log = (array[first : first + batch] for array in (rows, columns, logs))
        w, v = main.vectors[i], context.vectors[j]
        difference = np.einsum("nd,nd->n", w, v) + main.biases[i] + context.biases[j] - log
        weight = np.minimum(1, np.exp(log) / np.float32(X_MAX)) ** np.float32(ALPHA)
        loss += float((weight * difference**2).sum()) / 2
        step = np.float32(RATE) * weight * difference
        for side, word, gradient in ((main, i, step[:, None] * v), (context, j, step[:, None] * w)):
            np.add.at(side.vectors, word, -gradient / np.sqrt(side.squares[word]))
            np.add.at(side.squares, word, gradient**2)
            np.add.at(side.biases, word, -step / np.sqrt(side.bias_squares[word]))
            np.add.at(side.bias_squares, word, step**2)
    return loss / len(rows)


@pytest.mark.benchmark(group="GloVe, 300 dimensions, LF-Debian-20K")
def test_xmcbench_glove(benchmark, counts, measurements):
    entries = glove.partition(counts, 0)
    random = np.random.default_rng(0)
    main, context = (glove.start(counts.words, DIMENSIONS, random) for _ in range(2))
    weighting = glove.Weighting(np.float32(np.log(X_MAX)), np.float32(ALPHA))
    losses, diagonals = np.zeros(glove.PARTS**2), np.arange(glove.PARTS)

    def epoch():
        glove._epoch(diagonals, entries, main, context, weighting, np.float32(RATE), losses)

    epoch()  # compiled
    benchmark.pedantic(epoch, rounds=5)
    if benchmark.stats:
        measurements["seconds"] = benchmark.stats.stats.median / len(entries.logs)


@pytest.mark.timeout(900)
@pytest.mark.benchmark(group="GloVe, 300 dimensions, a part of LF-Debian-20K")
def test_numpy_glove(benchmark, counts, measurements, capsys):
    random = np.random.default_rng(0)
    order = random.permutation(len(counts.counts))[:PART]
    rows = np.repeat(np.arange(counts.words, dtype=np.int32), np.diff(counts.starts))[order]
    entries = rows, counts.columns[order], np.log(counts.counts[order])
    main, context = (glove.start(counts.words, DIMENSIONS, random) for _ in range(2))

    found = benchmark.pedantic(lambda: numpy_epoch(entries, main, context, BATCH), rounds=3)

    assert np.isfinite(found)
    if benchmark.stats and "seconds" in measurements:
        ratio = benchmark.stats.stats.median / PART / measurements["seconds"]
        benchmark.extra_info |= {"times_faster": round(ratio, 1), "bar": BAR}
        with capsys.disabled():
            print(f"\nglove: an entry is trained {ratio:.1f}x faster than by NumPy (bar: {BAR}x)")
