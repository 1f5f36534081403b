"""Where what can be computed again is kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """The folder of the cache: $XMCBENCH_CACHE, else xmcbench in $XDG_CACHE_HOME or ~/.cache."""
    own, shared = os.environ.get("XMCBENCH_CACHE"), os.environ.get("XDG_CACHE_HOME")
    return Path(own) if own else (Path(shared) if shared else Path.home() / ".cache") / "xmcbench"


def received() -> Path:
    """The folder in it for what a Ray cluster sends to this machine: ``files`` by content, and ``artifacts``."""
    return cache_root() / "received"
