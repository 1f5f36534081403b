"""Predictions for texts that are in no dataset: a cell's method is trained again and asked about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xmcbench.errors import MethodError, Unavailable
from xmcbench.runner.execution import Place, in_a_process, status_of, sweep
from xmcbench.runner.job import TextFile
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
    with scratch() as folder, place.store.staging() as staged:
        written = write_texts(folder / "texts.arrow", batches_of(texts))
        asked = TextFile(str(folder / "texts.arrow"), written.digest)
        outcome, ending = in_a_process(planned, place, staged, k, asked)
        status, reason = status_of(outcome, ending, place.limits)
        if status == "skipped":
            raise Unavailable(reason)
        if status != "ok":
            raise MethodError(f"{planned.name}: {reason}", f"log: {place.store.log_path(planned.cell)}")
        predictions = TopK.load(staged.predictions_path(planned.cell))
        predictions.check(len(texts), k, planned.dataset.label_corpus.rows)
        return predictions
