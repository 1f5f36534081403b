"""Run canaries and store their outcomes, which are then those of today's code.

python tests/canaries/store.py [METHOD ...]
"""

import sys

from xmcbench.runner.canaries.run import store

if __name__ == "__main__":
    for method, outcomes in store(sys.argv[1:] or None).items():
        for name, outcome in outcomes.items():
            if outcome.status != "ok":
                print(f"{method}.{name}: {outcome.status}: {outcome.reason}")
