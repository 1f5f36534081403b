"""Predictions for texts that are in no dataset: a cell's method is trained again and asked about them."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from xmcbench.errors import MethodError, StorageError, Unavailable
from xmcbench.records import Store
from xmcbench.runner import hidden
from xmcbench.runner.executors.local import Local
from xmcbench.runner.job import TextFile
from xmcbench.runner.leftovers import sweep
from xmcbench.runner.place import Place
from xmcbench.runner.recording import status_of
from xmcbench.runner.schedule import capacity, needs_of
from xmcbench.runner.tasks import cell_task
from xmcbench.storage.atomic import make_folder, move
from xmcbench.storage.temporary import scratch
from xmcbench.topk import TopK

if TYPE_CHECKING:
    from xmcbench.runner.plan import PlannedCell
    from xmcbench.texts import Texts

#: Seconds between two looks at the process.
_LOOK_S = 0.05


def predict_texts(planned: PlannedCell, place: Place, texts: Texts, k: int) -> TopK:
    """The k best labels of each text by the method of a planned cell, trained as that cell trains it.

    The method runs in a process of its own, as in a cell; features and pre-training that the runs folder has are used
    again. Where that cannot be written, they are made in a temporary folder. Nothing is recorded, nothing that is made
    of the texts is kept, and the files of the cell stay as they are. Raises Unavailable where the method lacks
    something, MethodError where it fails, naming its log, and StorageError.
    """
    from xmcbench.data.store import rows_of, write_texts

    sweep(place.store)
    with ExitStack() as files, Local(capacity(1, 1, os.environ.get("CUDA_VISIBLE_DEVICES"))) as executor:
        needs = needs_of(planned, 1, place.compute, None, executor.room)
        folder = files.enter_context(scratch())
        store, staged = _stores(place.store, files)
        written = write_texts(folder / "texts.arrow", rows_of(texts, np.arange(len(texts))))
        task = cell_task(planned, replace(place, store=store), needs, staged, files)
        asked = TextFile(str(folder / "texts.arrow"), written.digest)
        # As deep as in its cell: what a method makes of its best labels may depend on how many it is asked for.
        depth = max(k, task.job.k)
        # The results are out of its reach, wherever it runs.
        kept = hidden.with_histories(hidden.of_runs(place.store.root))
        job = msgspec.structs.replace(
            task.job, test=asked, k=depth, hidden=tuple({*task.job.hidden, *kept}), single_use=True
        )
        # A record names the log of its cell, and another run may be writing that.
        task = replace(task, job=job, log=staged.log_path(planned.cell))
        executor.submit(task)
        while not (found := executor.watch(_LOOK_S)):
            pass
        (ended,) = found
        status, reason = status_of(ended.outcome, ended.ending, place.limits.time_s)
        if status == "skipped":
            raise Unavailable(reason)
        if status != "ok":
            log = _kept_log(task.log, planned, store) if store is place.store else None
            raise MethodError(f"{planned.name}: {reason}", f"log: {log}" if log else "")
        predictions = TopK.load(staged.predictions_path(planned.cell))
        predictions.check(len(texts), depth, planned.dataset.label_corpus.rows)
        return TopK(predictions.indices[:, :k], predictions.scores[:, :k])


def _kept_log(log: Path, planned: PlannedCell, store: Store) -> Path | None:
    """Where the log of a method that failed is from now on, beside that of its cell; None where it cannot be kept."""
    cells_own = store.log_path(planned.cell)
    kept = cells_own.with_name(f"text-{cells_own.name}")
    try:
        make_folder(kept.parent)
        move(log, kept)
    except StorageError:
        return None
    return kept


def _stores(kept: Store, files: ExitStack) -> tuple[Store, Store]:
    """The store that a method runs in, and the one for its predictions. kept: the runs folder, taken if it can be."""
    try:
        return kept, files.enter_context(kept.staging())
    except StorageError:
        if kept.root.is_file():
            raise
        store = Store(files.enter_context(scratch()))
        return store, files.enter_context(store.staging())
