"""An opened encoder: network, tokenizer and device, its training, and their cached results."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from xmcbench import Artifacts, Compute, Texts, TopK, UsageError, load_arrays, save_arrays
from xmcbench.methods.dense.search import top_k_batches
from xmcbench.methods.distributed.machines import Machines, alone
from xmcbench.methods.distributed.processes import run_in_processes
from xmcbench.methods.encoder import checkpoints
from xmcbench.methods.encoder.backbone import Backbone, find_backbone
from xmcbench.methods.encoder.encoding import FLOAT32, embeddings
from xmcbench.methods.encoder.hardware import Place, Precision, choose_device, choose_precision
from xmcbench.methods.encoder.network import Encoder, Head
from xmcbench.methods.encoder.opening import longest_input, open_encoder, open_tokenizer
from xmcbench.methods.encoder.saved_config import read_card
from xmcbench.methods.encoder.settings import Side, check_room, read_settings
from xmcbench.methods.encoder.tokens import Tokenizer, TokenStore
from xmcbench.methods.encoder.training import Task, TrainingPlan, train


def train_shared(
    artifacts: Artifacts,
    encoder: Encoder,
    task: Task,
    plan: TrainingPlan,
    identity: Mapping[str, object],
    device: str,
    processes: int = 1,
    keep: bool = True,
) -> dict[str, object]:
    """Train the encoder, or load the weights of the same training. Returns its history as a note. identity: of the task
    (JSON values), to which encoder, plan, device, precision and number of processes are added. processes: on this
    machine; several machines train together, and each keeps the weights. keep: whether the weights become an artifact.
    A killed training resumes from its last checkpoint. Raises UsageError for an invalid environment of several
    machines, and where they have more processes than the task has rows; MethodError where a training process fails."""
    machines = Machines.here()
    task.share(machines.count * processes)
    key = {
        "task": dict(identity),
        "plan": plan.identity(),
        "weights": encoder.digest(),
        "head": encoder.head,
        "form": encoder.form,
        "precision": encoder.precision,
        "memory": [encoder.cached_tokens, encoder.recomputed_layers],
        "device": device,
        "processes": machines.count * processes,
    }

    def build(folder: Path) -> None:
        state = artifacts.unfinished("training", key, train_shared, task)
        arguments = (encoder, task, plan, state, key, device, folder)
        if machines.count * processes == 1:
            with alone():
                _train_and_save(*arguments)
        else:
            hint = "out of memory? use a smaller batch or fewer processes"
            run_in_processes(_one_process, (machines, processes, arguments), processes, "training", hint)

    with ExitStack() as kept:
        if keep:
            folder = artifacts.get("training", key, build, uses=(task,))
        else:
            build(folder := kept.enter_context(artifacts.temporary()))
        encoder.load_weights(load_arrays(folder / "weights.safetensors"))
        note: dict[str, object] = json.loads((folder / "history.json").read_text())
    return note


def _train_and_save(
    encoder: Encoder, task: Task, plan: TrainingPlan, state: Path, key: Mapping[str, object], device: str, folder: Path
) -> None:
    history = train(encoder, task, plan, state, key, device)
    encoder.cpu()
    if int(os.environ.get("LOCAL_RANK", "0")) == 0:
        save_arrays(folder / "weights.safetensors", encoder.weights())
        (folder / "history.json").write_text(json.dumps(history.note()))
        checkpoints.remove(state)


def _one_process(local: int, machines: Machines, processes: int, arguments: tuple[Any, ...]) -> None:
    """Train with the processes of this machine and the others: gloo between CPUs, NCCL between GPUs."""
    machines.join(local, processes)
    try:
        _train_and_save(*arguments)
        # Rank 0 holds the meeting point of this training; nobody goes on to the next one before it is done.
        torch.distributed.barrier()
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


@dataclass(frozen=True)
class Tower:
    """The only tower of a dual encoder. tokenizers: of instances and labels, which differ in their prompts. longest:
    tokens that the checkpoint takes. temperature: divisor of logits in training. lengths: of instances and labels, part
    of a training's identity. processes: of this machine."""

    backbone: Backbone
    encoder: Encoder
    tokenizers: tuple[Tokenizer, Tokenizer]
    longest: int
    temperature: float
    lengths: tuple[int, int]
    seed: int
    device: Place
    processes: int
    artifacts: Artifacts

    @classmethod
    def open(
        cls,
        name: str,
        corpus: tuple[Texts, Texts],
        artifacts: Artifacts,
        compute: Compute,
        *,
        head: Head,
        projection: bool,
        precision: Precision,
        mlm_steps: int,
        temperature: float,
        lengths: tuple[int, int],
        prompts: tuple[str | None, str | None],
        seed: int,
        cached_tokens: int | None = None,
        recomputed_layers: bool = False,
    ) -> Tower:
        """Find a backbone and open it with a head. corpus: instances and labels, which a ``scratch:`` backbone is
        trained on. prompts: of both, None for the checkpoint's own. Raises what ``find_backbone`` and ``open_encoder``
        raise, UsageError where the tokenizer has tokens that the network has not or a prompt fills a text, and
        Unavailable without the device or enough GPUs."""
        device = choose_device(compute.device, compute.processes)
        chosen = choose_precision(precision, device)
        backbone = find_backbone(
            name, artifacts, *corpus, seed=seed, mlm_steps=mlm_steps, device=device, precision=chosen
        )
        encoder = open_encoder(backbone.folder, head, seed, projection, chosen)
        settings = read_settings(backbone.folder)
        encoder.checkpoint_sha256 = hashlib.sha256(f"{backbone.sha256} {settings.architecture}".encode()).hexdigest()
        encoder.to(device)
        encoder.save_memory(cached_tokens, recomputed_layers)
        own = settings.choose_prompts(prompts)
        tokenizers = open_tokenizer(backbone.folder, own[0]), open_tokenizer(backbone.folder, own[1])
        table: Any = encoder.transformer.get_input_embeddings()  # type: ignore[operator]
        if (largest := tokenizers[0].largest) >= table.num_embeddings:
            raise UsageError(
                f"the tokenizer of {backbone.name} gives tokens up to {largest}, and its network has "
                f"{table.num_embeddings} of them",
                "resize_token_embeddings of transformers adds them to the network",
            )
        longest = longest_input(backbone.folder)
        sides: tuple[Side, Side] = "instance", "label"
        for side, tokenizer, length in zip(sides, tokenizers, lengths, strict=True):
            check_room(side, tokenizer.prompt_tokens, min(length, longest), f"{side}_length")
        limits = longest, temperature if encoder.cosine else 1.0, lengths
        return cls(backbone, encoder, tokenizers, *limits, seed, device, compute.processes, artifacts)

    def limit(self, length: int) -> int:
        """A number of tokens, limited to the maximum of the network."""
        return min(length, self.longest)

    def instance_tokens(self, texts: Texts, length: int) -> TokenStore:
        """Texts of instances as tokens, at most ``length`` of each."""
        return TokenStore.of(self.artifacts, texts, self.tokenizers[0], self.limit(length))

    def label_tokens(self, texts: Texts, length: int, titles: bool = False) -> TokenStore:
        """Texts of labels as tokens, at most ``length`` of each; titles: the titles of instances in a label's place."""
        return TokenStore.of(self.artifacts, texts, self.tokenizers[1], self.limit(length), titles)

    def note(self) -> dict[str, object]:
        """For the record, as JSON values: the checkpoint, how it is used, and what its card declares. Parameters: those
        that embed a text, without the checkpoint's pooler or a layer for training only."""
        prompts = dict(zip(("instances", "labels"), (tokenizer.prompt for tokenizer in self.tokenizers), strict=True))
        used = (*self.encoder.transformer.parameters(), *self.encoder.layers.parameters())
        return {
            **self.backbone.note(),
            "head": self.encoder.head,
            "pooling": self.encoder.pooling,
            "similarity": "cosine" if self.encoder.cosine else "dot",
            "parameters": sum(weights.numel() for weights in used),
            "width": self.encoder.width,
            "lengths": [self.limit(length) for length in self.lengths],
            **({"prompts": prompts} if any(prompts.values()) else {}),
            "card": read_card(self.backbone.folder),
        }

    @property
    def computed(self) -> list[str]:
        """Facts that embeddings depend on besides weights and tokens."""
        return [self.device, self.encoder.precision, *self.encoder.form]

    def embeddings(
        self, store: TokenStore, shared: bool = False, dtype: np.dtype = FLOAT32
    ) -> AbstractContextManager[np.ndarray]:
        """The vectors of a store, [n, width]; shared: kept for every cell with the backbone as it is."""
        identity = {"backbone": self.backbone.sha256, "tokens": store.folder.name} if shared else None
        return embeddings(self.artifacts, self.encoder, store, dtype, self.processes, identity)

    def embed(self, store: TokenStore, shared: bool = False, dtype: np.dtype = FLOAT32) -> np.ndarray:
        """Return a copy in memory of ``embeddings``."""
        with self.embeddings(store, shared, dtype) as vectors:
            return np.array(vectors)

    def nearest(
        self, queries: np.ndarray, items: np.ndarray, k: int, notes: dict[str, object] | None = None
    ) -> Iterator[TopK]:
        """Yield the k items with the largest inner product per query, as ``top_k_batches`` does."""
        return top_k_batches(
            queries, items, k, device=self.device, processes=self.processes, seed=self.seed, notes=notes
        )

    def train(
        self,
        task: Task,
        plan: TrainingPlan,
        identity: Mapping[str, object],
        batch: int,
        keep: bool = True,
        share: float = 1.0,
    ) -> dict[str, object]:
        """Train the encoder on a task, or load the result of the same training; returns its history as a note.
        identity: of the task, without temperature, batch and lengths. batch: as it was asked for; the note has the one
        that the task has. keep: whether other cells start from the weights.
        share: of the trained weights in the result; the rest are the weights before (WiSE-FT, Wortsman et al. 2022)."""
        before = self.weights() if share < 1 else {}
        settings = {
            "batch": batch,
            "temperature": self.temperature,
            "lengths": [self.limit(length) for length in self.lengths],
            "tokenizers": [tokenizer.sha256 for tokenizer in self.tokenizers],
            "seed": self.seed,
        }
        note = train_shared(
            self.artifacts, self.encoder, task, plan, {**identity, **settings}, self.device, self.processes, keep
        )
        self.encoder.to(self.device)
        if share < 1:
            self.blend(before, share)
        return {**note, "batch": task.batch, "learning_rate": plan.learning_rate}

    def weights(self) -> dict[str, torch.Tensor]:
        """All weights as they are now, a copy."""
        return {name: tensor.detach().clone() for name, tensor in self.encoder.state_dict().items()}

    def set_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Take over what ``weights`` returned."""
        self.encoder.load_state_dict(dict(weights))

    def blend(self, before: Mapping[str, torch.Tensor], share: float) -> None:
        """Take ``share`` of the weights as they are and the rest from ``before``."""
        now = self.encoder.state_dict()
        self.encoder.load_state_dict({name: torch.lerp(tensor, now[name], share) for name, tensor in before.items()})
