"""Canaries: tiny fixed cells of every built-in method, whose outcomes say whether changed code gives other results.

A canary is a method with parameters that lead it through one path of its code, on 238 training texts. Its outcome, the
ranks of the true pairs, the best scores and the losses, is stored in ``leaderboards/canaries``. Code with the stored
outcomes is taken to give the results that the older code gave.

    differences = compare(Stored.read(stored_file("ict")).outcomes, run_all(["ict"])["ict"])
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
from msgspec import Struct

from xmcbench import parameters
from xmcbench.environment import Compute, hardware, package_versions, thread_variables
from xmcbench.errors import DataError, Unavailable, told
from xmcbench.metrics import TruePairs, true_ranks
from xmcbench.plugins.loading import load
from xmcbench.runner.canary_models import make
from xmcbench.runner.canary_outcomes import Outcome, Stored
from xmcbench.runner.parts import identity
from xmcbench.runner.prediction import Phases, predict
from xmcbench.storage.artifacts import Artifacts
from xmcbench.storage.reading import read_text
from xmcbench.storage.shipped import shipped
from xmcbench.storage.source import source_digest
from xmcbench.texts import Texts
from xmcbench.topk import TopK

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_FILE = "canaries.toml"
#: Labels that are predicted for each text.
_DEPTH = 20
#: A parameter that begins with this names a model that is made for the canary.
_MADE = "made:"
#: What canaries find in their environment, besides the number of threads.
_ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}


class Canary(Struct, frozen=True):
    """A cell: a method and its parameters, without pairs (``ez``) or with them (``full``).

    needs: packages besides those of the method, by the names of their imports. processes, threads: of the cell.
    constants: of modules below ``xmcbench.methods``, with smaller values than they have, so that few texts take the
    path of many. tolerance: see ``xmcbench.runner.canary_outcomes.compare``.
    """

    method: str
    name: str
    setting: Literal["ez", "full"]
    values: dict[str, Any]
    needs: tuple[str, ...] = ()
    processes: int = 1
    threads: int = 1
    constants: dict[str, Any] = {}
    tolerance: float = 0.002


class _Row(Struct, forbid_unknown_fields=True):
    """A text of the data set of the canaries."""

    uid: str
    title: str
    content: str = ""
    labels: tuple[int, ...] = ()


class _Data(Struct, forbid_unknown_fields=True):
    """The data set of the canaries."""

    train: list[_Row]
    labels: list[_Row]
    test: list[_Row]

    def texts(self) -> tuple[Texts, Texts, Texts]:
        """The texts of training instances, labels and test instances."""
        train, labels, test = (
            Texts.from_lists([row.title for row in side], [row.content for row in side], [row.uid for row in side])
            for side in (self.train, self.labels, self.test)
        )
        return train, labels, test

    def pairs(self, side: list[_Row]) -> csr_matrix:
        """The pairs of training or test instances: binary CSR float32."""
        from scipy.sparse import csr_matrix

        starts = np.cumsum([0, *(len(row.labels) for row in side)])
        columns = np.array([label for row in side for label in row.labels], np.int32)
        return csr_matrix((np.ones(len(columns), np.float32), columns, starts), shape=(len(side), len(self.labels)))


def canaries(methods: Collection[str] | None = None) -> list[Canary]:
    """All canaries, or those of the named methods, in the order of their file. Raises DataError."""
    tables = {name: each for name, each in _file().items() if name not in ("shared", "models")}
    chosen = tables if methods is None else [method for method in tables if method in methods]
    return [_canary(method, name, table) for method in chosen for name, table in tables[method].items()]


def stored_file(method: str) -> Path:
    """Where the outcomes of a method's canaries are, or would be. Raises DataError where the canaries are missing."""
    return _folder() / f"{method}.json"


def run_all(methods: Collection[str] | None = None, jobs: int = 2) -> dict[str, dict[str, Outcome]]:
    """The outcomes of all canaries, or of those of the named methods, by method and name.

    jobs: processes at a time. They are spawned: a script that calls this needs ``if __name__ == "__main__"``.
    """
    chosen = canaries(methods)
    # Processes start while there is work to hand out, in the environment of that moment.
    with _environment(thread_variables(1) | {"PYTHONHASHSEED": "0"}), ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        outcomes = list(pool.map(run, chosen))
    found: dict[str, dict[str, Outcome]] = {}
    for canary, outcome in zip(chosen, outcomes, strict=True):
        found.setdefault(canary.method, {})[canary.name] = outcome
    return found


def store(methods: Collection[str] | None = None, jobs: int = 2) -> dict[str, dict[str, Outcome]]:
    """Run canaries and write their outcomes, a file for each method; returns what ``run_all`` does.

    Raises StorageError.
    """
    found = run_all(methods, jobs)
    for method, outcomes in found.items():
        kind = load(method)
        imports = ["numpy", "scipy", "pyarrow", *kind.packages]
        today = datetime.now(UTC).date().isoformat()
        facts = (method, source_digest(kind), today, hardware().processor, package_versions(imports))
        Stored(*facts, outcomes).write(stored_file(method))
    return found


