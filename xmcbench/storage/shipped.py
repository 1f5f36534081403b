"""Data folders that come with xmcbench: the datasets and the published figures."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname


def find_shipped(name: str) -> Path | None:
    """Return the folder ``name`` ("datasets", "leaderboards/published") that comes with xmcbench, or None.

    In a checkout it lies at the root, in an installed package below ``share/xmcbench`` of the environment.
    """
    checkout = _checkout()
    candidates = (root / name for root in ([checkout] if checkout else _install_folders()))
    return next((path for path in candidates if path.is_dir()), None)


def list_copies() -> list[Path]:
    """Return every folder that may hold what comes with xmcbench, if it exists: installations and checkouts."""
    return [*filter(None, [_checkout(), _source_checkout()]), *_install_folders()]


def _checkout() -> Path | None:
    parent = Path(__file__).resolve().parents[2]
    # In site-packages, `datasets` could be another project's package.
    return parent if (parent / "pyproject.toml").is_file() else None


def _source_checkout() -> Path | None:
    """Return the checkout that the package was installed from, as pip notes it (PEP 610)."""
    try:
        noted = json.loads(metadata.distribution("xmcbench").read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, OSError, ValueError):
        return None
    url = urlsplit(str(noted.get("url", "")))
    return Path(url2pathname(url.path)) if url.scheme == "file" else None


def _install_folders() -> list[Path]:
    above = str(Path(__file__).resolve().parents[2])
    bases = [sysconfig.get_path("data"), sysconfig.get_path("data", f"{os.name}_user"), sys.prefix, above]
    return [Path(base) / "share" / "xmcbench" for base in bases]
