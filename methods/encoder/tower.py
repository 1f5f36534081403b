"""An opened encoder: network, tokenizer and device, and their cached results."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from xmcbench.methods.dense.distributed import distributed_top_k
from xmcbench.methods.encoder.backbone import Backbone, find_backbone
from xmcbench.methods.encoder.encoding import FLOAT32, shared_embeddings, temporary_embeddings
from xmcbench.methods.encoder.hardware import Place, Precision, chosen_device, chosen_precision
from xmcbench.methods.encoder.heads import Head
from xmcbench.methods.encoder.model_card import read_card
from xmcbench.methods.encoder.network import Encoder
from xmcbench.methods.encoder.opening import longest_input, open_encoder, open_tokenizer
from xmcbench.methods.encoder.settings import read_settings
from xmcbench.methods.encoder.tokens import Tokenizer, TokenStore
from xmcbench.methods.encoder.trained import trained
from xmcbench.methods.encoder.training import Task, TrainingPlan

if TYPE_CHECKING:
    from xmcbench import Artifacts, Compute, Texts, TopK


@dataclass(frozen=True)
class Tower:
    """The one tower of a dual encoder.

    tokenizers: of instances and of labels, which differ where the checkpoint has a prompt. longest: tokens that the
    checkpoint takes. temperature: what logits are divided by in training. lengths: of instances and labels, which the
    identity of a training holds. device: ``cpu``, ``cuda`` or ``mps``. processes: of this machine, that
    train, embed and search.
    """

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
        """Find a backbone and open it with a head.

        name: of the backbone. corpus: texts of instances and labels, which a ``scratch:`` backbone is trained on.
        prompts: of instances and of labels, None for the checkpoint's own. temperature: of a head with cosine. Raises
        what ``find_backbone`` and ``open_encoder`` raise, and Unavailable for a device that is not there, or fewer GPUs
        than processes.
        """
        device = chosen_device(compute.device, compute.processes)
        chosen = chosen_precision(precision, device)
        backbone = find_backbone(
            name, artifacts, *corpus, seed=seed, mlm_steps=mlm_steps, device=device, precision=chosen
        )
        encoder = open_encoder(backbone.folder, head, seed, projection, chosen)
        settings = read_settings(backbone.folder)
        encoder.checkpoint_sha256 = hashlib.sha256(f"{backbone.sha256} {settings.architecture}".encode()).hexdigest()
        encoder.to(device)
        encoder.save_memory(cached_tokens, recomputed_layers)
        own = settings.chosen_prompts(prompts)
        return cls(
            backbone,
            encoder,
            (open_tokenizer(backbone.folder, own[0]), open_tokenizer(backbone.folder, own[1])),
            longest_input(backbone.folder),
            temperature if encoder.cosine else 1.0,
            lengths,
            seed,
            device,
            compute.processes,
            artifacts,
        )

    def fitting(self, length: int) -> int:
        """A number of tokens, limited to the maximum of the network."""
        return min(length, self.longest)

    def instance_tokens(self, texts: Texts, length: int) -> TokenStore:
        """Texts of instances as tokens, at most ``length`` of each."""
        return TokenStore.of(self.artifacts, texts, self.tokenizers[0], self.fitting(length))

    def label_tokens(self, texts: Texts, length: int, titles: bool = False) -> TokenStore:
        """Texts of labels as tokens, at most ``length`` of each; titles: the titles of instances in a label's place."""
        return TokenStore.of(self.artifacts, texts, self.tokenizers[1], self.fitting(length), titles)

    def note(self) -> dict[str, object]:
        """For the record, as JSON values: the checkpoint, how it is used, and what its card declares.

        Parameters: those that embed a text, without the checkpoint's pooler or a layer for training only.
        """
        prompts = dict(zip(("instances", "labels"), (each.prompt for each in self.tokenizers), strict=True))
        used = (*self.encoder.transformer.parameters(), *self.encoder.layers.parameters())
        return {
            **self.backbone.note(),
            "head": self.encoder.head,
            "pooling": self.encoder.pooling,
            "similarity": "cosine" if self.encoder.cosine else "dot",
            "parameters": sum(each.numel() for each in used),
            "width": self.encoder.width,
            "lengths": [self.fitting(length) for length in self.lengths],
            **({"prompts": prompts} if any(prompts.values()) else {}),
            "card": read_card(self.backbone.folder),
        }

    @property
    def computed(self) -> list[str]:
        """What embeddings depend on besides weights and tokens."""
        return [self.device, self.encoder.precision, *self.encoder.form]

    @contextmanager
    def embeddings(self, store: TokenStore, shared: bool = False, dtype: np.dtype = FLOAT32) -> Iterator[np.ndarray]:
        """The vectors of a store, [n, width]; shared: kept for every cell with the backbone as it is."""
        if shared:
            identity = {"backbone": self.backbone.sha256, "tokens": store.folder.name}
            yield shared_embeddings(self.artifacts, self.encoder, store, identity, dtype, self.processes)
        else:
            with temporary_embeddings(self.encoder, store, self.artifacts, dtype, self.processes) as vectors:
                yield vectors

    def nearest(
        self, queries: np.ndarray, items: np.ndarray, k: int, notes: dict[str, object] | None = None
    ) -> Iterator[TopK]:
        """The k items with the largest inner product for each query, batch by batch, found where the tower computes.

        See ``top_k``.
        """
        return distributed_top_k(
            queries,
            items,
            k,
            artifacts=self.artifacts,
            device=self.device,
            processes=self.processes,
            seed=self.seed,
            notes=notes,
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

        identity: what the task is, without temperature, batch and lengths. keep: whether other cells start from the
        weights. share: of the trained weights in those that the encoder has afterwards; the rest are the ones that it
        had before (WiSE-FT, Wortsman et al. 2022).
        """
        before = self.weights() if share < 1 else {}
        settings = {
            "batch": batch,
            "temperature": self.temperature,
            "lengths": [self.fitting(length) for length in self.lengths],
            "tokenizers": [each.sha256 for each in self.tokenizers],
            "seed": self.seed,
        }
        note = trained(
            self.artifacts, self.encoder, task, plan, {**identity, **settings}, self.device, self.processes, keep
        )
        self.encoder.to(self.device)
        if share < 1:
            self.blend(before, share)
        return {**note, "batch": batch, "learning_rate": plan.learning_rate}

    def weights(self) -> dict[str, torch.Tensor]:
        """All weights as they are now, a copy."""
        return {name: each.detach().clone() for name, each in self.encoder.state_dict().items()}

    def set_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Take over what ``weights`` returned."""
        self.encoder.load_state_dict(dict(weights))

    def blend(self, before: Mapping[str, torch.Tensor], share: float) -> None:
        """Take ``share`` of the weights as they are and the rest from ``before``."""
        now = self.encoder.state_dict()
        self.encoder.load_state_dict({name: torch.lerp(each, now[name], share) for name, each in before.items()})
