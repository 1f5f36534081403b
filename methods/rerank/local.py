"""A cross-encoder on this machine, or a causal language model that sentence-transformers runs as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from xmcbench import Compute, UsageError
from xmcbench.methods.declarations import PrecisionName
from xmcbench.methods.encoder.saved_config import Architecture, ModelConfig, read_config
from xmcbench.methods.rerank.judgments import Pair

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
