"""Predictions for texts that are in no dataset: the method of a cell is trained again and predicts them."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from xmcbench.errors import MethodError, StorageError, Unavailable
from xmcbench.records import Store
from xmcbench.runner import isolation
from xmcbench.runner.executors.base import POLL_S
from xmcbench.runner.executors.local import Local
from xmcbench.runner.executors.process import GPUS, sweep
from xmcbench.runner.job import TextFile
from xmcbench.runner.recording import status_of
from xmcbench.runner.schedule import capacity, needs_of
from xmcbench.runner.tasks import cell_task
from xmcbench.storage.atomic import copy, make_folder
from xmcbench.storage.temporary import scratch
from xmcbench.topk import TopK

if TYPE_CHECKING:
    from pathlib import Path

    from xmcbench.runner.plan import PlannedCell
    from xmcbench.runner.target import Target
    from xmcbench.texts import Texts


def predict_texts(planned: PlannedCell, target: Target, texts: Texts, k: int, model: Path | None = None) -> TopK:
    """Return the k best labels of each text by the method of a planned cell, trained as that cell trains it.

    model: a folder in which the trained method is kept.

    The method runs in a process, as in a cell, and reuses features and pre-trainings of the runs folder, or of a
    temporary one if that cannot be written. Nothing is recorded, no artifact of the texts is kept, and the files of the
    cell stay as they are. Raises Unavailable if a requirement of the method is missing, MethodError if it fails, naming
    its log, and StorageError.
    """
    from xmcbench.data.store import rows_of, write_texts

    sweep(target.store)
    with ExitStack() as files, Local(capacity(1, 1, os.environ.get(GPUS))) as executor:
        needs = needs_of(planned, 1, target.compute, None, executor.room)
        folder = files.enter_context(scratch())
        store, staged = _open_stores(target.store, files)
        written = write_texts(folder / "texts.arrow", rows_of(texts, np.arange(len(texts))))
        task = cell_task(planned, replace(target, store=store), needs, staged, files)
        # As many as in its cell: the best labels of a method may depend on how many are requested.
        depth = max(k, task.job.k)
        # The results are hidden even if it runs in a temporary folder.
        results = isolation.add_histories(isolation.paths_of_runs(target.store.root))
        job = msgspec.structs.replace(
            task.job,
            test=TextFile(str(folder / "texts.arrow"), written.digest),
            k=depth,
            hidden=tuple({*task.job.hidden, *results}),
            single_use=True,
            model=str(model.resolve()) if model else "",
        )
        # A record names the log of its cell, and another run may be writing that.
        task = replace(task, job=job, log=staged.log_path(planned.cell))
        executor.submit(task)
        while not (found := executor.watch(POLL_S)):
            pass
        (ended,) = found
        status, reason = status_of(ended.outcome, ended.ending, target.limits.time_s)
        if status == "skipped":
            raise Unavailable(reason)
        if status != "ok":
            log = _keep_log(task.log, planned, store) if store is target.store else None
            raise MethodError(f"{planned.name}: {reason}", f"log: {log}" if log else "")
        # In parts: the limit of a file that is read as a whole is not for one's own.
        parts = TopK.load_parts(staged.predictions_path(planned.cell))
        checked = TopK.check_parts(parts, len(texts), depth, planned.dataset.label_corpus.rows)
        predictions = TopK.joined(checked, depth, len(texts))
        return TopK(predictions.indices[:, :k], predictions.scores[:, :k])


def _keep_log(log: Path, planned: PlannedCell, store: Store) -> Path | None:
    """Copy the log of a failed method beside that of its cell and return the new path; None if that is impossible."""
    beside = store.log_path(planned.cell)
    kept = beside.with_name(f"text-{beside.name}")
    try:
        make_folder(kept.parent)
        copy(log, kept)
    except StorageError:
        return None
    return kept


def _open_stores(kept: Store, files: ExitStack) -> tuple[Store, Store]:
    """Return the store that a method runs in, ``kept`` if it can be written, and the one for its predictions."""
    try:
        return kept, files.enter_context(kept.staging())
    except StorageError:
        if kept.root.is_file():
            raise
        store = Store(files.enter_context(scratch()))
        return store, files.enter_context(store.staging())
