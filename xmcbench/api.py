"""The Python API: the functions that ``import xmcbench`` gives a script or a notebook.

results = xmcbench.run("lf-debian-2k", setting="fs", ratio=0.01, methods=["tfidf", "xr-linear"])
results.frame()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xmcbench import models, suggestions
from xmcbench.analysis import explain as analysis
from xmcbench.arguments import make_grids, merge_arguments, several
from xmcbench.comparison import compare
from xmcbench.data import Dataset, load_dataset
from xmcbench.errors import MethodError, UsageError
from xmcbench.experiment import Options, only_ablation, plan_ablation, plan_curve, plan_run
from xmcbench.method import Method
from xmcbench.metrics import Evaluation, Scores, TruePairs, true_ranks
from xmcbench.records import Truth
from xmcbench.runner.figures import check_scored, weigh_labels
from xmcbench.setting import Setting, settings
from xmcbench.topk import TopK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xmcbench.analysis.explanation import Explanation
    from xmcbench.models import Model
    from xmcbench.results import Ablated, Coverage, Results
    from xmcbench.suggestions import Suggestions

#: The shares of the paper's Figure 2.
RATIOS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)


def run(
    dataset: str | Path | Sequence[str | Path] | None = None,
    setting: str | Sequence[str] = "ez",
    *,
    ratio: float | Sequence[float] | None = None,
    by: str | Sequence[str] | None = None,
    methods: str | Sequence[str | Method] = "all",
    preset: str | None = None,
    set: Mapping[str, Mapping[str, object]] | None = None,  # noqa: A002 - the name of the flag
    seed: int | Sequence[int] = 0,
    grids: Sequence[Mapping[str, Any]] = (),
    filter: str | None = None,  # noqa: A002 - the name of the flag
    runs: str | Path | None = None,
    options: Options | None = None,
) -> Results:
    """Run methods on datasets; finished cells are not run again.

    dataset: its name, or a place in any layout; default is the bundled one that its card marks. setting: ``ez`` (no
    pairs), ``fs`` (few: ``ratio`` of the labels, or of the pairs with ``by="pair"``) or ``full``. methods: names
    (``tfidf``, or ``tfidf:pecos`` for a preset), instances of methods, or ``all``; an instance is a row of its own, and
    no preset changes it. set: method -> parameter -> value, or a list of values: a row each. It changes the parameters
    of instances too. Of dataset, setting, ratio, by and seed there may be several: what runs is their product. grids:
    for cells that are not a full product, the arguments in which each grid differs from those above, such as
    ``[{"setting": "ez", "methods": ["tfidf"]}, {"setting": "fs", "ratio": 0.01}]``; its ``set`` adds to the one above.
    filter: default is that of each dataset's card. runs: the folder of results, by default that of the options.

    Raises UsageError (or a subclass) for an invalid request, DataError for data. A cell that fails is a record.
    """
    common = {"dataset": dataset, "setting": setting, "ratio": ratio, "by": by, "methods": methods, "preset": preset}
    arguments = merge_arguments({**common, "set": set, "seed": seed}, grids)
    made, options = make_grids(arguments, _check_options(options, runs))
    return plan_run(made, options, options.registry(), filter).execute()


def curve(
    dataset: str | Path | Sequence[str | Path] | None = None,
    methods: str | Sequence[str | Method] = (),
    *,
    ratio: float | Sequence[float] = RATIOS,
    by: str = "label",
    preset: str | None = None,
    set: Mapping[str, Mapping[str, object]] | None = None,  # noqa: A002
    seed: int | Sequence[int] = 0,
    filter: str | None = None,  # noqa: A002
    execute_missing: bool = True,
    runs: str | Path | None = None,
    options: Options | None = None,
) -> Coverage:
    """Run methods at several shares of known labels or pairs: 0 is the zero-shot setting, 1 all pairs.

    Methods that never look at pairs run once. execute_missing: False only reads finished cells. runs: as for ``run``.
    Raises what ``run`` raises.
    """
    if isinstance(methods, Sequence) and not methods:
        raise UsageError("methods is empty", 'name one or more, for example methods=["tfidf", "xr-linear"]')
    shares = several(ratio)
    if not shares:
        raise UsageError("ratio is empty", f"for example ratio={RATIOS}")
    settings(["fs"], [0.5], [by])  # at the shares 0 and 1 `by` makes no difference, and is not looked at
    arguments = {"dataset": dataset, "methods": methods, "preset": preset, "set": set, "seed": seed}
    at = [Setting.at(share, by) for share in shares]
    grids, options = make_grids([arguments], _check_options(options, runs), at)
    planned = plan_curve(grids, options, options.registry(), filter, by, shares, execute_missing)
    return planned.execute() if execute_missing else planned.load_finished()


def ablation(
    dataset: str | Path | Sequence[str | Path] | None = None,
    method: str | None = None,
    setting: str | Sequence[str] = "ez",
    *,
    ratio: float | Sequence[float] | None = None,
    by: str | Sequence[str] | None = None,
    preset: str | None = None,
    set: Mapping[str, Mapping[str, object]] | None = None,  # noqa: A002
    seed: int | Sequence[int] = 0,
    filter: str | None = None,  # noqa: A002
    runs: str | Path | None = None,
    options: Options | None = None,
) -> Ablated:
    """Run the rows of a method's ablation. Raises what ``run`` raises.

    method: its name; default is the only one that defines an ablation. runs: as for ``run``.
    """
    options = _check_options(options, runs)
    if not isinstance(method, str | None) or "," in (method or ""):
        raise UsageError(f"method={method!r} is not the name of a method", "set its parameters by `set`")
    registry = options.registry()
    arguments: dict[str, Any] = {"dataset": dataset, "setting": setting, "ratio": ratio, "by": by, "preset": preset}
    arguments |= {"set": set, "methods": method or only_ablation(registry), "seed": seed}
    grids, _ = make_grids([arguments], options)
    return plan_ablation(grids, options, registry, filter).execute()


def explain(
    first: str,
    second: str,
    metric: str = "P@1",
    *,
    instances: int = 5,
    dataset: str | Path | None = None,
    **chosen: Any,
) -> Explanation:
    """Show where two rows differ: in which slices of the test instances, and on which instances.

    instances: how many are listed per direction. dataset: its name, or its place if its texts are not found by the
    name. chosen: runs, setting, ratio, by, seed and filter, as for ``compare``. Raises what ``compare`` raises, and
    UnknownName for a metric.
    """
    place = None if dataset is None else str(dataset)
    return analysis.explain(compare(first, second, dataset=place, **chosen), metric, instances, place)


def suggest(
    dataset: str | Path | None = None,
    method: str | Method = "tfidf",
    documents: str | Path | None = None,
    *,
    k: int = 5,
    setting: str | None = None,
    ratio: float | None = None,
    by: str | None = None,
    preset: str | None = None,
    set: Mapping[str, Mapping[str, object]] | None = None,  # noqa: A002
    seed: int = 0,
    filter: str | None = None,  # noqa: A002
    runs: str | Path | None = None,
    options: Options | None = None,
) -> Suggestions:
    """Suggest the first k labels (1..100) of a method for documents.

    documents: a .txt file with one document per line, a table, or a dataset; default is the test set. setting: default
    is ``full`` if there are training pairs that the method uses. The rest is as for ``run``. Raises what ``run``
    raises, and MethodError if the cell fails.
    """
    given = {"dataset": dataset, "setting": setting, "ratio": ratio, "by": by, "methods": [method], "preset": preset}
    return suggestions.suggest({**given, "set": set, "seed": seed}, documents, k, filter, _check_options(options, runs))


def fit(
    dataset: str | Path | None = None,
    method: str | Method = "tfidf",
    out: str | Path = "model",
    *,
    setting: str | None = None,
    ratio: float | None = None,
    by: str | None = None,
    preset: str | None = None,
    set: Mapping[str, Mapping[str, object]] | None = None,  # noqa: A002
    seed: int = 0,
    overwrite: bool = False,
    runs: str | Path | None = None,
    options: Options | None = None,
) -> Model:
    """Train a method as its cell does, and keep it in the folder ``out``, which ``Model.load`` opens.

    setting: default is ``full`` if there are training pairs that the method uses. overwrite: replace a model. The rest
    is as for ``run``. Raises what ``run`` raises, and MethodError if the training fails or the method cannot be kept.
    """
    given = {"dataset": dataset, "setting": setting, "ratio": ratio, "by": by, "methods": [method], "preset": preset}
    return models.fit({**given, "set": set, "seed": seed}, out, overwrite, _check_options(options, runs))


def evaluate(
    predictions: TopK | str | Path,
    dataset: Dataset | str | Path,
    *,
    filter: str | None = None,  # noqa: A002 - the name of the flag
) -> Scores:
    """Score predictions [n_test, k] on a dataset, by the protocol in ``xmcbench.metrics.protocol``.

    predictions: a TopK, or the .npz file that ``TopK.save`` wrote. filter: ``none``, ``self`` or ``file``; default is
    that of the dataset's card. Raises MethodError where the predictions are not a valid answer, DataError where no test
    instance has a label, DataError and UsageError for files and names.
    """
    if not isinstance(predictions, TopK | str | Path):
        raise UsageError(f"predictions are of type {type(predictions).__name__}", "a TopK, or the path of its file")
    data = load_dataset(dataset) if isinstance(dataset, str | Path) else dataset
    answer = TopK.load(Path(predictions)) if isinstance(predictions, str | Path) else predictions
    if not all(isinstance(array, np.ndarray) and array.ndim == 2 for array in (answer.indices, answer.scores)):
        raise MethodError("indices and scores of predictions must be arrays of shape [n, k]", "see `xmcbench.TopK`")
    pairs, ranks, weights = rank_pairs(answer, data, filter)
    scores = Evaluation(pairs, weights)(ranks)
    check_scored(scores)
    return scores


def rank_pairs(
    predictions: TopK, data: Dataset, filter_name: str | None
) -> tuple[TruePairs, NDArray[np.uint8], NDArray[np.float64] | None]:
    """Return the true pairs of the test set, their ranks, and the inverse propensities of labels, if PSP has any.

    Raises MethodError where the predictions are not a valid answer, DataError and UsageError as ``evaluate`` does.
    """
    predictions.check(len(data.test), predictions.k, len(data.labels))
    truth = Truth.of(data)
    ranks = true_ranks(predictions.indices, truth.pairs, data.filter(data.choose_filter(filter_name)))
    return truth.pairs, ranks, weigh_labels(truth, data.propensity)


def _check_options(options: Options | None, runs: str | Path | None) -> Options:
    """Return the options, with another folder of results if one is given. Raises UsageError."""
    if not isinstance(options, Options | None):
        raise UsageError(f"options are of type {type(options).__name__}", "options=xmcbench.Options(...)")
    if not isinstance(runs, str | Path | None):
        raise UsageError(f"runs={runs!r} is not a folder", 'runs="runs"')
    chosen = options or Options()
    return chosen if runs is None else replace(chosen, runs=Path(runs))
