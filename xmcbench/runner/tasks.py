"""What the process of a cell is told: its files, its limits, and what it must not read."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from xmcbench.metrics import DEPTH
from xmcbench.runner import hidden
from xmcbench.runner.executors.base import Needs, Task
from xmcbench.runner.imports import imports_of
from xmcbench.runner.job import Job, TextFile
from xmcbench.storage.atomic import make_folder

if TYPE_CHECKING:
    from xmcbench.data import Dataset
    from xmcbench.environment import Compute
    from xmcbench.records import Store
    from xmcbench.runner.place import Place
    from xmcbench.runner.plan import PlannedCell


def cell_task(planned: PlannedCell, place: Place, needs: Needs, staged: Store, files: ExitStack) -> Task:
    """The task of a cell. staged: where its predictions go. files: takes what it holds while it runs.

    Raises StorageError where a folder or the pairs cannot be written.
    """
    store, limits = place.store, place.limits
    make_folder(staged.predictions_path(planned.cell).parent)
    pairs = files.enter_context(store.subset(planned.dataset.slug, planned.subset))
    job = cell_job(planned, place.compute, needs.threads, store, pairs, staged)
    return Task(planned.cell.key, job, store.log_path(planned.cell), needs, limits.time_s, limits.memory_bytes)


def cell_job(
    planned: PlannedCell,
    compute: Compute,
    threads: int,
    store: Store,
    pairs: Path | None = None,
    staged: Store | None = None,
) -> Job:
    """What the process of a cell is told; its executor adds where the outcome goes.

    pairs: the file of those that it may see. staged: where its predictions go; without it, pre-training is all it does.
    Raises StorageError where a folder cannot be made.
    """
    dataset = planned.dataset
    trainings = {name: store.training(key).resolve() for name, key in planned.trainings.items()}
    for folder in (store.artifacts, *trainings.values()):
        make_folder(folder)  # a folder that exists beforehand stays readable in the cell
    corpora = (dataset.train_corpus, dataset.label_corpus, dataset.test_corpus)
    train, labels, test = (TextFile(str(each.texts.resolve()), each.texts_sha256) for each in corpora)
    return Job(
        train=train,
        labels=labels,
        test=test,
        pairs=str(pairs.resolve()) if pairs else None,
        pairs_sha256=planned.cell.subset_sha256,
        k=depth(planned),
        method=planned.cell.method,
        source_sha256=planned.source_sha256,
        plugins=tuple(str(each.resolve()) for each in planned.plugins),
        parameters=planned.cell.parameters,
        names=planned.names,
        seed=planned.cell.seed,
        compute=msgspec.structs.replace(compute, threads=threads),
        predictions=str(staged.predictions_path(planned.cell).resolve()) if staged else "",
        outcome="",
        artifacts=str(store.artifacts.resolve()),
        trainings={name: str(folder) for name, folder in trainings.items()},
        hidden=hidden.with_histories(_hidden(dataset, store)),
        only="" if staged else "pretrain",
        imports=imports_of(planned.packages),
        environment=tuple(sorted(planned.environment)),
    )


def depth(planned: PlannedCell) -> int:
    """Predictions per test instance."""
    return DEPTH + planned.dataset.longest_filter


def _hidden(dataset: Dataset, store: Store) -> list[Path]:
    """Files and folders that hold pairs, or reveal them; also those of other cells, which are scored meanwhile."""
    return [*hidden.of_machine(), *hidden.of_dataset(dataset), *hidden.of_runs(store.root), *store.stagings()]
