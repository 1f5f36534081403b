"""An embedding model opened by sentence-transformers: texts to vectors whose inner product is the similarity."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch

from xmcbench import Artifacts, Texts, UsageError
from xmcbench.methods.dense.vectors import shared_vectors, temporary_vectors
from xmcbench.methods.distributed.machines import Machines
from xmcbench.methods.distributed.processes import write_rows
from xmcbench.methods.embedder.folder import check_model, files_sha256, is_model2vec, refuse_missing_weights
from xmcbench.methods.encoder.backbone import MINILM, check_minilm, locate
from xmcbench.methods.encoder.hardware import (
    DTYPES,
    Chosen,
    Device,
    Place,
    Precision,
    can_pack,
    choose_device,
    choose_precision,
    pack,
)
from xmcbench.methods.encoder.saved_config import read_card
from xmcbench.methods.encoder.settings import Side, check_room, choose_prompts

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class Model2Vec:
    """A static model, run by model2vec: sentence-transformers would count the unknown words that model2vec leaves out.
    It has no prompts of its own, and its similarity is cosine."""

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

    def encode_query(self, texts: list[str], *, prompt: str, normalize_embeddings: bool, **options: Any) -> np.ndarray:
        """Vectors [n, width] of texts behind a prompt."""
        found: np.ndarray = self._model.encode([prompt + text for text in texts], use_multiprocessing=False, **options)
        found = found[:, : self._truncate_dim].astype(np.float32)
        if normalize_embeddings:
            lengths = np.linalg.norm(found, axis=1, keepdims=True)
            found = found / np.where(lengths > 0, lengths, 1)
        return found

    encode_document = encode_query

    def parameters(self) -> Iterator[torch.Tensor]:
        """The table of words, which is all there is to count."""
        yield torch.from_numpy(self._model.embedding)


Backend = Literal["torch", "onnx", "openvino"]
Similarity = Literal["cosine", "dot", "euclidean"]
#: Batches in a block of texts that is dealt to a process.
_BATCHES = 8


@dataclass(frozen=True)
class EmbeddingModel:
    """A model of sentence-transformers. length: tokens at which texts are cut, if they are, by route where there are
    several. width: with the extra dimension of Euclidean distance. processes: that embed texts. model: None on the way
    to another process."""

    name: str
    source: str
    folder: Path
    sha256: str
    model: SentenceTransformer | Model2Vec
    backend: Backend
    precision: Chosen
    truncate_dim: int | None
    max_length: int | None
    length: int | dict[str, int | None] | None
    device: Place
    prompts: dict[Side, str]
    similarity: str
    width: int
    batch: int
    processes: int

    @classmethod
    def open(
        cls,
        name: str,
        device: Device,
        *,
        backend: Backend,
        precision: Precision,
        truncate_dim: int | None,
        max_length: int | None,
        prompts: tuple[str | None, str | None],
        batch: int,
        processes: int = 1,
        similarity: Similarity | None = None,
    ) -> EmbeddingModel:
        """Find a model and load it. prompts: of instances and labels; None, like similarity, for the model's own.
        max_length: tokens at which texts are cut, if fewer than the model states. Raises Unavailable where the model is
        missing or there are fewer GPUs than processes, UsageError where it cannot be run as it is."""
        where = choose_device(device, processes)
        chosen = choose_precision(precision, where) if backend == "torch" else "fp32"
        folder, source = locate(name)
        check_model(folder, backend)
        if name == MINILM:
            check_minilm(folder)
        model = _load(folder, where, backend, chosen, truncate_dim)
        _limit_length(model, max_length)
        compared = similarity or model.similarity_fn_name or "cosine"
        if compared not in typing.get_args(Similarity):
            raise UsageError(f"the similarity of {name} is {compared!r}", "cosine, dot and euclidean can be searched")
        chosen_for = choose_prompts(f"the model {name}", model.prompts, model.default_prompt_name, prompts)
        own: dict[Side, str] = dict(zip(("instance", "label"), chosen_for, strict=True))
        length = _length(model)
        if isinstance(length, int):
            for side, prompt in own.items():
                check_room(side, _prompt_tokens(model, prompt, length), length, "max_length")
        widths = {len(_encode(model, side, ["a"], prompt, 1, compared)[0]) for side, prompt in own.items()}
        if len(widths) > 1:
            raise UsageError(f"{name} gives instances and labels vectors of different widths: {sorted(widths)}")
        width = widths.pop() + (compared == "euclidean")
        title = folder.resolve().name if source == "a local folder" else name
        facts = title, source, folder, files_sha256(folder, backend), model, backend, chosen, truncate_dim
        return cls(*facts, max_length, length, where, own, compared, width, batch, processes)

    def reload(self, device: str) -> EmbeddingModel:
        """The same model, loaded from its folder by another process."""
        model = _load(self.folder, device, self.backend, self.precision, self.truncate_dim)
        _limit_length(model, self.max_length)
        return replace(self, model=model)

    def note(self) -> dict[str, object]:
        """For the record, as JSON values: the model, how it was run, and what its card says."""
        prompts = {f"{side}s": prompt for side, prompt in self.prompts.items()}
        return {
            **self._facts("name", "source", "sha256", "similarity", "backend", "precision", "device"),
            "parameters": sum(weights.numel() for weights in self.model.parameters()),
            "width": self.width - (self.similarity == "euclidean"),
            "max_seq_length": self.length,
            **({"prompts": prompts} if any(prompts.values()) else {}),
            "card": read_card(self.folder),
        }

    def shared(self, artifacts: Artifacts, texts: Texts, side: Side, dtype: np.dtype) -> np.ndarray:
        """The vectors of texts, [n, width], taken from the artifacts, or made and put there. Their rounding depends on
        the batches, and these on the number of processes."""
        identity = {
            **self._facts("backend", "precision", "device", "width", "similarity", "batch"),
            "processes": Machines.here().count * self.processes,
            "model": self.sha256,
            "max_seq_length": self.length,
            "side": side,
            "prompt": self.prompts[side],
            "texts": texts.digest,
        }
        return shared_vectors(artifacts, identity, (len(texts), self.width), dtype, self._writer(texts, side))

    def temporary(
        self, artifacts: Artifacts, texts: Texts, side: Side, dtype: np.dtype
    ) -> AbstractContextManager[np.ndarray]:
        """The vectors of texts, [n, width], which go when the block ends."""
        return temporary_vectors(artifacts, (len(texts), self.width), dtype, self._writer(texts, side))

    def vectors(self, side: Side, texts: list[str]) -> np.ndarray:
        """The vectors of texts, float32 [n, width]."""
        found = _encode(self.model, side, texts, self.prompts[side], self.batch, self.similarity)
        return _for_inner_product(found, side) if self.similarity == "euclidean" else found

    def _facts(self, *names: str) -> dict[str, object]:
        return {name: getattr(self, name) for name in names}

    def _writer(self, texts: Texts, side: Side) -> Any:
        # A table of words takes less time than a process takes to start.
        processes = 1 if isinstance(self.model, Model2Vec) else self.processes

        def write(out: np.ndarray) -> None:
            write_rows(TextRows(self, texts, side), out, processes, self.device)

        return write


@dataclass(frozen=True)
class TextRows:
    """The vectors of texts, as rows that several processes compute. Blocks of texts are dealt out, the longest first,
    so that all processes have about as much to read."""

    model: EmbeddingModel
    texts: Texts
    side: Side

    def __getstate__(self) -> dict[str, object]:
        """Without the loaded model: those of ONNX and OpenVINO cannot be handed to another process."""
        return {**self.__dict__, "model": replace(self.model, model=None)}  # type: ignore[arg-type]

    def shares(self, count: int) -> list[np.ndarray]:
        """The texts of each of ``count`` processes, int64."""
        import pyarrow.compute as pc

        lengths = [np.empty(0, np.int64), *(pc.utf8_length(batch).to_numpy() for batch in self.texts.batches())]
        order = np.argsort(-np.concatenate(lengths), kind="stable")
        block = np.arange(len(order)) // self._block
        return [order[block % count == share] for share in range(count)]

    def write(self, out: np.ndarray, share: int, count: int, device: str) -> None:
        """Write the vectors of one of ``count`` shares to their rows of ``out``, computed on a device."""
        model = self.model.reload(device) if self.model.model is None else self.model
        if count == 1:
            start = 0
            for batch in self.texts.batches():
                out[start : start + len(batch)] = model.vectors(self.side, batch.to_pylist())
                start += len(batch)
            return
        numbers = self.shares(count)[share]
        for start in range(0, len(numbers), self._block):
            block = numbers[start : start + self._block]
            out[block] = model.vectors(self.side, [*self.texts.take(block)])

    def identity(self) -> str:
        """The model and the texts."""
        return f"{self.model.sha256} {self.model.precision} {self.side} {self.texts.digest}"

    @property
    def _block(self) -> int:
        return _BATCHES * self.model.batch


def _readers(model: SentenceTransformer | Model2Vec) -> dict[str, Any]:
    """Return the modules that read texts and cut them, by name: the first one, or that of each route of a Router."""
    from sentence_transformers.base.modules import Router

    if isinstance(model, Model2Vec):
        return {"": model}
    first = model[0]
    return {name: route[0] for name, route in first.sub_modules.items()} if isinstance(first, Router) else {"": first}


#: The lengths of a model with a vector for each token, by side; None for the length of both.
_BY_SIDE = ("query_length", "document_length")


def _expansion(reader: Any) -> tuple[int, bool]:
    """Return the length to which a model fills queries up with tokens of its own, 0 for none, and whether longer ones
    are cut there."""
    expansion = getattr(reader, "query_expansion", None) or {}
    return expansion.get("length") or 0, expansion.get("strategy") == "fixed"


def _limit_length(model: Any, max_length: int | None) -> None:
    """Cut texts at ``max_length`` tokens, where that is less than the model states. Each route of a Router by itself,
    and each side; queries that are filled up are not cut below that length."""
    for reader in _readers(model).values():
        for name in ("max_seq_length", *_BY_SIDE):
            least = max(max_length or 0, _expansion(reader)[0] if name == _BY_SIDE[0] else 0)
            # A static model has no length, or an infinite one.
            if max_length and least < (getattr(reader, name, None) or 0) < inf:
                setattr(reader, name, least)


def _length(model: Any) -> int | dict[str, int | None] | None:
    """The tokens at which texts are cut, None where they are not; by route or side where the model has several."""
    lengths: dict[str, int | None] = {}
    for route, reader in _readers(model).items():
        whole, query, document = (getattr(reader, name, None) for name in ("max_seq_length", *_BY_SIDE))
        filled, is_cut = _expansion(reader)
        query = filled if is_cut else query
        own = {"query": query or whole, "document": document or whole} if query or document else {route: whole}
        lengths |= {name: int(length) if length and length < 2**31 else None for name, length in own.items()}
    return lengths.get("", lengths)


def _prompt_tokens(model: Any, prompt: str, length: int) -> int:
    """Return how many of ``length`` tokens a prompt takes, with special tokens; 0 without one, and where it is cut off
    first or the tokenizer is none of transformers."""
    from transformers import PreTrainedTokenizerBase

    tokenizer = getattr(model, "tokenizer", None)
    if not prompt or not isinstance(tokenizer, PreTrainedTokenizerBase) or tokenizer.truncation_side == "left":
        return 0
    # White space at its end can be a part of the text's first token.
    return len(tokenizer(prompt.rstrip(), truncation=True, max_length=length)["input_ids"])


def _encode(
    model: SentenceTransformer | Model2Vec, side: Side, texts: list[str], prompt: str, batch: int, similarity: str
) -> np.ndarray:
    encode = model.encode_query if side == "instance" else model.encode_document
    options: dict[str, Any] = {"show_progress_bar": False, "normalize_embeddings": similarity == "cosine"}
    found: np.ndarray = encode(texts, prompt=prompt, batch_size=batch, **options)
    return found.astype(np.float32, copy=False)


def _for_inner_product(vectors: np.ndarray, side: Side) -> np.ndarray:
    """Vectors with one more dimension, whose inner product ranks as Euclidean distance: q.x - |x|^2 / 2."""
    last = np.ones(len(vectors)) if side == "instance" else -np.square(vectors).sum(1) / 2
    return np.column_stack([vectors, last]).astype(np.float32)


def _load(
    folder: Path, device: str, backend: Backend, precision: Chosen, truncate_dim: int | None
) -> SentenceTransformer | Model2Vec:
    options: dict[str, Any] = {"truncate_dim": truncate_dim, "backend": backend}
    loaded: SentenceTransformer | Model2Vec = load_model(
        "SentenceTransformer", folder, device, precision if backend == "torch" else None, **options
    )
    return loaded


def load_model(kind: str, folder: Path, device: str, precision: Chosen | None, **options: Any) -> Any:
    """Load a model by a class of sentence-transformers. precision: of torch's weights, None for another backend. Raises
    UsageError where it cannot be loaded, or lacks weights."""
    import sentence_transformers
    from transformers.utils import logging

    logging.disable_progress_bar()  # it would write to stderr
    logging.set_verbosity_error()
    weights = {"dtype": DTYPES[precision], "use_safetensors": True} if precision else {}
    where: dict[str, Any] = {"device": device, "local_files_only": True, "trust_remote_code": False}
    try:
        if is_model2vec(folder):
            return Model2Vec(folder, options.get("truncate_dim"))
        model = getattr(sentence_transformers, kind)(str(folder), model_kwargs=weights, **where, **options)
    except Exception as error:  # whatever a checkpoint makes a library raise
        reason = " ".join(str(error).split())
        raise UsageError(f"sentence-transformers cannot load {folder}: {type(error).__name__}: {reason}") from error
    if precision:
        refuse_missing_weights(folder, model)
        if can_pack(device, precision):
            pack(model)
    return model


def open_other(
    kind: str,
    name: str,
    device: Device,
    precision: Precision,
    max_length: int | None,
    check: Callable[[Path], None] = lambda _: None,
) -> tuple[Any, dict[str, Any]]:
    """Find and load a model by another class of sentence-transformers; also return facts about it, for the record.
    max_length: tokens at which texts are cut, if fewer than the model states. check: raises UsageError for the folder
    of another model. Raises Unavailable where the model is missing, UsageError where it cannot be loaded."""
    where = choose_device(device)
    chosen = choose_precision(precision, where)
    folder, source = locate(name)
    check_model(folder)
    check(folder)
    model = load_model(kind, folder, where, chosen)
    _limit_length(model, max_length)
    return model, {
        "name": folder.resolve().name if source == "a local folder" else name,
        "source": source,
        "sha256": files_sha256(folder),
        "parameters": sum(weights.numel() for weights in model.parameters()),
        "precision": chosen,
        "device": where,
        "max_seq_length": _length(model),
        "card": read_card(folder),
    }
