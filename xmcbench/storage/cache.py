"""The cache: files that can be made again, kept between runs."""

from __future__ import annotations

import os
from pathlib import Path

from xmcbench.errors import StorageError


def cache_root() -> Path:
    """Return the folder of the cache: $XMCBENCH_CACHE, else xmcbench in $XDG_CACHE_HOME or ~/.cache."""
    own = os.environ.get("XMCBENCH_CACHE")
    return Path(own).expanduser() if own else _caches() / "xmcbench"


def hub_home() -> Path:
    """Return the folder of the Hugging Face hub: $HF_HOME, else huggingface in $XDG_CACHE_HOME or ~/.cache."""
    return Path(os.environ.get("HF_HOME") or _caches() / "huggingface")


def _caches() -> Path:
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given)
    try:
        return Path.home() / ".cache"
    except RuntimeError:  # a user without an entry, as in some containers
        raise StorageError("there is no home directory for the cache", "set XMCBENCH_CACHE and HF_HOME") from None


def cluster_cache() -> Path:
    """Return the folder for what a Ray cluster sends to this machine: ``files`` by content, and ``artifacts``."""
    return cache_root() / "received"
