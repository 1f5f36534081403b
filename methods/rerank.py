"""Rerank: the first labels of another method, put in a new order by a cross-encoder or a language model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge, Unit

from xmcbench import Doc, Method, Texts, TopK, UsageError
from xmcbench.methods.declarations import Labels, PrecisionName
from xmcbench.methods.encoder import HUB_TOKENS
from xmcbench.methods.encoder.saved_config import Architecture, ModelConfig, read_config

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

#: Pairs of an instance and a label that are handed to the cross-encoder at a time.
_PAIRS = 8192


class Rerank(Method):
    """A cross-encoder of sentence-transformers over the first ``depth`` labels of another method.

    The cross-encoder reads an instance and a label together and gives one score. A causal language model with a chat
    template is one, too, such as Qwen3-Reranker (Zhang et al., 2025, arXiv:2506.05176): its score is the logit of "yes"
    minus that of "no" after both texts, which the template calls query and document. The labels behind the first
    ``depth`` keep their order after them. Nothing is trained by this method; the first ranking is that of ``first``,
    trained on the pairs if there are any. The notes say how many pairs were read and how long that took. The
    cross-encoder runs in one process, whatever ``--processes`` says.
    """

    title = "Rerank"
    supervision = "optional"
    described: ClassVar[tuple[str, ...]] = ("first", "model")
    needs: ClassVar = {"gpu": 1}
    packages: ClassVar = {
        "sentence_transformers": "sentence-transformers",
        "torch": "torch",
        "transformers": "transformers",
        "huggingface_hub": "huggingface-hub",
        "httpx": "httpx",
    }
    environment: ClassVar = HUB_TOKENS

    first: Annotated[str, Doc("the method whose labels are reranked, NAME or NAME:PRESET")] = "tfidf"
    model: Annotated[str, Doc("a cross-encoder: a folder or a model id of the hub")] = (
        "cross-encoder/ms-marco-MiniLM-L6-v2"
    )
    depth: Annotated[Labels, Doc("number of labels that are reranked")] = 20
    instruction: Annotated[
        str | None, Doc("what a language model is told before each pair; none: what its checkpoint says, if anything")
    ] = None
    max_length: Annotated[
        int | None,
        Ge(8),
        Unit("tokens"),
        Doc(
            "maximum length of an instance and a label together, if the model's own is not less; none: the model's own"
        ),
    ] = None
    batch: Annotated[int, Ge(1), Unit("pairs"), Doc("number of pairs scored at a time", "sentence-transformers")] = 32
    precision: Annotated[
        PrecisionName,
        Doc(
            "precision of the weights; auto: bfloat16 where the hardware multiplies it faster, float16 on a GPU that "
            "only has that (V100, T4), else float32"
        ),
    ] = "auto"

    def describe(self) -> str:
        """The first method and the model."""
        return f"{self.first}, {self.model.rstrip('/').rpartition('/')[2]}"

    def uses(self) -> tuple[str, ...]:
        """The method whose labels are put in order."""
        return (self.first,)

    def inputs(self) -> Mapping[str, Path | str]:
        """Return the model: a folder, or a model of the hub with its commit."""
        from xmcbench.methods.encoder.backbone import model_input

        return model_input("model", self.model)

    def require(self) -> None:
        """Raise Unavailable where the model or what the first method needs is not available. Raises UsageError where
        the model is a folder without a cross-encoder."""
        from xmcbench import Part
        from xmcbench.methods.embedder.folder import check_folder
        from xmcbench.methods.encoder.backbone import require_located

        Part.of(self.first, self).require()
        require_located(self.model)
        check_folder(self.model)
        _check_cross_encoder(Path(self.model).expanduser())

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        """Open the model. Raises Unavailable where it is not available, UsageError where it is not a cross-encoder."""
        self._texts, self._pairs = (raw_X, raw_Y), pairs
        self._model = self._open_model()

    def predict_batches(self, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        """The labels of the first method, the first ``depth`` in the order of the cross-encoder."""
        import time

        from xmcbench import Part

        part = Part.of(self.first, self)
        found, notes = part.ranking((*self._texts, raw_X), self._pairs, max(k, self.depth))
        self.notes["first"] = {part.spec: notes}
        self.notes["pairs_read"] = int((found.indices[:, : self.depth] >= 0).sum())
        names, reading_s, step = list(self._texts[1]), 0.0, max(1, _PAIRS // self.depth)
        for start in range(0, len(raw_X), step):
            rows = slice(start, start + step)
            block = TopK(found.indices[rows], found.scores[rows])
            begin = time.perf_counter()
            scores = self._scores(list(raw_X[rows]), names, block.indices[:, : self.depth])
            reading_s += time.perf_counter() - begin
            ordered = reorder(block, scores)
            yield TopK(ordered.indices[:, :k], ordered.scores[:, :k])
        self.notes["reading_s"] = round(reading_s, 2)

    def _scores(self, texts: list[str], names: list[str], labels: np.ndarray) -> np.ndarray:
        """The score of each instance with its labels: float32 [N, depth], -inf where there is no label."""
        out = np.full(labels.shape, -np.inf, np.float32)
        rows, places = np.nonzero(labels >= 0)
        read = [(texts[row], names[labels[row, place]]) for row, place in zip(rows, places, strict=True)]
        if read:
            out[rows, places] = self._model.predict(
                read, prompt=self.instruction, batch_size=self.batch, show_progress_bar=False, convert_to_numpy=True
            ).astype(np.float32)
        return out

    def _open_model(self) -> Any:
        from xmcbench.methods.embedder.folder import check_model, files_sha256
        from xmcbench.methods.embedder.model import load_model
        from xmcbench.methods.encoder.backbone import locate
        from xmcbench.methods.encoder.hardware import choose_device, choose_precision
        from xmcbench.methods.encoder.saved_config import read_card

        device = choose_device(self.compute.device)
        precision = choose_precision(self.precision, device)
        folder, source = locate(self.model)
        check_model(folder)
        _check_cross_encoder(folder)
        model = load_model("CrossEncoder", folder, device, precision)
        if self.max_length:
            model.max_seq_length = min(self.max_length, model.max_seq_length or self.max_length)
        if model.num_labels != 1:
            raise UsageError(
                f"{self.model} gives {model.num_labels} scores for a pair", "choose a model with one output"
            )
        answers = getattr(model[-1], "true_token_id", 1), getattr(model[-1], "false_token_id", 0)
        if answers[0] == answers[1]:
            raise UsageError(f"the tokenizer of {self.model} has no words yes and no", "choose another model")
        self.notes["model"] = {
            "name": folder.resolve().name if source == "a local folder" else self.model,
            "source": source,
            "sha256": files_sha256(folder),
            "parameters": sum(weights.numel() for weights in model.parameters()),
            "precision": precision,
            "device": device,
            "card": read_card(folder),
        }
        return model


def _check_cross_encoder(folder: Path) -> None:
    """Raise UsageError where a folder says of itself that it is another model. sentence-transformers would put an
    output of random weights on any encoder, and have a causal model without a chat template read two texts as one."""
    if not folder.is_dir():
        return
    model = read_config(folder / "config_sentence_transformers.json", ModelConfig)
    transformer = read_config(folder / "config.json", Architecture)
    (kind, *_) = (transformer and transformer.architectures) or [""]
    if (model is not None and model.model_type == "CrossEncoder") or kind.endswith("ForSequenceClassification"):
        return
    if not kind.endswith("ForCausalLM"):
        raise UsageError(f"{folder} is not a cross-encoder: {kind or 'its architecture is not stated'}")
    tokenizer = read_config(folder / "tokenizer_config.json", dict[str, Any]) or {}
    if not (folder / "chat_template.jinja").is_file() and not tokenizer.get("chat_template"):
        raise UsageError(f"{folder} is a language model without a chat template", "choose one for chats or reranking")


def reorder(found: TopK, scores: np.ndarray) -> TopK:
    """Put the first labels of a ranking in the order of other scores; the rest follow in their own. scores: float32 [N,
    depth], -inf where there is no label. Of equal scores, the label that came first stays first, and the other's score
    is lowered by the least amount. The scores of the rest fall by equal steps from the lowest of these."""
    depth = scores.shape[1]
    order = np.argsort(-scores, axis=1, kind="stable")
    values = np.take_along_axis(scores, order, 1)
    for place in range(1, depth):  # half precision makes many scores equal
        below = np.nextafter(values[:, place - 1], np.float32(-np.inf))
        values[:, place] = np.minimum(values[:, place], below)
    first = TopK(np.take_along_axis(found.indices[:, :depth], order, 1), values)
    rest = found.indices[:, depth:]
    lowest = np.where(np.isfinite(first.scores), first.scores, np.inf).min(axis=1, initial=np.inf)
    lowest = np.where(np.isfinite(lowest), lowest, 0)[:, None]
    behind = np.where(rest >= 0, lowest - np.arange(1, rest.shape[1] + 1), -np.inf).astype(np.float32)
    return TopK(np.hstack([first.indices, rest]), np.hstack([first.scores, behind]))
