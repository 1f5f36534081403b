"""MACLR: multi-scale adaptive clustering and label regularization, then self-training, then the known pairs."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Unit

from xmcbench import Doc, MethodError, UsageError, pairs_digest
from xmcbench.methods.encoder.context_encoder import ContextEncoder
from xmcbench.methods.maclr.variants import ABLATION, CHOICES, PRESETS

if TYPE_CHECKING:
    import numpy as np
    from scipy.sparse import csr_matrix

    from xmcbench import Texts, TopK
    from xmcbench.methods.encoder.cloze import ContextPairs
    from xmcbench.methods.encoder.tokens import TokenStore
    from xmcbench.methods.encoder.tower import Tower
    from xmcbench.methods.maclr.own_titles import OwnTitles


class MACLR(ContextEncoder):
    """MACLR (Xiong et al., WWW 2022): two stages of pre-training without a pair, then fine-tuning on those known.

    Stage I: the context of a document is to find the titles of its cluster (equation 3), clusters growing finer until
    each document is its own, and to stay away from sampled labels (equation 4). Stage II: the encoder trains on what
    itself and TF-IDF take for the labels of each document. With pairs it is fine-tuned on them (equation 2). With all
    components off it is ICT.
    """

    title = "MACLR"
    packages: ClassVar = {**ContextEncoder.packages, "faiss": "faiss-cpu", "sparse_dot_topn": "sparse-dot-topn"}
    described: ClassVar[tuple[str, ...]] = ("backbone", "steps", "batch", "pseudo_steps")
    presets: ClassVar = PRESETS
    choices: ClassVar = CHOICES
    #: The rows of the paper's ablation: which components are on.
    ablation: ClassVar = ABLATION

    adaptive_clustering: Annotated[bool, Doc("component of Stage I", "MACLR, section 4.2")] = True
    label_regularization: Annotated[bool, Doc("component of Stage I", "MACLR, section 4.2")] = True
    pseudo_encoder: Annotated[bool, Doc("component of Stage II: pseudo labels of the encoder", "MACLR, 4.3")] = True
    pseudo_tfidf: Annotated[bool, Doc("component of Stage II: pseudo labels of TF-IDF", "MACLR, 4.3")] = True
    pseudo_steps: Annotated[int, Ge(0), Unit("steps"), Doc("of Stage II", "MACLR, section 5.1")] = 100_000
    clusters: Annotated[
        int, Ge(1), Doc("K0, at the start; with fewer documents each is its own cluster", "MACLR, section 5.1")
    ] = 2048
    clusters_doubled_every: Annotated[int, Ge(1), Unit("steps"), Doc("T_K", "MACLR, section 5.1")] = 10_000
    clusters_updated_every: Annotated[
        int, Ge(1), Unit("steps"), Doc("T_update; clusters end with the first half of Stage I", "MACLR, section 5.1")
    ] = 5_000
    cluster_length: Annotated[
        int, Ge(3), Unit("tokens"), Doc("of a document, title and content, that its cluster depends on", "MACLR's code")
    ] = 288
    kmeans_restarts: Annotated[
        int, Ge(1), Doc("how often k-means begins again; the tightest clustering is taken", "MACLR's code")
    ] = 5
    sampled_labels: Annotated[
        int, Ge(1), Doc("M, over all processes; with fewer labels, all", "MACLR's code: 8 x 4")
    ] = 32
    label_temperature: Annotated[
        float,
        Gt(0),
        Doc(
            "temperature of label regularization alone; the head paper has none. With cosines the loss is near 0 at "
            ".05 and moves nothing, and at .5 it pushes contexts off their titles too",
            "title retrieval on LF-Debian-20K",
        ),
    ] = 0.15
    twins: Annotated[
        Literal["own", "cluster"],
        Doc("positives of label regularization: own twin as in the paper; all of the cluster as in MACLR's code"),
    ] = "own"
    pseudo_top: Annotated[int, Ge(1), Doc("labels that each source gives a document", "MACLR, section 4.3")] = 3
    min_pseudo_score: Annotated[
        float | None, Doc("the encoder's labels with a lower score are none", "MACLR's code: 36")
    ] = None
    pseudo_own_title: Annotated[
        bool,
        Doc(
            "whether a label that repeats the document's title counts: it does in the paper, which has no filter; "
            "where documents are labels too it is the document itself"
        ),
    ] = True
    pseudo_loss: Annotated[
        Literal["several", "apart", "single"],
        Doc(
            "several: all labels of a document are its positives (equation 3); apart: likewise, but each is compared "
            "with the labels of other documents alone; single: each pair against all others, as in MACLR's code"
        ),
    ] = "several"
    pseudo_recipe: Annotated[
        Literal["pecos", "sklearn"],
        Doc("whose TF-IDF gives pseudo labels: PECOS's, as in MACLR's code, or scikit-learn's", "pecos#206"),
    ] = "pecos"
    held_out: Annotated[
        int,
        Ge(0),
        Unit("documents"),
        Doc(
            "left out of pre-training, to note how well their contexts find their titles: what settings can be chosen "
            "by without looking at a label"
        ),
    ] = 0

    def describe(self) -> str:
        """The backbone and the training budget of both stages."""
        second = f", {self.pseudo_steps} on pseudo pairs" if self._second else ""
        return super().describe() + second

    @property
    def _second(self) -> bool:
        """Whether Stage II runs."""
        return (self.pseudo_encoder or self.pseudo_tfidf) and self.pseudo_steps > 0

    def _train(self, tower: Tower, raw_X: Texts, raw_Y: Texts) -> None:
        """Stage I, then Stage II. Raises MethodError if no document has a context, or if no pseudo pair is found."""
        drawn = self._context_pairs(tower, raw_X)
        used, held_out = self._split(len(drawn.rows))
        own_titles = self._own_titles(tower, raw_X, raw_Y)
        self._measure("untrained", tower, drawn, held_out)
        self._first_stage(tower, (raw_X, raw_Y), drawn, used, own_titles)
        self._measure("stage I", tower, drawn, held_out)
        if self._second:
            self._second_stage(tower, raw_X, raw_Y, own_titles, drawn.rows[held_out])
            self._measure("stage II", tower, drawn, held_out)

    def _split(self, pairs: int) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the context pairs that are trained on, and of those held out; both in order."""
        import numpy as np

        if self.held_out >= pairs:
            raise UsageError(f"MACLR.held_out = {self.held_out} leaves none of the {pairs} documents for training")
        order = np.random.default_rng([self.seed, 4]).permutation(pairs)
        return np.sort(order[self.held_out :]), np.sort(order[: self.held_out])

    def _own_titles(self, tower: Tower, raw_X: Texts, raw_Y: Texts) -> OwnTitles:
        from xmcbench.methods.maclr.own_titles import OwnTitles

        titles = tower.label_tokens(raw_X, self.label_length, titles=True)
        return OwnTitles.of(titles, tower.label_tokens(raw_Y, self.label_length))

    def _measure(self, when: str, tower: Tower, drawn: ContextPairs, rows: np.ndarray) -> None:
        from xmcbench.methods.maclr.title_retrieval import title_retrieval

        if len(rows):
            found: dict[str, object] = dict(self.notes.get("held-out titles", {}))  # type: ignore[call-overload]
            found[when] = title_retrieval(tower.encoder, drawn.contexts, drawn.titles, rows)
            self.notes["held-out titles"] = found

    def _first_stage(
        self, tower: Tower, texts: tuple[Texts, Texts], drawn: ContextPairs, used: np.ndarray, own_titles: OwnTitles
    ) -> None:
        from xmcbench.methods.encoder.training import TrainingPlan
        from xmcbench.methods.maclr.first_stage import FirstStage, Regularization, Sources
        from xmcbench.methods.maclr.schedule import ClusterSchedule

        raw_X, raw_Y = texts
        documents, labels = (
            tower.instance_tokens(raw_X, self.cluster_length),
            tower.label_tokens(raw_Y, self.label_length),
        )
        sources = Sources(drawn.contexts, drawn.titles, documents, drawn.rows, labels, own_titles)
        schedule = ClusterSchedule(
            self.steps,
            self.clusters if self.adaptive_clustering else 0,
            self.clusters_doubled_every,
            self.clusters_updated_every,
        )
        regularization = Regularization(
            self.sampled_labels if self.label_regularization else 0, self._label_scale, self.twins
        )
        identity: dict[str, object] = {
            "kind": "maclr stage I",
            "instances": raw_X.digest,
            "pairs": drawn.contexts.folder.name,
            "held_out": self.held_out,
        }
        first_clusters = None
        if schedule.clusters(0) is not None:
            first_clusters = self._first_clusters(tower, documents, drawn.rows[used])
            clustered = {"tokens": documents.folder.name, "restarts": self.kmeans_restarts}
            identity |= {"schedule": asdict(schedule), "clustered": clustered}
            self.notes["clusters"] = schedule.scales()
        if regularization.sampled:
            identity |= {"labels": raw_Y.digest, "regularization": asdict(regularization)}
        task = FirstStage(
            sources,
            used,
            schedule,
            regularization,
            self.batch,
            tower.temperature,
            self.seed,
            self.kmeans_restarts,
            first_clusters,
        )
        plan = TrainingPlan(self.steps, self.learning_rate, self.warmup, seed=self.seed)
        self.notes["stage I"] = tower.train(task, plan, identity, self.batch)

    def _first_clusters(self, tower: Tower, documents: TokenStore, rows: np.ndarray) -> np.ndarray:
        """The clusters of step 0, which every training from these weights shares: int64 [len(rows)]."""
        import numpy as np

        from xmcbench.methods.maclr.clusters import k_means

        if self.clusters >= len(rows):
            return np.arange(len(rows))
        identity = {
            "weights": tower.encoder.digest(),
            "tokens": documents.folder.name,
            "rows": hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest(),
            "clusters": self.clusters,
            "restarts": self.kmeans_restarts,
            "computed": tower.computed,
        }

        def build(folder: Path) -> None:
            with tower.embeddings(documents, shared=self.head != "paper") as vectors:
                np.save(folder / "clusters.npy", k_means(vectors[rows], self.clusters, self.kmeans_restarts))

        return np.load(tower.artifacts.get("clusters", identity, build) / "clusters.npy", allow_pickle=False)  # type: ignore[no-any-return]

    def _second_stage(
        self, tower: Tower, raw_X: Texts, raw_Y: Texts, own_titles: OwnTitles, held_out: np.ndarray
    ) -> None:
        from xmcbench.methods.encoder.training import TrainingPlan
        from xmcbench.methods.maclr.second_stage import SecondStage, SinglePairs, visited

        rows = visited(len(raw_X), held_out, self.pseudo_steps * self.batch, self.seed)
        read = raw_X if len(rows) == len(raw_X) else raw_X.take(rows)
        pairs = self._pseudo_pairs(tower, read, raw_Y, own_titles.of_rows(rows))
        if not pairs.nnz:
            raise MethodError(
                "no document has a pseudo label",
                "lower min_pseudo_score, or set pseudo_own_title=true",
            )
        instances, labels = (
            tower.instance_tokens(read, self.instance_length),
            tower.label_tokens(raw_Y, self.label_length),
        )
        drawn = instances, labels, pairs, self.batch, tower.temperature, self.seed
        task = SinglePairs(*drawn) if self.pseudo_loss == "single" else SecondStage(*drawn, self.pseudo_loss == "apart")
        plan = TrainingPlan(self.pseudo_steps, self.learning_rate, self.warmup, seed=self.seed)
        identity = {
            "kind": "maclr stage II",
            "pairs": pairs_digest(pairs.indptr, pairs.indices),
            "loss": self.pseudo_loss,
            "instances": read.digest,
            "labels": raw_Y.digest,
        }
        self.notes["stage II"] = tower.train(task, plan, identity, self.batch)

    def _pseudo_pairs(self, tower: Tower, raw_X: Texts, raw_Y: Texts, own_titles: OwnTitles) -> csr_matrix:
        """The pseudo labels of each text, from both sources: binary CSR [len(raw_X), L]."""
        from xmcbench.methods.maclr.pseudo_pairs import chosen, mixed, tfidf_ranking

        dropped = None if self.pseudo_own_title else own_titles
        depth = self.pseudo_top + (own_titles.most if dropped else 0)
        sources, counts = [], {}
        if self.pseudo_encoder:
            found = self._nearest_by_encoder(tower, raw_X, raw_Y, depth)
            sources.append(chosen(found, len(raw_Y), self.pseudo_top, self.min_pseudo_score, dropped))
            counts["encoder"] = sources[-1].nnz
        if self.pseudo_tfidf:
            found = tfidf_ranking(tower.artifacts, raw_X, raw_Y, depth, self.pseudo_recipe)
            sources.append(chosen(found, len(raw_Y), self.pseudo_top, own_titles=dropped))
            counts["tfidf"] = sources[-1].nnz
        pairs = mixed(sources)
        self.notes["pseudo pairs"] = {"documents": len(raw_X), **counts, "mixed": pairs.nnz}
        return pairs

    def _nearest_by_encoder(self, tower: Tower, raw_X: Texts, raw_Y: Texts, depth: int) -> TopK:
        from xmcbench.methods.dense.search import top_k
        from xmcbench.methods.maclr.pseudo_pairs import kept_ranking

        instances, labels = (
            tower.instance_tokens(raw_X, self.instance_length),
            tower.label_tokens(raw_Y, self.label_length),
        )
        identity = {
            "by": "encoder",
            "weights": tower.encoder.digest(),
            "tokens": [instances.folder.name, labels.folder.name],
            "computed": tower.computed,
            "depth": depth,
            "seed": self.seed,
        }

        def search() -> TopK:
            with tower.embeddings(instances) as queries, tower.embeddings(labels) as items:
                return top_k(queries, items, depth, device=tower.device, seed=self.seed)

        return kept_ranking(tower.artifacts, identity, search)

    @property
    def _label_scale(self) -> float:
        """What the logits of label regularization are divided by."""
        return 1.0 if self.head == "paper" else self.label_temperature
