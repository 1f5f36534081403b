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
from xmcbench.output.escaping import terminal
from xmcbench.output.layout import format_table
from xmcbench.output.quantities import format_count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from xmcbench.metrics import TruePairs
    from xmcbench.topk import TopK

    #: What the result is about; the true pairs, their ranks, and the inverse propensities of labels, if there are any.
    _Ranked = tuple[dict[str, object], TruePairs, NDArray[np.uint8], NDArray[np.float64] | None]


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
    from xmcbench.metrics import Evaluation, additional, protocol
    from xmcbench.runner.figures import figures_of

    names = arguments.metrics or []
    additional.check_names(names)
    head, pairs, ranks, weights = _of_qrels(arguments) if arguments.qrels else _of_dataset(arguments)
    scores = Evaluation(pairs, weights)(ranks)
    result = msgspec.to_builtins(figures_of(scores))
    others = additional.compute(names, ranks, pairs, weights)
    if unknown := [name for name in names if others[name] is None]:
        hint = "leave them out" if len(unknown) < len(names) else "score a dataset with training pairs"
        raise UsageError(f"{', '.join(unknown)}: propensities need training pairs, which are not here", hint)
    if names:
        result["values"] = others
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


def _of_dataset(arguments: argparse.Namespace) -> _Ranked:
    from xmcbench import trec
    from xmcbench.api import rank_pairs
    from xmcbench.data import load_dataset
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
    ranked = rank_pairs(predictions, dataset, filter_name)
    _note_depth(predictions.k, len(dataset.labels))
    head = {"dataset": dataset.name, "filter": filter_name, "depth": predictions.k}
    return {**head, "empty": _count_empty(predictions, ranked[0], arguments.format)}, *ranked


def _of_qrels(arguments: argparse.Namespace) -> _Ranked:
    from xmcbench import trec
    from xmcbench.metrics import TruePairs, true_ranks

    if arguments.format != "trec" or request.place(arguments):
        raise UsageError("--qrels needs --format trec and cannot be combined with --dataset")
    if arguments.filter not in (None, "none"):
        raise UsageError(f"--filter {arguments.filter} needs --dataset", "qrels have no filter")
    for named in (arguments.predictions, arguments.qrels):
        _check_file(named)
    queries, labels, ignored = trec.names_in(arguments.predictions, arguments.qrels)
    truth = trec.read_qrels(arguments.qrels, queries, labels)
    predictions = trec.read_run(arguments.predictions, queries, labels, others=True)
    if not (predictions.indices >= 0).any():
        raise UsageError(
            f"no query of {arguments.qrels} has predictions in {arguments.predictions}", "do both name queries alike?"
        )
    if ignored:
        asked = format_count(len(ignored), "query", "queries")
        _note(f"ignored: predictions for {asked} that {arguments.qrels.name} does not have, for example {ignored[0]!r}")
    _note_depth(predictions.k, len(labels))
    pairs = TruePairs.of(truth)
    head = {"dataset": arguments.qrels.name, "filter": "none", "depth": predictions.k}
    empty = _count_empty(predictions, pairs, arguments.format)
    return {**head, "empty": empty}, pairs, true_ranks(predictions.indices, pairs), None


def _count_empty(predictions: TopK, pairs: TruePairs, layout: str) -> int:
    """Return the number of instances that are scored and have no prediction, and print a note if there are any."""
    is_scored = pairs.lengths > 0
    empty = int((is_scored & (predictions.indices < 0).all(axis=1)).sum())
    if empty:
        others = " (trec_eval without -c leaves them out)" if layout == "trec" else ""
        _note(f"no prediction for {empty:,} of the {is_scored.sum():,} instances scored, which count as 0{others}")
    return empty


def _note_depth(depth: int, labels: int) -> None:
    """Print a note if predictions are shallower than the protocol. labels: how many there are."""
    from xmcbench.metrics import protocol

    if depth < min(protocol.DEPTH, labels):
        _note(f"the predictions have {depth} ranks; metrics with a larger k use only these")


def _note(said: str) -> None:
    print(f"xmcbench: note: {terminal(said)}", file=sys.stderr)


def _check_file(path: Path) -> None:
    if not path.exists():
        raise UsageError(f"no file at {path}")
