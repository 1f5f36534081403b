"""Inspection of a plug-in in a separate process with a time limit: its code can end, hang or break only this process.

The process imports the plug-in, describes its methods, and asks them questions about given parameters. It writes each
answer at once, so that a later crash does not lose it. One process asks all questions that are known together.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from xmcbench import errors
from xmcbench.errors import PluginError, UnknownName, UsageError, XmcbenchError
from xmcbench.method import Method, contents
from xmcbench.plugins.description import Description, Values
from xmcbench.plugins.hub import offline_without_address
from xmcbench.plugins.loading import Imported, from_file, from_point, import_file, origin_of, point
from xmcbench.processes.supervisor import Supervised, supervise, without_secrets
from xmcbench.storage.atomic import write_text
from xmcbench.storage.source import source_of
from xmcbench.storage.temporary import scratch

#: Seconds that a plug-in has to be imported and to answer.
TIME_LIMIT_S = 60.0
#: More bytes than a description has.
_LARGEST_FOUND = 1 << 16


class Plugin(Struct, frozen=True):
    """A source of methods: a plug-in file, or the entry point of this name in an installed package."""

    file: str | None = None
    name: str = ""


About = Literal["describe", "require", "uses", "inputs", "estimate_calls"]


class Question(Struct, frozen=True):
    """A question to a method with parameters: about its description, its parts, its inputs, or missing requirements.

    files: plug-in files that hold methods which it uses. sizes: of texts, as ``Method.estimate_calls`` has them.
    """

    name: str
    about: About
    values: Values
    files: tuple[str, ...] = ()
    sizes: dict[str, tuple[int, float]] = {}


class Answer(Struct, frozen=True):
    """The answer of a method, or the kind of error that it raised, with its message and hint."""

    said: str = ""
    error: str = ""
    message: str = ""
    hint: str = ""

    @classmethod
    def of(cls, method: type[Method], question: Question) -> Answer:
        """Ask a method that is imported here. Raises KeyboardInterrupt: a user may stop a run while it plans."""
        try:
            made = method(**question.values)
            if question.about == "describe":
                return cls(str(made.describe()))
            if question.about == "uses":
                named = made.uses()
                if isinstance(named, str):
                    raise UsageError(f"{question.name}.uses() is {named!r}", "return a tuple of names")
                return cls("\n".join(named))
            if question.about == "estimate_calls":
                calls, tokens = made.estimate_calls(question.sizes)
                return cls(f"{int(calls)} {int(tokens)}")
            return cls(_ask_about_place(made, question.about))
        except XmcbenchError as error:
            # An unknown name in a request ends the plan; a name that a method does not know leaves out the method.
            kind = UsageError.__name__ if isinstance(error, UnknownName) else errors.kind_of(error)
            return cls("", kind, error.message, error.hint)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a method can raise anything, even SystemExit
            return cls.none(question, errors.summarize(error))

    @classmethod
    def none(cls, question: Question, reason: str) -> Answer:
        """Return the answer of a method that could not be asked."""
        return cls("", PluginError.__name__, f"{question.name} cannot be inspected: {reason}")

    def unwrap(self) -> str:
        """Return the answer. Raises the error that the method raised."""
        if self.error:
            raise errors.of_kind(self.error, self.message, self.hint)
        return self.said


def _ask_about_place(made: Method, about: About) -> str:
    with offline_without_address(type(made)):
        if about == "inputs":
            return msgspec.json.encode(contents(made)).decode()
        made.require()
    return ""


class Inspected(Struct, frozen=True, kw_only=True):
    """One method of a plug-in: its name and origin, and its description and source, or the problem."""

    name: str
    origin: str
    problem: str = ""
    description: Description | None = None
    source_sha256: str = ""


class _Job(Struct, frozen=True):
    """A job of the process. questions: None for those of every run."""

    plugin: Plugin
    questions: tuple[Question, ...] | None


class _Found(Struct, frozen=True):
    methods: tuple[Inspected, ...]
    answers: tuple[tuple[Question, Answer], ...] = ()


class Inspection:
    """A plug-in as it was found, and the answers of its methods; nothing is asked twice.

    methods: of the plug-in; if the process failed, one method with the reason, under the name of the plug-in.
    """

    def __init__(self, plugin: Plugin, origin: str, time_limit_s: float | None = TIME_LIMIT_S) -> None:
        """Inspect a plug-in. origin: of the plug-in, in words. time_limit_s: of every process."""
        self._plugin, self._time_limit_s = plugin, time_limit_s
        self._answers: list[tuple[Question, Answer]] = []
        self.methods: tuple[Inspected, ...] = ()
        found, reason = self._look(None)
        name = Path(plugin.file).stem if plugin.file else plugin.name
        broken = Inspected(name=name, origin=origin, problem=f"cannot be imported: {reason}")
        self.methods = found.methods if found else (broken,)

    def answer(self, question: Question) -> Answer:
        """Return the answer of a method; a process asks it if none did before."""
        self.ask([question])
        answer = self._find_answer(question)
        assert answer is not None
        return answer

    def ask(self, questions: Sequence[Question]) -> None:
        """Ask new questions in one process, and continue in another process after a question that ended it."""
        while waiting := self._open(questions):
            _, reason = self._look(tuple(waiting))
            if left := self._open(waiting):
                self._answers.append((left[0], Answer.none(left[0], reason)))

    def _open(self, questions: Sequence[Question]) -> list[Question]:
        return [question for question in questions if self._find_answer(question) is None]

    def _find_answer(self, question: Question) -> Answer | None:
        return next((answer for asked, answer in self._answers if asked == question), None)

    def _look(self, questions: tuple[Question, ...] | None) -> tuple[_Found | None, str]:
        """Return what a process found, None if it ended too early for that; and how it ended."""
        asked = {question.name for question in questions or ()}
        about = [method.description for method in self.methods if method.description and method.name in asked]
        secrets = [*chain.from_iterable(description.environment for description in about)]
        with scratch() as folder:
            job, found, finished = (folder / name for name in ("job.json", "found.json", "finished.json"))
            log = folder / "log"
            _write(job, _Job(self._plugin, questions))
            environment = {**without_secrets(secrets), "PYTHONHASHSEED": "0", "TMPDIR": str(folder)}
            files = [str(job), str(found), str(finished)]
            ending = supervise(
                Supervised("xmcbench.plugins.inspection", files, log, environment, finished, self._time_limit_s)
            )
            if not finished.exists():
                _check_room(folder)
            read = msgspec.json.decode(found.read_bytes(), type=_Found) if found.exists() else None
            last = [line for line in log.read_text(errors="replace").splitlines() if line.strip()][-1:]
        self._answers += read.answers if read else ()
        if ending.timed_out:
            return read, f"stopped after {self._time_limit_s:g} s"
        return read, ": ".join([ending.reason, *last])


def _write(path: Path, value: object) -> None:
    """Write a value as JSON, whole or not at all; mappings, such as rows of an ablation, keep their order."""
    write_text(path, msgspec.json.encode(value).decode())


def _check_room(folder: Path) -> None:
    """Raise StorageError where a process in this folder had no room to write: that is not an error of the plug-in."""
    write_text(folder / "room", " " * _LARGEST_FOUND)


def main(job_file: str, found_file: str, finished_file: str) -> None:
    """Inspect the plug-in of a job; write the findings after each step, and another file at the end."""
    job = msgspec.json.decode(Path(job_file).read_bytes(), type=_Job)
    imported = from_file(Path(job.plugin.file)) if job.plugin.file else [_from_point(job.plugin.name)]
    methods = tuple(map(_inspect, imported))
    found = _Found(methods)
    if job.questions is None:
        _write(Path(found_file), found)
    classes = {method.name: method.method for method in imported if method.method}
    for question in job.questions or _usual(methods):
        found = _Found(methods, (*found.answers, (question, _answer(classes[question.name], question))))
        _write(Path(found_file), found)
    _write(Path(finished_file), len(found.answers))


def _from_point(name: str) -> Imported:
    found = point(name)
    try:
        return from_point(found)
    except KeyboardInterrupt as error:  # of the import itself: nobody interrupts this process
        return Imported(name, origin_of(found), None, f"cannot be imported: {errors.summarize(error)}")


def _answer(method: type[Method], question: Question) -> Answer:
    try:
        for file in question.files:
            import_file(Path(file))
        return Answer.of(method, question)
    except XmcbenchError as error:
        return Answer.none(question, str(error))
    except KeyboardInterrupt as error:  # of the method itself
        return Answer.none(question, errors.summarize(error))


def _inspect(imported: Imported) -> Inspected:
    name, origin, problem = imported.name, imported.origin, imported.problem
    if imported.method is None:
        return Inspected(name=name, origin=origin, problem=problem)
    about = Description.of(imported.method)
    try:
        source = source_of(imported.method).digest
    except (ImportError, OSError) as error:
        return Inspected(name=name, origin=origin, problem=f"has no source that can be read: {error}")
    return Inspected(name=name, origin=origin, description=about, source_sha256=source)


def _usual(methods: tuple[Inspected, ...]) -> Iterator[Question]:
    """Yield the questions of every run: the descriptions of the presets."""
    for method in methods:
        about = method.description
        if about is None or "describe" not in about.defines:
            continue
        for preset in ({}, *about.presets.values()):
            yield Question(method.name, "describe", about.resolve(method.name, preset))


if __name__ == "__main__":
    main(*sys.argv[1:])
