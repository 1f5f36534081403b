"""What tasks say to the driver and ask it: an actor in between, since both only ever call, and neither is called."""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import count
from typing import Any

from msgspec import Struct

from xmcbench.progress import Report
from xmcbench.runner.executors.ray.contents import Folder

#: Seconds after which ``take`` returns with nothing.
_PATIENCE_S = 10.0


class Started(Struct, frozen=True):
    """A task has begun. node: its id in the cluster. host: the machine. shared: whether the runs folder is there."""

    node: str
    host: str
    shared: bool


class WantChunk(Struct, frozen=True):
    """Asks for a chunk of a file by its content; the answer is bytes."""

    sha256: str
    number: int


class WantArtifact(Struct, frozen=True):
    """Asks for an artifact; the answer is a ``Folder``, or None where the driver does not have it."""

    name: str


class WhichLack(Struct, frozen=True):
    """Asks which of these artifacts the driver does not have; the answer is their names."""

    names: list[str]


class Chunk(Struct, frozen=True):
    """A chunk of a file on its way to the driver; the answer comes when it is written."""

    file: str
    number: int
    data: bytes


class Artifact(Struct, frozen=True):
    """Says that all files of an artifact were sent, as ``artifacts/NAME/FILE``; the answer comes when it is kept."""

    name: str
    files: Folder


#: What a task says without waiting.
News = Started | Report
#: What a task waits for an answer to.
Question = WantChunk | WantArtifact | WhichLack | Chunk | Artifact


class Message(Struct, frozen=True):
    """What a task says. attempt: which one. number: of the question; None for news."""

    attempt: str
    number: int | None
    said: News | Question


class Failed(Struct, frozen=True):
    """The answer to a question that could not be answered."""

    message: str
    hint: str = ""


class Mailbox:
    """The actor. Its methods are coroutines, so that one that waits keeps no other from being called."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._arrived = asyncio.Event()
        self._questions: dict[int, asyncio.Future[Any]] = {}
        self._numbers = count()

    async def tell(self, attempt: str, news: News) -> None:
        """Leave a message."""
        self._leave(Message(attempt, None, news))

    async def ask(self, attempt: str, question: Question) -> Any:
        """Leave a question, and wait for the answer."""
        number = next(self._numbers)
        self._questions[number] = asyncio.get_running_loop().create_future()
        self._leave(Message(attempt, number, question))
        try:
            return await self._questions[number]
        finally:
            del self._questions[number]

    async def take(self) -> list[Message]:
        """All messages since the last time; waits for one, but not forever."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._arrived.wait()
        except TimeoutError:
            return []
        self._arrived.clear()
        taken = [*self._messages]
        self._messages.clear()
        return taken

    async def answer(self, number: int, answer: Any) -> None:
        """Answer a question, if an answer is still awaited."""
        question = self._questions.get(number)
        if question is not None and not question.done():
            question.set_result(answer)

    def _leave(self, message: Message) -> None:
        self._messages.append(message)
        self._arrived.set()
