"""The process of one cell: fit, predict, save, score.

The test pairs are opened only when the predictions are written: until then nothing a method can reach holds them, and
in the zero-shot setting no pair at all.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from xmcbench.artefacts import Artefacts
from xmcbench.canonical import sha256_file
from xmcbench.data import Dataset, load_dataset
from xmcbench.errors import DataError, MethodError, Unavailable, XmcbenchError
from xmcbench.method import Method
from xmcbench.metrics import DEPTH
from xmcbench.registry import Registry
from xmcbench.runner.job import Job, Outcome
from xmcbench.runner.scoring import score
from xmcbench.setting import load_pairs
from xmcbench.topk import TopK


class Phases:
    """Wall seconds of named phases."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = time.perf_counter() - start


def main(job_file: str) -> None:
    """Run the job in ``job_file`` and write its outcome; whatever goes wrong is an outcome too."""
    faulthandler.enable()
    _die_with_parent()
    _be_the_first_to_go()
    job = Job.read(Path(job_file))
    try:
        outcome = Outcome("ok", "", run(job))
    except Unavailable as error:
        outcome = Outcome("skipped", str(error), {})
    except MemoryError:
        traceback.print_exc()
        outcome = Outcome("failed", "out of memory", {})
    except XmcbenchError as error:
        traceback.print_exc()
        outcome = Outcome("failed", str(error), {})
    except Exception as error:
        traceback.print_exc()
        message = " ".join(str(error).split())
        outcome = Outcome("failed", f"{type(error).__name__}: {message}" if message else type(error).__name__, {})
    outcome.write(Path(job.outcome))


def run(job: Job) -> dict[str, Any]:
    """Do the work of a job; return what the record needs to know of it."""
    phases = Phases()
    with phases("load"):
        dataset = load_dataset(job.dataset)
        if dataset.digest != job.dataset_digest:
            raise DataError(f"{dataset.name} changed while the run was going on", "run again")
        pairs = load_pairs(Path(job.pairs)) if job.pairs else None
    cls = Registry([Path(plugin) for plugin in job.plugins])[job.method].usable()
    method = cls(**job.parameters)
    method.seed = job.seed
    method.artefacts = Artefacts(Path(job.artefacts))
    if hasattr(method, "pretrain"):
        with phases("pretrain"):
            method.pretrained = _pretrained(method, dataset, job)
    with phases("fit"):
        method.fit(dataset.train, dataset.labels, pairs)
    k = DEPTH + dataset.longest_filter
    with phases("predict"):
        predictions = method.predict(dataset.test, k=k)
    if not isinstance(predictions, TopK):
        raise MethodError(f"predict returned a {type(predictions).__name__}", "it returns an xmcbench.TopK")
    predictions.check(len(dataset.test), k, len(dataset.labels))
    memory = _peak_memory()
    predictions_path = Path(job.predictions)
    predictions.save(predictions_path)
    return {
        "metrics": score(predictions, dataset, pairs),
        "predictions": {"sha256": sha256_file(predictions_path), "depth": k},
        "notes": _json_notes(method),
        "measured": {
            "wall_s": phases.seconds,
            "reused_s": method.artefacts.reused_s,
            "predict_ms_per_instance": 1000 * phases.seconds["predict"] / max(1, len(dataset.test)),
            **memory,
        },
    }


def _pretrained(method: Method, dataset: Dataset, job: Job) -> dict[str, np.ndarray]:
    """The arrays of the method's pre-training, made once for data, parameters, seed and source."""
    identity = {
        "train": dataset.train.digest,
        "labels": dataset.labels.digest,
        "method": job.method,
        "parameters": dict(job.parameters),
        "seed": job.seed,
        "source": job.source,
    }

    def build(folder: Path) -> None:
        arrays = method.pretrain(dataset.train, dataset.labels)  # type: ignore[attr-defined]
        np.savez(folder / "pretrained.npz", **arrays)
        # What pre-training had to say belongs to every cell that uses it.
        (folder / "notes.json").write_text(json.dumps(_json_notes(method)))

    folder = method.artefacts.get("pretraining", identity, build)
    method.notes.update(json.loads((folder / "notes.json").read_text()))
    with np.load(folder / "pretrained.npz", allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _json_notes(method: Method) -> dict[str, Any]:
    try:
        notes: dict[str, Any] = json.loads(json.dumps(method.notes, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise MethodError(
            f"the method's notes are not JSON: {error}", "use numbers, strings, lists and dicts"
        ) from error
    return notes


def _peak_memory() -> dict[str, int]:
    """Highest resident memory of this process so far and, where torch was used on a GPU, its highest allocation."""
    memory = {"peak_memory_bytes": _high_water_mark()}
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        memory["peak_gpu_memory_bytes"] = int(torch.cuda.max_memory_allocated())
    return memory


def _high_water_mark() -> int:
    try:
        # Not ru_maxrss: that one begins at what the parent held when it forked.
        status = Path("/proc/self/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) * 1024
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _be_the_first_to_go() -> None:
    """When the machine runs out of memory the system shall take this cell, not the run that records it."""
    try:
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError:
        return  # not Linux, or not allowed: the run is no worse off than without


def _die_with_parent() -> None:
    """End this process when the run that started it is gone, even if that was killed without a word."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1])
