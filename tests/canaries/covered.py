"""Run all canaries in this process, where the functions that numba compiles are Python: their lines count then."""

import os
import sys

os.environ["NUMBA_DISABLE_JIT"] = "1"

from xmcbench.runner.canaries.cells import canaries
from xmcbench.runner.canaries.run import run


def main() -> int:
    failed = 0
    for canary in canaries():
        outcome = run(canary)
        if outcome.status != "ok":
            print(f"{canary.method}.{canary.name}: {outcome.status}: {outcome.reason}")
            failed += outcome.status == "failed"
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
