"""The process of one cell: fit, predict, save.

It gets texts, the pairs that a method may see in the setting, and no path to any other pair. Another process, which
never imports a method, scores its predictions.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import sys
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from xmcbench import progress
from xmcbench.data.sealing import seal
from xmcbench.environment import distribution_versions
from xmcbench.errors import DataError, Unavailable, XmcbenchError, summarize
from xmcbench.label_texts import LabelTexts
from xmcbench.method import Method, contents
from xmcbench.plugins.loading import import_file, load
from xmcbench.processes.process_tree import ending_forks
from xmcbench.runner import isolation, prediction
from xmcbench.runner.job import Job, Outcome, TextFile, request_artifact, training_name
from xmcbench.runner.parts import identity, keep_ranking, ranking_key, source
from xmcbench.runner.prediction import Phases, json_notes, predict
from xmcbench.storage.arrays import freeze, pairs_digest, read_pairs
from xmcbench.storage.artifacts import Artifacts
from xmcbench.storage.syntax import find_edited, keep_first
from xmcbench.texts import Texts
from xmcbench.topk import TopK

_Item = TypeVar("_Item")


def main(job_file: str) -> None:
    """Run the job in ``job_file`` and write its outcome; any error is an outcome, too."""
    faulthandler.enable()
    _raise_oom_score()
    job = Job.read(Path(job_file))
    try:
        with ending_forks():
            outcome = run(job)
    except Unavailable as error:
        outcome = Outcome(status="skipped", reason=str(error))
    except MemoryError:
        traceback.print_exc()
        outcome = Outcome(status="failed", reason="out of memory")
    except XmcbenchError as error:
        traceback.print_exc()
        outcome = Outcome(status="failed", reason=str(error))
    except BaseException as error:  # a method can raise anything, even SystemExit
        traceback.print_exc()
        outcome = Outcome(status="failed", reason=_describe_error(error, job.hidden))
    try:
        outcome.write(Path(job.outcome))
    except UnicodeEncodeError as error:  # half of a surrogate pair
        reason = f"the notes of the method are not text: {error}"
        Outcome(status="failed", reason=reason).write(Path(job.outcome))


def _describe_error(error: BaseException, hidden: Collection[str]) -> str:
    """Describe an error in one line; explain the isolation if a file would be readable without it."""
    if not isinstance(error, PermissionError) or not error.filename or not os.access(error.filename, os.R_OK):
        return summarize(error)
    path = Path(os.path.realpath(os.fsdecode(error.filename)))
    if any(map(path.is_relative_to, hidden)):
        return f"{summarize(error)} (a method gets its data as arguments, and cannot read files that hold pairs)"
    return (
        f"{summarize(error)} (a cell cannot read files made beside hidden data: use self.artifacts or $TMPDIR; "
        "run again if it was downloaded)"
    )


def run(job: Job) -> Outcome:
    """Do the work of a job."""
    phases = _ReportedPhases()
    with phases("load"):
        for module in job.imports:
            with suppress(Exception):  # the method will report it
                import_module(module)
        texts = (_texts(job.train), _texts(job.labels, LabelTexts), _texts(job.test))
        pairs = None
        if job.pairs:
            pairs = read_pairs(Path(job.pairs), len(texts[1]))
            if pairs_digest(pairs.indptr, pairs.indices) != job.pairs_sha256:
                raise DataError(f"{job.pairs}: checksum mismatch", "delete it: it will be regenerated")
            freeze(pairs)
    seal()
    needed = [job.artifacts, *job.trainings.values(), *job.plugins, *filter(None, [job.model])]
    needed += [str(Path(job.predictions).parent)] if not job.only else []
    hidden = isolation.hide(map(Path, job.hidden), [*map(Path, needed), *isolation.find_needed_paths()])
    for plugin in job.plugins:
        import_file(Path(plugin))
    cls = load(job.method)
    if cls.supervision == "unused":
        pairs = None
    method = cls(**{**job.parameters, **job.names})
    _check_contents(job, method)
    code = source(method)
    if code.digest != job.source_sha256:
        raise XmcbenchError(f"the code of {job.method} has changed since the run was planned", "run again")
    check = partial(_check_unchanged, job, frozenset(sys.modules))
    supplier = partial(request_artifact, Path(job.wanted)) if job.wanted else None
    trainings = {name: Path(folder) for name, folder in job.trainings.items()}
    own = trainings[training_name(job.method, job.parameters)]
    single_use = job.test.sha256 if job.single_use else ""
    artifacts = Artifacts(Path(job.artifacts), supplier, single_use, check, own, trainings)
    named = identity(job.method, method)
    if job.only:
        outcome = _pretrain(job, method, named, texts, artifacts, phases)
        check()
        return outcome
    # Before the training, in which a method may change its identity.
    ranking = ranking_key(job.method, method, texts, pairs, job.k, job.seed)
    predictions = predict(
        method,
        texts,
        pairs,
        job.k,
        seed=job.seed,
        artifacts=artifacts,
        compute=job.compute,
        identity=named,
        phases=phases,
    )
    if job.model:  # before the predictions, which may leave something behind
        method.save(Path(job.model))
    TopK.save_joined(Path(job.predictions), predictions, len(texts[2]), job.k)
    check()
    memory, gpu_memory = _high_water_mark(), _gpu_high_water_mark()
    if not method.uses():
        own_s = sum(seconds for phase, seconds in phases.seconds.items() if phase != "load")
        keep_ranking(ranking, method, Path(job.predictions), own_s + artifacts.reused_s)
    return Outcome(
        status="ok",
        notes=json_notes(method),
        packages=distribution_versions(code.packages),
        wall_s=phases.seconds,
        reused_s=artifacts.reused_s,
        artifacts=tuple(dict.fromkeys(artifacts.used)),
        isolation="landlock" if hidden else "process",
        peak_memory_bytes=memory,
        peak_gpu_memory_bytes=gpu_memory,
    )


def _check_contents(job: Job, method: Method) -> None:
    """Raise DataError if a file or model that a parameter names has changed since the plan."""
    found = contents(method)
    for name, given in job.names.items():
        if found.get(name) != job.parameters[name]:
            raise DataError(
                f"{given} ({job.method}.{name}) has changed since the run was planned",
                "run again; a method that writes there leaves it out of `inputs`",
            )


def _check_unchanged(job: Job, known: Collection[str]) -> None:
    """Raise XmcbenchError if a module that is not ``known`` was edited before the method imported it."""
    files = {Path(file) for name in {*sys.modules} - {*known} if (file := getattr(sys.modules[name], "__file__", None))}
    for file in find_edited(files):
        raise XmcbenchError(f"{file} has changed while {job.method} ran, and was imported after that", "run again")


def _pretrain(
    job: Job,
    method: Method,
    named: Mapping[str, object],
    texts: tuple[Texts, Texts, Texts],
    artifacts: Artifacts,
    phases: Phases,
) -> Outcome:
    """Run only the pre-training of a method, as ``predict`` would."""
    method.seed, method.artifacts, method.compute = job.seed, artifacts, job.compute
    with phases("pretrain"):
        prediction.load_pretraining(method, *texts[:2], {**named, "seed": job.seed})
    used = tuple(dict.fromkeys(artifacts.used))
    return Outcome(status="ok", wall_s=phases.seconds, reused_s=artifacts.reused_s, artifacts=used)


class _ReportedPhases(Phases):
    """Phases that are reported to the parent process."""

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        progress.phase(name)
        with super().__call__(name):
            yield

    def each(self, name: str, items: Iterable[_Item]) -> Iterator[_Item]:
        progress.phase(name)
        yield from super().each(name, items)


def _texts(file: TextFile, kind: type[Texts] = Texts) -> Texts:
    texts = kind.open(Path(file.path))
    if texts.digest != file.sha256 or not texts.intact():
        raise DataError(f"{file.path}: checksum mismatch", "delete its folder: it will be regenerated")
    return texts


def _gpu_high_water_mark() -> int | None:
    """Return the highest allocation on a GPU so far, if torch used a GPU."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        return int(torch.cuda.max_memory_allocated())
    return None


def _high_water_mark() -> int:
    """Return the highest resident memory of this process so far, in bytes."""
    try:
        # Not ru_maxrss, which begins with the memory of the parent at the fork.
        status = Path("/proc/self/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) * 1024
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _raise_oom_score() -> None:
    """Make the system end this cell, and not its run, when the machine runs out of memory."""
    try:
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError:
        return  # not Linux, or not allowed


if __name__ == "__main__":
    keep_first()
    main(sys.argv[1])
