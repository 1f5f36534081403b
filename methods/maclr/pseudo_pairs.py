"""Pseudo pairs: labels that several sources name for an instance, and how they are combined (section 4.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from xmcbench import Artifacts, Texts, TopK
from xmcbench.methods.encoder.tokens import TokenStore

if TYPE_CHECKING:
    from xmcbench.methods.sparse.ngrams import Recipe


@dataclass(frozen=True)
class OwnTitles:
    """Labels that read like an instance's title. titles: int64 [N], labels: int64 [L]; equal numbers are equal texts,
    -1 is a title that no label has. most: how many labels read like one title at most."""

    titles: np.ndarray
    labels: np.ndarray
    most: int

    @classmethod
    def of(cls, titles: TokenStore, labels: TokenStore) -> OwnTitles:
        """Texts are the same when their tokens are, both cut at the same length."""
        numbers: dict[bytes, int] = {}
        of_labels = np.fromiter(
            (numbers.setdefault(labels[row].tobytes(), len(numbers)) for row in range(len(labels))),
            np.int64,
            len(labels),
        )
        of_titles = np.fromiter((numbers.get(titles[row].tobytes(), -1) for row in range(len(titles))), np.int64)
        counts = np.bincount(of_labels, minlength=1)[of_titles[of_titles >= 0]]
        return cls(of_titles, of_labels, int(counts.max(initial=0)))

    def same(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return where labels are an instance's own title: bool, broadcast from ``rows`` and ``labels``."""
        return self.titles[rows] == self.labels[labels]  # type: ignore[no-any-return]

    def of_rows(self, rows: np.ndarray) -> OwnTitles:
        """The same for the instances ``rows`` only, renumbered."""
        return OwnTitles(self.titles[rows], self.labels, self.most)


#: N-grams and max_df of the TF-IDF pseudo labels by vectorizer. MACLR's, by its maintainer (pecos#206), are PECOS's.
RECIPES: dict[Recipe, tuple[int, float]] = {"pecos": (2, 0.98), "sklearn": (2, 1.0)}
#: Labels of a source that the sum looks at.
DEPTH = 100
#: Instances whose scores are summed at a time; each takes up to 14 KB with two sources.
_ROWS = 16_384


@dataclass(frozen=True)
class PseudoPairs:
    """Pairs that replace known ones, one after the other; a pair may occur twice. rows, columns: instance and label of
    each pair, int64 [n]. shape: how many instances and labels there are."""

    rows: np.ndarray
    columns: np.ndarray
    shape: tuple[int, int]

    def __len__(self) -> int:
        return len(self.rows)

    def matrix(self) -> csr_matrix:
        """Each pair once: binary CSR, float32 [N, L], columns in order."""
        whole = csr_matrix((np.ones(len(self), np.float32), (self.rows, self.columns)), shape=self.shape)
        whole.sum_duplicates()
        whole.data[:] = 1.0
        return whole


def tfidf_ranking(artifacts: Artifacts, raw_X: Texts, read: Texts, raw_Y: Texts, depth: int, recipe: Recipe) -> TopK:
    """The ``depth`` nearest labels of each text that is read, by the TF-IDF of the corpus ``raw_X``, made once."""
    from xmcbench.methods.sparse.features import TfidfFeatures

    ngrams, max_df = RECIPES[recipe]

    def search() -> Iterator[TopK]:
        return TfidfFeatures.shared(artifacts, raw_X, raw_Y, recipe, ngrams, max_df).nearest(read, depth)

    texts = [raw_X.digest, read.digest, raw_Y.digest]
    identity = {"by": "TF-IDF", "texts": texts, "recipe": [recipe, ngrams, max_df], "depth": depth}
    return share_ranking(artifacts, identity, search, len(read), depth)


def bm25_ranking(artifacts: Artifacts, raw_X: Texts, raw_Y: Texts, depth: int) -> TopK:
    """The ``depth`` nearest labels of each text by BM25, made once for a corpus."""
    from xmcbench.methods.bm25 import BM25

    def search() -> Iterator[TopK]:
        index = BM25()
        index.fit(raw_X, raw_Y)
        return index.predict_batches(raw_X, depth)

    identity = {"by": "BM25", "texts": [raw_X.digest, raw_Y.digest], "depth": depth}
    return share_ranking(artifacts, identity, search, len(raw_X), depth)


def share_ranking(
    artifacts: Artifacts, identity: Mapping[str, object], search: Callable[[], Iterator[TopK]], rows: int, depth: int
) -> TopK:
    """A ranking [rows, depth] from the artifacts, or made and put there: the rows of an ablation share it."""

    def build(folder: Path) -> None:
        TopK.save_joined(folder / "nearest.npz", search(), rows, depth)

    return TopK.load(artifacts.get("nearest", identity, build, uses=(search,)) / "nearest.npz")


