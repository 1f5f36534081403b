"""The base class of dense methods: one tower for instances and labels, searched by inner product."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt, Interval, Unit

from xmcbench import Doc, Method, MethodError, Texts, TopK, UsageError, load_arrays, pairs_digest, save_arrays
from xmcbench.methods.declarations import AboveZero, PrecisionName, Share, Steps, Stored, Tokens
from xmcbench.methods.encoder import HUB_TOKENS, PACKAGES
from xmcbench.methods.label_text import LABEL_TEXT, LabelPart, read_labels

if TYPE_CHECKING:
    from pathlib import Path

    from scipy.sparse import csr_matrix

    from xmcbench.methods.encoder.contrastive import ContrastiveTask
    from xmcbench.methods.encoder.tokens import TokenStore
    from xmcbench.methods.encoder.tower import Tower
    from xmcbench.methods.encoder.training import TrainingPlan

#: The file of the labels' vectors, beside a kept encoder.
_VECTORS = "labels.safetensors"


class BackboneMethod(Method):
    """A method with an encoder, and the parameters by which it is opened and trained."""

    described: ClassVar[tuple[str, ...]] = ("backbone",)
    needs: ClassVar = {"gpu": 1}
    packages: ClassVar = PACKAGES
    environment: ClassVar = HUB_TOKENS
    needs_cosine: ClassVar[bool] = False

    backbone: Annotated[
        str, Doc("a folder; an id of the hub; all-MiniLM-L6-v2; or scratch:LAYERSxWIDTH, learned from the corpus alone")
    ] = "all-MiniLM-L6-v2"
    mlm_steps: Annotated[Steps, Doc("steps of masked-language modeling of a scratch: backbone")] = 2000
    head: Annotated[
        Literal["native", "cls", "paper"],
        Doc(
            "native: the checkpoint's own pooling, dense layers and similarity; cls: [CLS], cosine; paper: [CLS] "
            "under a dense layer of 512 with tanh (the checkpoint's, if any), inner product",
            "MACLR, section 5.1",
        ),
    ] = "native"
    instance_length: Annotated[
        Tokens, Doc("maximum length of an instance, or the checkpoint's limit, if lower", "MACLR, section 5.1")
    ] = 288
    instance_prompt: Annotated[
        str | None, Doc("text put before every instance; none: the checkpoint's own, if any")
    ] = None
    recomputed_layers: Annotated[
        bool, Doc("compute the activations of a layer twice to save memory (activation checkpointing)")
    ] = False
    precision: Annotated[
        PrecisionName,
        Doc(
            "precision of matrix products; auto: bfloat16 where the hardware has it, float16 with loss scaling on a "
            "GPU that only has that (V100, T4), else float32. A scratch: backbone is trained once for a runs folder, "
            "in the precision of the first cell that needs it, and in float32 instead of float16"
        ),
    ] = "auto"
    warmup: Annotated[Share, Doc("share of the steps over which the learning rate rises", "MACLR, section 5.1")] = 0.1
    clip: Annotated[
        float | None,
        Gt(0),
        Doc("maximum Euclidean norm of the gradient; none: no limit. MACLR's code has 8, in our terms"),
    ] = 1.0

    def describe(self) -> str:
        return self.backbone.rstrip("/").rpartition("/")[2]

    def inputs(self) -> Mapping[str, Path | str]:
        """Return the backbone: a folder, or a model of the hub with its commit."""
        from xmcbench.methods.encoder.backbone import model_input

        return model_input("backbone", self.backbone)

    def require(self) -> None:
        """Raise Unavailable if the weights are neither on this machine nor on the hub. Raises UsageError for an unknown
        backbone, and for invalid variables of torchrun."""
        from xmcbench.methods.distributed.machines import Machines
        from xmcbench.methods.encoder.backbone import require_backbone

        super().require()
        require_backbone(self.backbone, self._prompts)
        Machines.here()

    @property
    def _prompts(self) -> tuple[str | None, str | None]:
        """Prompts of instances and labels, None for the checkpoint's own; labels are not read here."""
        return self.instance_prompt, ""

    def _open(self, raw_X: Texts, raw_Y: Texts, **options: Any) -> Tower:
        """Open the backbone with its head, untrained. options: of ``Tower.open``. Raises UsageError without a cosine
        that the method needs."""
        from xmcbench.methods.encoder.tower import Tower

        lengths = self.instance_length, self.instance_length
        options = {"projection": False, "temperature": 1.0, "lengths": lengths, **options}
        tower = Tower.open(
            self.backbone,
            (raw_X, raw_Y),
            self.artifacts,
            self.compute,
            head=self.head,
            precision=self.precision,
            mlm_steps=self.mlm_steps,
            prompts=self._prompts,
            seed=self.seed,
            recomputed_layers=self.recomputed_layers,
            **options,
        )
        if self.needs_cosine and not tower.encoder.cosine:
            raise UsageError(
                f"{self.title.lower()} compares by cosine, and {tower.backbone.name} with head={self.head} by inner "
                "product",
                "head=cls compares by cosine",
            )
        self.notes["backbone"] = tower.note()
        self.notes["computed"] = {"device": tower.device, "precision": tower.encoder.precision}
        return tower

    def _plan(self, steps: int, rate: float) -> TrainingPlan:
        """A training of this method."""
        from xmcbench.methods.encoder.training import TrainingPlan

        return TrainingPlan(steps, rate, self.warmup, clip=self.clip, seed=self.seed)


