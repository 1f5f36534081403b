"""The entry point of ``xmcbench``: parse, dispatch, and turn errors into one line and an exit code.

0 success, 1 a cell failed or another error, 2 the request is wrong, 130 interrupted.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import signal
import sys
import textwrap
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

from xmcbench import __version__
from xmcbench.command.settings_file import expand
from xmcbench.command.terminal import inert_streams
from xmcbench.errors import UnknownName, UsageError, XmcbenchError
from xmcbench.output.escaping import visible
from xmcbench.output.layout import limit_in_pipes
from xmcbench.storage.reading import FLAG, VARIABLE, parse_gib

#: The verbs, each a module of this package; the first line of its docstring is its line of help.
VERBS = (
    *("run", "ls", "fit", "suggest", "tune", "score", "leaderboard", "curve", "compare", "explain", "show"),
    *("power", "rank", "export", "cite", "reproduce", "ablation", "confirm", "clean", "data", "check", "doctor"),
)

#: Width of tables where the standard output is a pipe or a file.
PIPE_COLUMNS = 120

_EPILOG = """examples:
  xmcbench run --setting fs --ratio 0.01 --methods all     all methods on the bundled dataset
  xmcbench run --setting ez --dataset path/to/folder       your own data, in any layout
  xmcbench run --setting ez --plugin my_method.py --methods my-method,tfidf
  xmcbench ls methods                                      all methods, with their parameters
"""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Descriptions wrapped by paragraph, except those with commands."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        wrapped = [
            paragraph
            if re.search(r"^( |xmcbench )", paragraph, re.MULTILINE)
            else textwrap.fill(paragraph, width, break_long_words=False, break_on_hyphens=False)
            for paragraph in text.strip("\n").split("\n\n")
        ]
        return "\n\n".join(wrapped)


class Parser(argparse.ArgumentParser):
    """An argument parser with our error format: one line, a hint, exit code 2.

    Flags cannot be abbreviated: some are read before parsing, and new flags must not change the meaning of a script.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Exit with an error. argparse says "ignored explicit argument" where a switch is given a value."""
        if switch := re.match(r"argument (--([\w-]+)): ignored explicit argument", message):
            message = f"{switch[1]} is a switch: write {switch[1]}, or {switch[2]} = true in a settings file"
        self.exit(2, f"xmcbench: error: {message} (see `{self.prog} --help`)\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Check a value as argparse does, but suggest the nearest choice instead of listing all."""
        choices = [str(choice) for choice in action.choices or ()]
        near = difflib.get_close_matches(str(value), choices, n=1, cutoff=0.5)
        if action.choices is not None and value not in action.choices and near:
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}: did you mean {near[0]!r}?")
        super()._check_value(action, value)

    def own_flags(self) -> list[str]:
        """Return the flags of this parser, without those of its commands."""
        return [flag for action in self._actions for flag in action.option_strings]

    def commands(self) -> dict[str, Parser]:
        """Return name -> parser of the commands of this parser."""
        choices = (action.choices for action in self._actions if isinstance(action.choices, dict))
        return {name: parser for found in choices for name, parser in found.items()}

    def flags(self) -> list[str]:
        """Return every flag of this parser and its commands."""
        return self.own_flags() + [flag for below in self.commands().values() for flag in below.flags()]

    def below(self, word: str) -> Parser:
        """Return the parser of a command, or this one if there is no such command."""
        return self.commands().get(word, self)

    def unknown(self, words: Sequence[str], given: Sequence[str]) -> NoReturn:
        """Exit with an error about unrecognized words. given: the whole command line."""
        word = words[0]
        flag = word.partition("=")[0]
        named = word.startswith("-") and word != "--"
        near = difflib.get_close_matches(flag, self.flags(), n=1, cutoff=0.6) if named else []
        before = given[given.index(word) - 1] if word in given and given.index(word) else ""
        hint = ""
        if near:
            hint = ": put it after the command that takes it" if flag in near else f": did you mean {near[0]}?"
        elif before.endswith(",") or word.startswith(","):
            hint = ": write a list without spaces, or in quotes: --methods tfidf,bm25"
        self.error(f"unrecognized argument {word!r}{hint}")


