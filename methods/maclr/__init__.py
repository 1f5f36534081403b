"""MACLR: multi-scale adaptive clustering and label regularization, then self-training, then the known pairs."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Unit

from xmcbench import Doc, Texts, UsageError
from xmcbench.methods.declarations import AboveZero, Positive, Tokens
from xmcbench.methods.maclr.self_training import SelfTraining
from xmcbench.methods.presets import ABLATION, CHOICES, PRESETS

if TYPE_CHECKING:
    from xmcbench.methods.encoder.cloze import ContextPairs
    from xmcbench.methods.encoder.tokens import TokenStore
    from xmcbench.methods.encoder.tower import Tower
    from xmcbench.methods.maclr.pseudo_pairs import OwnTitles


class MACLR(SelfTraining):
    """MACLR (Xiong et al., NAACL 2022): two stages of pre-training without a pair, then fine-tuning on those known.

    Stage I: the context of a document is to find the titles of its cluster (equation 3), clusters growing finer until
    each document is its own, and to stay away from sampled labels (equation 4). Stage II: the encoder trains on what
    it and TF-IDF take for the labels of each document. With pairs it is fine-tuned on them (equation 2). With all
    components off it is ICT.

    The preset ``paper`` is the paper, ``reference`` its authors' code. What is left between these and ours: losses are
    means over a batch, not sums (with Adam that only affects gradient clipping); AdamW without weight decay is Adam;
    Punkt learns from the corpus, where NLTK includes an English model; M, which the paper does not name, is the code's.
    docs/reproduction.md lists all of them.
    """

    title = "MACLR"
    packages: ClassVar = {**SelfTraining.packages, "faiss": "faiss-cpu"}
    described: ClassVar[tuple[str, ...]] = ("backbone", "steps", "batch", "pseudo_steps")
    #: The periods of the clusters go with the steps.
    _budget: ClassVar[tuple[str, ...]] = ("steps", "pseudo_steps", "clusters_doubled_every", "clusters_updated_every")
    presets: ClassVar = PRESETS["maclr"]
    choices: ClassVar = CHOICES["maclr"]
    #: The rows of the paper's ablation: which components are on.
    ablation: ClassVar = ABLATION

    adaptive_clustering: Annotated[bool, Doc("component of Stage I", "MACLR, section 4.2")] = True
    label_regularization: Annotated[bool, Doc("component of Stage I", "MACLR, section 4.2")] = True
    clusters: Annotated[
        Positive, Doc("K0, at the start; with fewer documents each is its own cluster", "MACLR, section 5.1")
    ] = 2048
    clusters_doubled_every: Annotated[
        int, Ge(1), Unit("steps"), Doc("T_K, steps after which the number of clusters doubles", "MACLR, section 5.1")
    ] = 10_000
    clusters_updated_every: Annotated[
        int, Ge(1), Unit("steps"), Doc("T_update, steps until clusters are computed again", "MACLR, section 5.1")
    ] = 5_000
    cluster_length: Annotated[
        Tokens, Doc("maximum length of a document, title and content, in clustering", "MACLR's code")
    ] = 288
    kmeans_restarts: Annotated[
        Positive, Doc("runs of k-means, of which the tightest clustering is taken", "MACLR's code")
    ] = 5
    kmeans_points: Annotated[
        Positive, Doc("documents per cluster that k-means is fitted on; the default is FAISS's, MACLR's code has 1,000")
    ] = 256
    sampled_labels: Annotated[
        Positive, Doc("M, the number of labels drawn for a step, over all processes", "MACLR's code: 8 x 4")
    ] = 32
    label_temperature: Annotated[
        AboveZero,
        Doc(
            "temperature of label regularization alone; the head paper has none. From MiniLM the loss is near 0 at .05 "
            "and moves nothing, and at .5 it pushes contexts off their titles too; from scratch .05 is better",
            "title retrieval on LF-Debian-20K",
        ),
    ] = 0.15
    twins: Annotated[
        Literal["own", "cluster"],
        Doc("positives of label regularization: own twin (paper); the cluster's (MACLR's code)"),
    ] = "own"
    held_out: Annotated[
        int, Ge(0), Unit("documents"), Doc("documents left out of pre-training, whose title retrieval the record notes")
    ] = 0

    def _steps_in_words(self) -> str:
        second = f", {self.pseudo_steps} on pseudo pairs" if self._second else ""
        return super()._steps_in_words() + second

    def _passes(self) -> int:
        """Contexts, their twins, titles and sampled labels in Stage I; instances and labels in Stage II."""
        first = 3 * self.batch + self.sampled_labels if self.label_regularization else 2 * self.batch
        lists = 1 + (self.soft_labels if self.pseudo_loss == "soft" else 1 + self.hard_negatives)
        second = self.batch * (lists + (2 if self.pseudo_replay else 0))
        return self.steps * first + (self.pseudo_steps * second if self._second else 0)

    def _train(self, tower: Tower, raw_X: Texts, raw_Y: Texts) -> None:
        """Train Stage I, then Stage II. Raises MethodError if none has a context, or a pseudo pair."""
        if not (self.steps or self._second or self.held_out):
            return
        own_titles = self._own_titles(tower, raw_X, raw_Y)
        if not (self.steps or self.held_out):
            self._second_stage(tower, raw_X, raw_Y, own_titles, np.empty(0, np.int64))
            return
        drawn = self._context_pairs(tower, raw_X)
        used, held_out = self._split(len(drawn.rows))
        self._measure("untrained", tower, drawn, held_out)
        if self.steps:
            self._first_stage(tower, (raw_X, raw_Y), drawn, used, own_titles)
            self._measure("stage I", tower, drawn, held_out)
        if self._second:
            self._second_stage(tower, raw_X, raw_Y, own_titles, drawn.rows[held_out])
            self._measure("stage II", tower, drawn, held_out)

    def _split(self, pairs: int) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the context pairs that are trained on, and of those held out; both in order."""
        if self.held_out >= pairs:
            raise UsageError(f"maclr.held_out = {self.held_out} leaves none of the {pairs} documents for training")
        order = np.random.default_rng([self.seed, 4]).permutation(pairs)
        return np.sort(order[self.held_out :]), np.sort(order[: self.held_out])

    def _own_titles(self, tower: Tower, raw_X: Texts, raw_Y: Texts) -> OwnTitles:
        from xmcbench.methods.maclr.pseudo_pairs import OwnTitles

        titles = tower.label_tokens(raw_X, self.label_length, titles=True)
        # Whatever else is read of a label, it is its title that an instance may repeat.
        labels = tower.label_tokens(raw_Y, self.label_length, titles=self.label_text != "title")
        return OwnTitles.of(titles, labels)

    def _measure(self, when: str, tower: Tower, drawn: ContextPairs, rows: np.ndarray) -> None:
        from xmcbench.methods.encoder.fine_tuning import title_retrieval

        if len(rows):
            found: dict[str, object] = dict(self.notes.get("held-out titles", {}))  # type: ignore[call-overload]
            found[when] = title_retrieval(tower.encoder, drawn.contexts, drawn.titles, rows)
            self.notes["held-out titles"] = found

    def _first_stage(
        self, tower: Tower, texts: tuple[Texts, Texts], drawn: ContextPairs, used: np.ndarray, own_titles: OwnTitles
    ) -> None:
        from xmcbench.methods.maclr.first_stage import ClusterSchedule, FirstStage, Regularization, Sources

        raw_X, raw_Y = texts
        documents = tower.instance_tokens(raw_X, self.cluster_length)
        sources = Sources(drawn, documents, tower.label_tokens(raw_Y, self.label_length), own_titles)
        first = self.clusters if self.adaptive_clustering else 0
        schedule = ClusterSchedule(self.steps, first, self.clusters_doubled_every, self.clusters_updated_every)
        sampled = self.sampled_labels if self.label_regularization else 0
        temperature = self.label_temperature if tower.encoder.cosine else 1.0
        regularization = Regularization(sampled, temperature, self.twins, self.negatives)
        identity: dict[str, object] = {"kind": "maclr stage I", "instances": raw_X.digest, "held_out": self.held_out}
        identity["pairs"] = drawn.contexts.folder.name
        first_clusters = None
        if schedule.clusters(0) is not None:
            first_clusters = self._first_clusters(tower, documents, drawn.rows[used])
            clustered = {"tokens": documents.folder.name, **self._k_means}
            identity |= {"schedule": asdict(schedule), "clustered": clustered}
            self.notes["clusters"] = schedule.scales(len(used))
        if regularization.sampled:
            identity |= {"labels": raw_Y.digest, "regularization": asdict(regularization)}
        training = self.batch, tower.temperature, self.seed, self.kmeans_restarts, first_clusters, self.kmeans_points
        task = FirstStage(sources, used, schedule, regularization, *training)
        self._train_on(tower, "stage I", task, self._plan(self.steps, self.learning_rate), identity)

    def _first_clusters(self, tower: Tower, documents: TokenStore, rows: np.ndarray) -> np.ndarray:
        """The clusters of step 0, which every training from these weights shares: int64 [len(rows)]."""
        from xmcbench.methods.maclr.first_stage import k_means

        if self.clusters >= len(rows):
            return np.arange(len(rows))
        identity = {
            "weights": tower.encoder.digest(),
            "tokens": documents.folder.name,
            "rows": hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest(),
            "clusters": self.clusters,
            **self._k_means,
            "computed": tower.computed,
        }

        def build(folder: Path) -> None:
            with tower.embeddings(documents, shared=self.head != "paper") as vectors:
                found = k_means(vectors[rows], self.clusters, **self._k_means, device=tower.device)
                np.save(folder / "clusters.npy", found)

        return np.load(tower.artifacts.get("clusters", identity, build) / "clusters.npy", allow_pickle=False)  # type: ignore[no-any-return]

    @property
    def _k_means(self) -> dict[str, int]:
        """Settings of k-means besides the number of clusters."""
        return {"restarts": self.kmeans_restarts, "points": self.kmeans_points}
