"""A mutation run: change one thing in the harness, run the tests that reach it, and see whether one fails.

    python tests/mutation/mutants.py --work FOLDER [--only GLOB ...] [--part 0.25] [--again]

The mutants are those of cosmic-ray (``rules.py`` says which), and so is the session file in the folder: ``cr-report``
and ``cr-html`` read it. What this program adds is speed: it knows which tests reach a line, and a process that has
imported numpy, scipy and pytest is forked for each mutant.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

from copies import Slot
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome
from covering import Reach, map_tests
from execution import control, preload, run
from rules import GROUPS, describe, items, modules

SURVIVORS = Path(__file__).with_name("survivors.toml")
SUITE = ["tests", "--ignore=tests/benchmarks", "--ignore=tests/methods"]


def report(session: WorkDB, tree: Path) -> int:
    """Print the score of each group and the survivors; 1 where one is not among those that are explained."""
    groups, made, survived = modules(tree), Counter(), defaultdict(list)
    for item, result in session.completed_work_items:
        group = groups[item.mutations[0].module_path]
        made[group] += 1
        if result.test_outcome == TestOutcome.SURVIVED:
            survived[group].append((item.mutations[0].start_pos, describe(item, tree)))
    explained = {mutant for entry in tomllib.loads(SURVIVORS.read_text())["survivors"] for mutant in entry["mutants"]}
    unexplained = 0
    for group in GROUPS:
        for (line, _), text in sorted(survived[group], key=lambda survivor: (survivor[1].split(":")[0], survivor[0])):
            known = text in explained
            unexplained += not known
            print(f"{'' if known else 'NEW '}{line}: {text}")
    for group, count in [*made.items(), ("all", made.total())]:
        left = len(survived[group]) if group in made else sum(map(len, survived.values()))
        print(f"{group}: {count} mutants, {count - left} killed, {left} survived: {100 * (count - left) / count:.1f}%")
    return 1 if unexplained else 0


def main() -> int:
    """Map, make, run and report; the exit code is 1 where a survivor is not explained in ``survivors.toml``."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="folder of the session; one that was begun goes on")
    parser.add_argument("--only", nargs="*", default=[], help="modules, as patterns: xmcbench/metrics/*")
    parser.add_argument("--tests", nargs="*", default=SUITE, help="what of the suite is used, as words for pytest")
    parser.add_argument("--part", type=float, default=1.0, help="draw this part of each module's mutants")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants that are tested at once")
    parser.add_argument("--slowness", type=float, default=1.0, help="how many times as long tests may take")
    parser.add_argument("--again", action="store_true", help="test the survivors of the session again")
    options = parser.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    slots = [Slot(work / f"slot{number}") for number in range(options.jobs)]
    slots[0].make()
    if not (work / "reach.json").exists():
        map_tests(slots[0], work, options.tests)
        slots[0].make()
    for slot in slots[1:]:
        slot.take(slots[0])
    tree = slots[0].tree
    reach = Reach(slots[0], work, options.slowness)
    preload()
    print(f"{len(reach.known)} tests; not used, as they notice any change: {', '.join(reach.noticing) or 'none'}")
    with use_db(work / "session.sqlite", WorkDB.Mode.create) as session:
        if not session.num_work_items:
            by_module = defaultdict(list)
            for item in items(tree, options.only):
                by_module[item.mutations[0].module_path].append(item)
            draw = random.Random(options.seed)
            for found in by_module.values():
                session.add_work_items(draw.sample(found, max(1, round(options.part * len(found)))))
        pending = list(session.pending_work_items)
        if options.again:
            pending = [
                item for item, result in session.completed_work_items if result.test_outcome == TestOutcome.SURVIVED
            ]
        run(session, pending, slots, reach)
        control(session, slots[0], reach)
        return report(session, tree)


if __name__ == "__main__":
    sys.exit(main())
