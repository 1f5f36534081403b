"""Folders of the data that come with xmcbench, and of the cache, whose files can be made again; names of files."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from xmcbench.environment import install_note
from xmcbench.errors import StorageError


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
    """Return the checkout that the package was installed from."""
    url = urlsplit(str(install_note().get("url", "")))
    return Path(url2pathname(url.path)) if url.scheme == "file" else None


def _install_folders() -> list[Path]:
    above = str(Path(__file__).resolve().parents[2])
    bases = [sysconfig.get_path("data"), sysconfig.get_path("data", f"{os.name}_user"), sys.prefix, above]
    return [Path(base) / "share" / "xmcbench" for base in bases]


def cache_root() -> Path:
    """Return the folder of the cache: $XMCBENCH_CACHE, else xmcbench in $XDG_CACHE_HOME or ~/.cache."""
    return read_path("XMCBENCH_CACHE") or _caches() / "xmcbench"


def hub_home() -> Path:
    """Return the folder of the Hugging Face hub: $HF_HOME, else huggingface in $XDG_CACHE_HOME or ~/.cache."""
    return read_path("HF_HOME") or _caches() / "huggingface"


def read_path(variable: str) -> Path | None:
    """Return the path in an environment variable, with ~ and other variables in it expanded, as huggingface_hub does.

    None where the variable is not set or empty.
    """
    given = os.environ.get(variable)
    return Path(os.path.expandvars(os.path.expanduser(given))) if given else None


def _caches() -> Path:
    if given := read_path("XDG_CACHE_HOME"):
        return given
    try:
        return Path.home() / ".cache"
    except RuntimeError:  # a user without an entry, as in some containers
        raise StorageError("there is no home directory for the cache", "set XMCBENCH_CACHE and HF_HOME") from None


def cluster_cache() -> Path:
    """Return the folder for what a Ray cluster sends to this machine: ``files`` by content, and ``artifacts``."""
    return cache_root() / "received"


#: Bytes of a name in UTF-8: file systems allow 255, and a seed, a key and a suffix are added to it.
_LONGEST = 120


def check_name(what: str, name: str) -> None:
    """Raise ValueError for a name that cannot name a file, or that nobody could read. what: the thing with the name."""
    reasons = {
        "it has no letter": not name.strip(". "),
        "it begins or ends with a space": name != name.strip(),
        "it has a slash or a backslash": bool({*name} & {*"/\\"}),
        # Control characters, invisible ones, and spaces other than " ".
        "it has characters that cannot be seen": not name.isprintable(),
        f"it is longer than {_LONGEST} bytes": len(name.encode(errors="replace")) > _LONGEST,
    }
    for reason, is_met in reasons.items():
        if is_met:
            shown = ascii(name) if len(name) <= _LONGEST else f"{name[:40]!a}..."
            raise ValueError(f"{what} is {shown}, which is not a valid file name: {reason}")
