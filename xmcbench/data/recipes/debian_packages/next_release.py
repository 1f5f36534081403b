"""A dataset of two releases: generalized zero-shot, with labels that are packages new in the second.

    training    the training instances of the first release (``trains``), with the packages that they name there
    test        packages of the second release that name a package that is new in it, and are not training instances;
                with the new packages and those seen in training that they name
    label       a package that a training instance names, as the first release describes it; or a new package that a
                test instance names, as the second one does

So a label is either seen, by at least one training pair, or it is new, and no text of the training instances could name
it: the views ``seen`` and ``unseen`` of a run with all pairs tell the two apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from xmcbench.data.recipes.debian_packages.index import Package, trains, write_rows
from xmcbench.errors import DataError


def write_new_packages(before: Mapping[str, Package], after: Mapping[str, Package], out: Path) -> None:
    """Write the packages of two releases as a dataset in the XC raw layout.

    Raises DataError where no package of the first names another one, or none of the second a new one.
    """
    new = after.keys() - before.keys()
    named = {name: before[name].related & before.keys() for name in before if trains(name)}
    training = [(before[name], sorted(named[name])) for name in sorted(named) if named[name]]
    if not training:
        raise DataError("no package of the index refers to another one", "is this the index of a whole release?")
    seen = frozenset().union(*named.values())
    testing = [
        (after[name], sorted(after[name].related & (seen | new)))
        for name in sorted(after.keys() - {each.name for each, _ in training})
        if after[name].related & new
    ]
    if not testing:
        raise DataError("no package of the next release refers to a new one", "are the two indices of one release?")
    unseen = new & frozenset().union(*(labels for _, labels in testing))
    labels = sorted([*(before[name] for name in seen), *(after[name] for name in unseen)], key=lambda each: each.name)
    write_rows(labels, training, testing, out)
