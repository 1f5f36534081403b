"""The contract of a method: what every competitor, built in or plugged in, subclasses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, ClassVar, Literal

from xmcbench import parameters
from xmcbench.environment import Compute
from xmcbench.storage.artifacts import Artifacts

if TYPE_CHECKING:
    import numpy as np
    from scipy.sparse import csr_matrix

    from xmcbench.texts import Texts
    from xmcbench.topk import TopK

#: Which settings' pairs a method can take.
Supervision = Literal["unused", "optional", "required"]


class Method:
    """A method learns from raw text, and from known pairs if it is given any, and ranks labels for new instances.

    Typed class attributes are the hyperparameters (``xmcbench.parameters``): shown by ``xmcbench ls methods NAME``, set
    by ``--set name.parameter=value``, checked, and written into the record. What a class says of itself is in
    ``ClassVar`` attributes:

    title        the name in tables
    supervision  ``unused``: never looks at pairs; ``optional``: works without and with; ``required``: needs pairs
    packages     import name -> what to ``pip install``, for packages beyond numpy, scipy and pyarrow
    presets      named sets of parameter values: ``paper``, ``reference``, ``quick``, ...
    ablation     name of a row -> the parameters that it changes: what ``xmcbench ablation`` runs
    described    parameters that ``describe`` says already, so that a row's name says nothing twice
    deterministic  whether the seed changes nothing, so that one run tells all
    choices      preset -> the command, on a dataset without test labels, by which its values were chosen

    A method that can split off what does not depend on the pairs also defines

        def pretrain(self, raw_X: Texts, raw_Y: Texts) -> dict[str, np.ndarray]

    The harness calls it once for a dataset, a seed and the parameters, stores the arrays, and sets
    ``self.pretrained`` to them before every ``fit``: all ratios and settings share it.

    The harness also sets ``self.seed`` (an int: draw every random number from it), ``self.artifacts`` (what cells
    share, kept by content) and ``self.compute`` (device and processes). Whatever a reader of the result should know
    goes into ``self.notes``, as JSON values.
    """

    title: ClassVar[str] = ""
    supervision: ClassVar[Supervision] = "optional"
    packages: ClassVar[Mapping[str, str]] = {}
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {}
    ablation: ClassVar[Mapping[str, Mapping[str, object]]] = {}
    described: ClassVar[tuple[str, ...]] = ()
    deterministic: ClassVar[bool] = False
    choices: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **options: object) -> None:
        """Let ``predict`` of the class take a plain list of strings, as a script or a notebook has it."""
        super().__init_subclass__(**options)
        own = vars(cls).get("predict")
        if own is not None:

            @wraps(own)
            def predict(self: Method, raw_X: Texts | Sequence[str], *rest: object, **named: object) -> TopK:
                from xmcbench.texts import Texts

                found: TopK = own(self, Texts.of(raw_X), *rest, **named)
                return found

            cls.predict = predict  # type: ignore[method-assign]

    def __init__(self, **values: object) -> None:
        """Set hyper-parameters by name; the others keep their defaults. Raises UnknownName and UsageError."""
        for name, value in parameters.resolve(type(self), type(self).__name__, values).items():
            setattr(self, name, value)
        self._pretrained: dict[str, np.ndarray] = {}
        self._seed = 0
        self._artifacts: Artifacts | None = None
        self._compute = Compute()
        self._notes: dict[str, object] = {}

    def parameters(self) -> dict[str, object]:
        """Every hyperparameter with its value."""
        return {name: getattr(self, name) for name in parameters.declared(type(self))}

    @property
    def seed(self) -> int:
        """The seed of this run."""
        return self._seed

    @seed.setter
    def seed(self, seed: int) -> None:
        self._seed = seed

    @property
    def artifacts(self) -> Artifacts:
        """The store of what cells share; a temporary one outside the harness."""
        if self._artifacts is None:
            self._artifacts = Artifacts()
        return self._artifacts

    @artifacts.setter
    def artifacts(self, artifacts: Artifacts) -> None:
        self._artifacts = artifacts

    @property
    def compute(self) -> Compute:
        """Where to compute: device and number of processes."""
        return self._compute

    @compute.setter
    def compute(self, compute: Compute) -> None:
        self._compute = compute

    @property
    def pretrained(self) -> dict[str, np.ndarray]:
        """What ``pretrain`` returned for these texts; empty where the class does not define it."""
        return self._pretrained

    @pretrained.setter
    def pretrained(self, arrays: dict[str, np.ndarray]) -> None:
        self._pretrained = arrays

    @property
    def notes(self) -> dict[str, object]:
        """Facts about the run for the record, as JSON values (the data used, how many rows were left out, ...).

        A note that is a mapping with ``losses`` (a list of names) and ``curve`` (a list of points: a step, counted
        from 1, and for each loss its mean since the point before) is a training: the leaderboard draws its losses,
        under the name of the note.
        """
        return self._notes

    def describe(self) -> str:
        """What of the parameters belongs to the row's name: the encoder really used, the training budget."""
        return ""

    def require(self) -> None:
        """Raise Unavailable if these parameters need something that is not on this machine, weights for example.

        Asked when a run is planned, of methods with a cell to run: it looks, and imports nothing heavy.
        """

    def uses(self) -> tuple[str, ...]:
        """Other methods that a run with these parameters goes through (``xmcbench.Part``): NAME or NAME:PRESET each.

        Their source counts as this one's: where it changes, results of this method are stale too.
        """
        return ()

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> object:
        """Learn from the training instances, all labels and the known pairs.

        raw_X: N training texts. raw_Y: L label texts. pairs: None in the zero-shot setting, else a binary CSR
        matrix, float32 [N, L]. The return value is ignored.
        """
        raise TypeError(f"{type(self).__name__} has no fit")

    def predict(self, raw_X: Texts, k: int = 100) -> TopK:
        """Rank the labels for M new texts: a TopK of shape [M, k]. A plain list of strings is made Texts first."""
        raise TypeError(f"{type(self).__name__} has no predict")
