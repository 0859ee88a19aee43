"""The page docs/frameworks.md: its blocks of code, and the same code without our lines."""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec

import pytest

from tests.processes import ROOT

PAGE = ROOT / "docs" / "frameworks.md"
OURS = "trace_recorder"


def blocks(heading: str) -> list[str]:
    """Return the Python blocks under a heading, in order."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")
    return re.findall(r"```python\n(.*?)```", rest.partition("\n## ")[0], re.DOTALL)


def without_us(code: str) -> str:
    """Return the program without the lines of this package."""
    return _written(_WithoutUs().visit(ast.parse(code)))


def agent(heading: str) -> str:
    """Return the agent of a framework: its first block without our lines, up to the line that runs it."""
    tree = ast.parse(blocks(heading)[0])
    runs = [isinstance(node, ast.With | ast.AsyncFunctionDef) for node in tree.body]
    tree.body = tree.body[: runs.index(True)]
    return _written(_WithoutUs().visit(tree))


def _written(tree: ast.AST) -> str:
    code = ast.unparse(ast.fix_missing_locations(tree))
    assert OURS not in code
    return f"{code}\n"


class _WithoutUs(ast.NodeTransformer):
    """Removes this package's import, calls, values and decorators, and the `with` lines of its recorders."""

    def visit_Import(self, node: ast.Import) -> ast.AST | None:
        return None if node.names[0].name == OURS else node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if _is_ours(node.value) and not _keeps(node.value) else self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        return None if _is_ours(node.value) and not _keeps(node.value) else self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = [one for one in node.decorator_list if not _is_ours(one)]
        return self.generic_visit(node)

    def visit_With(self, node: ast.With) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return node.body if _is_ours(node.items[0].context_expr) else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if _is_ours(node) and _keeps(node):
            return self.visit(node.args[0])
        node.keywords = [one for one in node.keywords if not _is_ours(one.value) or _keeps(one.value)]
        return self.generic_visit(node)


def _is_ours(node: ast.AST) -> bool:
    return ast.unparse(node).startswith(f"{OURS}.")


def _keeps(node: ast.AST) -> bool:
    """Return whether a decorator returns the object that it got."""
    return ast.unparse(node).startswith((f"{OURS}.wrap(", f"{OURS}.tool("))


def only_with(package: str) -> None:
    """Skip a test or a module if a package is not installed, without importing more than its parent package."""
    outer, _, _ = package.partition(".")
    if find_spec(outer) is None or find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)