def without_own_titles(found: TopK, own_titles: OwnTitles, depth: int) -> TopK:
    """The first ``depth`` labels of a ranking, without those that repeat the instance's title."""
    own = own_titles.same(np.arange(len(found))[:, None], np.maximum(found.indices, 0))
    ranked = TopK.ranked(np.where(own, -1, found.indices), found.scores)
    return TopK(ranked.indices[:, :depth], ranked.scores[:, :depth])


def sum_scores(sources: Sequence[TopK], labels: int, depth: int = 0, width: int = DEPTH) -> TopK:
    """Rank by the sum of the sources' scores, each divided by the mean of its best ones, without its sign. The division
    makes cosines, inner products and BM25 comparable and leaves apart how sure a source is of one instance and of
    another. A label that a source does not list counts as its last one, or 0 where the source ended early. depth: only
    labels among the first so many of every source; 0: all. width: labels that are ranked at most."""
    scales = [_best_mean(source) for source in sources]
    blocks = (
        [TopK(source.indices[start : start + _ROWS], source.scores[start : start + _ROWS]) for source in sources]
        for start in range(0, len(sources[0]), _ROWS)
    )
    parts = (_sum_block(block, scales, labels, depth, width) for block in blocks)
    ranked = TopK.joined(parts, width, len(sources[0]))
    longest = max(1, int((ranked.indices >= 0).sum(axis=1).max(initial=0)))
    return TopK(ranked.indices[:, :longest], ranked.scores[:, :longest])


def _best_mean(source: TopK) -> float:
    """The mean of the best scores of a source, without its sign: inner products may all be negative."""
    best = source.scores[:, 0][source.indices[:, 0] >= 0]
    return max(abs(float(best.mean())) if len(best) else 1.0, 1e-9)


def _sum_block(sources: Sequence[TopK], scales: Sequence[float], labels: int, depth: int, width: int) -> TopK:
    """``sum_scores`` for a block of instances; scales: what the scores of each source are divided by."""
    shape = len(sources[0]), labels
    total, votes, floors = csr_matrix(shape, dtype=np.float64), csr_matrix(shape, dtype=np.float64), np.zeros(shape[0])
    for source, scale in zip(sources, scales, strict=True):
        listed = source.indices >= 0
        scaled = np.where(listed, source.scores, 0) / scale
        floor = np.where(listed[:, -1], scaled[:, -1], np.minimum(scaled.min(1), 0.0))
        floors += floor
        rows, places = np.nonzero(listed)
        cells = rows, source.indices[rows, places]
        # What is equal to the floor is listed too, and a stored zero would be lost in a sum.
        total = total + csr_matrix((scaled[rows, places] - floor[rows] + 1e-9, cells), shape=shape)
        votes = votes + csr_matrix(((places < depth).astype(np.float64), cells), shape=shape)
    if depth:
        total = total.multiply(votes >= len(sources)).tocsr()
        total.eliminate_zeros()
    ranked = TopK.from_scores(total.astype(np.float32), width)
    return TopK.ranked(ranked.indices, ranked.scores + floors[:, None].astype(np.float32))


def choose_pairs(found: TopK, labels: int, top: int, least: float | None = None, margin: float = 0.0) -> PseudoPairs:
    """The first ``top`` labels of each instance. least: labels with lower scores are not taken. margin: an instance
    whose last chosen label does not lead the next one by as much has none."""
    kept = found.indices[:, :top] >= 0
    if least is not None:
        kept &= found.scores[:, :top] >= least
    if margin and found.k > top:
        after = np.where(found.indices[:, top] >= 0, found.scores[:, top], -np.inf)
        last = np.where(kept, found.scores[:, :top], np.inf).min(1)
        kept &= (last - after >= margin)[:, None]
    rows, places = np.nonzero(kept)
    return PseudoPairs(rows.astype(np.int64), found.indices[rows, places].astype(np.int64), (len(found), labels))


def mix_pairs(sources: Sequence[PseudoPairs], twice: bool) -> PseudoPairs:
    """The pairs of all sources, instance by instance. twice: whether a pair from two sources occurs twice."""
    rows, columns = (np.concatenate([getattr(source, name) for source in sources]) for name in ("rows", "columns"))
    order = np.lexsort((columns, rows))
    whole = PseudoPairs(rows[order], columns[order], sources[0].shape)
    if twice:
        return whole
    found = whole.matrix().tocoo()
    return PseudoPairs(found.row.astype(np.int64), found.col.astype(np.int64), whole.shape)
