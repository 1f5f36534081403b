import numpy as np
import pytest
from scipy.sparse import csr_matrix

from xmcbench import Artifacts, Texts

TOPICS = ["neural network", "graph theory", "Linear Algebra", "text retrieval", "speech", "protein folding", "ocean"]


@pytest.fixture
def corpus():
    """Training texts, label texts, true pairs, new texts: 60 instances on 7 labels, each naming one or two of them."""
    rng = np.random.default_rng(0)
    chosen = [sorted(rng.choice(len(TOPICS), rng.integers(1, 3), replace=False)) for _ in range(60)]
    titles = [f"item {row}" for row in range(60)]
    contents = [
        f"about {' and '.join(TOPICS[label] for label in labels)} w{row % 5}" for row, labels in enumerate(chosen)
    ]
    rows = np.repeat(np.arange(60), [len(labels) for labels in chosen])
    pairs = csr_matrix((np.ones(len(rows), np.float32), (rows, np.concatenate(chosen))), shape=(60, len(TOPICS)))
    new = Texts.from_lists(
        ["about speech", "graph theory graph", "unheard of", "", "Linear Algebra"],
        ["ocean", "", "", "", "neural network"],
    )
    return Texts.from_lists(titles, contents), Texts.from_lists(TOPICS), pairs, new


@pytest.fixture
def fitted(tmp_path_factory):
    """A method, trained, with a store of its own that holds nothing yet."""

    def fit(kind, raw_X, raw_Y, pairs=None, seed=0, **values):
        method = kind(**values)
        method.seed = seed
        method.artifacts = Artifacts(tmp_path_factory.mktemp("store"))
        method.fit(raw_X, raw_Y, pairs)
        return method

    return fit
