"""Pseudo pairs: what an encoder and TF-IDF each take for the labels of an instance, mixed (MACLR section 4.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xmcbench import TopK
from xmcbench.methods.maclr.own_titles import OwnTitles

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench import Artifacts, Texts
    from xmcbench.methods.sparse.ngrams import Recipe

#: N-grams and max_df of the TF-IDF pseudo labels by vectorizer. MACLR's, by its maintainer (pecos#206), are PECOS's.
RECIPES: dict[Recipe, tuple[int, float]] = {"pecos": (2, 0.98), "sklearn": (2, 1.0)}


def tfidf_ranking(artifacts: Artifacts, raw_X: Texts, raw_Y: Texts, depth: int, recipe: Recipe) -> TopK:
    """The ``depth`` nearest labels of each text by TF-IDF, made once for a corpus."""
    from xmcbench.methods.sparse.features import TfidfFeatures

    ngrams, max_df = RECIPES[recipe]

    def search() -> TopK:
        return TfidfFeatures.shared(artifacts, raw_X, raw_Y, recipe, ngrams, max_df).nearest(raw_X, depth)

    texts = [raw_X.digest, raw_Y.digest]
    identity = {"by": "TF-IDF", "texts": texts, "recipe": [recipe, ngrams, max_df], "depth": depth}
    return kept_ranking(artifacts, identity, search)


def kept_ranking(artifacts: Artifacts, identity: Mapping[str, object], search: Callable[[], TopK]) -> TopK:
    """A ranking from the artifacts, or made and put there: the rows of an ablation share it."""

    def build(folder: Path) -> None:
        search().save(folder / "nearest.npz")

    return TopK.load(artifacts.get("nearest", identity, build, uses=(search,)) / "nearest.npz")


def chosen(
    found: TopK, labels: int, top: int, least: float | None = None, own_titles: OwnTitles | None = None
) -> csr_matrix:
    """The first ``top`` labels of each instance, as a binary CSR matrix, float32 [N, labels].

    found: a ranking of at least ``top`` labels, deep enough to lose some. least: lower scores are no pseudo label.
    own_titles: labels that repeat the instance's title are passed over.
    """
    candidate = found.indices >= 0
    if least is not None:
        candidate &= found.scores >= least
    if own_titles is not None:
        candidate &= ~own_titles.same(np.arange(len(found))[:, None], np.maximum(found.indices, 0))
    candidate &= np.cumsum(candidate, axis=1) <= top
    return TopK(np.where(candidate, found.indices, -1), found.scores).pairs(labels)


def mixed(sources: Sequence[csr_matrix]) -> csr_matrix:
    """The union of the pairs of all sources: binary CSR, float32, columns in order."""
    whole = sources[0].copy()
    for each in sources[1:]:
        whole = whole + each
    whole.data[:] = 1.0
    whole.sort_indices()
    return whole
