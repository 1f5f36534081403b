"""The mutants: those of cosmic-ray that the rules leave."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from cosmic_ray.work_item import MutationSpec, WorkItem
from rules import GROUPS, Left, is_used


def modules(tree: Path) -> dict[Path, str]:
    """Module, below the tree -> its group."""
    found = {}
    for group, patterns in GROUPS.items():
        for pattern in patterns:
            found |= {path.relative_to(tree): group for path in sorted((tree / "xmcbench").glob(pattern))}
    return found


def items(tree: Path, only: list[str]) -> Iterator[WorkItem]:
    """The mutants that the rules leave."""
    for module in modules(tree):
        if only and not any(fnmatch.fnmatch(str(module), pattern) for pattern in only):
            continue
        source = (tree / module).read_text()
        left, nodes = Left(source), list(ast_nodes(get_ast(source)))
        for name in filter(is_used, operator_names()):
            places = [place for node in nodes for place in get_operator(name)().mutation_positions(node)]
            for occurrence, (start, end) in enumerate(places):
                mutation = MutationSpec(module, name, occurrence, start, end)
                if left.out(start) or (name == "core/ExceptionReplacer" and mutate(tree / module, mutation) is None):
                    continue
                yield WorkItem.single(f"{module} {name} {occurrence}", mutation)


def mutate(module: Path, mutation: MutationSpec) -> str | None:
    """Return the module with the mutation; None for one that cosmic-ray cannot make, as of ``except package.Error``."""
    try:
        return mutate_code(module.read_text(), get_operator(mutation.operator_name)(), mutation.occurrence)
    except AttributeError:
        return None


def describe(item: WorkItem, tree: Path) -> str:
    """Describe a mutant in one line: module, the line as it is, the line as it was changed."""
    mutation = item.mutations[0]
    original = (tree / mutation.module_path).read_text()
    mutated = mutate(tree / mutation.module_path, mutation) or original
    for before, after in zip(original.splitlines(), mutated.splitlines(), strict=False):
        if before != after:
            return f"{mutation.module_path.relative_to('xmcbench')}: {before.strip()} -> {after.strip()}"
    return f"{mutation.module_path.relative_to('xmcbench')}: {mutation.operator_name} {mutation.occurrence}"
