"""The contract test of a method, for `xmcbench check`, on a corpus of a few hundred texts."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
from msgspec import Struct

from xmcbench import parameters
from xmcbench.data.sources.xc_raw import write_instances, write_labels
from xmcbench.environment import Compute
from xmcbench.errors import MethodError, Unavailable, XmcbenchError, summarize
from xmcbench.label_texts import LabelTexts
from xmcbench.method import Method
from xmcbench.plugins import hub
from xmcbench.plugins.description import DEFAULT_PRESET
from xmcbench.plugins.loading import import_file, line_of, load
from xmcbench.plugins.registry import Registry
from xmcbench.processes.process_tree import ending_forks
from xmcbench.processes.supervisor import Supervised, supervise, without_secrets
from xmcbench.records import Store
from xmcbench.runner import isolation
from xmcbench.runner.execution import execute
from xmcbench.runner.plan import plan
from xmcbench.runner.prediction import Phases, predict
from xmcbench.runner.rows import Request
from xmcbench.runner.target import Limits, Target
from xmcbench.setting import Setting
from xmcbench.storage.artifacts import Artifacts
from xmcbench.storage.atomic import write_json
from xmcbench.storage.temporary import scratch
from xmcbench.texts import Texts
from xmcbench.topk import TopK

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_TOPICS = ("apple", "bridge", "candle", "desert", "engine", "forest", "garden", "harbor", "island", "jungle")
#: The dataset of the chance test: instances of either side, labels, true labels per instance.
_ROWS, _LABELS, _TRUE = 400, 40, 2
#: No honest method exceeds chance by this much in a million checks.
_SIGNIFICANCE = 1e-6


class Finding(Struct, frozen=True):
    """One check. reason: why it is not ok.

    status: ``missing`` if something that the method needs is not on this machine; ``timeout`` if the time limit ended
    the check; ``skipped`` after a failure that was repeated.
    """

    name: str
    status: Literal["ok", "failed", "missing", "timeout", "skipped"]
    reason: str = ""


class CheckRequest(Struct, frozen=True, kw_only=True):
    """A request to check a method by name, from a plug-in file if it is not installed, with these parameters.

    preset: of the other parameters; None for ``quick``, if the method has it. environment: variables with secrets that
    the process of the check gets. hidden: files and folders that it must not read.
    """

    name: str
    plugin: str | None = None
    preset: str | None = None
    parameters: dict[str, Any] = {}
    environment: tuple[str, ...] = ()
    time_s: float | None = None
    memory_gib: float | None = None
    hidden: tuple[str, ...] = ()

    @property
    def limits(self) -> Limits:
        """The limits of the check, and of each cell that it runs."""
        return Limits(self.time_s, self.memory_gib)


def check(request: CheckRequest) -> list[Finding]:
    """Make every check that applies to the method, in a separate process under the limits of the request.

    If the method does not load, it is the last finding; so is a process that does not run to its end.
    """
    with scratch() as folder:
        asked, answered, finished = (folder / name for name in ("request.json", "findings.json", "finished.json"))
        secret = isolation.add_histories(isolation.paths_of_machine())
        write_json(asked, msgspec.to_builtins(msgspec.structs.replace(request, hidden=secret)))
        # The last check runs a cell. It needs a cache, and that of the user is hidden.
        ours = {"PYTHONHASHSEED": "0", "TMPDIR": str(folder), "XMCBENCH_CACHE": str(folder / "cache")}
        environment, limits = {**without_secrets(request.environment), **ours}, request.limits
        files = [str(asked), str(answered), str(finished)]
        process = Supervised(
            "xmcbench.contract", files, folder / "log", environment, finished, limits.time_s, limits.memory_bytes
        )
        ending = supervise(process)
        found = msgspec.json.decode(answered.read_bytes(), type=list[Finding]) if answered.exists() else []
        if finished.exists():
            return found
        if ending.timed_out:
            return [*found, Finding("runs to its end", "timeout", f"stopped after {request.time_s:g} s")]
        return [*found, Finding("runs to its end", "failed", ending.reason)]


def main(asked: str, answered: str, finished: str) -> None:
    """Check the method that a file names; write the findings after each check, and another file at the end.

    A method can end the process at any time, so that its exit code says nothing.
    """
    request = msgspec.json.decode(Path(asked).read_bytes(), type=CheckRequest)
    if hub.has_no_address():  # its client would look for it for more than a minute in every check
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
    found: list[Finding] = []
    for finding in _findings(request):
        # The check at chance runs a cell, whose reason has no place in the file.
        if finding.reason and any(f"{other.reason} (".startswith(f"{finding.reason} (") for other in found):
            found.append(Finding("the other checks", "skipped", "the method fails the same way"))
        else:
            found.append(finding)
        write_json(Path(answered), msgspec.to_builtins(found))
        if found[-1].status == "skipped":
            break
    write_json(Path(finished), len(found))


def _findings(request: CheckRequest) -> Iterator[Finding]:
    made: list[_Made] = []

    def load_method() -> None:
        if request.plugin:
            import_file(Path(request.plugin))
        cls = load(request.name)
        known = parameters.list_parameters(cls)
        preset = cls.presets.get(DEFAULT_PRESET, {}) if request.preset is None else cls.presets[request.preset]
        given = parameters.resolve(known, request.name, preset)
        values = parameters.resolve(known, request.name, {**given, **request.parameters})
        made.append(_Made(cls, values))
        cls(**values).require()

    finding = _make_finding("loads", load_method, None)
    yield finding
    if finding.status != "ok":
        return
    (method,) = made
    for name, run in _checks(request, method):
        yield _make_finding(name, run, method.cls)


def _make_finding(name: str, run: Callable[[], object], method: type[Method] | None) -> Finding:
    try:
        with ending_forks():
            run()
    except Unavailable as error:
        return Finding(name, "missing", str(error))
    except XmcbenchError as error:
        return Finding(name, "failed", str(error))
    except BaseException as error:  # a method can raise anything, even SystemExit; the other checks go on
        place = line_of(error, inspect.getfile(method)) if method else ""
        return Finding(name, "failed", f"{summarize(error)}{place}")
    return Finding(name, "ok")


@dataclass(frozen=True)
class _Made:
    """A method with its parameters."""

    cls: type[Method]
    values: Mapping[str, object]

    def predict(self, texts: Texts | None = None, pairs: csr_matrix | None = None, k: int = 5, seed: int = 0) -> TopK:
        """Train on the corpus and predict, by default for its first 20 instances."""
        train, labels, _ = _corpus()
        tested = train[:20] if texts is None else texts
        parts = predict(
            self.cls(**self.values),
            (train, labels, tested),
            None if self.cls.supervision == "unused" else pairs,
            k,
            seed=seed,
            artifacts=Artifacts(),
            compute=Compute(),
            identity={"method": self.cls.__name__, "parameters": dict(self.values)},
            phases=Phases(),
        )
        return TopK.joined(parts, k, len(tested))


def _checks(request: CheckRequest, method: _Made) -> Iterator[tuple[str, Callable[[], object]]]:
    cls, (_, _, pairs) = method.cls, _corpus()
    yield "declares its parameters", lambda: _check_declarations(cls)
    if cls.supervision != "required":
        yield "learns without pairs (ez)", method.predict
    if cls.supervision != "unused":
        yield "learns from pairs (fs, full)", lambda: method.predict(pairs=pairs)
        yield "leaves the pairs as they are", lambda: _check_pairs(method)
    yield "pads where k is larger than the number of labels", lambda: method.predict(pairs=pairs, k=50)
    strange = Texts.from_lists(["", " ", "zyzzyva quokka", "\u4e2d\u6587 \U0001f600"])
    yield "accepts empty and unknown texts", lambda: method.predict(strange, pairs)
    yield "gives equal predictions under one seed", lambda: _check_repetition(method, 0)
    if cls.deterministic:
        yield "gives equal predictions under any seed", lambda: _check_repetition(method, 1)
    yield "is at chance where test pairs are random", lambda: _at_chance(request, method)


def _corpus() -> tuple[Texts, Texts, csr_matrix]:
    """Return 40 instances and 10 labels; instance i is about the topics i and i + 1, and these are its labels."""
    from scipy.sparse import csr_matrix

    rows = range(40)
    titles = [f"{_TOPICS[row % 10]} number {row}" for row in rows]
    contents = [f"A story. It is about the {_TOPICS[row % 10]} and the {_TOPICS[(row + 1) % 10]}." for row in rows]
    columns = np.sort(np.array([[row % 10, (row + 1) % 10] for row in rows]), axis=1).ravel()
    pairs = csr_matrix((np.ones(80, np.float32), columns, np.arange(0, 81, 2)), shape=(40, 10))
    return Texts.from_lists(titles, contents), LabelTexts.from_lists([f"the {topic}" for topic in _TOPICS]), pairs


def _check_declarations(cls: type[Method]) -> None:
    if problems := parameters.find_undeclared(cls, Method):
        raise MethodError("; ".join(problems))


def _check_pairs(method: _Made) -> None:
    _, _, pairs = _corpus()
    before = pairs.copy()
    method.predict(pairs=pairs)
    if pairs.shape != before.shape or pairs.nnz != before.nnz or (pairs != before).nnz:
        raise MethodError("fit changed the pairs that it was given", "work on a copy: other methods share them")


def _check_repetition(method: _Made, seed: int) -> None:
    _, _, pairs = _corpus()
    first, second = (method.predict(pairs=pairs, seed=of_run) for of_run in (0, seed))
    if np.array_equal(first.indices, second.indices) and np.array_equal(first.scores, second.scores):
        return
    if seed == 0:
        raise MethodError("two runs with one seed predict differently", "draw every random number from self.seed")
    raise MethodError(
        "two runs with different seeds predict differently", "`deterministic = True` promises that they do not"
    )


def _at_chance(request: CheckRequest, method: _Made) -> None:
    """Run a cell on a dataset with random test pairs: a method can only predict them if it has seen them."""
    from scipy.stats import binom

    name, registry = request.name, Registry([Path(request.plugin)] if request.plugin else [])
    with scratch() as folder:
        root = folder / "random-pairs"
        root.mkdir()
        _write_random(root)
        setting = Setting.of("ez" if method.cls.supervision == "unused" else "full")
        store = Store(folder / "runs")
        planned = plan([Request(str(root), setting, (name,), None, {name: method.values})], registry, store)
        (record,) = execute(planned, Target(store, request.limits))
    if record.status == "skipped":
        raise Unavailable(record.reason)
    if not record.ok:
        raise MethodError(record.reason)
    hits, scored = round(record.metrics["none"].values["P@1"] * _ROWS), record.metrics["none"].scored
    if binom.sf(hits - 1, scored, _TRUE / _LABELS) < _SIGNIFICANCE:
        raise MethodError(
            f"{hits} of {scored} random test pairs are at rank 1; by chance there would be {scored * _TRUE // _LABELS}",
            "texts and training pairs hold no information about them, so the method has read them",
        )


def _write_random(folder: Path) -> None:
    """Write texts that each mention two labels: these are the training pairs. The test pairs are random."""
    random = np.random.RandomState(0)
    labels = [f"the {topic} of {kind}" for kind in ("gold", "iron", "salt", "wool") for topic in _TOPICS]

    def rows(side: str) -> Iterator[tuple[str, str, str, list[int]]]:
        for row in range(_ROWS):
            spoken, drawn = (sorted(random.permutation(_LABELS)[:_TRUE].tolist()) for _ in range(2))
            title, content = f"{side} {row}", f"A story. It is about {labels[spoken[0]]} and {labels[spoken[1]]}."
            yield f"{side}{row}", title, content, spoken if side == "train" else drawn

    write_labels(folder / "lbl.json.gz", ((f"label{row}", text) for row, text in enumerate(labels)))
    write_instances(folder / "trn.json.gz", rows("train"))
    write_instances(folder / "tst.json.gz", rows("test"))


def _hide(asked: str) -> None:
    request = msgspec.json.decode(Path(asked).read_bytes(), type=CheckRequest)
    plugin = [Path(request.plugin)] if request.plugin else []
    isolation.hide(map(Path, request.hidden), [*plugin, *isolation.find_needed_paths()])


if __name__ == "__main__":
    _hide(sys.argv[1])
    main(*sys.argv[1:])
