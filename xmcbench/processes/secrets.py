"""Secrets in the environment, which processes that run code of a method get only where the method names them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

_SECRET = re.compile(r"(.*_)?(TOKEN|KEY|SECRET|PASSWORD)", re.IGNORECASE)


def without_secrets(named: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables of this process without secrets, told by their names, except the named ones."""
    kept = {*named}
    return {name: value for name, value in os.environ.items() if name in kept or not _SECRET.fullmatch(name)}
