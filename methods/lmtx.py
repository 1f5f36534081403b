"""LMTX: a judge calls labels relevant that the encoder finds, the encoder learns from them, and finds better ones."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Unit

from xmcbench import Artifacts, Doc, MethodError, Texts, TopK, UsageError, pairs_digest
from xmcbench.methods.declarations import AboveZero, Documents, Labels, Natural, Positive, Steps
from xmcbench.methods.encoder import SENTENCE_TRANSFORMERS
from xmcbench.methods.encoder.pretrained_encoder import PretrainedEncoder
from xmcbench.methods.presets import CHOICES, PRESETS
from xmcbench.methods.rerank.judges import KEY, estimate_tokens, judge_inputs, open_judge, require_judge
from xmcbench.methods.rerank.judgments import Judge, Pair, keep_scores

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench.methods.encoder.tower import Tower
    from xmcbench.methods.encoder.training import TrainingPlan
    from xmcbench.methods.maclr.pseudo_pairs import OwnTitles

_CODE = "LMTX's code"
#: The judge that needs no weights.
_LEXICAL = "lexical"
#: Labels with a document's own title that a shortlist is made longer by, at most: thousands may share one text.
_OWN_TITLES = 100


class LMTX(PretrainedEncoder):
    """A language model as the teacher of a dual encoder (LMTX; Zhang, Ullah and Babbar, COLING 2025, arXiv:2406.09288).

    In each round the encoder finds the nearest labels of documents, a judge says which of them are relevant, and the
    encoder learns from these by a triplet loss. The judge has no part in predictions. With pairs the encoder is
    fine-tuned on them.

    The judge is a cross-encoder, a language model here or behind a server, as for ``rerank``, or ``lexical``: the
    cosine of TF-IDF, which needs no weights. Judgments are kept: a run that was killed asks for the rest, a later round
    only for what is new, and ``judgments`` names a file that ``xmcbench export judgments`` wrote.

    Values are those of the authors' code. It differs from ours: a round there has one pass over the documents, whatever
    their number, and a warm-up of 100 steps; ``steps`` are shared by the rounds here. Its judge is WizardLM-13B, which
    generates its answer, told "Is the tag ... relevant to the document?"; here a language model is asked for the
    probability of yes. Its loss is a mean over the hardest labels, ours their sum, which only matters to ``clip``,
    which the code does not have. Labels are found by HNSW there, exactly here where they are fewer than 200,000. The
    checked documents are judged by the share of relevant labels among the first ones, as there.
    """

    title = "LMTX"
    needs_cosine: ClassVar = True
    described: ClassVar[tuple[str, ...]] = ("backbone", "steps", "batch", "judge")
    _budget: ClassVar[tuple[str, ...]] = ("steps",)
    packages: ClassVar = {**PretrainedEncoder.packages, **SENTENCE_TRANSFORMERS, "numba": "numba"}
    environment: ClassVar = (*PretrainedEncoder.environment, KEY)  # type: ignore[assignment]
    presets: ClassVar = PRESETS["lmtx"]
    choices: ClassVar = CHOICES["lmtx"]

    judge: Annotated[
        str,
        Doc("lexical: cosine of TF-IDF; a cross-encoder or language model: a folder, an id of the hub or of a server"),
    ] = _LEXICAL
    judge_url: Annotated[str | None, Doc("a server, such as http://localhost:8000/v1; none: the judge runs here")] = (
        None
    )
    judgments: Annotated[str | None, Doc("a file of judgments, which are not asked again")] = None
    instruction: Annotated[
        str | None, Doc("what a language model is told before each pair; none: what its checkpoint says, if anything")
    ] = None
    judge_length: Annotated[
        int | None,
        Ge(8),
        Unit("tokens"),
        Doc("maximum length of document and label together, or of a document in words on a server; none: its own"),
    ] = None
    judge_batch: Annotated[int, Ge(1), Unit("pairs"), Doc("number of pairs judged at a time, or requests at once")] = 32
    relevant: Annotated[
        float, Doc("lowest score of a relevant label: 0.5 for probabilities, 0 for a cross-encoder of logits")
    ] = 0.5
    shortlist: Annotated[Labels, Doc("number of labels of a document that are judged", _CODE)] = 10
    own_title: Annotated[
        bool, Doc("judge a label that repeats the document's title, which may be the document itself")
    ] = True
    rounds: Annotated[Positive, Doc("number of rounds, if each is better than the one before; see checked", _CODE)] = 6
    fresh: Annotated[bool, Doc("train the checkpoint again in each round, not the encoder as it is", _CODE)] = True
    documents: Annotated[
        Documents | None, Doc("number of documents that are judged in a round; none: those that it can visit")
    ] = None
    checked: Annotated[
        Natural,
        Unit("documents"),
        Doc(
            "documents whose first label is judged after each round; the encoder of the round with the largest share "
            "of relevant ones is taken, and a round that is not better is the last; 0: all rounds",
            _CODE,
        ),
    ] = 800
    steps: Annotated[Steps, Doc("number of steps of the training without pairs, shared by the rounds")] = 6_000
    batch: Annotated[int, Ge(2), Unit("documents"), Doc("documents per step, over all processes", _CODE)] = 128
    learning_rate: Annotated[AboveZero, Doc("highest learning rate", _CODE)] = 2e-4
    margin: Annotated[AboveZero, Doc("margin of the hinge", _CODE)] = 0.3
    hardest: Annotated[Labels, Doc("number of labels of the batch in a document's hinge: the hardest", _CODE)] = 10
    sharpness: Annotated[AboveZero, Doc("divisor of the cosines in the weights of these labels", _CODE)] = 0.1

    def describe(self) -> str:
        return f"{super().describe()}, judge {self.judge.rstrip('/').rpartition('/')[2]}"

    def inputs(self) -> Mapping[str, Path | str]:
        if self.judge == _LEXICAL:
            return super().inputs()
        return {**super().inputs(), **judge_inputs("judge", self.judge, self.judge_url, self.judgments)}

    def require(self) -> None:
        """Raise Unavailable where the encoder or the judge is not available. Raises UsageError for a judge that is
        none, and for a parameter that the lexical judge does not have."""
        super().require()
        if self.judge != _LEXICAL:
            require_judge(self.judge, self.judge_url, self.judgments)
            return
        for name in ("judge_url", "judgments", "instruction", "judge_length"):
            if getattr(self, name) is not None:
                raise UsageError(
                    f"lmtx.{name} has no effect with the lexical judge", "name another one: lmtx.judge=..."
                )

    def estimate_calls(self, sizes: Mapping[str, tuple[int, float]]) -> tuple[int, int]:
        """Documents of every round are judged with their shortlists, and the checked ones with their first label."""
        if self.judge == _LEXICAL or not self.steps:
            return 0, 0
        (documents, of_document), (labels, of_label) = sizes["train"], sizes["labels"]
        of_round = min(self._judged, documents) * min(self.shortlist, labels) + min(self.checked, documents)
        calls, lengths = self.rounds * of_round, (of_document, of_label)
        return calls, estimate_tokens(calls, lengths, self.judge_url, self.judge_length, self.instruction)

    @property
    def _judged(self) -> int:
        """Documents that are judged in a round, if there are as many."""
        return self.documents or -(-self.steps // self.rounds) * self.batch

    def _train(self, tower: Tower, raw_X: Texts, raw_Y: Texts) -> None:
        """Find, judge, learn, in rounds. Raises MethodError where the judge calls no label relevant."""
        if not self.steps:
            return
        teacher = _Teacher(self, tower, raw_X, raw_Y, self._open_judge(raw_X, raw_Y))
        start, best, best_share = tower.weights(), tower.weights(), -1.0
        rows, checked = self._draw_documents(len(raw_X))
        history = []
        for number in range(self._rounds):
            plan = self._plan_round(number)
            found = teacher.relevant_labels(rows, self.shortlist)
            said: dict[str, object] = {"documents": len(rows), "pairs": int(found.nnz)}
            if not found.nnz:
                raise MethodError(
                    f"the judge calls no label of {len(rows)} documents relevant",
                    "a lower lmtx.relevant lets more through",
                )
            if self.fresh:
                tower.set_weights(start)
            self._learn(tower, teacher, rows, found, plan, f"round {number + 1}")
            history.append(said)
            if self.checked:
                share = said["relevant first labels"] = round(teacher.relevant_labels(checked, 1).nnz / len(checked), 4)
                if share <= best_share:
                    break
                best, best_share = tower.weights(), share
        if self.checked:
            tower.set_weights(best)
        self.notes["rounds"] = history
        named = {"judge": self.judge} if self.judge != _LEXICAL else {}
        self.notes["judgments"] = {**named, **teacher.cost}

    def _open_judge(self, raw_X: Texts, raw_Y: Texts) -> Judge:
        if self.judge == _LEXICAL:
            return LexicalJudge(self.artifacts, raw_X, raw_Y)
        options = self.judge_length, self.judge_batch, self.instruction
        judge, self.notes["judge"] = open_judge(self.judge, self.judge_url, self.compute, self.precision, *options)
        return judge

    def _draw_documents(self, documents: int) -> tuple[np.ndarray, np.ndarray]:
        """The documents that are judged in every round, and those that are checked after it: rows in order, int64."""
        rng = np.random.default_rng([self.seed, 31])
        rows, checked = (rng.permutation(documents)[:count] for count in (self._judged, self.checked))
        return np.sort(rows), np.sort(checked)

    @property
    def _rounds(self) -> int:
        """Rounds that have a step."""
        return max(1, min(self.rounds, self.steps))

    def _plan_round(self, number: int) -> TrainingPlan:
        """The training of a round, counted from 0. Each has a seed of its own: all would draw the same labels."""
        steps = self.steps * (number + 1) // self._rounds - self.steps * number // self._rounds
        seed = int(np.random.default_rng([self.seed, 32, number]).integers(2**31)) if number else self.seed
        return replace(self._plan(steps, self.learning_rate), seed=seed)

    def _learn(
        self, tower: Tower, teacher: _Teacher, rows: np.ndarray, found: csr_matrix, plan: TrainingPlan, name: str
    ) -> None:
        from xmcbench.methods.encoder.clustering import ClusteredPairs, PairLoss

        taught = np.flatnonzero(np.diff(found.indptr))
        texts = teacher.raw_X.take(rows[taught])
        instances = tower.instance_tokens(texts, self.instance_length)
        labels = tower.label_tokens(teacher.raw_Y, self.label_length)
        loss = self.margin, self.hardest, self.sharpness
        pairs = found[taught]
        pair_loss = PairLoss("triplet", self.margin, self.hardest, sharpness=self.sharpness)
        task = ClusteredPairs(instances, labels, pairs, self.batch, None, pair_loss, plan.seed)
        digest = pairs_digest(pairs.indptr, pairs.indices)
        identity = {"kind": "judged pairs", "instances": texts.digest, "labels": teacher.raw_Y.digest, "pairs": digest}
        self._train_on(tower, name, task, plan, {**identity, "loss": list(loss)})


class _Teacher:
    """The nearest labels of documents, and the judge of them. cost: of all judgments so far."""

    def __init__(self, method: LMTX, tower: Tower, raw_X: Texts, raw_Y: Texts, judge: Judge) -> None:
        self.raw_X, self.raw_Y, self.cost = raw_X, raw_Y, Counter[str]()
        self._method, self._tower, self._judge, self._names = method, tower, judge, list(raw_Y)
        self._answered: set[Pair] = set()
        self._files = [Path(os.path.expanduser(method.judgments))] if method.judgments else []

    def relevant_labels(self, rows: np.ndarray, depth: int) -> csr_matrix:
        """Return which of the nearest labels of documents are relevant: binary CSR, float32 [len(rows), L]."""
        from scipy.sparse import csr_matrix

        method, texts = self._method, self.raw_X.take(rows)
        labels = self._nearest(texts, depth).indices
        places, ranks = np.nonzero(labels >= 0)
        columns = labels[places, ranks]
        documents = list(texts)
        pairs = [
            (documents[place], self._names[label])
            for place, label in zip(places.tolist(), columns.tolist(), strict=True)
        ]
        digests = [self.raw_X.digest, self.raw_Y.digest]
        scores, cost, file = keep_scores(method.artifacts, self._judge, pairs, digests, self._files)
        self._files.append(file)
        self._answered |= {*pairs}
        self.cost.update(cost)
        self.cost["kept"] = len(self._answered) - self.cost["asked"]  # an answer of an earlier round is none of before
        chosen = scores >= method.relevant
        ones = np.ones(int(chosen.sum()), np.float32)
        found = csr_matrix((ones, (places[chosen], columns[chosen])), shape=(len(rows), len(self.raw_Y)))
        found.sort_indices()
        return found

    def _nearest(self, texts: Texts, depth: int) -> TopK:
        from xmcbench.methods.maclr.pseudo_pairs import without_own_titles

        tower, method = self._tower, self._method
        instances = tower.instance_tokens(texts, method.instance_length)
        labels = tower.label_tokens(self.raw_Y, method.label_length)
        own = None if method.own_title else self._own_titles(texts)
        wanted = min(depth + (min(own.most, _OWN_TITLES) if own else 0), len(self.raw_Y))
        with tower.embeddings(instances) as queries, tower.embeddings(labels) as items:
            found = TopK.joined(tower.nearest(queries, items, wanted), wanted, len(texts))
        return without_own_titles(found, own, depth) if own else found

    def _own_titles(self, texts: Texts) -> OwnTitles:
        from xmcbench.methods.maclr.pseudo_pairs import OwnTitles

        length, of_labels = self._method.label_length, self._method.label_text != "title"
        titles = self._tower.label_tokens(texts, length, titles=True)
        return OwnTitles.of(titles, self._tower.label_tokens(self.raw_Y, length, titles=of_labels))


class LexicalJudge:
    """Scores a document and a label by the cosine of their words and bigrams, weighted by TF-IDF over a corpus."""

    def __init__(self, artifacts: Artifacts, raw_X: Texts, raw_Y: Texts) -> None:
        """Learn the weights of words from documents and labels, or take them from the store."""
        from xmcbench.methods.sparse.features import TfidfFeatures

        self._vectorizer = TfidfFeatures.shared(artifacts, raw_X, raw_Y, "sklearn", 2, 1.0).vectorizer
        self.counts: dict[str, int] = {}
        self.identity = f"cosine of TF-IDF, {raw_X.digest} {raw_Y.digest}"

    def judge(self, pairs: Sequence[Pair]) -> Iterator[tuple[int, float]]:
        """Yield the position of a pair and its score, 0 to 1."""
        documents, labels = (self._vectors(side) for side in zip(*pairs, strict=True))
        cosines = np.asarray(documents.multiply(labels).sum(axis=1)).ravel()
        yield from enumerate(cosines.astype(np.float32).tolist())

    def _vectors(self, texts: Sequence[str]) -> csr_matrix:
        import pyarrow as pa

        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        vectors = self._vectorizer.transform(pa.array([*places], pa.large_string()))
        return vectors[[places[text] for text in texts]]
