"""Predictions for texts that are in no dataset: a cell's method is trained again and asked about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from xmcbench.errors import MethodError, Unavailable
from xmcbench.processes.supervisor import supervise
from xmcbench.runner.execution import Place, environment_of, job_of, status_of, sweep
from xmcbench.runner.job import Outcome, TextFile
from xmcbench.storage.atomic import make_folder
from xmcbench.storage.temporary import scratch
from xmcbench.topk import TopK

if TYPE_CHECKING:
    from xmcbench.runner.plan import PlannedCell
    from xmcbench.texts import Texts


def predict_texts(planned: PlannedCell, place: Place, texts: Texts, k: int) -> TopK:
    """The k best labels of each text by the method of a planned cell, trained as that cell trains it.

    The method runs in a process of its own, as in a cell; features and pre-training that the runs folder has are used
    again. Nothing is recorded. Raises Unavailable where the method lacks something, MethodError where it fails,
    StorageError.
    """
    from xmcbench.data.store import batches_of, write_texts

    sweep(place.store)
    make_folder(place.store.artifacts)
    log = place.store.log_path(planned.cell)
    with scratch() as folder, place.store.subset(planned.dataset.slug, planned.subset) as pairs:
        path, outcome_file, answers = folder / "texts.arrow", folder / "outcome.json", folder / "answers"
        written = write_texts(path, batches_of(texts))
        answers.mkdir()
        job = job_of(planned, place, pairs, k, outcome_file)
        job = msgspec.structs.replace(
            job, test=TextFile(str(path), written.digest), predictions=str(answers / "predictions.npz")
        )
        job.write(folder / "job.json")
        limits = place.limits
        ending = supervise(
            "xmcbench.runner.worker",
            [str(folder / "job.json")],
            log,
            environment_of(folder),
            outcome_file,
            limits.time_s,
            int(limits.memory_gib * 2**30) if limits.memory_gib else None,
        )
        outcome = Outcome.read(outcome_file)
        status, reason = status_of(outcome, ending, limits)
        if status == "skipped":
            raise Unavailable(reason)
        if status != "ok":
            raise MethodError(f"{planned.name}: {reason}", f"log: {log}")
        predictions = TopK.load(answers / "predictions.npz")
        predictions.check(len(texts), k, planned.dataset.label_corpus.rows)
        return predictions
