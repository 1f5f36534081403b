"""MACLR: multi-scale adaptive clustering and label regularisation, then self-training, then the known pairs."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from xmcbench import MethodError, UsageError
from xmcbench.methods.encoder.dual_encoder import pairs_digest
from xmcbench.methods.ict import ICT
from xmcbench.methods.maclr_stages.variants import ABLATION, PRESETS

if TYPE_CHECKING:
    import numpy as np
    from scipy.sparse import csr_matrix

    from xmcbench import Texts, TopK
    from xmcbench.methods.encoder.cloze import ContextPairs
    from xmcbench.methods.encoder.tokens import TokenStore
    from xmcbench.methods.maclr_stages.own_titles import OwnTitles


class MACLR(ICT):
    """MACLR (Xiong et al., WWW 2022): two stages of pre-training without a pair, then fine-tuning on those known.

    Stage I: the context of a document is to find the titles of its cluster (equation 3), clusters growing finer until
    each document is its own, and to stay away from sampled labels (equation 4). Stage II: the encoder trains on what
    itself and TF-IDF take for the labels of each document. With pairs it is fine-tuned on them (equation 2).

    adaptive_clustering, label_regularization, pseudo_encoder, pseudo_tfidf
                      the components; all off is ICT
    steps, pseudo_steps, batch, learning_rate
                      of Stage I and Stage II; documents of a step over all processes
    least_sentences, title_taken_out
                      as for ICT: which documents have a context, and what of the title is left in it
    clusters          the paper's K0; with fewer documents each is its own cluster
    clusters_doubled_every, clusters_updated_every
                      steps, the paper's T_K and T_update; clusters end with the first half of Stage I
    cluster_length    tokens of a document, title and content, that its cluster depends on
    kmeans_restarts   how often k-means begins anew; the tightest clustering is taken
    sampled_labels    the paper's M, over all processes; with fewer labels, all
    label_temperature the temperature of label regularisation alone; the head ``paper`` has none. Under cosines the
                      loss is next to 0 at .05 and moves nothing, and at .5 it pushes contexts off their titles too:
                      chosen by the retrieval of held-out titles on LF-Debian-20K
    twins             its positives: the document's ``own`` twin as in the paper, or all of its ``cluster``,
                      as in MACLR's code
    pseudo_top        labels that each source gives a document
    pseudo_least      the encoder's labels with a lower score are none
    pseudo_own_title  whether a label that repeats the document's title counts: it does in the paper, which has no
                      filter; where documents are labels too it is the document itself
    pseudo_loss       ``several``: all labels of a document are its positives (equation 3), which draws them equally
                      near; ``apart``: likewise, but each is compared with the labels of other documents alone;
                      ``single``: each pair against all others, as in MACLR's code
    pseudo_recipe     whose TF-IDF gives pseudo labels: PECOS's as in MACLR's code, or scikit-learn's
    held_out          documents that pre-training leaves out, to say in the notes how well their contexts find their
                      titles: what settings can be chosen by without looking at a label
    """

    title = "MACLR"
    packages: ClassVar = {**ICT.packages, "faiss": "faiss-cpu", "sparse_dot_topn": "sparse-dot-topn"}
    presets: ClassVar = PRESETS
    #: The rows of the paper's ablation: which components are on.
    ablation: ClassVar = ABLATION

    adaptive_clustering: bool = True
    label_regularization: bool = True
    pseudo_encoder: bool = True
    pseudo_tfidf: bool = True
    pseudo_steps: int = 100_000
    clusters: int = 2048
    clusters_doubled_every: int = 10_000
    clusters_updated_every: int = 5_000
    cluster_length: int = 288
    kmeans_restarts: int = 5
    sampled_labels: int = 32
    label_temperature: float = 0.15
    twins: Literal["own", "cluster"] = "own"
    pseudo_top: int = 3
    pseudo_least: float | None = None
    pseudo_own_title: bool = True
    pseudo_loss: Literal["several", "apart", "single"] = "several"
    pseudo_recipe: Literal["pecos", "sklearn"] = "pecos"
    held_out: int = 0

    def describe(self) -> str:
        """The backbone and the training budget of both stages."""
        second = f", {self.pseudo_steps} on pseudo pairs" if self._second else ""
        return super().describe() + second

    @property
    def _second(self) -> bool:
        """Whether there is a Stage II."""
        return (self.pseudo_encoder or self.pseudo_tfidf) and self.pseudo_steps > 0

    def pretrain(self, raw_X: Texts, raw_Y: Texts) -> dict[str, np.ndarray]:
        """Stage I, then Stage II; returns the encoder's weights by name.

        Raises MethodError where no document has a context, or no pseudo pair is found.
        """
        self._open(raw_X, raw_Y)
        drawn = self._context_pairs(raw_X)
        used, held_out = self._split(len(drawn.rows))
        labels = self._tokens(raw_Y, self.label_length)
        own_titles = self._own_titles(raw_X, labels)
        self._measure("untrained", drawn, held_out)
        self._first_stage(raw_X, raw_Y, drawn, used, labels, own_titles)
        self._measure("stage I", drawn, held_out)
        if self._second:
            self._second_stage(raw_X, raw_Y, own_titles, drawn.rows[held_out])
            self._measure("stage II", drawn, held_out)
        return self._encoder.weights()

    def _split(self, pairs: int) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the context pairs that are trained on, and of those held out; both in order."""
        import numpy as np

        if self.held_out >= pairs:
            raise UsageError(f"MACLR.held_out = {self.held_out} leaves none of {pairs} documents to train on")
        order = np.random.default_rng([self.seed, 4]).permutation(pairs)
        return np.sort(order[self.held_out :]), np.sort(order[: self.held_out])

    def _own_titles(self, raw_X: Texts, labels: TokenStore) -> OwnTitles:
        from xmcbench.methods.encoder.tokens import TokenStore
        from xmcbench.methods.maclr_stages.own_titles import OwnTitles

        length = min(self.label_length, self._longest)
        return OwnTitles.of(TokenStore.of(self.artifacts, raw_X, self._tokenizer, length, titles=True), labels)

    def _measure(self, when: str, drawn: ContextPairs, rows: np.ndarray) -> None:
        from xmcbench.methods.maclr_stages.title_retrieval import title_retrieval

        if len(rows):
            found: dict[str, object] = dict(self.notes.get("held-out titles", {}))  # type: ignore[call-overload]
            found[when] = title_retrieval(self._encoder, drawn.contexts, drawn.titles, rows)
            self.notes["held-out titles"] = found

    def _first_stage(
        self,
        raw_X: Texts,
        raw_Y: Texts,
        drawn: ContextPairs,
        used: np.ndarray,
        labels: TokenStore,
        own_titles: OwnTitles,
    ) -> None:
        from xmcbench.methods.encoder.training import Plan
        from xmcbench.methods.maclr_stages.first_stage import FirstStage, Regularization, Sources
        from xmcbench.methods.maclr_stages.schedule import ClusterSchedule

        documents = self._tokens(raw_X, self.cluster_length)
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
            first_clusters = self._first_clusters(documents, drawn.rows[used])
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
            self._scale,
            self.seed,
            self.kmeans_restarts,
            first_clusters,
        )
        plan = Plan(self.steps, self.learning_rate, self.warmup, seed=self.seed)
        self._train("stage I", task, plan, identity, self.batch)

    def _first_clusters(self, documents: TokenStore, rows: np.ndarray) -> np.ndarray:
        """The clusters of step 0, which every training from these weights shares: int64 [len(rows)]."""
        import numpy as np

        from xmcbench.methods.encoder.trained import weights_digest
        from xmcbench.methods.maclr_stages.clusters import k_means

        if self.clusters >= len(rows):
            return np.arange(len(rows))
        identity = {
            "weights": weights_digest(self._encoder.weights()),
            "tokens": documents.folder.name,
            "rows": hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest(),
            "clusters": self.clusters,
            "restarts": self.kmeans_restarts,
            "computed": [self._device, self._encoder.precision, self._encoder.pooling],
        }

        def build(folder: Path) -> None:
            with self._embeddings(documents, shared=True) as vectors:
                np.save(folder / "clusters.npy", k_means(vectors[rows], self.clusters, self.kmeans_restarts))

        return np.load(self.artifacts.get("clusters", identity, build) / "clusters.npy", allow_pickle=False)  # type: ignore[no-any-return]

    def _pseudo_pairs(self, raw_X: Texts, raw_Y: Texts, own_titles: OwnTitles) -> csr_matrix:
        """The pseudo labels of each text, from both sources: binary CSR [len(raw_X), L]."""
        from xmcbench.methods.maclr_stages.pseudo_pairs import chosen, mixed, tfidf_ranking

        dropped = None if self.pseudo_own_title else own_titles
        depth = self.pseudo_top + (own_titles.most if dropped else 0)
        sources, counts = [], {}
        if self.pseudo_encoder:
            found = self._nearest_by_encoder(raw_X, raw_Y, depth)
            sources.append(chosen(found, len(raw_Y), self.pseudo_top, self.pseudo_least, dropped))
            counts["encoder"] = sources[-1].nnz
        if self.pseudo_tfidf:
            found = tfidf_ranking(self.artifacts, raw_X, raw_Y, depth, self.pseudo_recipe)
            sources.append(chosen(found, len(raw_Y), self.pseudo_top, own_titles=dropped))
            counts["tfidf"] = sources[-1].nnz
        pairs = mixed(sources)
        self.notes["pseudo pairs"] = {"documents": len(raw_X), **counts, "mixed": pairs.nnz}
        return pairs

    def _nearest_by_encoder(self, raw_X: Texts, raw_Y: Texts, depth: int) -> TopK:
        from xmcbench.methods.dense.search import top_k
        from xmcbench.methods.encoder.trained import weights_digest
        from xmcbench.methods.maclr_stages.pseudo_pairs import kept_ranking

        instances, labels = self._tokens(raw_X, self.instance_length), self._tokens(raw_Y, self.label_length)
        identity = {
            "by": "encoder",
            "weights": weights_digest(self._encoder.weights()),
            "tokens": [instances.folder.name, labels.folder.name],
            "computed": [self._device, self._encoder.precision, self._encoder.pooling],
            "depth": depth,
            "seed": self.seed,
        }

        def search() -> TopK:
            with self._embeddings(instances) as queries, self._embeddings(labels) as items:
                return top_k(queries, items, depth, device=self._device, seed=self.seed)

        return kept_ranking(self.artifacts, identity, search)

    def _second_stage(self, raw_X: Texts, raw_Y: Texts, own_titles: OwnTitles, held_out: np.ndarray) -> None:
        from xmcbench.methods.encoder.training import Plan
        from xmcbench.methods.maclr_stages.second_stage import SecondStage, SinglePairs, visited

        rows = visited(len(raw_X), held_out, self.pseudo_steps * self.batch, self.seed)
        read = raw_X if len(rows) == len(raw_X) else raw_X.take(rows)
        pairs = self._pseudo_pairs(read, raw_Y, own_titles.of_rows(rows))
        if not pairs.nnz:
            raise MethodError(
                "no document has a pseudo label", "a lower pseudo_least, or pseudo_own_title=true, lets more through"
            )
        instances, labels = self._tokens(read, self.instance_length), self._tokens(raw_Y, self.label_length)
        drawn = instances, labels, pairs, self.batch, self._scale, self.seed
        task = SinglePairs(*drawn) if self.pseudo_loss == "single" else SecondStage(*drawn, self.pseudo_loss == "apart")
        plan = Plan(self.pseudo_steps, self.learning_rate, self.warmup, seed=self.seed)
        identity = {"kind": "maclr stage II", "pairs": pairs_digest(pairs), "loss": self.pseudo_loss}
        texts = {"instances": read.digest, "labels": raw_Y.digest}
        self._train("stage II", task, plan, {**identity, **texts}, self.batch)

    @property
    def _label_scale(self) -> float:
        """What the logits of label regularisation are divided by."""
        return 1.0 if self.head == "paper" else self.label_temperature

    def _least(self) -> dict[str, int]:
        return super()._least() | {
            "pseudo_steps": 0,
            "clusters": 1,
            "clusters_doubled_every": 1,
            "clusters_updated_every": 1,
            "cluster_length": 3,
            "kmeans_restarts": 1,
            "sampled_labels": 1,
            "pseudo_top": 1,
            "held_out": 0,
        }

    def _check(self) -> None:
        super()._check()
        if self.label_temperature <= 0:
            raise UsageError(f"MACLR.label_temperature = {self.label_temperature} is not positive")
