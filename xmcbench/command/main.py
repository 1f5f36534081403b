"""The entry point of ``xmcbench``: parse, dispatch, and turn errors into one line and an exit code.

0 all good, 1 something failed, 2 the request is wrong, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from xmcbench import __version__
from xmcbench.command.settings_file import expand
from xmcbench.errors import UnknownName, XmcbenchError

#: Verb -> module; one line of help each stands in the module's docstring.
VERBS = (
    "run",
    "ls",
    "score",
    "leaderboard",
    "curve",
    "compare",
    "ablation",
    "confirm",
    "clean",
    "data",
    "check",
    "doctor",
)

_EPILOG = """examples:
  xmcbench run --setting fs --ratio 0.01 --methods all     every method on the bundled data
  xmcbench run --setting ez --dataset path/to/folder       your own data, in the XC raw layout
  xmcbench run --setting ez --plugin my_method.py --methods my-method,tfidf
  xmcbench ls methods                                      what there is, with its parameters
"""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are ours: one line, a hint, exit code 2.

    Flags are not abbreviated: some are read before they are parsed, and what a script says shall mean the same after
    another flag has come.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"xmcbench: error: {message} (see `{self.prog} --help`)\n")


def parser() -> Parser:
    """The whole command line."""
    top = Parser(
        prog="xmcbench",
        description="Benchmark methods of extreme zero-shot and few-shot multi-label text classification.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"xmcbench {__version__}")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    for verb in VERBS:
        module = import_module(f"xmcbench.command.{verb}")
        summary = (module.__doc__ or "").strip().splitlines()[0]
        sub = verbs.add_parser(
            verb, help=summary, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        sub.add_argument("--debug", action="store_true", help="show the traceback of an error")
        module.add(sub)
        sub.set_defaults(run=module.run)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv`` (default: the process's own) and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    # A scheduler's SIGTERM is a Ctrl-C: cells are ended, finished records stay.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    debug = "--debug" in words
    code = 0
    try:
        if words and not words[0].startswith("-") and words[0] not in VERBS:
            raise UnknownName("command", words[0], VERBS)
        try:
            arguments = parser().parse_args(expand(words))
        finally:
            sys.stdout.flush()  # --help ends here
        code = int(arguments.run(arguments))
        sys.stdout.flush()
        return code
    except XmcbenchError as error:
        if debug:
            traceback.print_exc()
        print(f"xmcbench: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("xmcbench: interrupted; finished results are kept, the same command goes on", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output went away (`xmcbench ls | head`): end quietly, also at the interpreter's last flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code
    except OSError as error:
        # The machine's, not ours: a folder that may not be read, a file where a folder should be.
        if debug:
            raise
        where = f"{error.filename}: " if error.filename else ""
        print(f"xmcbench: error: {where}{error.strerror or error} (--debug shows where)", file=sys.stderr)
        return 1
    except Exception as error:
        if debug:
            raise
        print(f"xmcbench: error: {type(error).__name__}: {error} (a defect: --debug shows where)", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
