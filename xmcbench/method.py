"""The contract of a method: the base class of every method, built in or plugged in."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from xmcbench import parameters
from xmcbench.environment import Compute
from xmcbench.errors import PluginError, UsageError
from xmcbench.storage.artifacts import Artifacts
from xmcbench.storage.fingerprint import fingerprint, fingerprint_folder

if TYPE_CHECKING:
    import numpy as np
    from scipy.sparse import csr_matrix

    from xmcbench.texts import Texts
    from xmcbench.topk import TopK

#: Attributes that belong to a run and not to what was trained.
_OF_RUN = frozenset({"_artifacts", "compute", "_notes"})
#: Whether a method uses pairs.
Supervision = Literal["unused", "optional", "required"]


class Method:
    """Learns from raw text, and from known pairs if there are any, and ranks labels for new instances.

    Typed class attributes are the hyperparameters (``xmcbench.parameters``): shown by ``xmcbench ls methods NAME``, set
    by ``--set name.parameter=value``, checked, and written into the record. Its description is in
    ``ClassVar`` attributes:

    title        the name in tables
    supervision  ``unused``: never looks at pairs; ``optional``: works without and with; ``required``: needs pairs
    packages     import name -> what to ``pip install``, for packages beyond numpy, scipy and pyarrow
    presets      named sets of parameter values: ``paper``, ``reference``, ``quick``, ...
    ablation     name of a row -> the parameters that it changes: what ``xmcbench ablation`` runs
    described    parameters that ``describe`` includes, so that a row's name does not repeat them
    deterministic  whether results do not depend on the seed, so that only the first of several is run
    needs        what a cell needs at least: ``cores``, and ``gpu``: 1 if it computes on a GPU where there is one; the
                 default is one core
    files        data files and programs that the class reads, relative to its module: their content counts as source
    environment  names of variables that it reads and that end in TOKEN, KEY, SECRET or PASSWORD: its processes, and
                 those of methods that it is a part of, get no other secrets
    choices      preset -> where its values come from: a source, or the commands, one a line, by which they were chosen
                 on a ``-dev`` dataset

    A method with a part that does not depend on the pairs can also define

        def pretrain(self, raw_X: Texts, raw_Y: Texts) -> dict[str, np.ndarray]

    The harness calls it once for a dataset, a seed and the parameters, on an object of its own, stores the arrays, and
    sets ``self.pretrained`` to them before every ``fit``: all ratios and settings share them.

    A method defines ``predict``, or ``predict_batches`` if it can rank the labels for some of the texts at a time; the
    other one follows. The harness writes batches as they come, so that a million instances need not fit in memory.

    ``save`` and ``load`` keep a trained method. Those of this class know attributes that are arrays, sparse matrices,
    JSON values and objects of these; a method with others defines its own.

    The harness also sets ``self.seed`` (an int: draw every random number from it), ``self.artifacts`` (a store that
    cells share) and ``self.compute`` (device and processes). Put facts for a reader of the result into ``self.notes``,
    as JSON values.
    """

    title: ClassVar[str] = ""
    supervision: ClassVar[Supervision] = "optional"
    packages: ClassVar[Mapping[str, str]] = {}
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {}
    ablation: ClassVar[Mapping[str, Mapping[str, object]]] = {}
    described: ClassVar[tuple[str, ...]] = ()
    deterministic: ClassVar[bool] = False
    needs: ClassVar[Mapping[str, int]] = {}
    files: ClassVar[tuple[str, ...]] = ()
    environment: ClassVar[tuple[str, ...]] = ()
    choices: ClassVar[Mapping[str, str]] = {}
    # Set by the harness; without a type, they are no hyperparameters.
    seed = 0
    compute = Compute()

    def __init_subclass__(cls, **options: object) -> None:
        """Derive ``predict`` of the class from ``predict_batches``, or the other way round.

        ``predict`` accepts a plain list of strings, as in a script or a notebook, and ``fit`` no pairs of other shapes.
        """
        super().__init_subclass__(**options)
        # The class itself, or a mixin that is no method: that of another method is checked already.
        trained = next(base for base in cls.__mro__ if "fit" in vars(base))
        if trained is cls or not issubclass(trained, Method):
            cls.fit = _check_pairs(vars(trained)["fit"])  # type: ignore[method-assign]
        # Where a class overrides one of the two, it must not inherit the other.
        owner = next(base for base in cls.__mro__ if "predict" in vars(base) or "predict_batches" in vars(base))
        if owner is not cls and issubclass(owner, Method):
            return
        # The class itself, or a mixin that is no method.
        whole, batches = vars(owner).get("predict"), vars(owner).get("predict_batches")
        if whole is not None:
            cls.predict = _accept_lists(whole)  # type: ignore[method-assign]
            if batches is None:
                cls.predict_batches = _in_one_batch(cls)  # type: ignore[method-assign]
        elif batches is not None:
            cls.predict = _accept_lists(_join_batches(cls))  # type: ignore[method-assign]

    def __init__(self, **values: object) -> None:
        """Set hyperparameters by name; the others keep their defaults. Raises UnknownName and UsageError."""
        known = parameters.list_parameters(type(self))
        for name, value in parameters.resolve(known, type(self).__name__, values).items():
            setattr(self, name, value)
        self._pretrained: dict[str, np.ndarray] = {}
        self._artifacts: Artifacts | None = None
        self._notes: dict[str, object] = {}

    def parameters(self) -> dict[str, object]:
        """Return every hyperparameter with its value."""
        return {name: getattr(self, name) for name in parameters.list_parameters(type(self))}

    @property
    def artifacts(self) -> Artifacts:
        """The store that cells share; outside the harness, a temporary one."""
        if self._artifacts is None:
            self._artifacts = Artifacts()
        return self._artifacts

    @artifacts.setter
    def artifacts(self, artifacts: Artifacts) -> None:
        self._artifacts = artifacts

    @property
    def pretrained(self) -> dict[str, np.ndarray]:
        """The arrays that ``pretrain`` returned for these texts; empty where the class does not define it."""
        return self._pretrained

    @pretrained.setter
    def pretrained(self, arrays: dict[str, np.ndarray]) -> None:
        self._pretrained = arrays

    @property
    def notes(self) -> dict[str, object]:
        """Facts about the run for the record, as JSON values (the data used, how many rows were left out, ...).

        A note that is a mapping with ``losses`` (a list of names) and ``curve`` (a list of points: a step, counted
        from 1, and the mean of every loss since the point before) is a training: the leaderboard draws its losses,
        under the name of the note.
        """
        return self._notes

    def describe(self) -> str:
        """Return the parameters for the row's name: the encoder actually used, the training budget."""
        return ""

    def require(self) -> None:
        """Raise Unavailable if these parameters need something that is not on this machine, weights for example.

        Called when a run is planned, for methods with a cell to run. It must be fast and import nothing heavy.
        """

    def inputs(self) -> Mapping[str, Path | str]:
        """Return the files, folders, and models that parameters name: parameter -> path, or model with its revision.

        A cell is identified by their content instead of their name, so that a replaced file is never taken for the
        earlier one. A text is the name of a model only where no file or folder has it. Unless a class overrides this,
        every text parameter counts that names a file or a folder that exists, and is none of the default, one of
        several choices, and what ``uses`` names.
        """
        named = parameters.select_files(parameters.list_parameters(type(self)), self.parameters())
        used = self.uses()
        return {name: Path(value) for name, value in named.items() if value not in used}

    def uses(self) -> tuple[str, ...]:
        """Return other methods that a run with these parameters uses (``xmcbench.Part``), as NAME or NAME:PRESET.

        Their source is part of the source of this method: where it changes, its results are stale, too.
        """
        return ()

    def estimate_calls(self, sizes: Mapping[str, tuple[int, float]]) -> tuple[int, int]:
        """Return how many questions a run asks of a language model at most, and about how many tokens these have.

        sizes: of ``train``, ``labels`` and ``test``, the number of texts and their mean length in characters. Shown by
        ``--dry-run``.
        """
        return 0, 0

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> object:
        """Learn from the training instances, all labels and the known pairs.

        raw_X: N training texts. raw_Y: L label texts. pairs: None in the zero-shot setting, else a binary CSR
        matrix, float32 [N, L]. The return value is ignored. Raises UsageError for pairs of another shape, in every
        class.
        """
        raise TypeError(f"{type(self).__name__} does not define fit")

    def predict(self, raw_X: Texts, k: int = 100) -> TopK:
        """Rank the labels for M new texts: a TopK of shape [M, k]. A plain list of strings is converted to Texts."""
        raise TypeError(f"{type(self).__name__} does not define predict")

    def predict_batches(self, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        """Yield the predictions in parts: some of the rows in each, all k columns, in the order of the texts."""
        yield self.predict(raw_X, k)

    def save(self, folder: Path) -> None:
        """Write what training has made into an empty folder, for ``load``; without pickle.

        The harness adds parameters, seed and label texts. Raises MethodError for an attribute that cannot be kept.
        """
        from xmcbench.storage.tensors import save_state

        save_state(folder, {name: value for name, value in vars(self).items() if name not in _OF_RUN}, type(self))

    def load(self, folder: Path) -> None:
        """Take over what ``save`` wrote for a method with these parameters, so that it can predict.

        Raises DataError for files that are not those of ``save``.
        """
        from xmcbench.storage.tensors import load_state

        vars(self).update(load_state(folder, type(self)))


def _check_pairs(fit: Callable[..., object]) -> Callable[..., object]:
    @wraps(fit)
    def fit_checked(self: Method, raw_X: Texts, raw_Y: Texts, *rest: Any, **named: Any) -> object:
        pairs = rest[0] if rest else named.get("pairs")
        # Native code reads beyond the end of a matrix with fewer rows.
        if pairs is not None and pairs.shape != (len(raw_X), len(raw_Y)):
            found, wanted = (" x ".join(map(str, shape)) for shape in (pairs.shape, (len(raw_X), len(raw_Y))))
            raise UsageError(f"the pairs are {found}, not {wanted}", "a row for each text and a column for each label")
        return fit(self, raw_X, raw_Y, *rest, **named)

    return fit_checked


def _accept_lists(predict: Callable[..., TopK]) -> Callable[..., TopK]:
    @wraps(predict)
    def predict_texts(self: Method, raw_X: Texts | Sequence[str], *rest: Any, **named: Any) -> TopK:
        from xmcbench.texts import Texts

        if isinstance(raw_X, str):
            raise UsageError("predict takes several texts, and this is one", "predict([text])")
        return predict(self, Texts.of(raw_X), *rest, **named)

    return predict_texts


def _in_one_batch(cls: type[Method]) -> Callable[..., Iterator[TopK]]:
    def predict_batches(self: Method, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        yield cls.predict(self, raw_X, k)

    return predict_batches


def _join_batches(cls: type[Method]) -> Callable[..., TopK]:
    def predict(self: Method, raw_X: Texts, k: int = 100) -> TopK:
        """Rank the labels for M new texts, by ``predict_batches``."""
        from xmcbench.topk import TopK

        parts = TopK.check_rows(cls.predict_batches(self, raw_X, k), len(raw_X))
        return TopK.joined(parts, k, len(raw_X))

    return predict


def contents(method: Method) -> dict[str, str]:
    """Return parameter -> identity of its content, for the parameters that name a file, a folder, or a model.

    The identity is ``sha256:<hex>``, or a model of a hub with its revision. A path without a file keeps its name: the
    method reports it. Raises DataError for a file that cannot be read, PluginError for a name of no parameter, and what
    ``inputs`` raises.
    """
    inputs = method.inputs()
    if unknown := [name for name in inputs if name not in parameters.list_parameters(type(method))]:
        raise PluginError(f"{type(method).__name__}.inputs() has {unknown[0]!r}, which is no parameter")
    found = {name: _identity(value) for name, value in inputs.items()}
    return {name: identity for name, identity in found.items() if identity}


def identity_values(method: Method) -> dict[str, Any]:
    """Return all parameters of a method, with the content of what they name. Raises what ``contents`` raises."""
    return {**method.parameters(), **contents(method)}


def _identity(value: Path | str) -> str:
    if isinstance(value, str) and not os.path.exists(os.path.expanduser(value)):
        return value
    path = Path(value).expanduser()
    if path.is_dir():
        return f"sha256:{fingerprint_folder(path)}"
    return f"sha256:{fingerprint(path)}" if path.exists() else ""
