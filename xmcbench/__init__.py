"""xmcbench: the benchmark harness for extreme zero-shot and few-shot text classification.

The names below are the public ones, and the modules ``arrow`` and ``progress``: what a method, a script or a notebook
may use. They are imported on first use, so that ``xmcbench --help`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xmcbench.api import ablation as ablation
    from xmcbench.api import curve as curve
    from xmcbench.api import evaluate as evaluate
    from xmcbench.api import explain as explain
    from xmcbench.api import fit as fit
    from xmcbench.api import run as run
    from xmcbench.api import suggest as suggest
    from xmcbench.comparison import Comparison as Comparison
    from xmcbench.comparison import compare as compare
    from xmcbench.data import Dataset as Dataset
    from xmcbench.data import load_dataset as load_dataset
    from xmcbench.environment import Compute as Compute
    from xmcbench.environment import usable_cores as usable_cores
    from xmcbench.errors import MethodError as MethodError
    from xmcbench.errors import Unavailable as Unavailable
    from xmcbench.errors import UsageError as UsageError
    from xmcbench.errors import XmcbenchError as XmcbenchError
    from xmcbench.experiment import Options as Options
    from xmcbench.extras import installation as installation
    from xmcbench.label_texts import LabelTexts as LabelTexts
    from xmcbench.method import Method as Method
    from xmcbench.models import Model as Model
    from xmcbench.parameters import Doc as Doc
    from xmcbench.results import Results as Results
    from xmcbench.runner.parts import Part as Part
    from xmcbench.runner.target import Limits as Limits
    from xmcbench.storage.arrays import pairs_digest as pairs_digest
    from xmcbench.storage.artifacts import Artifacts as Artifacts
    from xmcbench.storage.reading import refuse_lfs_pointer as refuse_lfs_pointer
    from xmcbench.storage.tensors import load_arrays as load_arrays
    from xmcbench.storage.tensors import save_arrays as save_arrays
    from xmcbench.texts import Texts as Texts
    from xmcbench.topk import TopK as TopK

__version__ = "0.1.0"

#: The public names, by module.
_NAMES = {
    "api": "ablation curve evaluate explain fit run suggest",
    "comparison": "Comparison compare",
    "data": "Dataset load_dataset",
    "environment": "Compute usable_cores",
    "errors": "MethodError Unavailable UsageError XmcbenchError",
    "experiment": "Options",
    "extras": "installation",
    "label_texts": "LabelTexts",
    "method": "Method",
    "models": "Model",
    "parameters": "Doc",
    "results": "Results",
    "runner.parts": "Part",
    "runner.target": "Limits",
    "storage.arrays": "pairs_digest",
    "storage.artifacts": "Artifacts",
    "storage.reading": "refuse_lfs_pointer",
    "storage.tensors": "load_arrays save_arrays",
    "texts": "Texts",
    "topk": "TopK",
}
_PUBLIC = {name: f"xmcbench.{module}" for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_PUBLIC)  # noqa: PLE0605

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
