"""Rerank: the first labels of another method, put in a new order by a judge."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Unit

from xmcbench import Doc, Method, Part, Texts, TopK
from xmcbench.methods.declarations import Labels, PrecisionName
from xmcbench.methods.encoder import HUB_TOKENS
from xmcbench.methods.rerank.judges import KEY, estimate_tokens, judge_inputs, open_judge, require_judge
from xmcbench.methods.rerank.judgments import Pair, keep_scores

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class Rerank(Method):
    """A judge orders the first ``depth`` labels of another method: it scores each instance with each of its labels.

    The judge is a cross-encoder of sentence-transformers, or a causal language model with a chat template, such as
    Qwen3-Reranker (Zhang et al., 2025, arXiv:2506.05176), whose score is the logit of "yes" minus that of "no" after
    both texts. With ``url`` it is a language model behind a server that speaks the protocol of OpenAI's chat
    completions, and the score is the probability of yes.

    Judgments are kept as they come: a run that was killed asks for the rest. `xmcbench export judgments` writes them
    to a file, and ``judgments`` names such a file: what is in it is not asked again, so that a row made with a large
    model can be rerun without it. The notes say how many judgments were asked and kept, and what they cost.

    The labels behind the first ``depth`` keep their order. Nothing is trained by this method; the first ranking is that
    of ``first``, trained on the pairs if there are any. The judge runs in one process, whatever ``--processes`` says.
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
    environment: ClassVar = (*HUB_TOKENS, KEY)

    first: Annotated[str, Doc("the method whose labels are reranked, NAME or NAME:PRESET")] = "tfidf"
    model: Annotated[
        str, Doc("a cross-encoder or language model: a folder or a model id of the hub; with a url, its name there")
    ] = "cross-encoder/ms-marco-MiniLM-L6-v2"
    url: Annotated[str | None, Doc("a server, such as http://localhost:8000/v1; none: the model runs here")] = None
    judgments: Annotated[str | None, Doc("a file of judgments, which are not asked again")] = None
    depth: Annotated[Labels, Doc("number of labels that are reranked")] = 20
    instruction: Annotated[
        str | None, Doc("what a language model is told before each pair; none: what its checkpoint says, if anything")
    ] = None
    max_length: Annotated[
        int | None,
        Ge(8),
        Unit("tokens"),
        Doc("maximum length of instance and label together, or of an instance in words on a server; none: its own"),
    ] = None
    batch: Annotated[
        int, Ge(1), Unit("pairs"), Doc("number of pairs scored at a time, or requests at once", "sentence-transformers")
    ] = 32
    precision: Annotated[
        PrecisionName, Doc("precision of the weights; auto: 16 bits where these are faster, else float32")
    ] = "auto"

    def describe(self) -> str:
        return f"{self.first}, {self.model.rstrip('/').rpartition('/')[2]}"

    def uses(self) -> tuple[str, ...]:
        return (self.first,)

    def inputs(self) -> Mapping[str, Path | str]:
        """Return the model, a folder or a model of the hub with its commit, and the file of judgments."""
        return judge_inputs("model", self.model, self.url, self.judgments)

    def require(self) -> None:
        """Raise Unavailable where the model or what the first method needs is not available. Raises UsageError where
        the model is a folder without a cross-encoder, or the file of judgments is not there."""
        Part.of(self.first, self).require()
        require_judge(self.model, self.url, self.judgments)

    def estimate_calls(self, sizes: Mapping[str, tuple[int, float]]) -> tuple[int, int]:
        (labels, of_label), (instances, of_instance) = sizes["labels"], sizes["test"]
        calls, lengths = instances * min(self.depth, labels), (of_instance, of_label)
        return calls, estimate_tokens(calls, lengths, self.url, self.max_length, self.instruction)

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        """Open the model. Raises Unavailable where it is not available, UsageError where it is not a judge."""
        self._texts, self._pairs = (raw_X, raw_Y), pairs
        self._judge, self.notes["model"] = open_judge(
            self.model, self.url, self.compute, self.precision, self.max_length, self.batch, self.instruction
        )

    def predict_batches(self, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        """The labels of the first method, the first ``depth`` in the order of the judge."""
        part = Part.of(self.first, self)
        found, notes = part.ranking((*self._texts, raw_X), self._pairs, max(k, self.depth))
        self.notes["first"] = {part.spec: notes}
        labels = found.indices[:, : self.depth]
        rows, places = np.nonzero(labels >= 0)
        self.notes["pairs_read"] = len(rows)
        scores = np.full(labels.shape, -np.inf, np.float32)
        if len(rows):
            documents, names = list(raw_X), list(self._texts[1])
            chosen = zip(rows.tolist(), labels[rows, places].tolist(), strict=True)
            scores[rows, places] = self._score(raw_X, [(documents[row], names[label]) for row, label in chosen])
        ordered = reorder(found, scores)
        yield TopK(ordered.indices[:, :k], ordered.scores[:, :k])

    def _score(self, raw_X: Texts, pairs: list[Pair]) -> np.ndarray:
        """Return the judge's scores of pairs, float32, and keep them for a cell that needs them again."""
        texts = [raw_X.digest, self._texts[1].digest]
        files = [Path(os.path.expanduser(self.judgments))] if self.judgments else []
        scores, cost, _ = keep_scores(self.artifacts, self._judge, pairs, texts, files, own=True)
        self.notes["judgments"] = {"judge": self.model, **cost}
        return scores


def reorder(found: TopK, scores: np.ndarray) -> TopK:
    """Put the first labels of a ranking in the order of other scores; the rest follow in their own. scores: float32 [N,
    depth], -inf where there is no label. Of equal scores, the label that came first stays first, and the other's score
    is lowered by the least amount. The scores of the rest fall by equal steps from the lowest of these."""
    depth = scores.shape[1]
    order = np.argsort(-scores, axis=1, kind="stable")
    values = _separate(np.take_along_axis(scores, order, 1))  # half precision makes many scores equal
    first = TopK(np.take_along_axis(found.indices[:, :depth], order, 1), values)
    rest = found.indices[:, depth:]
    lowest = np.where(np.isfinite(first.scores), first.scores, np.inf).min(axis=1, initial=np.inf)
    lowest = np.where(np.isfinite(lowest), lowest, 0)[:, None]
    behind = np.where(rest >= 0, lowest - np.arange(1, rest.shape[1] + 1), -np.inf).astype(np.float32)
    # A step of 1 vanishes in scores of 2^24 and more.
    return TopK(np.hstack([first.indices, rest]), _separate(np.hstack([first.scores, behind])))


def _separate(scores: np.ndarray) -> np.ndarray:
    """Lower each score by the least amount that puts it below the one before: float32 [N, places], in place."""
    for place in range(1, scores.shape[1]):
        below = np.nextafter(scores[:, place - 1], np.float32(-np.inf))
        scores[:, place] = np.minimum(scores[:, place], below)
    return scores
