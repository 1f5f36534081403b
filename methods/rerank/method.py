"""Rerank: the first labels of another method, put in a new order by a judge."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Unit

from xmcbench import Doc, Method, Texts, TopK, UsageError, progress
from xmcbench.methods.declarations import Labels, PrecisionName
from xmcbench.methods.encoder import HUB_TOKENS
from xmcbench.methods.rerank.judgments import FILE, Judge, Judgments, Pair
from xmcbench.methods.rerank.local import CrossEncoder, check_cross_encoder
from xmcbench.methods.rerank.server import KEY, Server

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

#: Pairs of an instance and a label that are judged between two progress reports.
_PAIRS = 8192


class Rerank(Method):
    """A judge orders the first ``depth`` labels of another method: it scores each instance with each of its labels.

    The judge is a cross-encoder of sentence-transformers, or a causal language model with a chat template, such as
    Qwen3-Reranker (Zhang et al., 2025, arXiv:2506.05176), whose score is the logit of "yes" minus that of "no" after
    both texts. With ``url`` it is a language model behind a server that speaks the protocol of OpenAI's chat
    completions, and the score is the probability of yes.

    Judgments are kept as they come: a run that was killed asks for the rest. `xmcbench export judgments` writes them
    to a file, and ``judgments`` names such files: what is in them is not asked again, so that a row made with a large
    model can be rerun without it. The notes say how many judgments were asked and kept, and what a server counted.

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
        Doc(
            "maximum length of an instance and a label together, if the model's own is not less, or of an instance in "
            "words on a server; none: the model's own"
        ),
    ] = None
    batch: Annotated[
        int, Ge(1), Unit("pairs"), Doc("number of pairs scored at a time, or requests at once", "sentence-transformers")
    ] = 32
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
        """Return the model, a folder or a model of the hub with its commit, and the file of judgments."""
        from xmcbench.methods.encoder.backbone import model_input

        kept = {"judgments": Path(self.judgments)} if self.judgments else {}
        return {**(model_input("model", self.model) if self.url is None else {}), **kept}

    def require(self) -> None:
        """Raise Unavailable where the model or what the first method needs is not available. Raises UsageError where
        the model is a folder without a cross-encoder, or the file of judgments is not there."""
        from xmcbench import Part
        from xmcbench.methods.embedder.folder import check_folder
        from xmcbench.methods.encoder.backbone import require_located

        Part.of(self.first, self).require()
        if self.judgments and not Path(self.judgments).is_file():
            raise UsageError(
                f"there is no file of judgments at {self.judgments}", "xmcbench export judgments makes one"
            )
        if self.url is None:
            require_located(self.model)
            check_folder(self.model)
            check_cross_encoder(Path(self.model).expanduser())

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        """Open the model. Raises Unavailable where it is not available, UsageError where it is not a judge."""
        self._texts, self._pairs = (raw_X, raw_Y), pairs
        self._judge = self._open_judge()

    def predict_batches(self, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        """The labels of the first method, the first ``depth`` in the order of the judge."""
        from xmcbench import Part

        part = Part.of(self.first, self)
        found, notes = part.ranking((*self._texts, raw_X), self._pairs, max(k, self.depth))
        self.notes["first"] = {part.spec: notes}
        labels = found.indices[:, : self.depth]
        rows, places = np.nonzero(labels >= 0)
        self.notes["pairs_read"] = len(rows)
        scores = np.full(labels.shape, -np.inf, np.float32)
        begin = time.perf_counter()
        if len(rows):
            names = list(self._texts[1])
            chosen = zip(rows.tolist(), labels[rows, places].tolist(), strict=True)
            scores[rows, places] = self._score(raw_X, [(raw_X[row], names[label]) for row, label in chosen])
        self.notes["reading_s"] = round(time.perf_counter() - begin, 2)
        ordered = reorder(found, scores)
        yield TopK(ordered.indices[:, :k], ordered.scores[:, :k])

    def _score(self, raw_X: Texts, pairs: list[Pair]) -> np.ndarray:
        """Return the judge's scores of pairs, float32, and keep them for a cell that needs them again."""
        files = [Path(self.judgments)] if self.judgments else []
        identity = {"judge": self._judge.identity, "texts": [raw_X.digest, self._texts[1].digest]}
        work = self.artifacts.unfinished("judgments", identity, Judgments)

        def build(folder: Path) -> None:
            work.mkdir(parents=True, exist_ok=True)
            judgments = Judgments(self._judge, work / FILE, files)
            for start in range(0, len(pairs), _PAIRS):
                progress.steps(start, len(pairs), "pair")
                judgments.score(pairs[start : start + _PAIRS])
            judgments.write(folder / FILE, pairs)
            self.notes["judgments"] = dict(judgments.counts)
            shutil.rmtree(work)

        identity |= {"pairs": Judgments.digest(pairs)}
        folder = self.artifacts.get("judgments", identity, build, uses=(Judgments,), own=True)
        self.notes.setdefault("judgments", {"asked": 0, "kept": len(pairs)})
        if isinstance(self._judge, Server):
            self.notes["server"] = dict(self._judge.counts)
        return Judgments(self._judge, folder / FILE).score(pairs)

    def _open_judge(self) -> Judge:
        if self.url is None:
            judge = CrossEncoder(
                self.model, self.compute, self.precision, self.max_length, self.batch, self.instruction
            )
            self.notes["model"] = judge.notes
            return judge
        self.notes["model"] = {"name": self.model, "source": "a server", "sha256": ""}
        return Server(self.url, self.model, self.instruction, self.batch, self.max_length)


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
