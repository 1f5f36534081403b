"""What every dense method with a transformer shares: one tower for instances and labels, searched by inner product."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from xmcbench import Method, UsageError
from xmcbench.methods.dense.search import top_k

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench import Texts, TopK
    from xmcbench.methods.encoder.network import Encoder
    from xmcbench.methods.encoder.tokens import Tokenizer, TokenStore
    from xmcbench.methods.encoder.training import Plan, Task


class DualEncoder(Method):
    """An encoder whose inner product of instance and label is the score (MACLR, equation 1).

    Without pairs it ranks with the weights that it has; with pairs it is fine-tuned on them first, by the in-batch
    contrastive loss (equation 2), where another true label of an instance is no negative for it.

    backbone         a folder; a model id of the hub; ``all-MiniLM-L6-v2``; or ``scratch:LAYERSxWIDTH``, an encoder
                     without outside supervision: its tokenizer and its weights are learnt from the corpus
    warm_up_steps    masked-language modelling of a ``scratch:`` backbone
    head             ``native``: the checkpoint's own pooling, cosine; ``cls``: [CLS], cosine; ``paper``: [CLS] under a
                     dense layer of 512 with tanh, inner product
    temperature      what cosines are divided by in training; the head ``paper`` has none
    instance_length, label_length
                     tokens of a text at most; the rest is cut off
    finetune_steps, finetune_batch, finetune_rate
                     fine-tuning on the pairs: steps, pairs of a step over all processes, highest learning rate
    warmup           share of the steps over which the learning rate rises
    processes        that train together on this machine; on several machines, which torchrun brings together as
                     ``xmcbench.methods.encoder.machines`` says, on each of them
    device           ``auto`` is a GPU where there is one
    precision        of matrix products; ``auto`` is bfloat16 where the hardware is faster with it, else float32
    """

    supervision = "optional"
    packages: ClassVar = {
        "torch": "torch",
        "transformers": "transformers",
        "tokenizers": "tokenizers",
        "safetensors": "safetensors",
        "accelerate": "accelerate",
        "tqdm": "tqdm",
        "huggingface_hub": "huggingface-hub",
        "httpx": "httpx",
    }

    backbone: str = "all-MiniLM-L6-v2"
    warm_up_steps: int = 2000
    head: Literal["native", "cls", "paper"] = "native"
    temperature: float = 0.05
    instance_length: int = 288
    label_length: int = 64
    finetune_steps: int = 2000
    finetune_batch: int = 256
    finetune_rate: float = 5e-6
    warmup: float = 0.1
    processes: int = 1
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["auto", "bf16", "fp32"] = "auto"

    #: Whether a dense layer stands between the pooled vector and the loss in training; the head ``paper`` has its own.
    _projection: ClassVar[bool] = False

    def describe(self) -> str:
        """The backbone; a silent stand-in for it does not exist."""
        return self.backbone.rstrip("/").rpartition("/")[2]

    def require(self) -> None:
        """Raise Unavailable where the weights are not on this machine and the hub does not give them.

        UsageError where the backbone's name stands for nothing, or torchrun's variables make no sense.
        """
        from xmcbench.methods.encoder.backbone import require_backbone
        from xmcbench.methods.encoder.machines import Machines

        require_backbone(self.backbone)
        Machines.here()

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        """Fine-tune on the pairs, if there are any, and embed the labels.

        Raises Unavailable where the weights are not to be had, UsageError for a parameter out of its range, MethodError
        where the training diverges, XmcbenchError where there is no room for the embeddings.
        """
        self._open(raw_X, raw_Y)
        unchanged = not self.pretrained
        if self.pretrained:
            self._encoder.load_weights(self.pretrained)
        if pairs is not None and pairs.nnz and self.finetune_steps:
            self._finetune(raw_X, raw_Y, pairs)
            unchanged = False
        labels = self._tokens(raw_Y, self.label_length)
        with self._embeddings(labels, shared=unchanged) as vectors:
            self._labels = np.array(vectors)
        self.notes["cut_labels"] = labels.at_the_limit

    def predict(self, raw_X: Texts, k: int = 100) -> TopK:
        """The k labels with the largest inner product for each text."""
        instances = self._tokens(raw_X, self.instance_length)
        self.notes["cut_instances"] = instances.at_the_limit
        with self._embeddings(instances) as vectors:
            return top_k(vectors, self._labels, k, device=self._device, seed=self.seed, notes=self.notes)

    def _open(self, raw_X: Texts, raw_Y: Texts) -> None:
        """Find the backbone and put it under the head. Sets what the other methods stand on."""
        from xmcbench.methods.encoder.backbone import find_backbone
        from xmcbench.methods.encoder.hardware import chosen_device, chosen_precision
        from xmcbench.methods.encoder.network import longest_input, open_encoder, open_tokenizer

        self._check()
        self._device = chosen_device(self.device)
        precision = chosen_precision(self.precision, self._device)
        found = find_backbone(
            self.backbone,
            self.artifacts,
            raw_X,
            raw_Y,
            seed=self.seed,
            warm_up_steps=self.warm_up_steps,
            device=self._device,
            precision=precision,
        )
        self._encoder: Encoder = open_encoder(
            found.folder, self.head, self.seed, self._projection and self.head != "paper", precision
        )
        self._encoder.to(self._device)
        self._tokenizer: Tokenizer = open_tokenizer(found.folder)
        self._longest, self._sha256 = longest_input(found.folder), found.sha256
        self.notes["backbone"] = {**found.note(), "head": self.head, "pooling": self._encoder.pooling}
        self.notes["computed"] = {"device": self._device, "precision": precision}

    def _check(self) -> None:
        least = {"instance_length": 3, "label_length": 3, "finetune_steps": 0, "finetune_batch": 2, "processes": 1}
        for name, bound in (least | self._least()).items():
            if getattr(self, name) < bound:
                raise UsageError(f"{type(self).__name__}.{name} = {getattr(self, name)} is less than {bound}")
        if self.temperature <= 0:
            raise UsageError(f"{type(self).__name__}.temperature = {self.temperature} is not positive")

    def _least(self) -> dict[str, int]:
        """Further parameters and the least value that each may have."""
        return {}

    def _tokens(self, texts: Texts, length: int) -> TokenStore:
        from xmcbench.methods.encoder.tokens import TokenStore

        return TokenStore.of(self.artifacts, texts, self._tokenizer, min(length, self._longest))

    @contextmanager
    def _embeddings(self, store: TokenStore, shared: bool = False) -> Iterator[np.ndarray]:
        """The vectors of a store, float32 [n, width]; shared: by every cell that uses the backbone as it is."""
        from xmcbench.methods.encoder.encoding import shared_embeddings, temporary_embeddings

        if shared and self.head != "paper":
            identity = {"backbone": self._sha256, "tokens": store.folder.name}
            yield shared_embeddings(self.artifacts, self._encoder, store, identity)
        else:
            with temporary_embeddings(self._encoder, store, self.artifacts.root) as vectors:
                yield vectors

    @property
    def _scale(self) -> float:
        """What logits are divided by in training."""
        return 1.0 if self.head == "paper" else self.temperature

    def _finetune(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix) -> None:
        from xmcbench.methods.encoder.contrastive import KnownPairs
        from xmcbench.methods.encoder.training import Plan

        rows = np.flatnonzero(np.diff(pairs.indptr))
        known = raw_X.take(rows)
        instances, labels = self._tokens(known, self.instance_length), self._tokens(raw_Y, self.label_length)
        task = KnownPairs(instances, labels, pairs[rows], self.finetune_batch, self._scale, self.seed)
        plan = Plan(self.finetune_steps, self.finetune_rate, self.warmup, seed=self.seed)
        identity = {"kind": "known pairs", "pairs": pairs_digest(pairs), "instances": raw_X.digest}
        self._train("fine-tuning", task, plan, {**identity, "labels": raw_Y.digest}, self.finetune_batch)

    def _train(self, name: str, task: Task, plan: Plan, identity: Mapping[str, object], batch: int) -> None:
        """Train the encoder on a task, whose identity need not repeat temperature, batch and lengths."""
        from xmcbench.methods.encoder.trained import trained

        settings = {
            "batch": batch,
            "temperature": self._scale,
            "lengths": [min(each, self._longest) for each in (self.instance_length, self.label_length)],
            "tokenizer": self._tokenizer.sha256,
            "seed": self.seed,
        }
        note = trained(
            self.artifacts, self._encoder, task, plan, {**identity, **settings}, self._device, self.processes
        )
        self._encoder.to(self._device)
        self.notes[name] = {**note, "batch": batch, "learning_rate": plan.learning_rate}


def pairs_digest(pairs: csr_matrix) -> str:
    """SHA-256 (hex) of the places of a binary CSR matrix."""
    import hashlib

    digest = hashlib.sha256(str(pairs.shape).encode())
    for part in (pairs.indptr, pairs.indices):
        digest.update(part.astype("<i8").tobytes())
    return digest.hexdigest()
