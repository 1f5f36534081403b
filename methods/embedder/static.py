"""Models of model2vec under the names by which sentence-transformers is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch


class Model2Vec:
    """A static model, run by model2vec: sentence-transformers would count the unknown words that model2vec leaves out.

    It has no prompts of its own, and its similarity is cosine.
    """

    prompts: ClassVar[Mapping[str, str]] = {}
    default_prompt_name = None
    similarity_fn_name = "cosine"

    def __init__(self, folder: Path, truncate_dim: int | None) -> None:
        from model2vec import StaticModel

        self._model = StaticModel.from_pretrained(str(folder))
        self._truncate_dim = truncate_dim

    @property
    def max_seq_length(self) -> int | None:
        """Tokens at which texts are cut; None where they are not."""
        length: int | None = self._model.max_length
        return length

    @max_seq_length.setter
    def max_seq_length(self, length: int) -> None:
        self._model.max_length = length

    def encode_query(
        self,
        texts: list[str],
        *,
        prompt: str,
        batch_size: int,
        show_progress_bar: bool,
        normalize_embeddings: bool,
    ) -> np.ndarray:
        """Vectors [n, width] of texts behind a prompt."""
        found: np.ndarray = self._model.encode(
            [prompt + text for text in texts],
            batch_size=batch_size,
            show_progress_bar=show_progress_bar,
            use_multiprocessing=False,
        )
        found = found[:, : self._truncate_dim].astype(np.float32)
        if normalize_embeddings:
            lengths = np.linalg.norm(found, axis=1, keepdims=True)
            found = found / np.where(lengths > 0, lengths, 1)
        return found

    encode_document = encode_query

    def parameters(self) -> Iterator[torch.Tensor]:
        """The table of words, which is all there is to count."""
        yield torch.from_numpy(self._model.embedding)
