"""What the driver gives machines and takes from them: files by content, artifacts by name."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from xmcbench.errors import StorageError
from xmcbench.runner import wanted
from xmcbench.runner.executors.ray.contents import (
    CHUNK,
    Content,
    Folder,
    Lost,
    chunk_of,
    content_of,
    folder_of,
    has,
    is_below,
)
from xmcbench.runner.executors.ray.mailbox import Artifact, Chunk, Question, WantArtifact, WantChunk, WhichLack
from xmcbench.storage.artifact_files import COST
from xmcbench.storage.artifact_stores import locate
from xmcbench.storage.atomic import make_folder, move
from xmcbench.storage.locks import CLAIM, Claim


class Depot:
    """Answers questions of attempts. runs: the runs folder. incoming: for files on their way here."""

    def __init__(self, runs: Path, incoming: Path) -> None:
        self._runs, self._incoming = runs, incoming
        self._offered: dict[str, Path] = {}

    def offer(self, path: Path) -> Content:
        """Let machines ask for a file by its content. Raises StorageError where it cannot be read."""
        try:
            content = content_of(path)
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error
        self._offered[content.sha256] = path
        return content

    def answer(self, attempt: str, question: Question) -> Any:
        """The answer to a question. Raises StorageError."""
        match question:
            case WantChunk(sha256, number) if sha256 in self._offered:
                return chunk_of(self._offered[sha256], number)
            case WantArtifact(name) if wanted.is_artifact(name):
                folder = locate(self._runs, name)
                return self._offered_folder(folder) if (folder / COST).exists() else None
            case WhichLack(names):
                return [name for name in names if not (locate(self._runs, name) / COST).exists()]
            case Chunk(file, number, data) if is_below(file):
                return self._write(self._incoming / attempt / file, number, data)
            case Artifact(name, files) if wanted.is_artifact(name) and all(map(is_below, files)):
                return self._keep(self._incoming / attempt / "artifacts" / name, name, files)
        raise StorageError(f"the driver was asked for what it does not have: {str(question)[:200]}")

    def take(self, attempt: str, name: str, content: Content, data: bytes | None, target: Path) -> None:
        """Put a file where it belongs: from data, or from what was sent before.

        Raises Lost where it did not arrive as it was sent, which is known by its content, and StorageError where it
        cannot be written.
        """
        path = self._incoming / attempt / name
        if data is not None:
            self._write(path, 0, data)
        if not has(path, content):
            raise Lost(f"{name}: checksum mismatch on the way between machines")
        make_folder(target.parent)
        move(path, target)

    def forget(self, attempt: str) -> None:
        """Remove what an attempt has sent."""
        shutil.rmtree(self._incoming / attempt, ignore_errors=True)

    def _offered_folder(self, folder: Path) -> dict[str, Content]:
        try:
            found = folder_of(folder)
        except OSError as error:
            raise StorageError(f"{folder} cannot be read: {error.strerror or error}") from error
        for name in found:
            self.offer(folder / name)
        return found

    def _write(self, path: Path, number: int, data: bytes) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666), "wb") as stream:
                stream.seek(number * CHUNK)
                stream.write(data)
        except OSError as error:
            raise StorageError.from_os_error(error, path) from error

    def _keep(self, sent: Path, name: str, files: Folder) -> None:
        """Take an artifact over, unless somebody has made it meanwhile."""
        if not all(has(sent / file, content) for file, content in files.items()):
            raise StorageError(f"the artifact {name}: checksum mismatch on the way between machines")
        target = locate(self._runs, name)
        make_folder(target.parent)
        with Claim(target.with_suffix(CLAIM)) as claim:
            if claim.held and not target.exists():
                try:
                    os.replace(sent, target)
                except OSError as error:
                    raise StorageError.from_os_error(error, target) from error
