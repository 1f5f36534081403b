"""Models of sentence-transformers whose texts are not one dense vector each, searched exactly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from xmcbench import Texts, TopK, UsageError
from xmcbench.methods.embedder.model import open_other
from xmcbench.methods.encoder.hardware import Device, Precision
from xmcbench.methods.encoder.settings import Side, choose_prompts
from xmcbench.methods.sparse.search import SparseIndex

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


@dataclass
class Opened(ABC):
    """A loaded model. notes: facts about it, for the record; figures of the vectors are added when they are there."""

    #: The class of sentence-transformers, and the similarities that can be searched.
    kind: ClassVar[str]
    similarities: ClassVar[tuple[str, ...]]

    model: Any
    prompts: dict[Side, str]
    batch: int
    notes: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        name: str,
        device: Device,
        precision: Precision,
        max_length: int | None,
        prompts: tuple[str | None, str | None],
        batch: int,
    ) -> Self:
        """Find a model and load it. prompts: of instances and labels; None for the model's own. Raises Unavailable
        where the model is missing, UsageError where it cannot be run."""
        model, notes = open_other(cls.kind, name, device, precision, max_length)
        if model.similarity_fn_name not in cls.similarities:
            searched = " and ".join(cls.similarities)
            raise UsageError(f"the similarity of {name} is {model.similarity_fn_name!r}", f"{searched} can be searched")
        own = choose_prompts(f"the model {name}", model.prompts, model.default_prompt_name, prompts)
        notes["similarity"] = model.similarity_fn_name
        by_side: dict[Side, str] = dict(zip(("instance", "label"), own, strict=True))
        return cls(model, by_side, batch, notes)

    def encode(self, texts: list[str], side: Side) -> Any:
        """Return what the model makes of texts: queries are instances, and documents labels."""
        encode = self.model.encode_query if side == "instance" else self.model.encode_document
        return encode(texts, prompt=self.prompts[side], batch_size=self.batch, show_progress_bar=False)

    @abstractmethod
    def index(self, labels: Texts) -> None:
        """Encode the labels, and keep what they are searched by."""

    @abstractmethod
    def search(self, texts: Texts, k: int) -> Iterator[TopK]:
        """Yield the k best labels of texts, batch by batch."""


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


#: Products of vectors that are held at a time (256 MB), and values of labels in float64 (as many); instances whose
#: vectors are held.
_PRODUCTS, _ROWS = 32_000_000, 1024


class MultiVectorModel(Opened):
    """A MultiVectorEncoder of sentence-transformers."""

    kind = "MultiVectorEncoder"
    similarities = ("maxsim", "meanmaxsim")

    def index(self, labels: Texts) -> None:
        """Encode the labels: float32 [vectors, width], the vectors of each label one after the other."""
        vectors = [found for batch in labels.batches() for found in self._vectors(batch.to_pylist(), "label")]
        self._starts = _starts(vectors)
        self._labels = np.concatenate([*vectors, np.zeros((0, self._width(vectors)), np.float32)])
        self.notes["vectors_per_label"] = round(len(self._labels) / max(1, len(vectors)), 1)
        self.notes["label_vectors_bytes"] = self._labels.nbytes

    def search(self, texts: Texts, k: int) -> Iterator[TopK]:
        number = 0
        for batch in texts.batches(_ROWS):
            vectors = self._vectors(batch.to_pylist(), "instance")
            number += sum(map(len, vectors))
            for block in self._blocks(vectors):
                yield TopK.from_scores(self._score(block), k)
        self.notes["vectors_per_instance"] = round(number / max(1, len(texts)), 1)

    def _vectors(self, texts: list[str], side: Side) -> list[np.ndarray]:
        return [np.asarray(found, np.float32) for found in self.encode(texts, side)]

    @staticmethod
    def _width(vectors: Sequence[np.ndarray]) -> int:
        return vectors[0].shape[1] if vectors else 1

    def _blocks(self, vectors: Sequence[np.ndarray]) -> Iterator[list[np.ndarray]]:
        """Yield the vectors of instances, as many as their products with all labels have room."""
        room = max(1, _PRODUCTS // max(1, len(self._labels)))
        block: list[np.ndarray] = []
        for own in vectors:
            if block and sum(map(len, block)) + len(own) > room:
                yield block
                block = []
            block.append(own)
        yield block

    def _score(self, block: Sequence[np.ndarray]) -> np.ndarray:
        """Return the scores of instances with every label, float32 [n, labels].

        They are computed in float64: labels with equal vectors have equal scores, whatever the block and the threads.
        """
        queries, of_queries = np.concatenate(block).astype(np.float64), _starts(block)
        scores = np.empty((len(block), len(self._starts)))
        # Whole labels, of as many vectors as have room in float64.
        every = max(1, _PRODUCTS // self._labels.shape[1])
        borders = np.searchsorted(self._starts, range(0, len(self._labels), every))
        for first, last in pairwise(np.unique([*borders, len(self._starts)])):
            starts = self._starts[first:last]
            end = self._starts[last] if last < len(self._starts) else len(self._labels)
            products = queries @ self._labels[starts[0] : end].T.astype(np.float64)
            best = np.maximum.reduceat(products, starts - starts[0], axis=1)
            scores[:, first:last] = np.add.reduceat(best, of_queries, axis=0)
        if self.notes["similarity"] == "meanmaxsim":
            scores /= np.array([len(own) for own in block])[:, None]
        return scores.astype(np.float32)


def _starts(vectors: Sequence[np.ndarray]) -> np.ndarray:
    """Return where the vectors of each text begin, int64; every text has one: its special tokens have vectors too."""
    lengths = np.array([len(own) for own in vectors], np.int64)
    assert lengths.all()
    return np.cumsum(lengths) - lengths
