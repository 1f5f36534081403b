"""The mutants: the operators of cosmic-ray that are used, and the places that are left out.

An operator of cosmic-ray has up to eleven replacements. One of each stays, two of an inequality: the border moved, and
the direction turned. Numbers are raised and lowered by one. Nothing is left out of a module but what the rules below
name.
"""

from __future__ import annotations

import ast
import fnmatch
import re
from collections.abc import Iterator
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from cosmic_ray.work_item import MutationSpec, WorkItem

#: Modules under test, below the package, by group: the score is given for each.
GROUPS = {
    "metrics": ("metrics/*.py",),
    "setting, topk": ("setting.py", "topk.py"),
    "runner": ("runner/*.py",),
    "records": ("records/*.py",),
    "storage": ("storage/*.py",),
}

#: Where the tests of a group are; further tests that reach a line follow after these.
TESTS = {
    "metrics": ("tests/test_values.py", "tests/metrics/"),
    "setting, topk": ("tests/test_values.py", "tests/test_setting.py", "tests/test_topk.py"),
    "runner": ("tests/test_values.py", "tests/runner/"),
    "records": ("tests/test_values.py", "tests/records/"),
    "storage": ("tests/test_values.py", "tests/storage/"),
}

_BINARY = (
    "Add_Sub|Sub_Add|Mul_Div|Div_Mul|FloorDiv_Div|Mod_Mul|Pow_Mul|LShift_RShift|RShift_LShift|BitAnd_BitOr|BitOr_BitAnd"
)
_COMPARISON = "Eq_NotEq|NotEq_Eq|Lt_LtE|Lt_GtE|LtE_Lt|LtE_Gt|Gt_GtE|Gt_LtE|GtE_Gt|GtE_Lt|Is_IsNot|IsNot_Is"
_OPERATORS = re.compile(
    rf"core/(ReplaceBinaryOperator_({_BINARY})|ReplaceComparisonOperator_({_COMPARISON})"
    r"|ReplaceUnaryOperator_(USub_UAdd|Delete_Not|Delete_Invert)|ReplaceAndWithOr|ReplaceOrWithAnd"
    r"|ReplaceTrueWithFalse|ReplaceFalseWithTrue|ReplaceBreakWithContinue|ReplaceContinueWithBreak"
    r"|NumberReplacer|AddNot|ExceptionReplacer|ZeroIterationForLoop|RemoveDecorator)"
)


def is_used(operator: str) -> bool:
    """Return whether mutants of this operator (``core/NumberReplacer``) are made."""
    return _OPERATORS.fullmatch(operator) is not None


class Left:
    """The places of a source that are not mutated."""

    def __init__(self, source: str) -> None:
        self._spans = [
            ((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset))
            for node in _find_spans(ast.parse(source))
        ]

    def out(self, start: tuple[int, int]) -> bool:
        """Return whether a mutation that starts at this line (from 1) and column (from 0) is left out."""
        return any(first <= start < last for first, last in self._spans)


def _find_spans(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        # Annotations, and what is only there for them.
        if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
            yield node.annotation
        if isinstance(node, ast.FunctionDef) and node.returns is not None:
            yield node.returns
        if isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING":
            yield node
        # Guards against our own mistakes, which cannot fail.
        if isinstance(node, ast.Assert) or (isinstance(node, ast.keyword) and node.arg == "strict"):
            yield node
        # The text and the hint of an error. Which error it is, and when it is raised, is mutated.
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from node.exc.args
            yield from node.exc.keywords


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
