"""Judges: a model on this machine, or one behind a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from xmcbench import Compute, UsageError
from xmcbench.methods.declarations import PrecisionName
from xmcbench.methods.encoder.saved_config import Architecture, ModelConfig, read_config
from xmcbench.methods.rerank.judgments import Judge, Pair
from xmcbench.methods.rerank.server import Server

#: Characters of a word of English with its space, and of a token, about; tokens around both texts.
_OF_WORD, _OF_TOKEN, _AROUND = 6, 4, 20


def judge_inputs(parameter: str, model: str, url: str | None, judgments: str | None) -> dict[str, Path | str]:
    """Return the inputs of a judge: the model that a parameter names, with its commit, and a file of judgments."""
    from xmcbench.methods.encoder.backbone import model_input

    kept: dict[str, Path | str] = {"judgments": Path(judgments)} if judgments else {}
    return {**(model_input(parameter, model) if url is None else {}), **kept}


def require_judge(model: str, url: str | None, judgments: str | None) -> None:
    """Raise Unavailable where the model is not available. Raises UsageError where it is a folder without a judge, or
    the file of judgments is not there."""
    from xmcbench.methods.embedder.folder import check_folder
    from xmcbench.methods.encoder.backbone import require_located

    if judgments and not Path(judgments).is_file():
        raise UsageError(f"there is no file of judgments at {judgments}", "xmcbench export judgments makes one")
    if url is None:
        require_located(model)
        check_folder(model)
        check_cross_encoder(Path(model).expanduser())


def open_judge(
    model: str,
    url: str | None,
    compute: Compute,
    precision: PrecisionName,
    max_length: int | None,
    batch: int,
    instruction: str | None,
) -> tuple[Judge, Mapping[str, object]]:
    """Open a judge; return it with facts about its model. Raises Unavailable where it is not available, UsageError
    where it is not a judge."""
    if url is not None:
        return Server(url, model, instruction, batch, max_length), {"name": model, "source": "a server", "sha256": ""}
    judge = CrossEncoder(model, compute, precision, max_length, batch, instruction)
    return judge, judge.notes


def estimate_tokens(
    calls: int,
    characters: tuple[float, float],
    url: str | None,
    max_length: int | None,
    instruction: str | None,
) -> int:
    """Return about how many tokens questions have. characters: mean lengths of documents and labels."""
    document, label = characters
    if max_length:
        document = min(document, max_length * (_OF_TOKEN if url is None else _OF_WORD))
    return round(calls * (_AROUND + (document + label + len(instruction or "")) / _OF_TOKEN))


#: Pairs that are handed to the model at a time.
_PAIRS = 8192


class CrossEncoder:
    """A judge by sentence-transformers. notes: facts about the model."""

    def __init__(
        self,
        name: str,
        compute: Compute,
        precision: PrecisionName,
        max_length: int | None,
        batch: int,
        instruction: str | None,
    ) -> None:
        """Open the model. Raises Unavailable where it is not available, UsageError where it is not a cross-encoder."""
        from xmcbench.methods.embedder.model import open_other

        model, notes = open_other("CrossEncoder", name, compute.device, precision, max_length, check_cross_encoder)
        if model.num_labels != 1:
            raise UsageError(f"{name} gives {model.num_labels} scores for a pair", "choose a model with one output")
        answers = getattr(model[-1], "true_token_id", 1), getattr(model[-1], "false_token_id", 0)
        if answers[0] == answers[1]:
            raise UsageError(f"the tokenizer of {name} has no words yes and no", "choose another model")
        self.model, self._batch, self._instruction, self.notes = model, batch, instruction, notes
        self.counts: dict[str, int] = {}
        told = f", told {instruction!r}" if instruction else ""
        self.identity = f"{notes['sha256']}, {notes['precision']}, {model.max_seq_length} tokens{told}"

    def judge(self, pairs: Sequence[Pair]) -> Iterator[tuple[int, float]]:
        """Yield the position of a pair and its score."""
        for start in range(0, len(pairs), _PAIRS):
            scores = self.model.predict(
                list(pairs[start : start + _PAIRS]),
                prompt=self._instruction,
                batch_size=self._batch,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
            yield from enumerate(scores.astype("float32").tolist(), start)


def check_cross_encoder(folder: Path) -> None:
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
