"""Rules for names: a variable's name says what its value is, and a class name occurs once."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import ROOT

VAGUE = {"one", "found", "said", "stated", "given", "left", "about", "at"}
SHORT = 5
"""Within this many lines a reader sees what a variable is, whatever its name."""
PUBLIC = {
    f"trace_recorder/{name}.py"
    for name in ("cli/replay", "rerun/forking", "rerun/subprocess/fork_supervisor", "formats/toolbrain/chat_template")
}
"""In these files `at` is an argument of the public interface."""
REPEATED = frozenset(["Step"])
"""The step of a recorder is public, and the schema of a document names its element `Step`."""

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Scope:
    """The vaguely named variables of a function or a comprehension, each with the lines in which it occurs."""

    def __init__(self, node: Function | Comprehension, outer: Scope | None) -> None:
        self.name = getattr(node, "name", type(node).__name__)
        self.outer = outer
        self.lines: dict[str, list[int]] = defaultdict(list)
        if isinstance(node, Function):
            arguments = node.args
            named = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
            for argument in named:
                if argument is not None and argument.arg in VAGUE:
                    self.lines[argument.arg] += [argument.lineno, node.end_lineno or 0]
        for inner in _own_nodes(node):
            if isinstance(inner, ast.Name) and inner.id in VAGUE and isinstance(inner.ctx, ast.Store):
                self.lines[inner.id].append(inner.lineno)

    def use(self, name: ast.Name) -> None:
        """Note where a variable is read, in the scope that defines it."""
        scope: Scope | None = self
        while scope is not None and name.id not in scope.lines:
            scope = scope.outer
        if scope is not None:
            scope.lines[name.id].append(name.lineno)

    def vague(self) -> Iterator[str]:
        """Yield the variables with vague names that live longer than a few lines."""
        for name, lines in self.lines.items():
            if max(lines) - min(lines) >= SHORT:
                yield f"{min(lines)} {self.name}: {name}"


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, without those of inner scopes."""
    waiting = [node]
    while waiting:
        for inner in ast.iter_child_nodes(waiting.pop()):
            if not isinstance(inner, Function | Comprehension | ast.ClassDef):
                yield inner
                waiting.append(inner)


def vague_names(node: ast.AST) -> list[str]:
    """Return the variables below a node with vague names, with their lines."""
    vague: list[str] = []
    _add_vague_names(node, None, vague)
    return vague


def _add_vague_names(node: ast.AST, scope: Scope | None, vague: list[str]) -> None:
    if isinstance(node, ast.Name):
        if scope is not None and node.id in VAGUE:
            scope.use(node)
        return
    inside = Scope(node, scope) if isinstance(node, Function | Comprehension) else scope
    for inner in ast.iter_child_nodes(node):
        _add_vague_names(inner, inside, vague)
    if inside is not scope and inside is not None:
        vague += inside.vague()


def in_files(*paths: Path) -> list[str]:
    """Return the variables with vague names in some files, with their places."""
    return [
        f"{name}:{place}"
        for path in paths
        for name in [path.relative_to(ROOT).as_posix()]
        for place in vague_names(ast.parse(path.read_text(encoding="utf-8")))
        if not (name in PUBLIC and place.endswith(": at"))
    ]


PLACES = {
    **{
        path.stem: sorted(path.rglob("*.py")) if path.is_dir() else [path]
        for path in sorted((ROOT / "trace_recorder").iterdir())
        if path.is_dir() or path.suffix == ".py"
    },
    **{name: sorted((ROOT / name).rglob("*.py")) for name in ("tests", "benchmarks", "scripts", "examples")},
    "root": sorted(ROOT.glob("*.py")),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_long_lived_variable_has_a_telling_name(place: str) -> None:
    """A variable or parameter that is used over more than five lines has no pronoun or participle as its name."""
    assert in_files(*PLACES[place]) == []


def test_every_class_name_occurs_once() -> None:
    """Each class name, even of a private class, occurs once in the package."""
    files = defaultdict(list)
    for path in sorted((ROOT / "trace_recorder").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                files[node.name].append(str(path.relative_to(ROOT)))

    assert {name: paths for name, paths in files.items() if len(paths) > 1 and name not in REPEATED} == {}
