"""xmcbench: the benchmark harness for extreme zero-shot and few-shot text classification.

The names below are the public ones, and the modules ``arrow`` and ``progress``: what a method, a script or a notebook
may use. They are imported on first use, so that ``xmcbench --help`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xmcbench.api import ablation, curve, evaluate, explain, fit, run, suggest
    from xmcbench.comparison import Comparison, compare
    from xmcbench.data import Dataset, load_dataset
    from xmcbench.environment import Compute, usable_cores
    from xmcbench.errors import MethodError, Unavailable, UsageError, XmcbenchError
    from xmcbench.experiment import Options
    from xmcbench.extras import installation
    from xmcbench.label_texts import LabelTexts
    from xmcbench.method import Method
    from xmcbench.models import Model
    from xmcbench.parameters import Doc
    from xmcbench.results import Results
    from xmcbench.runner.parts import Part
    from xmcbench.runner.target import Limits
    from xmcbench.storage.arrays import pairs_digest
    from xmcbench.storage.artifacts import Artifacts
    from xmcbench.storage.reading import refuse_lfs_pointer
    from xmcbench.storage.tensors import load_arrays, save_arrays
    from xmcbench.texts import Texts
    from xmcbench.topk import TopK

__version__ = "0.1.0"

_PUBLIC = {
    "Artifacts": "xmcbench.storage.artifacts",
    "Comparison": "xmcbench.comparison",
    "Compute": "xmcbench.environment",
    "Dataset": "xmcbench.data",
    "Doc": "xmcbench.parameters",
    "LabelTexts": "xmcbench.label_texts",
    "Limits": "xmcbench.runner.target",
    "Method": "xmcbench.method",
    "MethodError": "xmcbench.errors",
    "Model": "xmcbench.models",
    "Options": "xmcbench.experiment",
    "Part": "xmcbench.runner.parts",
    "Results": "xmcbench.results",
    "Texts": "xmcbench.texts",
    "TopK": "xmcbench.topk",
    "Unavailable": "xmcbench.errors",
    "UsageError": "xmcbench.errors",
    "XmcbenchError": "xmcbench.errors",
    "ablation": "xmcbench.api",
    "compare": "xmcbench.comparison",
    "curve": "xmcbench.api",
    "evaluate": "xmcbench.api",
    "explain": "xmcbench.api",
    "fit": "xmcbench.api",
    "installation": "xmcbench.extras",
    "load_arrays": "xmcbench.storage.tensors",
    "load_dataset": "xmcbench.data",
    "pairs_digest": "xmcbench.storage.arrays",
    "refuse_lfs_pointer": "xmcbench.storage.reading",
    "run": "xmcbench.api",
    "save_arrays": "xmcbench.storage.tensors",
    "suggest": "xmcbench.api",
    "usable_cores": "xmcbench.environment",
}

__all__ = [
    "Artifacts",
    "Comparison",
    "Compute",
    "Dataset",
    "Doc",
    "LabelTexts",
    "Limits",
    "Method",
    "MethodError",
    "Model",
    "Options",
    "Part",
    "Results",
    "Texts",
    "TopK",
    "Unavailable",
    "UsageError",
    "XmcbenchError",
    "ablation",
    "compare",
    "curve",
    "evaluate",
    "explain",
    "fit",
    "installation",
    "load_arrays",
    "load_dataset",
    "pairs_digest",
    "refuse_lfs_pointer",
    "run",
    "save_arrays",
    "suggest",
    "usable_cores",
]


#: The public modules.
_MODULES = ("arrow", "progress")


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"xmcbench.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'xmcbench' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC, *_MODULES})
