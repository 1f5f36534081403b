"""Kernels that numba compiles once."""

import ast
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from xmcbench import methods
from xmcbench.methods.kernels import kernel

SOURCES = sorted(Path(methods.__path__[0]).rglob("*.py"))

#: Prints how often a kernel was compiled, and how often it was found.
ONCE = """
import numpy as np
from scipy.sparse import csr_matrix
from xmcbench.methods.sparse import products

items = csr_matrix(np.eye(3, dtype=np.float32))
products.pair_scores(items, items, np.arange(4), np.arange(3))
found = products._pair_scores.stats
print(sum(found.cache_misses.values()), sum(found.cache_hits.values()))
"""


def is_kernel(node):
    return isinstance(node, ast.FunctionDef) and any("kernel(" in ast.unparse(mark) for mark in node.decorator_list)


def test_a_second_process_finds_the_code_of_the_first(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    counts = [
        subprocess.run([sys.executable, "-c", ONCE], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    ]
    assert counts == [["1", "0"], ["0", "1"]]


def test_without_a_folder_a_kernel_is_compiled_for_the_process(monkeypatch):
    asked = []

    def refuse(cache=False, **options):
        asked.append((cache, options))
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(numba, "njit", refuse)
    assert kernel(nogil=True)(refuse) is refuse
    assert asked == [(True, {"nogil": True}), (False, {"nogil": True})]


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if "kernel(" in path.read_text()], ids=lambda path: path.stem
)
def test_kernels_are_private_to_their_module(path):
    """A kernel of another module would be inlined, and stay as it was when that module changes."""
    tree = ast.parse(path.read_text())
    kernels = {node.name for node in ast.walk(tree) if is_kernel(node)}
    assert path.stem == "kernels" or kernels
    assert all(name.startswith("_") for name in kernels)
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    bodies = [statement for node in ast.walk(tree) if is_kernel(node) for statement in node.body]
    assert not imported & {name.id for body in bodies for name in ast.walk(body) if isinstance(name, ast.Name)}


def test_numba_compiles_nothing_else():
    assert [path.name for path in SOURCES if "njit" in path.read_text()] == ["kernels.py"]
