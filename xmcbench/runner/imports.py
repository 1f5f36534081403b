"""What the process of a cell imports before anything of it is measured."""

from __future__ import annotations

from collections.abc import Iterable

#: What all cells import.
_ALWAYS = ("xmcbench.runner.ahead",)
#: Packages whose import takes long -> modules of theirs that take the time. Their imports start no thread, so that a
#: process with them can be forked; a test looks.
_SLOW = {
    "numba": ("numba",),
    "torch": ("torch",),
    "transformers": (
        "transformers.modeling_utils",
        "transformers.models.auto.modeling_auto",
        "transformers.models.auto.tokenization_auto",
    ),
}
#: Those that look for GPUs when they are imported: a process that did so cannot be forked and use one.
_LOOK_FOR_GPUS = ("torch", "transformers")


def imports_of(packages: Iterable[str]) -> tuple[str, ...]:
    """The modules for methods that need these packages."""
    slow = sorted({*packages} & _SLOW.keys())
    return (*_ALWAYS, *(module for package in slow for module in _SLOW[package]))


def before_a_fork(imports: Iterable[str], gpus: bool) -> tuple[str, ...]:
    """Those of the modules that can be imported before a fork. gpus: whether there is a GPU."""
    return tuple(each for each in imports if not gpus or each.partition(".")[0] not in _LOOK_FOR_GPUS)
