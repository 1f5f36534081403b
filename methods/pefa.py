"""PEFA: frozen embeddings, adapted to known pairs without training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Interval

from xmcbench import Doc, Texts, TopK, load_arrays, save_arrays
from xmcbench.methods.declarations import AboveZero, Instances, Labels
from xmcbench.methods.embedder import Embedder

if TYPE_CHECKING:
    from pathlib import Path

    from scipy.sparse import csr_matrix

#: What is kept beside the vectors of the labels, and the parts of a CSR matrix.
_INSTANCES, _CSR = "instances.safetensors", ("data", "indices", "indptr")
#: Texts whose candidates are compared at a time.
_ROWS = 4096


class PEFA(Embedder):
    """Nearest training instances vote for their labels beside the label texts (PEFA-XL; Chang et al., WSDM 2024).

    The score of a label is (1 - ``mix``) times its similarity to the text, plus ``mix`` times the votes of the nearest
    training instances. Each has a vote of exp(similarity / ``temperature``), shared among its labels; the votes of a
    text sum to 1. An instance without a known pair abstains, so the fewer pairs are known, the less they change the
    ranking by text. A label that is newer than all known pairs gets no vote, and falls behind labels that get one. The
    embeddings are those of ``embedder``, with all its parameters, but their similarity is the cosine, whatever the
    model states. Nothing is trained. Written from the description of the method, where all instances have pairs, not
    from its code.

    A label is a candidate if the label texts or the votes bring it among ``candidates``.
    """

    title = "PEFA"
    # A vote is at most 1: next to inner products without a bound it would count for nothing.
    _similarity: ClassVar[Literal["cosine"] | None] = "cosine"
    supervision: ClassVar[Literal["unused", "required"]] = "required"
    _takes_any_vectors: ClassVar[bool] = False

    neighbors: Annotated[Instances, Doc("number of nearest training instances that vote or abstain")] = 50
    mix: Annotated[float, Interval(gt=0, le=1), Doc("weight of the votes; the label text has the rest")] = 0.5
    temperature: Annotated[AboveZero, Doc("divisor of the similarities before they vote")] = 0.05
    candidates: Annotated[Labels, Doc("number of labels taken from the search by text; at least k")] = 200

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        """Embed the labels, and the instances as queries, or take their vectors from the store."""
        super().fit(raw_X, raw_Y)
        assert pairs is not None, "the setting brings pairs"
        self._shares = shares_of(pairs)
        voters = self.notes["voters"] = int(np.count_nonzero(np.diff(pairs.indptr)))
        self._instances = np.empty((0, self._labels.shape[1]), np.float32)
        if voters:
            self._instances = self._model.shared(self.artifacts, raw_X, "instance", np.dtype(self.stored_as))

    def predict_batches(self, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        """The k labels with the largest mixture of similarity and votes per text."""
        from xmcbench.methods.dense.search import regroup

        asked, found, start = max(k, self.candidates), dict[str, object](), 0
        with self._model.temporary(self.artifacts, raw_X, "instance", np.dtype(self.stored_as)) as vectors:
            by_text = regroup(self._nearest(vectors, self._labels, asked, self.notes), _ROWS)
            voters = regroup(self._nearest(vectors, self._instances, self.neighbors, found), _ROWS)
            for candidates, nearest in zip(by_text, voters, strict=True):
                voted = votes(nearest, self._shares, self.temperature)
                yield self._mix(vectors[start : start + len(candidates)], candidates, voted, k)
                start += len(candidates)
        self.notes["search of instances"] = found["search"]

    def save(self, folder: Path) -> None:
        """Write what ``Embedder.save`` does, and the vectors of the instances with their shares."""
        super().save(folder)
        shares = {name: getattr(self._shares, name) for name in _CSR}
        arrays = {"instances": np.asarray(self._instances), **shares}
        save_arrays(folder / _INSTANCES, arrays)

    def load(self, folder: Path) -> None:
        from scipy.sparse import csr_matrix

        super().load(folder)
        arrays = load_arrays(folder / _INSTANCES)
        self._instances, rows = arrays["instances"], len(arrays["indptr"]) - 1
        self._shares = csr_matrix(tuple(arrays[name] for name in _CSR), shape=(rows, len(self._labels)))

    def _mix(self, vectors: np.ndarray, by_text: TopK, voted: csr_matrix, k: int) -> TopK:
        """The mixture over the candidates of both sides; labels that only votes bring are compared with their text."""
        from xmcbench.methods.dense.search import pair_scores

        union = (by_text.pairs(voted.shape[1]) + (voted > 0)).tocsr()
        union.sort_indices()
        width = int(np.diff(union.indptr).max(initial=1))
        labels = np.full((union.shape[0], width), -1, np.int64)
        labels[np.arange(width) < np.diff(union.indptr)[:, None]] = union.indices
        similarity = pair_scores(vectors, self._labels, np.maximum(labels, 0))
        vote = np.asarray(voted[np.arange(len(labels))[:, None], np.maximum(labels, 0)].todense())
        ranked = TopK.ranked(labels, (1 - self.mix) * similarity + self.mix * vote)
        return TopK.joined([TopK(ranked.indices[:, :k], ranked.scores[:, :k])], k)


def shares_of(known: csr_matrix) -> csr_matrix:
    """The share of each label in the vote of an instance: CSR [instances, L], of their pairs. An instance shares its
    vote equally among its labels; without any, its vote is lost."""
    from scipy.sparse import diags

    return (diags(1 / np.maximum(np.diff(known.indptr), 1)) @ known).tocsr()


def votes(voters: TopK, shares: csr_matrix, temperature: float) -> csr_matrix:
    """Votes of the nearest instances for their labels: CSR float32 [N, L], rows with a sum of at most 1. voters:
    nearest instances of each text with their similarities; shares: of ``shares_of``."""
    from scipy.sparse import csr_matrix, diags

    there = voters.indices >= 0
    if not there.any():
        return csr_matrix((len(voters), shares.shape[1]), dtype=np.float32)
    # The largest is taken off first: the exponential of a large similarity has no float.
    exponents = np.exp((voters.scores - voters.scores[:, :1]) / temperature, where=there, out=np.zeros(there.shape))
    rows = np.nonzero(there)[0]
    given = csr_matrix((exponents[there], (rows, voters.indices[there])), shape=(len(voters), shares.shape[0]))
    given = diags(1 / np.asarray(given.sum(axis=1)).ravel()) @ given
    return (given @ shares).tocsr().astype(np.float32)
