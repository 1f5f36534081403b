"""A function on several threads, for work that leaves Python's lock: in Arrow, numpy, scipy and torch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_threads(
    function: Callable[[T], R], items: Iterable[T], threads: int, prepare: Callable[[], object] = lambda: None
) -> Iterator[R]:
    """Yield ``function`` of each item, in order, from so many threads. At most twice as many items are taken, and
    results kept, as there are threads. prepare: called first in every thread, but not in the caller's, which does the
    work of one thread. Raises what ``function`` raises."""
    if threads == 1:
        yield from map(function, items)
        return
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(threads, initializer=prepare) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) == 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
