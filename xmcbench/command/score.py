"""Score a prediction file against a dataset's test pairs, by the metric protocol.

--format trec reads a run of trec_eval: `query Q0 document rank score tag`, with the uids of instances and labels. With
--qrels FILE it is scored against these qrels instead of a dataset, without PSP.

  xmcbench score --dataset lf-debian-20k --predictions p.npz
  xmcbench score --dataset lf-debian-20k --format trec --predictions run.txt
  xmcbench score --format trec --qrels qrels.txt --predictions run.txt
  xmcbench score --dataset lf-debian-20k --predictions p.npz --metrics F1@5,MRR,psnDCG@5
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from xmcbench.command import flags, report, request
from xmcbench.errors import UsageError
from xmcbench.output.layout import format_table

if TYPE_CHECKING:
    import numpy as np
    from scipy.sparse import csr_matrix

    from xmcbench.metrics import Scores
    from xmcbench.topk import TopK


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench score``."""
    parser.add_argument("--dataset", metavar="NAME|PLACE", help="dataset whose test pairs are the ground truth")
    flags.add(parser, "columns")
    flags.path(
        parser, "predictions", "FILE", "npz: int32 'indices', float32 'scores' [N, k]; trec: a run", required=True
    )
    parser.add_argument(
        "--format", choices=("npz", "trec"), default="npz", help="format of --predictions (default: npz)"
    )
    flags.path(parser, "qrels", "FILE", "true pairs, instead of --dataset (trec)")
    flags.add(parser, "filter", "metrics", "json")


def run(arguments: argparse.Namespace) -> int:
    """Check the file, score it, print every metric with its interval."""
    from xmcbench.metrics import additional, protocol
    from xmcbench.runner.figures import figures_of

    names = arguments.metrics or []
    additional.check_names(names)
    scores, head, others = _of_qrels(arguments, names) if arguments.qrels else _of_dataset(arguments, names)
    result = msgspec.to_builtins(figures_of(scores))
    if unknown := [name for name in names if others[name] is None]:
        hint = "leave them out" if len(unknown) < len(names) else "score a dataset with training pairs"
        raise UsageError(f"{', '.join(unknown)}: propensities need training pairs, which are not here", hint)
    if names:
        result["values"] = dict(others)
        result["intervals"] = {name: result["intervals"][name] for name in names if name in result["intervals"]}
    if arguments.json:
        print(json.dumps({**head, "protocol": protocol.VERSION, **result}, indent=1, sort_keys=True))
        return 0
    print(
        f"{head['dataset']}, filter {head['filter']}, metric protocol {protocol.VERSION}, {scores.scored:,} test "
        f"instances scored; {scores.unlabeled:,} left out because they have no label. Percent, 95% interval.\n"
    )
    bounds = {name: f"{100 * low:.2f} - {100 * high:.2f}" for name, (low, high) in result["intervals"].items()}
    rows = [[name, f"{100 * value:.2f}", bounds.get(name, "")] for name, value in result["values"].items()]
    print(format_table(rows, ["Metric", "value", "interval"], ("left", "right", "right")))
    return 0


def _of_dataset(
    arguments: argparse.Namespace, chosen: list[str]
) -> tuple[Scores, dict[str, object], dict[str, float | None]]:
    from xmcbench import trec
    from xmcbench.api import evaluate
    from xmcbench.data import load_dataset
    from xmcbench.metrics import inverse_propensity, protocol
    from xmcbench.metrics.labels import MIN_INSTANCES
    from xmcbench.topk import TopK

    place = request.place(arguments)
    if not place:
        raise UsageError("score needs --dataset", "or --format trec --qrels FILE")
    _check_file(arguments.predictions)
    dataset = load_dataset(place)
    report.show_notes([dataset])
    if arguments.format == "trec":
        names = (trec.identifiers(dataset.test), trec.identifiers(dataset.labels))
        predictions = trec.read_run(arguments.predictions, *names)
    else:
        predictions = TopK.load(arguments.predictions)
    filter_name = dataset.choose_filter(arguments.filter)
    scores = evaluate(predictions, dataset, filter=filter_name)
    if predictions.k < min(protocol.DEPTH, len(dataset.labels)):
        print(
            f"xmcbench: note: the predictions have {predictions.k} ranks; metrics with a larger k use only these",
            file=sys.stderr,
        )
    weights = None
    if len(dataset.train) >= MIN_INSTANCES:
        weights = inverse_propensity(dataset.train_pairs(), *dataset.propensity)
    others = _compute(chosen, predictions, dataset.test_pairs(), dataset.filter(filter_name), weights)
    return scores, {"dataset": dataset.name, "filter": filter_name, "depth": predictions.k}, others


def _of_qrels(
    arguments: argparse.Namespace, chosen: list[str]
) -> tuple[Scores, dict[str, object], dict[str, float | None]]:
    from xmcbench import metrics, trec

    if arguments.format != "trec" or request.place(arguments):
        raise UsageError("--qrels needs --format trec and cannot be combined with --dataset")
    if arguments.filter not in (None, "none"):
        raise UsageError(f"--filter {arguments.filter} needs --dataset", "qrels have no filter")
    for named in (arguments.predictions, arguments.qrels):
        _check_file(named)
    names = trec.names_in(arguments.predictions, arguments.qrels)
    truth = trec.read_qrels(arguments.qrels, *names)
    predictions = trec.read_run(arguments.predictions, *names, others=True)
    if not (predictions.indices >= 0).any():
        raise UsageError(
            f"no query of {arguments.qrels} has predictions in {arguments.predictions}", "do both name queries alike?"
        )
    scores = metrics.evaluate(predictions, truth)
    head = {"dataset": arguments.qrels.name, "filter": "none", "depth": predictions.k}
    return scores, head, _compute(chosen, predictions, truth)


def _compute(
    names: list[str],
    predictions: TopK,
    truth: csr_matrix,
    removed: csr_matrix | None = None,
    weights: np.ndarray | None = None,
) -> dict[str, float | None]:
    from xmcbench.metrics import TruePairs, additional, true_ranks

    if not names:
        return {}
    pairs = TruePairs.of(truth)
    return additional.compute(names, true_ranks(predictions.indices, pairs, removed), pairs, weights)


def _check_file(path: Path) -> None:
    if not path.exists():
        raise UsageError(f"no file at {path}")
