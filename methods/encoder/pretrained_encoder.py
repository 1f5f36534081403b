"""The base class of encoders that train on the corpus before they see pairs."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge, Gt, Unit

from xmcbench import Doc
from xmcbench.methods.encoder.dual_encoder import DualEncoder

if TYPE_CHECKING:
    import numpy as np

    from xmcbench import Texts
    from xmcbench.methods.encoder.tower import Tower


class PretrainedEncoder(DualEncoder):
    """A dual encoder with a pre-training on texts only, which all ratios and settings share."""

    described: ClassVar[tuple[str, ...]] = ("backbone", "steps", "batch")
    #: The parameters that decide how long the training without pairs takes.
    _budget: ClassVar[tuple[str, ...]] = ("steps",)

    steps: Annotated[
        int, Ge(0), Unit("steps"), Doc("number of steps of the training without pairs", "MACLR, section 5.1")
    ] = 100_000
    batch: Annotated[
        int, Ge(2), Unit("documents"), Doc("documents per step, over all processes", "MACLR, section 5.1: 8 x 32")
    ] = 256
    learning_rate: Annotated[float, Gt(0), Doc("highest learning rate", "MACLR, section 5.1")] = 1e-5

    def describe(self) -> str:
        """The backbone and the training budget, in steps and in texts embedded: what rows of one budget share."""
        return f"{super().describe()}, {self._steps_in_words()}, {_in_thousands(self._passes())} texts"

    def _steps_in_words(self) -> str:
        return f"{self.steps} steps of {self.batch}"

    def _passes(self) -> int:
        """Texts that the training without pairs embeds, with their gradients: two a row of a batch."""
        return 2 * self.steps * self.batch

    def pretrain(self, raw_X: Texts, raw_Y: Texts) -> dict[str, np.ndarray]:
        """Train on the texts; returns the changed weights by name."""
        tower = self._open(raw_X, raw_Y)
        self._train(tower, raw_X, raw_Y)
        self.notes["budget"] = {"texts": self._passes(), "parameters": list(self._budget)}
        return tower.encoder.weights()

    @abstractmethod
    def _train(self, tower: Tower, raw_X: Texts, raw_Y: Texts) -> None:
        """Train the tower in place, and note its history."""


def _in_thousands(count: int) -> str:
    return str(count) if count < 1000 else f"{count / 1000:.3g}K" if count < 1_000_000 else f"{count / 1e6:.3g}M"
