"""Trials of one kind in a process of its own, under 2 GiB of memory and 20 s each; one line of JSON for each.

python attack.py KIND SEED FIRST LAST BASE
"""

import faulthandler
import json
import os
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

MEMORY, SECONDS = 2 << 30, 20


class TooSlow(BaseException):
    """A trial that did not end in time. No handler of errors catches it."""


def _stop(*_):
    raise TooSlow


def _limit_memory():
    """Allow 2 GiB beyond what the imports take."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))


def outcome_of(kind, chance, error):
    """Return the outcome of one trial. ``error``: the class of the one error that may come."""
    signal.alarm(SECONDS * kind.each)
    faulthandler.dump_traceback_later(2 * SECONDS * kind.each, exit=True)  # where no handler runs
    try:
        return kind.trial(chance)
    except error as refusal:
        return "refused" if str(refusal).strip() and "\n" not in str(refusal) else f"an empty error: {refusal!r}"
    except TooSlow:
        return f"it took more than {SECONDS * kind.each} s"
    except BaseException:
        return traceback.format_exc(limit=-6)
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()


def main(name, seed, first, last, base):
    warnings.simplefilter("error")
    signal.signal(signal.SIGALRM, _stop)
    with tempfile.TemporaryDirectory(prefix="faults-") as scratch:
        os.environ["XMCBENCH_CACHE"] = str(Path(scratch, "cache"))
        import mutators
        from targets import ERROR, KINDS

        folder = Path(scratch, "work")
        folder.mkdir()
        kind = KINDS[name](Path(base), folder)
        kind.check()
        _limit_memory()
        for trial in range(first, last):
            made = outcome_of(kind, mutators.chance_of(name, seed, trial), ERROR)
            print(json.dumps([trial, made if isinstance(made, list) else [made]]), flush=True)
        kind.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
