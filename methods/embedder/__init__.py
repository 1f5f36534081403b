"""Embedder: any sentence-transformers model, run by sentence-transformers itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Unit

from xmcbench import Doc, Method, MethodError, Texts, TopK, Unavailable, UsageError, load_arrays, save_arrays
from xmcbench.methods.declarations import PrecisionName, Stored
from xmcbench.methods.encoder import HUB_TOKENS, SENTENCE_TRANSFORMERS
from xmcbench.methods.label_text import LABEL_TEXT, LabelPart, read_labels
from xmcbench.methods.presets import CHOICES, PRESETS

if TYPE_CHECKING:
    from pathlib import Path

    from scipy.sparse import csr_matrix

    from xmcbench.methods.embedder.model import EmbeddingModel

#: What is kept: vectors, and the checksum of the model that made them.
_VECTORS, _MODEL = "vectors.safetensors", "embedding_model.json"
#: Package that a backend of sentence-transformers needs -> what brings it.
_BACKENDS = {
    "onnx": ("optimum.onnxruntime", 'pip install "sentence-transformers[onnx]"'),
    "openvino": ("optimum.intel.openvino", 'pip install "sentence-transformers[openvino]"'),
}


class Embedder(Method):
    """Nearest labels by the vectors of a pretrained embedding model, without any training.

    The model is loaded and run by sentence-transformers with all that it brings: its modules, prompts, length,
    truncation and similarity. Instances go through ``encode_query`` and labels through ``encode_document``, so that
    asymmetric models (Router) and static ones (StaticEmbedding) work; a folder of model2vec works where that package is
    installed. Code that a model brings along is never run, and neither is a pickle. Pairs are not used.

    Models with sparse vectors, such as SPLADE (Formal et al., SIGIR 2021), and models with a vector per token,
    such as ColBERT (Khattab and Zaharia, SIGIR 2020), are searched exactly, in one process. ``truncate_dim``,
    ``stored_as`` and other backends are not for them. The notes say how many words or vectors a text has.

    The preset ``quick`` cuts texts at 64 tokens, as that of the other encoders does, and rounds the weights to 16 bits
    where that is faster. The defaults run the model as it is.

    Several processes, also of several machines, share the texts, and the GPUs of a machine the search. The batches
    depend on the number of processes, and so does the rounding of vectors in bfloat16. A static model of model2vec
    embeds all texts in one process, which takes less time than others take to start.

    What the model's card says of it (license, training sets, the model it was made from) is in the notes of the record.
    """

    title = "Embedder"
    supervision: ClassVar[Literal["unused", "required"]] = "unused"
    deterministic = True
    described: ClassVar[tuple[str, ...]] = ("model",)
    #: Whether models can be used whose texts are not one dense vector each.
    _takes_any_vectors: ClassVar[bool] = True
    #: None for the model's own.
    _similarity: ClassVar[Literal["cosine"] | None] = None
    needs: ClassVar = {"gpu": 1}
    presets: ClassVar = PRESETS["embedder"]
    choices: ClassVar = CHOICES["embedder"]
    packages: ClassVar = SENTENCE_TRANSFORMERS
    environment: ClassVar = HUB_TOKENS

    model: Annotated[str, Doc("a folder, a model id of the hub, or all-MiniLM-L6-v2")] = "all-MiniLM-L6-v2"
    backend: Annotated[
        Literal["torch", "onnx", "openvino"], Doc("backend of sentence-transformers; some need further packages")
    ] = "torch"
    precision: Annotated[
        PrecisionName, Doc("precision of the weights under torch; auto: 16 bits where these are faster, else float32")
    ] = "fp32"
    truncate_dim: Annotated[
        int | None, Ge(1), Unit("dimensions"), Doc("dimensions to keep; none: the model's own choice, else all")
    ] = None
    max_length: Annotated[
        int | None, Ge(8), Unit("tokens"), Doc("maximum length of a text, if less than the model states; none: that")
    ] = None
    instance_prompt: Annotated[str | None, Doc("text put before every instance; none: the model's own, if any")] = None
    label_prompt: Annotated[str | None, Doc("text put before every label; none: the model's own, if any")] = None
    label_text: Annotated[LabelPart, LABEL_TEXT] = "title"
    batch: Annotated[int, Ge(1), Unit("texts"), Doc("number of texts encoded at a time", "sentence-transformers")] = 32
    stored_as: Annotated[Stored, Doc("type of the embeddings on disk and in memory")] = "float32"

    def describe(self) -> str:
        return self.model.rstrip("/").rpartition("/")[2]

    def inputs(self) -> Mapping[str, Path | str]:
        """Return the model: a folder, or a model of the hub with its commit."""
        from xmcbench.methods.encoder.backbone import model_input

        return model_input("model", self.model)

    def require(self) -> None:
        """Raise Unavailable where the model or the backend is not available, UsageError where the name is nothing.
        Raises UsageError too for invalid variables of torchrun."""
        from xmcbench.methods.distributed.machines import Machines
        from xmcbench.methods.embedder.folder import check_folder
        from xmcbench.methods.encoder.backbone import require_located

        if self.backend in _BACKENDS:
            package, command = _BACKENDS[self.backend]
            if not _is_installed(package):
                raise Unavailable(f"the backend {self.backend} needs {package}", command)
        require_located(self.model)
        check_folder(self.model, self.backend)
        Machines.here()

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        """Embed the labels, or take their vectors from the store. Raises Unavailable where the model is missing, or
        where there are fewer GPUs than processes, UsageError where it cannot be run."""
        from xmcbench.methods.embedder.folder import model_kind
        from xmcbench.methods.embedder.other import MultiVectorModel, SparseModel
        from xmcbench.methods.encoder.backbone import locate

        raw_Y = read_labels(raw_Y, self.label_text)
        self._other: SparseModel | MultiVectorModel | None = None
        kind = model_kind(locate(self.model)[0])
        for other in (SparseModel, MultiVectorModel):
            if other.kind == kind:
                self._refuse_dense_options()
                prompts = self.instance_prompt, self.label_prompt
                options = self.precision, self.max_length, prompts, self.batch
                self._other = other.open(self.model, self.compute.device, *options)
                self.notes["model"] = self._other.notes
                self._other.index(raw_Y)
                return
        self._model = self._open()
        if self._model.similarity == "euclidean" and self.stored_as == "float16":
            # Squares of lengths stand beside the vectors, and float16 ends at 65,504.
            raise UsageError(
                f"embeddings of {self.model} are compared by distance and cannot be stored as float16",
                "set stored_as=float32",
            )
        self.notes["model"] = self._model.note()
        self._labels = self._model.shared(self.artifacts, raw_Y, "label", np.dtype(self.stored_as))

    def predict_batches(self, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        """The k labels that are most similar to each text, by the model's own similarity."""
        if self._other is not None:
            yield from self._other.search(raw_X, k)
            return
        with self._model.temporary(self.artifacts, raw_X, "instance", np.dtype(self.stored_as)) as vectors:
            yield from self._nearest(vectors, self._labels, k, self.notes)

    def save(self, folder: Path) -> None:
        """Write the vectors of the labels, and the checksum of the model, which is not copied. Raises MethodError for a
        model whose texts are not one dense vector each."""
        if self._other is not None:
            raise MethodError(
                f"{self.title} with sparse vectors, or several of a text, cannot be kept", "run it instead"
            )
        save_arrays(folder / _VECTORS, {"labels": np.asarray(self._labels)})
        (folder / _MODEL).write_text(json.dumps({"model": self.model, "sha256": self._model.sha256}))

    def load(self, folder: Path) -> None:
        """Open the model, and read the vectors. Raises what ``fit`` raises, and UsageError for another model."""
        self._other, self._model = None, self._open()
        if self._model.sha256 != json.loads((folder / _MODEL).read_text())["sha256"]:
            raise UsageError(f"{self.model} is not the model whose vectors were kept", "fit it again")
        self._labels = load_arrays(folder / _VECTORS)["labels"]

    def _open(self) -> EmbeddingModel:
        from xmcbench.methods.embedder.model import EmbeddingModel

        return EmbeddingModel.open(
            self.model,
            self.compute.device,
            backend=self.backend,
            precision=self.precision,
            truncate_dim=self.truncate_dim,
            max_length=self.max_length,
            prompts=(self.instance_prompt, self.label_prompt),
            batch=self.batch,
            processes=self.compute.processes,
            similarity=self._similarity,
        )

    def _refuse_dense_options(self) -> None:
        """Raise UsageError for options, and methods, that are for one dense vector per text only."""
        if not self._takes_any_vectors:
            raise UsageError(f"{self.title} needs one dense vector per text, which {self.model} does not give")
        dense = {"truncate_dim": None, "backend": "torch", "stored_as": "float32"}
        if changed := [name for name, default in dense.items() if getattr(self, name) != default]:
            raise UsageError(f"{changed[0]} is for models with one dense vector per text", "leave it out")

    def _nearest(
        self, queries: np.ndarray, items: np.ndarray, k: int, notes: dict[str, object] | None = None
    ) -> Iterator[TopK]:
        """The k items with the largest inner product per query, batch by batch, found where the model computes."""
        from xmcbench.methods.dense.search import top_k_batches

        model = self._model
        return top_k_batches(
            queries, items, k, device=model.device, processes=model.processes, seed=self.seed, notes=notes
        )


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the parent of a dotted name
        return False
