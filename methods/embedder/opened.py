"""Models of sentence-transformers whose texts are not one dense vector each: what opening them has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from xmcbench import Texts, TopK, UsageError
from xmcbench.methods.embedder.model import open_other
from xmcbench.methods.encoder.hardware import Device, Precision
from xmcbench.methods.encoder.settings import Side, choose_prompts


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
        """Find a model and load it. prompts: of instances and labels; None for the model's own.

        Raises Unavailable where the model is missing, UsageError where it cannot be run.
        """
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