class LabelSearch(BackboneMethod):
    """A method whose predictions are the labels with the largest inner product of their vectors and a text's."""

    temperature: Annotated[
        AboveZero, Doc("divisor of cosines in training; inner products are not divided", "SimCSE, section 3")
    ] = 0.05
    label_length: Annotated[
        Tokens, Doc("maximum length of a label, or the checkpoint's limit, if lower", "MACLR, section 5.1")
    ] = 64
    label_prompt: Annotated[str | None, Doc("text put before every label; none: the checkpoint's own, if any")] = None
    stored_as: Annotated[Stored, Doc("type of the searched embeddings, on disk and in memory")] = "float32"

    _tower: Tower
    _labels: np.ndarray

    def predict_batches(self, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        """The k labels with the largest inner product per text."""
        tower = self._tower
        instances = tower.instance_tokens(raw_X, self.instance_length)
        self.notes["cut_instances"] = instances.at_the_limit
        with tower.embeddings(instances, dtype=self._dtype) as vectors:
            yield from tower.nearest(vectors, self._labels, k, self.notes)

    def save(self, folder: Path) -> None:
        """Write the encoder as a folder that sentence-transformers loads, and ``labels.safetensors``: ``vectors``."""
        from xmcbench.methods.encoder.opening import save_tower

        save_tower(self._tower, folder)
        save_arrays(folder / _VECTORS, {"vectors": self._labels})

    def load(self, folder: Path) -> None:
        """Open the encoder that ``save`` wrote, which is the backbone from then on, and read the labels' vectors."""
        self.backbone, self.head = str(folder.resolve()), "native"
        self._tower = self._open(Texts.of([]), Texts.of([]))
        self._labels = load_arrays(folder / _VECTORS)["vectors"]

    @property
    def _prompts(self) -> tuple[str | None, str | None]:
        return self.instance_prompt, self.label_prompt

    @property
    def _dtype(self) -> np.dtype:
        return np.dtype(self.stored_as)

    def _open(self, raw_X: Texts, raw_Y: Texts, **options: Any) -> Tower:
        lengths = self.instance_length, self.label_length
        return super()._open(raw_X, raw_Y, lengths=lengths, temperature=self.temperature, **options)


class DualEncoder(LabelSearch):
    """An encoder whose inner product of instance and label is the score (MACLR, equation 1). Without pairs it ranks
    with the weights that it has; with pairs it is fine-tuned on them first (equation 2)."""

    label_text: Annotated[LabelPart, LABEL_TEXT] = "title"
    finetune_steps: Annotated[
        Steps,
        Doc("steps of fine-tuning on the known pairs; see finetune_growth", "MACLR, section 5.1, at 1% of labels"),
    ] = 2000
    finetune_growth: Annotated[
        Literal["fixed", "labels"],
        Doc(
            "fixed: finetune_steps however much is known; labels: finetune_steps for every 1% of all labels that have "
            "a known pair, as the paper's 2,000 at 1% and 10,000 at 5%",
            "MACLR, section 5.1",
        ),
    ] = "fixed"
    finetune_epochs: Annotated[
        float | None,
        Gt(0),
        Doc(
            "maximum passes over the known pairs, where that is less than finetune_steps; a document of a batch counts "
            "as a pair"
        ),
    ] = None
    finetune_batch: Annotated[
        int, Ge(2), Unit("pairs"), Doc("pairs per step, over all processes", "MACLR, section 5.1: 8 x 32 in its stages")
    ] = 256
    finetune_rate: Annotated[AboveZero, Doc("highest learning rate of fine-tuning", "MACLR, section 5.1")] = 5e-6
    finetune_full_rate: Annotated[
        int, Ge(0), Unit("pairs"), Doc("with fewer known pairs, the rate falls with the root of their number; 0: never")
    ] = 0
    finetune_share: Annotated[
        float | None,
        Interval(ge=0, le=1),
        Doc(
            "share of the fine-tuned weights when averaged with the initial ones; none: chosen on held-out labels of "
            "the known pairs, after a fine-tuning on the others, which is slow where many labels are known",
            "WiSE-FT, Wortsman et al. 2022",
        ),
    ] = 1.0
    finetune_balanced: Annotated[bool, Doc("draw each label once before any is drawn again; otherwise each pair")] = (
        False
    )
    negatives: Annotated[
        Literal["all", "untrue"],
        Doc(
            "which other labels of a batch are negatives of an instance: all, as in the paper and in MACLR's code, or "
            "all but those known not to be: its other true labels; in MACLR's stages its other pseudo labels, and "
            "labels that repeat its title"
        ),
    ] = "untrue"
    clip: Annotated[
        float | None,
        Gt(0),
        Doc(
            "maximum Euclidean norm of the gradient; none: no limit. The paper names none; MACLR's code has 1, after "
            "the gradient was divided among 8 processes, which is 8 here"
        ),
    ] = 1.0
    cached_tokens: Annotated[
        int | None,
        Ge(1),
        Unit("tokens"),
        Doc("tokens embedded at a time, activations twice (GradCache); none: all at once"),
    ] = None

    #: Whether training puts a dense layer between the pooled vector and the loss; the head ``paper`` has its own.
    _projection: ClassVar[bool] = False

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        """Fine-tune on the pairs, if there are any, and embed the labels. Raises Unavailable if the weights are not
        available, MethodError if the training diverges, XmcbenchError if there is no space for the embeddings."""
        raw_Y = read_labels(raw_Y, self.label_text)
        tower, unchanged = self._open_initial(raw_X, raw_Y)
        if pairs is not None and pairs.nnz and self.finetune_steps:
            self._finetune(tower, raw_X, raw_Y, pairs)
            unchanged = False
        labels = tower.label_tokens(raw_Y, self.label_length)
        self._labels = tower.embed(labels, unchanged and self.head != "paper", self._dtype)
        self.notes["cut_labels"] = labels.at_the_limit
        self._tower = tower

    def _open(self, raw_X: Texts, raw_Y: Texts, **options: Any) -> Tower:
        own = {"projection": self._projection and self.head != "paper", "cached_tokens": self.cached_tokens}
        return super()._open(raw_X, raw_Y, **own, **options)

    def _refuse_batch_options(self, reason: str) -> None:
        """Raise UsageError for parameters about batches of pairs where the method draws other batches."""
        if self.finetune_balanced or self.negatives != "untrue":
            name = "finetune_balanced" if self.finetune_balanced else "negatives"
            raise UsageError(f"{self.title.lower()}.{name} has no effect: {self.title} {reason}", "leave it out")

    def _open_initial(self, raw_X: Texts, raw_Y: Texts) -> tuple[Tower, bool]:
        """The tower with the initial weights of fine-tuning, and whether they are those of the backbone. Raises
        MethodError where a pre-training started from another checkpoint."""
        tower = self._open(raw_X, raw_Y)
        if self.pretrained:
            self._check_pretrained(tower)
            tower.encoder.load_weights(self.pretrained)
        return tower, not self.pretrained

    def _check_pretrained(self, tower: Tower) -> None:
        """Raise MethodError where the pre-training started from another checkpoint. Its weights lack the words that
        training has not changed, so they would be those of two checkpoints."""
        from xmcbench.methods.encoder.network import CHECKPOINT

        before, now = bytes(self.pretrained.get(CHECKPOINT, b"")).hex(), str(tower.encoder.checkpoint_sha256)
        if before != now:
            raise MethodError(
                f"the pre-training started from another checkpoint than {tower.backbone.name} is now: its SHA-256 was "
                f"{before[:12] or 'not noted'}, and is {now[:12]}",
                "xmcbench clean --kind pretraining --remove removes the pre-trainings of a runs folder; they are then "
                "made again",
            )

    def _finetune(self, tower: Tower, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix) -> None:
        share = self.finetune_share
        if share is None:
            share = self._share_by_held_out_labels(tower, raw_X, raw_Y, pairs)
        self._train_on_pairs(tower, raw_X, raw_Y, pairs, share)

    def _share_by_held_out_labels(self, tower: Tower, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix) -> float:
        """The share of the fine-tuned weights that ranks held-out labels of the known pairs best. Fine-tunes on the
        other known labels first, and leaves the tower as it was."""
        from xmcbench.methods.encoder.fine_tuning import SHARES, TOO_FEW_LABELS, hold_out_labels, label_retrieval

        training, held_out, candidates = hold_out_labels(pairs, self.seed)
        if not held_out.nnz:
            self.notes["held-out labels"] = "too few labels are known to hold some out"
            return TOO_FEW_LABELS
        rows = np.flatnonzero(np.diff(held_out.indptr))
        instances = tower.instance_tokens(raw_X.take(rows), self.instance_length)
        labels = tower.label_tokens(raw_Y, self.label_length)
        before = tower.weights()
        self._train_on_pairs(tower, raw_X, raw_Y, training)
        after, found = tower.weights(), {}
        for share in SHARES:
            tower.set_weights(after)
            tower.blend(before, share)
            found[share] = label_retrieval(tower.encoder, instances, labels, held_out[rows], training[rows], candidates)
        tower.set_weights(before)
        by_share = {str(share): value for share, value in found.items()}
        self.notes["held-out labels"] = {"pairs": int(held_out.nnz), "MRR by share": by_share}
        return max(SHARES, key=lambda share: (found[share], -share))

    def _train_on_pairs(self, tower: Tower, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix, share: float = 1.0) -> None:
        from xmcbench.methods.encoder.fine_tuning import effort

        rows = np.flatnonzero(np.diff(pairs.indptr))
        instances = tower.instance_tokens(raw_X.take(rows), self.instance_length)
        labels = tower.label_tokens(raw_Y, self.label_length)
        task, own = self._pairs_task(instances, labels, pairs[rows], tower.temperature)
        steps, rate = effort(
            pairs,
            steps=self.finetune_steps,
            batch=task.batch,
            rate=self.finetune_rate,
            growth=self.finetune_growth,
            epochs=self.finetune_epochs,
            full_rate_pairs=self.finetune_full_rate,
        )
        digest = pairs_digest(pairs.indptr, pairs.indices)
        identity = {**own, "pairs": digest, "instances": raw_X.digest, "labels": raw_Y.digest}
        task, identity = self._beside(tower, raw_X, task, identity)
        plan = self._plan(steps, rate)
        # No other cell starts from these weights: they are not kept.
        note = tower.train(task, plan, identity, self.finetune_batch, keep=False, share=share)
        self.notes["fine-tuning"] = {**note, "share": share}

    def _pairs_task(
        self, instances: TokenStore, labels: TokenStore, pairs: csr_matrix, temperature: float
    ) -> tuple[ContrastiveTask, dict[str, object]]:
        """Return the task of a fine-tuning on known pairs, and its identity."""
        from xmcbench.methods.encoder.contrastive import KnownPairs

        own = self.negatives, self.finetune_balanced
        task = KnownPairs(instances, labels, pairs, self.finetune_batch, temperature, self.seed, *own)
        return task, {"kind": "known pairs", "negatives": self.negatives, "balanced": self.finetune_balanced}

    def _beside(
        self, tower: Tower, raw_X: Texts, task: ContrastiveTask, identity: dict[str, object]
    ) -> tuple[ContrastiveTask, dict[str, object]]:
        """The task of a fine-tuning with what is trained beside it, and its identity."""
        return task, identity
