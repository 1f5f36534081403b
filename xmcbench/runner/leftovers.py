"""What runs that were killed left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xmcbench.processes.lifetime import end_orphans
from xmcbench.storage.artifacts import sweep_artifacts, sweep_stores
from xmcbench.storage.cache import cache_root, received
from xmcbench.storage.temporary import sweep as sweep_folder
from xmcbench.storage.temporary import sweep_scratch

if TYPE_CHECKING:
    from xmcbench.records import Store


def sweep(store: Store) -> None:
    """Remove what was left on this machine and in a runs folder: files that were being written, dead claims."""
    sweep_machine()
    store.sweep()


def sweep_machine() -> None:
    """Remove what was left on this machine: processes, temporary folders, and what is half made in the cache."""
    end_orphans()
    sweep_scratch()
    sweep_artifacts(cache_root())
    sweep_stores(received())
    sweep_folder(received() / "files")
