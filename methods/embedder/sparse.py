"""Models whose vectors are sparse, one dimension per word (SPLADE; Formal et al., SIGIR 2021).

They are searched exactly, by the sparse products that TF-IDF is searched by.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from xmcbench import Texts, TopK, UsageError
from xmcbench.methods.embedder.opened import Opened
from xmcbench.methods.encoder.settings import Side
from xmcbench.methods.sparse.search import SparseIndex

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class SparseModel(Opened):
    """A SparseEncoder of sentence-transformers."""

    kind = "SparseEncoder"
    similarities = ("dot", "cosine")

    def index(self, labels: Texts) -> None:
        """Encode the labels. Raises UsageError for negative weights, which the search could not compare."""
        self._index = SparseIndex(self._vectors(labels, "label"))

    def search(self, texts: Texts, k: int) -> Iterator[TopK]:
        """Yield the k labels with the largest products. Raises UsageError as ``index`` does."""
        yield self._index.search(self._vectors(texts, "instance"), k)

    def _vectors(self, texts: Texts, side: Side) -> csr_matrix:
        """Return the vectors of texts, CSR float32 [n, words]."""
        from scipy.sparse import csr_matrix, diags, vstack

        parts = []
        for batch in texts.batches():
            found = self.encode(batch.to_pylist(), side).coalesce().cpu()
            rows, words = found.indices().numpy()
            parts.append(csr_matrix((found.values().float().numpy(), (rows, words)), shape=tuple(found.shape)))
        whole = vstack(parts, format="csr") if parts else csr_matrix((0, 0), dtype=np.float32)
        if whole.nnz and whole.data.min() < 0:
            raise UsageError(f"{self.notes['name']} gives negative weights", "choose a model like SPLADE")
        if self.notes["similarity"] == "cosine":
            lengths = np.sqrt(whole.multiply(whole).sum(axis=1).A1)
            whole = (diags(1 / np.where(lengths > 0, lengths, 1)) @ whole).tocsr()
        self.notes[f"words_per_{side}"] = round(whole.nnz / max(1, whole.shape[0]), 1)
        return whole
