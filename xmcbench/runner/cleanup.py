"""Removal of the remains of killed runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xmcbench.processes.process_tree import kill_orphans
from xmcbench.storage.artifact_store import sweep_store, sweep_stores
from xmcbench.storage.locations import cache_root, cluster_cache
from xmcbench.storage.temporary import sweep as sweep_folder
from xmcbench.storage.temporary import sweep_scratch

if TYPE_CHECKING:
    from xmcbench.records import Store


def sweep(store: Store) -> None:
    """Remove remains on this machine and in a runs folder: unfinished files, and claims of dead processes."""
    sweep_machine()
    store.sweep()


def sweep_machine() -> None:
    """Remove remains on this machine: processes, temporary folders, and unfinished work in the cache."""
    kill_orphans()
    sweep_scratch()
    sweep_store(cache_root())
    sweep_stores(cluster_cache())
    sweep_folder(cluster_cache() / "files")
