"""Runs of canaries, each in a process of its own.

stored = read_outcomes(canary_folder() / OUTCOMES, ["ict"])
differences = compare(stored["ict"].outcomes, run_all(["ict"])["ict"])
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from types import FunctionType
from typing import Any

from xmcbench.environment import Compute, hardware, package_versions, thread_variables
from xmcbench.errors import DataError, Unavailable, summarize
from xmcbench.metrics import TruePairs, true_ranks
from xmcbench.plugins.loading import load
from xmcbench.runner.canaries.cells import Canary, canaries, canary_folder, data
from xmcbench.runner.canaries.outcomes import OUTCOMES, CanaryOutcome, Stored, read_outcomes, write_outcomes
from xmcbench.runner.parts import identity
from xmcbench.runner.prediction import Phases, predict
from xmcbench.storage.artifacts import Artifacts
from xmcbench.storage.source import source_of
from xmcbench.topk import TopK

#: Labels that are predicted per text.
_DEPTH = 20
#: The environment of canaries, besides the number of threads.
_ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}


def run_all(methods: Collection[str] | None = None, jobs: int = 2) -> dict[str, dict[str, CanaryOutcome]]:
    """Return the outcomes of all canaries, or of the named methods, by method and name.

    jobs: processes at a time. They are spawned: a script that calls this needs ``if __name__ == "__main__"``.
    """
    chosen = canaries(methods)
    # Packages warn of what their next version changes, once per process.
    environment = {**thread_variables(1), "PYTHONHASHSEED": "0", "PYTHONWARNINGS": "ignore"}
    # Processes start while there is work to hand out, in the environment of that moment.
    with (
        _environment(environment),
        ProcessPoolExecutor(jobs, get_context("spawn"), initializer=logging.disable) as pool,
    ):
        outcomes = list(pool.map(run, chosen))
    found: dict[str, dict[str, CanaryOutcome]] = {}
    for canary, outcome in zip(chosen, outcomes, strict=True):
        found.setdefault(canary.method, {})[canary.name] = outcome
    return found


def store(methods: Collection[str] | None = None, jobs: int = 2) -> dict[str, dict[str, CanaryOutcome]]:
    """Run canaries, store their outcomes beside those of other methods, and return them. Raises StorageError."""
    found = run_all(methods, jobs)
    stored: dict[str, Stored] = {}
    for method, outcomes in found.items():
        kind = load(method)
        imports = ["numpy", "scipy", "pyarrow", *kind.packages]
        today = datetime.now(UTC).date().isoformat()
        facts = (source_of(kind).digest, today, hardware().processor, package_versions(imports))
        stored[method] = Stored(*facts, outcomes)
    file = canary_folder() / OUTCOMES
    earlier = read_outcomes(file, ()) if file.exists() else {}
    write_outcomes(file, {**earlier, **stored})
    return found


def run(canary: Canary) -> CanaryOutcome:
    """Run a canary in this process, on the CPU; ``skipped`` if it cannot run here, ``failed`` for other errors."""
    packages = (*load(canary.method).packages, *canary.needs)
    lacking = [package for package in packages if find_spec(package) is None]
    if lacking:
        return CanaryOutcome(status="skipped", reason=f"needs the package {lacking[0]}")
    try:
        with _threads(canary.threads), _constants(canary.constants):
            return _run(canary)
    except Unavailable as error:
        return CanaryOutcome(status="skipped", reason=str(error))
    except Exception as error:  # whatever changed code raises
        return CanaryOutcome(status="failed", reason=summarize(error))


def _run(canary: Canary) -> CanaryOutcome:
    kind = load(canary.method)
    method = kind(**canary.parameters())
    method.require()
    method.describe()
    texts = data().texts()
    parts = predict(
        method,
        texts,
        data().pairs("train") if canary.setting == "full" else None,
        _DEPTH,
        seed=0,
        artifacts=Artifacts(),
        compute=Compute("cpu", canary.processes, canary.threads),
        identity=identity(canary.method, method),
        phases=Phases(),
    )
    found = TopK.joined(parts, _DEPTH, len(texts[2]))
    ranks = true_ranks(found.indices, TruePairs.of(data().pairs("test")))
    return CanaryOutcome.of(found, ranks, method.notes, canary.slack)


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
    """Set the number of threads, in torch also after it has read its variable."""
    # numba refuses another number in its variable once it has started threads.
    variables = {name: value for name, value in thread_variables(threads).items() if name != "NUMBA_NUM_THREADS"}
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 0
    with _environment(variables):
        if torch:
            torch.set_num_threads(threads)
        try:
            yield
        finally:
            if torch:
                torch.set_num_threads(before)


@contextmanager
def _constants(values: Mapping[str, Any]) -> Iterator[None]:
    """Replace constants in modules of methods, including defaults of keywords."""
    changed: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for path, value in values.items():
            module, _, name = path.rpartition(".")
            names = vars(import_module(f"xmcbench.methods.{module}"))
            if name not in names:
                raise DataError(f"canaries.toml names the constant {path}, which does not exist", "write its new name")
            for defaults, keyword in [(names, name), *_find_defaults(names, names[name])]:
                changed.append((defaults, keyword, defaults[keyword]))
                defaults[keyword] = value
        yield
    finally:
        for defaults, keyword, before in changed:
            defaults[keyword] = before


def _find_defaults(names: Mapping[str, Any], constant: object) -> list[tuple[dict[str, Any], str]]:
    """Return the defaults of keywords, in the functions and classes of a module, that are this object."""
    owners = [names, *(vars(kind) for kind in names.values() if isinstance(kind, type))]
    functions = [value for owner in owners for value in owner.values() if isinstance(value, FunctionType)]
    tables = [function.__kwdefaults__ or {} for function in functions]
    return [(table, keyword) for table in tables for keyword, default in table.items() if default is constant]
