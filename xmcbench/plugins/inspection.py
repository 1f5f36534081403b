"""Looking at a plug-in in a process of its own, with a time limit: its code can end, hang or break that process only.

The process imports the plug-in, describes its methods, and asks them what they say of themselves under given
parameters. It writes each answer at once, so that a crash later on does not lose it. Questions that are known together
are asked by one process.
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
from xmcbench.contents import contents
from xmcbench.errors import PluginError, UnknownName, UsageError, XmcbenchError
from xmcbench.method import Method
from xmcbench.plugins.description import Description, Values
from xmcbench.plugins.hub import offline_without_address
from xmcbench.plugins.loading import Imported, from_file, from_point, import_file, origin_of, point
from xmcbench.processes.secrets import without_secrets
from xmcbench.processes.supervisor import supervise
from xmcbench.storage.atomic import atomic_file
from xmcbench.storage.source import source_of
from xmcbench.storage.temporary import scratch

#: Seconds that a plug-in has to be imported and to answer.
TIME_LIMIT_S = 60.0
#: Bytes of a description, which is a few thousand.
_LARGEST_FOUND = 1 << 16


class Plugin(Struct, frozen=True):
    """Where methods come from: a plug-in file, or the entry point of this name in an installed package."""

    file: str | None = None
    name: str = ""


About = Literal["describe", "require", "uses", "inputs"]


class Question(Struct, frozen=True):
    """A question to a method with parameters: about its description, its parts, its inputs, or missing requirements.

    files: plug-in files that hold methods which it uses.
    """

    name: str
    about: About
    values: Values
    files: tuple[str, ...] = ()


class Answer(Struct, frozen=True):
    """What a method said; error: the kind of error where it raised one, with its message and hint."""

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
            with offline_without_address(method):
                if question.about == "inputs":
                    return cls(msgspec.json.encode(contents(made)).decode())
                made.require()
        except XmcbenchError as error:
            # An unknown name in a request ends the plan; a name that a method does not know leaves out the method.
            kind = UsageError.__name__ if isinstance(error, UnknownName) else errors.kind_of(error)
            return cls("", kind, error.message, error.hint)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a method can raise anything, even SystemExit
            return cls.none(question, errors.told(error))
        return cls()

    @classmethod
    def none(cls, question: Question, reason: str) -> Answer:
        """What it is that a method has no answer."""
        return cls("", PluginError.__name__, f"{question.name} cannot be inspected: {reason}")

    def unwrap(self) -> str:
        """What it said. Raises the error that it raised."""
        if self.error:
            raise errors.of_kind(self.error, self.message, self.hint)
        return self.said


class Inspected(Struct, frozen=True, kw_only=True):
    """One method of a plug-in: its name and origin, and its description and source, or why there are none."""

    name: str
    origin: str
    problem: str = ""
    description: Description | None = None
    source_sha256: str = ""


class _Job(Struct, frozen=True):
    """questions: None for what every run asks."""

    plugin: Plugin
    questions: tuple[Question, ...] | None


class _Found(Struct, frozen=True):
    methods: tuple[Inspected, ...]
    answers: tuple[tuple[Question, Answer], ...] = ()


class Inspection:
    """A plug-in as it was found, and what its methods say; nothing is asked twice.

    methods: what there is; if the process failed, one method with the reason, under the name of the plug-in.
    """

    def __init__(self, plugin: Plugin, origin: str, time_limit_s: float | None = TIME_LIMIT_S) -> None:
        """Look at a plug-in. origin: where it comes from, in words. time_limit_s: for each process that looks at it."""
        self._plugin, self._time_limit_s = plugin, time_limit_s
        self._answers: list[tuple[Question, Answer]] = []
        self.methods: tuple[Inspected, ...] = ()
        found, reason = self._look(None)
        name = Path(plugin.file).stem if plugin.file else plugin.name
        broken = Inspected(name=name, origin=origin, problem=f"cannot be imported: {reason}")
        self.methods = found.methods if found else (broken,)

    def answer(self, question: Question) -> Answer:
        """What a method says; a process asks it where none did before."""
        self.ask([question])
        answer = self._answered(question)
        assert answer is not None
        return answer

    def ask(self, questions: Sequence[Question]) -> None:
        """Ask in one process what was not asked before, and go on in another one after a question that ended it."""
        while waiting := self._open(questions):
            _, reason = self._look(tuple(waiting))
            if left := self._open(waiting):
                self._answers.append((left[0], Answer.none(left[0], reason)))

    def _open(self, questions: Sequence[Question]) -> list[Question]:
        return [each for each in questions if self._answered(each) is None]

    def _answered(self, question: Question) -> Answer | None:
        return next((answer for asked, answer in self._answers if asked == question), None)

    def _look(self, questions: tuple[Question, ...] | None) -> tuple[_Found | None, str]:
        """What a process found, None where it did not get so far; and how it ended if that was too early."""
        asked = {each.name for each in questions or ()}
        named = [each.description.environment for each in self.methods if each.description and each.name in asked]
        secrets = [*chain.from_iterable(named)]
        with scratch() as folder:
            job, found, finished = (folder / name for name in ("job.json", "found.json", "finished.json"))
            log = folder / "log"
            _write(job, _Job(self._plugin, questions))
            ending = supervise(
                "xmcbench.plugins.inspection",
                [str(job), str(found), str(finished)],
                log,
                {**without_secrets(secrets), "PYTHONHASHSEED": "0", "TMPDIR": str(folder)},
                finished,
                self._time_limit_s,
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
    with atomic_file(path) as stream:
        stream.write(msgspec.json.encode(value))


def _check_room(folder: Path) -> None:
    """Raise StorageError where a process in this folder could not write what it found: that is not the plug-in's."""
    with atomic_file(folder / "room") as stream:
        stream.write(bytes(_LARGEST_FOUND))


def main(job_file: str, found_file: str, finished_file: str) -> None:
    """Look at the plug-in that a job names; write down what is found after each step, and in the end that it is all."""
    job = msgspec.json.decode(Path(job_file).read_bytes(), type=_Job)
    imported = from_file(Path(job.plugin.file)) if job.plugin.file else [_from_point(job.plugin.name)]
    methods = tuple(map(_inspected, imported))
    found = _Found(methods)
    if job.questions is None:
        _write(Path(found_file), found)
    classes = {each.name: each.method for each in imported if each.method}
    for question in job.questions or _usual(methods):
        found = _Found(methods, (*found.answers, (question, _answer(classes[question.name], question))))
        _write(Path(found_file), found)
    _write(Path(finished_file), len(found.answers))


def _from_point(name: str) -> Imported:
    found = point(name)
    try:
        return from_point(found)
    except KeyboardInterrupt as error:  # of the import itself: nobody interrupts this process
        return Imported(name, origin_of(found), None, f"cannot be imported: {errors.told(error)}")


def _answer(method: type[Method], question: Question) -> Answer:
    try:
        for each in question.files:
            import_file(Path(each))
        return Answer.of(method, question)
    except XmcbenchError as error:
        return Answer.none(question, str(error))
    except KeyboardInterrupt as error:  # of the method itself
        return Answer.none(question, errors.told(error))


def _inspected(imported: Imported) -> Inspected:
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
    """What every run asks: how the rows of the presets are called."""
    for each in methods:
        about = each.description
        if about is None or not about.describes:
            continue
        for preset in ({}, *about.presets.values()):
            yield Question(each.name, "describe", about.resolve(each.name, preset))


if __name__ == "__main__":
    main(*sys.argv[1:])