class _Version(argparse.Action):
    """Print the versions of xmcbench and of the metric protocol."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from xmcbench.metrics import protocol  # numpy comes with it

        print(f"xmcbench {__version__}, metric protocol {protocol.VERSION}")
        parser.exit(0)


class _Completion(argparse.Action):
    """Print the shell script for tab completion."""

    def __call__(self, parser: argparse.ArgumentParser, _: object, values: Any, __: str | None = None) -> None:
        import shtab

        _offer_values(parser)
        print(shtab.complete(parser, shell=values))
        parser.exit(0)


def _offer_values(of: argparse.ArgumentParser) -> None:
    """Give values for completion to flags that take lists, which argparse cannot check."""
    from xmcbench.data.catalog import known_datasets
    from xmcbench.plugins.loading import points

    methods = sorted(point.name for point in points())
    offered = {
        "--setting": ["ez", "fs", "full"],
        "--dataset": [dataset.slug for dataset in known_datasets()],
        "--method": methods,
        "--methods": methods,
    }
    for action in of._actions:
        for flag in action.option_strings:
            if action.choices is None:
                action.choices = offered.get(flag)
        for below in action.choices.values() if isinstance(action.choices, dict) else ():
            _offer_values(below)


def parser() -> Parser:
    """Return the parser of the whole command line."""
    top = Parser(
        prog="xmcbench",
        description="Benchmark methods for extreme zero-shot and few-shot multi-label text classification.",
        epilog=_EPILOG,
        formatter_class=_Help,
    )
    top.add_argument(
        "--version", action=_Version, nargs=0, help="print the versions of xmcbench and of the metric protocol"
    )
    top.add_argument(
        "--print-completion",
        action=_Completion,
        choices=("bash", "zsh", "tcsh"),
        help="print the script for tab completion",
    )
    verbs = top.add_subparsers(dest="verb", metavar="VERB")
    for verb in VERBS:
        module = import_module(f"xmcbench.command.{verb}")
        summary = (module.__doc__ or verb).strip().splitlines()[0]  # python -OO leaves no docstring
        sub = verbs.add_parser(verb, help=summary, description=module.__doc__, formatter_class=_Help)
        _add_common(sub)
        module.add(sub)
        for below in sub.commands().values():
            _add_common(below, default=argparse.SUPPRESS)  # flags before it count, too
        sub.set_defaults(run=module.run)
    return top


def _add_common(to: Parser, **options: Any) -> None:
    to.add_argument("--debug", action="store_true", help="show the traceback of errors", **options)
    to.add_argument(
        "--wide", action="store_true", help="do not limit tables in a pipe or a file to 120 columns", **options
    )
    to.add_argument(
        FLAG,
        type=_gib,
        metavar="GIB",
        help="raise the limits on the size of unpacked data to GIB (default: 2 for arrays, 8 for the memory that "
        "reading a dataset takes, 64 for text files)",
        **options,
    )


def _gib(text: str) -> float:
    try:
        return parse_gib(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _parse(words: list[str]) -> argparse.Namespace:
    """Parse a command line. Exits with code 2 and an error for unrecognized words, with help if there are no words."""
    top = parser()
    if not words:
        top.print_help()
        top.exit(0)
    # Before complaining about a missing flag: it may be there, misspelled.
    verb = top.below(words[0])
    flags = {"--", *(verb.flags() if verb is not top else top.own_flags())}
    named = [(word, word.partition("=")[0]) for word in words if word.startswith("--")]
    misspelled = [word for word, flag in named if flag not in flags and " " not in flag]  # with a space it is a value
    if misspelled:
        verb.unknown(misspelled, words)
    arguments, unknown = top.parse_known_args(words)
    if unknown:
        verb.unknown(unknown, words)
    if arguments.verb is None:
        top.error("a command is required")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv`` (default: the process's own) and return its exit code."""
    with inert_streams():
        return _main(list(sys.argv[1:] if argv is None else argv))


def _main(words: list[str]) -> int:
    # Treat a scheduler's SIGTERM like Ctrl-C: cells are ended, finished records stay.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    debug = "--debug" in words
    try:
        if words and not words[0].startswith("-") and words[0] not in VERBS:
            raise UnknownName("command", words[0], VERBS)
        try:
            grids = [_parse(line) for line in expand(words, lambda: parser().below(words[0]).flags())]
        finally:
            sys.stdout.flush()  # --help ends here
        arguments = grids[0]
        debug = arguments.debug  # a settings file may have it
        arguments.grids = grids  # options of execution are the same in all
        if arguments.max_unpacked is not None:
            os.environ[VARIABLE] = str(arguments.max_unpacked)  # for the processes of cells and of the scorer too
        with limit_in_pipes(None if arguments.wide else PIPE_COLUMNS):
            code = int(arguments.run(arguments))
        sys.stdout.flush()
        return code
    except XmcbenchError as error:
        if debug:
            traceback.print_exc()
        _say(f"error: {error}", *getattr(error, "__notes__", ()))
        return error.exit_code
    except KeyboardInterrupt:
        _say("interrupted; finished results are kept; run the same command to continue")
        return 130
    except OSError as error:
        # An error of the machine: a folder without read permission, a file instead of a folder.
        if debug:
            raise
        where = f"{error.filename}: " if error.filename else ""
        _say(f"error: {where}{error.strerror or error} (--debug shows the traceback)")
        return 1
    except Exception as error:
        if debug:
            raise
        # Python reads bytes that are not UTF-8 as lone surrogates.
        broken = [word for word in words if any("\ud800" <= letter <= "\udfff" for letter in word)]
        if isinstance(error, UnicodeEncodeError) and broken:
            _say(f"error: {visible(broken[0])} is not valid UTF-8")
            return UsageError.exit_code
        _say(f"error: {type(error).__name__}: {error} (internal error; --debug shows the traceback)")
        return 1


def _say(*lines: str) -> None:
    """Print lines on stderr, below what was printed on stdout: a log may have both."""
    with suppress(OSError):
        sys.stdout.flush()
    for line in lines:
        print(f"xmcbench: {line}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
