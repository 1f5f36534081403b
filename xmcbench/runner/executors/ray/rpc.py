"""Messages between tasks and the driver, passed on by an actor because neither can call the other."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

from msgspec import Struct

from xmcbench.progress import Report

#: Seconds after which ``take`` returns an empty list.
_PATIENCE_S = 10.0


class Started(Struct, frozen=True):
    """A task has begun on a machine."""

    host: str


class Request(Struct, frozen=True):
    """A call of a method of ``FileServer``, which its task waits for."""

    method: str
    arguments: tuple[Any, ...]


class Failure(Struct, frozen=True):
    """The answer to a request that failed."""

    message: str
    hint: str = ""


class Message(Struct, frozen=True):
    """A message of an attempt to run a task. number: of a request."""

    attempt: str
    body: Started | Report | Request
    number: int = -1


class Rpc:
    """The actor. Its methods are coroutines, so that a waiting call does not block the others."""

    def __init__(self) -> None:
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._numbers = count()

    async def tell(self, attempt: str, body: Started | Report) -> None:
        """Leave a message."""
        self._messages.put_nowait(Message(attempt, body))

    async def ask(self, attempt: str, request: Request) -> Any:
        """Leave a request and wait for the answer."""
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        self._messages.put_nowait(Message(attempt, request, number))
        return await self._answers[number]

    async def take(self) -> list[Message]:
        """Return the new messages; wait for one, but not forever."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                first = await self._messages.get()
        except TimeoutError:
            return []
        return [first, *(self._messages.get_nowait() for _ in range(self._messages.qsize()))]

    async def answer(self, number: int, answer: Any) -> None:
        """Answer a request, unless the actor was restarted and has forgotten it."""
        if request := self._answers.pop(number, None):
            request.set_result(answer)
