"""The Hugging Face hub, for methods that check whether their weights are available.

Where the hub cannot be reached, importing its client and failing to connect takes a third of the time of a plan. A
lookup shows that its host has no address, mostly within milliseconds; where a resolver has to time out, the answer is
remembered for a minute.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from urllib.parse import urlsplit

from xmcbench.method import Method

#: The address of the hub, unless HF_ENDPOINT is set.
_HUB = "https://huggingface.co"
#: Seconds for which the answer of a lookup is remembered, at most.
_REMEMBERED_S = 60


@contextmanager
def offline_without_address(method: type[Method]) -> Iterator[None]:
    """Set the hub's client offline for the duration, where the method needs it and its host has no address.

    A proxy looks up the address itself: with one, the client is left as it is.
    """
    if "huggingface_hub" not in method.packages or find_spec("huggingface_hub") is None:
        yield
        return
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or not (_has_address(constants.ENDPOINT) or _has_proxy())
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def has_no_address() -> bool:
    """Return whether the host of the hub has no address here or by a proxy, without importing its client."""
    return not _has_address(os.environ.get("HF_ENDPOINT") or _HUB) and not _has_proxy()


def _has_address(url: str) -> bool:
    return _look_up(url, int(time.monotonic() // _REMEMBERED_S))


@lru_cache(maxsize=4)
def _look_up(url: str, period: int) -> bool:
    """Return whether a host has an address. period: number of the minute, in which the answer is remembered."""
    try:
        socket.getaddrinfo(urlsplit(url).hostname, None)
    except (OSError, UnicodeError):  # unknown, or not a valid name
        return False
    return True


def _has_proxy() -> bool:
    from urllib.request import getproxies  # no plan needs it where the hub has an address

    return bool(getproxies())
