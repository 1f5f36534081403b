"""Score a prediction file against a dataset's test pairs, by the metric protocol."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import msgspec


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``xmcbench score``."""
    parser.add_argument("--dataset", required=True, metavar="NAME|FOLDER")
    parser.add_argument(
        "--predictions", required=True, type=Path, metavar="FILE.npz", help="int32 'indices', float32 'scores' [N, k]"
    )
    parser.add_argument(
        "--filter",
        choices=("none", "self", "file"),
        help="predictions left out: none, the instance itself, pairs in a file (default: the card's)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(arguments: argparse.Namespace) -> int:
    """Check the file, score it, print every metric with its interval."""
    from xmcbench.api import evaluate, filter_of
    from xmcbench.data import load_dataset
    from xmcbench.layout import laid_out
    from xmcbench.metrics import protocol
    from xmcbench.runner.scoring import figures_of
    from xmcbench.topk import TopK

    dataset, predictions = load_dataset(arguments.dataset), TopK.load(arguments.predictions)
    filter_name = filter_of(dataset, arguments.filter)
    scores = evaluate(predictions, dataset, filter=filter_name)
    result = msgspec.to_builtins(figures_of(scores))
    if arguments.json:
        head = {"dataset": dataset.name, "filter": filter_name, "protocol": protocol.VERSION, "depth": predictions.k}
        print(json.dumps({**head, **result}, indent=1, sort_keys=True))
        return 0
    print(
        f"{dataset.name}, filter {filter_name}, metric protocol {protocol.VERSION}, {scores.scored:,} test instances "
        f"scored, {scores.unlabelled:,} without a label left out. Percent, 95% interval.\n"
    )
    rows = [
        [
            name,
            f"{100 * value:.2f}",
            f"{100 * result['intervals'][name][0]:.2f} - {100 * result['intervals'][name][1]:.2f}",
        ]
        for name, value in result["values"].items()
    ]
    print(laid_out(rows, ["Metric", "value", "interval"], ("left", "right", "right")))
    return 0
