"""Models of sentence-transformers whose vectors are sparse, one dimension per word (SPLADE; Formal et al., SIGIR 2021).

They are searched exactly, by the sparse products that TF-IDF is searched by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xmcbench import Texts, UsageError
from xmcbench.methods.embedder.folder import check_model, files_sha256
from xmcbench.methods.embedder.model import load_model
from xmcbench.methods.encoder.backbone import locate
from xmcbench.methods.encoder.hardware import Device, Precision, choose_device, choose_precision
from xmcbench.methods.encoder.saved_config import read_card
from xmcbench.methods.encoder.settings import Side, choose_prompts

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


@dataclass(frozen=True)
class SparseModel:
    """A sparse encoder. notes: facts about the model, for the record; how many words a vector has is added there."""

    model: Any
    prompts: dict[Side, str]
    batch: int
    notes: dict[str, Any]

    @classmethod
    def open(
        cls,
        name: str,
        device: Device,
        precision: Precision,
        max_length: int | None,
        prompts: tuple[str | None, str | None],
        batch: int,
    ) -> SparseModel:
        """Find a model and load it. prompts: of instances and labels; None for the model's own.

        Raises Unavailable where the model is missing, UsageError where it cannot be run.
        """
        where = choose_device(device)
        chosen = choose_precision(precision, where)
        folder, source = locate(name)
        check_model(folder)
        model = load_model("SparseEncoder", folder, where, chosen)
        if max_length:
            model.max_seq_length = min(max_length, model.max_seq_length or max_length)
        if model.similarity_fn_name not in ("dot", "cosine"):
            raise UsageError(
                f"the similarity of {name} is {model.similarity_fn_name!r}", "dot and cosine can be searched"
            )
        own = choose_prompts(f"the model {name}", model.prompts, model.default_prompt_name, prompts)
        notes = {
            "name": folder.resolve().name if source == "a local folder" else name,
            "source": source,
            "sha256": files_sha256(folder),
            "parameters": sum(weights.numel() for weights in model.parameters()),
            "precision": chosen,
            "device": where,
            "max_seq_length": model.max_seq_length,
            "similarity": model.similarity_fn_name,
            "card": read_card(folder),
        }
        by_side: dict[Side, str] = dict(zip(("instance", "label"), own, strict=True))
        return cls(model, by_side, batch, notes)

    def vectors(self, texts: Texts, side: Side) -> csr_matrix:
        """Return the vectors of texts, CSR float32 [n, words]; side: ``instance`` or ``label``.

        Raises UsageError for negative weights, which the search could not compare.
        """
        from scipy.sparse import csr_matrix, diags, vstack

        encode = self.model.encode_query if side == "instance" else self.model.encode_document
        options = {"prompt": self.prompts[side], "batch_size": self.batch, "show_progress_bar": False}
        parts = []
        for texts_of_batch in texts.batches():
            found = encode(texts_of_batch.to_pylist(), **options).coalesce().cpu()
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
