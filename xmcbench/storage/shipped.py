"""Data folders that come with xmcbench: the datasets and the published figures."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path


def shipped(name: str) -> Path | None:
    """The folder ``name`` ("datasets", "leaderboards/published") that comes with xmcbench; None if it is missing.

    In a checkout it lies at the root, in an installed package below ``share/xmcbench`` of the environment.
    """
    parent = Path(__file__).resolve().parents[2]
    if (parent / "pyproject.toml").is_file():  # in site-packages, `datasets` could be another project's package
        candidates = [parent / name]
    else:
        bases = [sysconfig.get_path("data"), sysconfig.get_path("data", f"{os.name}_user"), sys.prefix, str(parent)]
        candidates = [Path(base) / "share" / "xmcbench" / name for base in bases]
    return next((path for path in candidates if path.is_dir()), None)
