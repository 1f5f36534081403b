"""Train a method on a dataset and keep it in a folder, from which `suggest --model` predicts.

The method is trained as in a cell of `run`, with access to the same files. The folder has arrays, JSON and a card, and
nothing that is unpickled.
"""

from __future__ import annotations

import argparse

from xmcbench.command import flags, report, request


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench fit``."""
    what = parser.add_argument_group("what is trained")
    what.add_argument("method", metavar="METHOD", help="name, with :PRESET if needed")
    flags.add_dataset(what, several=False)
    flags.add_setting(
        what, several=False, default=None, help="default: full if there are training pairs that the method uses"
    )
    flags.add_methods(what, several=False)
    flags.path(what, "out", "FOLDER", "folder to write", required=True)
    flags.switch(what, "overwrite", "replace the model in --out")
    how = parser.add_argument_group("how it runs")
    flags.add(how, "runs")
    flags.add_limits(how, whose="the training")
    flags.add(how, "device", "processes")


def run(arguments: argparse.Namespace) -> int:
    """Train the method and write the folder."""
    from xmcbench.data.catalog import load_dataset
    from xmcbench.models import check_out, fit
    from xmcbench.output.quantities import format_count

    place = request.only_dataset(arguments)
    check_out(arguments.out, arguments.overwrite)
    report.show_notes([load_dataset(place)])
    options = request.options(arguments)
    registry = request.registry(options.plugins, options.limits.time_s)
    grid = request.grid(arguments, [arguments.method], dataset=place)
    model = fit(grid, arguments.out, arguments.overwrite, options, registry)
    facts = model.facts
    print(f"{arguments.out}: {facts.name}, {facts.dataset}, {facts.setting}, {format_count(facts.labels, 'label')}")
    return 0
