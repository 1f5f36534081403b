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


def shipped(name: str) -> Path | None:
    """The folder ``name`` ("datasets", "leaderboards/published") that comes with xmcbench; None if it is missing.

    In a checkout it lies at the root, in an installed package below ``share/xmcbench`` of the environment.
    """
    checkout = _checkout()
    candidates = (root / name for root in ([checkout] if checkout else _installed()))
    return next((path for path in candidates if path.is_dir()), None)


def copies() -> list[Path]:
    """Return every folder that may hold what comes with xmcbench, if it exists: installations and checkouts."""
    return [*filter(None, [_checkout(), _installed_from()]), *_installed()]


def _checkout() -> Path | None:
    parent = Path(__file__).resolve().parents[2]
    # In site-packages, `datasets` could be another project's package.
    return parent if (parent / "pyproject.toml").is_file() else None


def _installed_from() -> Path | None:
    """Return the checkout that the package was installed from, as pip notes it (PEP 610)."""
    try:
        noted = json.loads(metadata.distribution("xmcbench").read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, OSError, ValueError):
        return None
    place = urlsplit(str(noted.get("url", "")))
    return Path(url2pathname(place.path)) if place.scheme == "file" else None


def _installed() -> list[Path]:
    above = str(Path(__file__).resolve().parents[2])
    bases = [sysconfig.get_path("data"), sysconfig.get_path("data", f"{os.name}_user"), sys.prefix, above]
    return [Path(base) / "share" / "xmcbench" for base in bases]
