"""The page docs/frameworks.md: its blocks of code, and the same code without a line of ours."""

from __future__ import annotations

import ast
import re

from tests.recording import ROOT

PAGE = ROOT / "docs" / "frameworks.md"
OURS = "trace_recorder"


def blocks(heading: str) -> list[str]:
    """The blocks of Python under a heading, in their order."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")
    return re.findall(r"```python\n(.*?)```", rest.partition("\n## ")[0], re.DOTALL)


def without_us(code: str) -> str:
    """The same program before anybody thought of recording it."""
    return ast.unparse(ast.fix_missing_locations(_WithoutUs().visit(ast.parse(code))))


class _WithoutUs(ast.NodeTransformer):
    """Takes out our import, statements that call us, arguments that we make, and `with` blocks of our recorders."""

    def visit_Import(self, node: ast.Import) -> ast.AST | None:
        return None if node.names[0].name == OURS else node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if _is_ours(node.value) else self.generic_visit(node)

    def visit_With(self, node: ast.With) -> ast.AST | list[ast.AST]:
        self.generic_visit(node)
        return node.body if _is_ours(node.items[0].context_expr) else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if _is_ours(node) and ast.unparse(node.func) == f"{OURS}.wrap":
            return self.visit(node.args[0])
        node.keywords = [one for one in node.keywords if not _is_ours(one.value)]
        return self.generic_visit(node)


def _is_ours(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).startswith(f"{OURS}.")
