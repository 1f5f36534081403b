"""An opened encoder: network, tokenizer and device, and their cached results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from xmcbench.methods.encoder.backbone import Backbone, find_backbone
from xmcbench.methods.encoder.encoding import shared_embeddings, temporary_embeddings
from xmcbench.methods.encoder.hardware import Precision, chosen_device, chosen_precision
from xmcbench.methods.encoder.network import Encoder, Head, longest_input, open_encoder, open_tokenizer
from xmcbench.methods.encoder.tokens import Tokenizer, TokenStore
from xmcbench.methods.encoder.trained import trained
from xmcbench.methods.encoder.training import Task, TrainingPlan

if TYPE_CHECKING:
    from xmcbench import Artifacts, Compute, Texts


@dataclass(frozen=True)
class Tower:
    """The one tower of a dual encoder.

    longest: maximum number of tokens of the network. temperature: divides logits in training. lengths: of instances
    and labels, part of the identity of a training. device: ``cpu`` or ``cuda``.
    """

    backbone: Backbone
    encoder: Encoder
    tokenizer: Tokenizer
    longest: int
    temperature: float
    lengths: tuple[int, int]
    seed: int
    device: Literal["cpu", "cuda"]
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
        seed: int,
        cached_tokens: int | None = None,
        recomputed_layers: bool = False,
    ) -> Tower:
        """Find a backbone and open it with a head.

        name: of the backbone. corpus: texts of instances and labels, which a ``scratch:`` backbone is trained on.
        Raises what ``find_backbone`` and ``open_encoder`` raise, and Unavailable for a device that is not there.
        """
        device = chosen_device(compute.device)
        chosen = chosen_precision(precision, device)
        backbone = find_backbone(
            name, artifacts, *corpus, seed=seed, mlm_steps=mlm_steps, device=device, precision=chosen
        )
        encoder = open_encoder(backbone.folder, head, seed, projection, chosen)
        encoder.to(device)
        encoder.save_memory(cached_tokens, recomputed_layers)
        return cls(
            backbone,
            encoder,
            open_tokenizer(backbone.folder),
            longest_input(backbone.folder),
            temperature,
            lengths,
            seed,
            device,
            compute.processes,
            artifacts,
        )

    def fitting(self, length: int) -> int:
        """A number of tokens, limited to the maximum of the network."""
        return min(length, self.longest)

    def tokens(self, texts: Texts, length: int, titles: bool = False) -> TokenStore:
        """Texts, or their titles alone, as tokens, at most ``length`` of each."""
        return TokenStore.of(self.artifacts, texts, self.tokenizer, self.fitting(length), titles)

    @property
    def computed(self) -> list[str]:
        """Everything that embeddings depend on besides weights and tokens."""
        return [self.device, self.encoder.precision, self.encoder.pooling]

    @contextmanager
    def embeddings(self, store: TokenStore, shared: bool = False) -> Iterator[np.ndarray]:
        """The vectors of a store, float32 [n, width]; shared: kept for every cell with the backbone as it is."""
        if shared:
            identity = {"backbone": self.backbone.sha256, "tokens": store.folder.name}
            yield shared_embeddings(self.artifacts, self.encoder, store, identity)
        else:
            with temporary_embeddings(self.encoder, store, self.artifacts) as vectors:
                yield vectors

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
            "tokenizer": self.tokenizer.sha256,
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