def run(canary: Canary) -> Outcome:
    """The outcome of a canary, in this process, on the CPU.

    What cannot run here is ``skipped``, and a method that raises anything else has ``failed``: both with the reason.
    """
    packages = (*load(canary.method).packages, *canary.needs)
    lacking = [package for package in packages if find_spec(package) is None]
    if lacking:
        return Outcome(status="skipped", reason=f"needs the package {lacking[0]}")
    try:
        with _threads(canary.threads), _constants(canary.constants):
            return _run(canary)
    except Unavailable as error:
        return Outcome(status="skipped", reason=str(error))
    except Exception as error:  # whatever changed code raises
        return Outcome(status="failed", reason=told(error))


def _run(canary: Canary) -> Outcome:
    data, kind = _data(), load(canary.method)
    method = kind(**{name: _made(value) for name, value in canary.values.items()})
    method.require()
    method.describe()
    texts = data.texts()
    known = parameters.identity(parameters.declared(kind), method.parameters())
    parts = predict(
        method,
        texts,
        data.pairs(data.train) if canary.setting == "full" else None,
        _DEPTH,
        seed=0,
        artifacts=Artifacts(),
        compute=Compute("cpu", canary.processes, canary.threads),
        identity=identity(canary.method, known, method),
        phases=Phases(),
    )
    found = TopK.joined(parts, _DEPTH, len(texts[2]))
    ranks = true_ranks(found.indices, TruePairs.of(data.pairs(data.test)))
    return Outcome.of(found, ranks, method.notes, canary.tolerance)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ |= {**_ENVIRONMENT, **values}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= before


@contextmanager
def _threads(threads: int) -> Iterator[None]:
    """So many threads, also in libraries that have read their variables before."""
    from threadpoolctl import threadpool_limits

    # numba refuses another number in its variable once it has started threads.
    told = {name: value for name, value in thread_variables(threads).items() if name != "NUMBA_NUM_THREADS"}
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 0
    with _environment(told), threadpool_limits(threads):
        if torch:
            torch.set_num_threads(threads)
        try:
            yield
        finally:
            if torch:
                torch.set_num_threads(before)


@contextmanager
def _constants(values: Mapping[str, Any]) -> Iterator[None]:
    """Constants of modules of methods with other values, also where they are the defaults of keywords."""
    changed: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for path, value in values.items():
            module, _, name = path.rpartition(".")
            names = vars(import_module(f"xmcbench.methods.{module}"))
            if name not in names:
                raise DataError(f"canaries.toml names the constant {path}, which does not exist", "write its new name")
            for defaults, keyword in [(names, name), *_defaults(names, names[name])]:
                changed.append((defaults, keyword, defaults[keyword]))
                defaults[keyword] = value
        yield
    finally:
        for defaults, keyword, before in changed:
            defaults[keyword] = before


def _defaults(names: Mapping[str, Any], constant: object) -> list[tuple[dict[str, Any], str]]:
    """The defaults of keywords, in the functions and classes of a module, that are this object."""
    owners = [names, *(vars(each) for each in names.values() if isinstance(each, type))]
    functions = [each for owner in owners for each in owner.values() if isinstance(each, FunctionType)]
    tables = [each.__kwdefaults__ or {} for each in functions]
    return [(table, keyword) for table in tables for keyword, default in table.items() if default is constant]


def _canary(method: str, name: str, table: Mapping[str, Any]) -> Canary:
    """A canary from its table: what is no field of it is a parameter, and ``shared`` names a table with more."""
    fields = {*Canary.__struct_fields__} - {"method", "name", "values"}
    stated = {key: value for key, value in table.items() if key in fields}
    values = {key: value for key, value in table.items() if key not in {*fields, "shared"}}
    shared = _file()["shared"][table["shared"]] if "shared" in table else {}
    try:
        return msgspec.convert({"method": method, "name": name, **stated, "values": {**shared, **values}}, Canary)
    except msgspec.ValidationError as error:
        raise DataError(f"{_folder() / _FILE}: {method}.{name}: {error}") from error


def _folder() -> Path:
    found = shipped("leaderboards/canaries")
    if found is None:
        raise DataError("the folder leaderboards/canaries is missing", "install xmcbench again")
    return found


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads(read_text(_folder() / _FILE))


@cache
def _data() -> _Data:
    return msgspec.json.decode(read_text(_folder() / "texts.json"), type=_Data)


@cache
def _models() -> TemporaryDirectory[str]:
    """Where the models are that this process has made."""
    return TemporaryDirectory(prefix="xmcbench-canaries-")


def _made(value: object) -> object:
    """A value of a parameter; the path of a model where it names one that is made for canaries."""
    if not isinstance(value, str) or not value.startswith(_MADE):
        return value
    name = value.removeprefix(_MADE)
    path = Path(_models().name) / name
    if not path.exists():
        make(_file()["models"][name], [text for side in _data().texts() for text in side], path)
    return str(path)
