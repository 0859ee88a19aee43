"""No test reads, sets or imports a private name of the package: a test shows how the package behaves from outside."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.processes import ROOT

OF_OTHERS = {"_client", "_connection", "_exit", "_replace", "_repr_html_", "_tool_call"}
"""Names that SDKs, Python, IPython and Invariant's library have too. Tests use theirs."""
NEEDED = {
    ("figures/test_cost.py", "_models"): "how many models the cache of prices has",
    ("proxy/test_sessions.py", "_names"): "names of files that cannot be made, for one session of two",
    ("proxy/test_sessions.py", "_conversations"): "how much memory the proxy keeps for conversations",
    ("reading/live_document/test_document_thread.py", "_caller_waits"): "a caller that waits for the thread's write",
    ("reading/live_document/test_document_thread.py", "_writer"): "the writer of a run's document",
    ("reading/live_document/test_two_writers.py", "_requested"): "the moment when a caller waits for the thread",
    ("reading/live_document/test_writer.py", "_lock"): "the lock of a write in another thread",
    ("reading/live_document/test_writer.py", "_write_requested"): "the moment before a write",
    ("reading/live_document/test_writer.py", "_writer"): "the writer of a run's document",
    ("rerun/test_requests.py", "_digest"): "how many digests a request takes",
    ("storage/redaction/test_name_kinds.py", "_RARE"): "the rule's table, with which a second form of the rule is made",
    ("storage/items/test_changed_lists.py", "_prefixes"): "the slow form, with which the quick one is compared",
    ("storage/test_journal.py", "_parse_record"): "how many bytes are parsed as records",
    ("storage/test_journal_lines.py", "_torn"): "a torn line that could not be removed",
    ("limits.py", "_limits"): "changed limits of a recorder",
}
"""The private names that tests still use, each with its reason. The list only gets shorter."""


def _private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _defined(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a module defines, and the names of the attributes that it sets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _used(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a module imports from the package, and of which it uses or replaces an attribute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trace_recorder"):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            yield node.attr
        elif isinstance(node, ast.Call) and _name_of(node.func).endswith(("setattr", "getattr", "delattr")):
            texts = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            yield from (text.rpartition(".")[2] for text in texts)


def _name_of(function: ast.expr) -> str:
    return getattr(function, "attr", None) or getattr(function, "id", "")


def _trees(directory: str) -> Iterator[tuple[str, ast.AST]]:
    root = ROOT / directory
    for path in sorted(root.rglob("*.py")):
        yield path.relative_to(root).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def test_no_test_uses_a_private_name_of_the_package() -> None:
    ours = {name for _, tree in _trees("trace_recorder") for name in _defined(tree) if _private(name)}
    used = set()
    for file, tree in _trees("tests"):  # one tree at a time, because garbage collections visit all that are kept
        used |= {(file, name) for name in {*_used(tree)} & ours - OF_OTHERS}
        if file == "limits.py" and "_limits" in {*_defined(tree)}:
            used.add((file, "_limits"))

    assert used == {*NEEDED}
