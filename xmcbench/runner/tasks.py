"""From a planned cell to a task: its files, its limits, and the paths that it must not read."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from xmcbench.metrics import DEPTH
from xmcbench.runner import isolation
from xmcbench.runner.executors.base import Needs, Task
from xmcbench.runner.executors.process import modules_to_import
from xmcbench.runner.job import Job, TextFile
from xmcbench.storage.atomic import make_folder

if TYPE_CHECKING:
    from xmcbench.data import Dataset
    from xmcbench.environment import Compute
    from xmcbench.records import Store
    from xmcbench.runner.plan import PlannedCell
    from xmcbench.runner.target import Target


def cell_task(planned: PlannedCell, target: Target, needs: Needs, staged: Store, files: ExitStack) -> Task:
    """Return the task of a cell. staged: store of its predictions. files: takes its resources. Raises StorageError."""
    store, limits = target.store, target.limits
    make_folder(staged.predictions_path(planned.cell).parent)
    pairs = files.enter_context(store.subset(planned.dataset.slug, planned.subset))
    job = cell_job(planned, target.compute, needs.threads, store, pairs, staged)
    return Task(planned.cell.key, job, store.log_path(planned.cell), needs, limits.time_s, limits.memory_bytes)


def cell_job(
    planned: PlannedCell,
    compute: Compute,
    threads: int,
    store: Store,
    pairs: Path | None = None,
    staged: Store | None = None,
) -> Job:
    """Return the input of a cell's process, to which its executor adds the path of the outcome.

    pairs: the file of pairs that it may see. staged: the store of its predictions; without it, it only pre-trains.
    Raises StorageError if a folder cannot be made.
    """
    dataset = planned.dataset
    trainings = {name: store.training(key).resolve() for name, key in planned.trainings.items()}
    for folder in (store.artifacts, *trainings.values()):
        make_folder(folder)  # a folder that exists beforehand stays readable in the cell
    corpora = (dataset.train_corpus, dataset.label_corpus, dataset.test_corpus)
    train, labels, test = (TextFile(str(corpus.texts.resolve()), corpus.texts_sha256) for corpus in corpora)
    return Job(
        train=train,
        labels=labels,
        test=test,
        pairs=str(pairs.resolve()) if pairs else None,
        pairs_sha256=planned.cell.subset_sha256,
        k=depth(planned),
        method=planned.cell.method,
        source_sha256=planned.source_sha256,
        plugins=tuple(str(plugin.resolve()) for plugin in planned.plugins),
        parameters=planned.cell.parameters,
        names=planned.names,
        seed=planned.cell.seed,
        compute=msgspec.structs.replace(compute, threads=threads),
        predictions=str(staged.predictions_path(planned.cell).resolve()) if staged else "",
        outcome="",
        artifacts=str(store.artifacts.resolve()),
        trainings={name: str(folder) for name, folder in trainings.items()},
        hidden=isolation.add_histories(_hidden(dataset, store)),
        only="" if staged else "pretrain",
        imports=modules_to_import(planned.packages),
        environment=tuple(sorted(planned.environment)),
    )


def depth(planned: PlannedCell) -> int:
    """Return the number of predictions per test instance."""
    return DEPTH + planned.dataset.longest_filter


def _hidden(dataset: Dataset, store: Store) -> list[Path]:
    """Return the paths that hold pairs, or reveal them; also those of other cells, which are scored meanwhile."""
    known = (isolation.paths_of_machine(), isolation.paths_of_dataset(dataset), isolation.paths_of_runs(store.root))
    return [*chain.from_iterable(known), *store.stagings()]
