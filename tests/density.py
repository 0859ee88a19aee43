"""Measures how hard the package is to read, for each room. `scripts/density` prints the figures, and
`tests/test_rules.py` bounds them.

- A room is a folder of the package's root. The files of the root together are the room `root`.
- A statement is an `ast.stmt`. An expression is an `ast.expr` of any depth: `a.b` is two, `f(a)` is two.
- A conditional expression is an `ast.IfExp`. It is nested if another one is inside it.
- A helper is a private function or method with fewer than six lines, from `def` to its end, and one caller: its module
  names the function once, to call it or to get a property. If its name is defined twice in the module, or if it has
  another decorator than those of methods, such as a cache, it is no helper.
- A public name is the name of a class or function at the top of a module, without an underscore. Methods do not count.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_HELPER_LINES = 5
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_OF_METHODS = {"property", "staticmethod", "classmethod"}


@dataclass
class Density:
    """The counts of one room, or of several."""

    lines: int = 0
    statements: int = 0
    expressions: int = 0
    conditional: int = 0
    nested: int = 0
    in_comprehensions: int = 0
    helpers: int = 0

    def add(self, other: Density) -> None:
        """Add the counts of another room."""
        for name, count in vars(other).items():
            setattr(self, name, getattr(self, name) + count)

    @property
    def conditional_in_100(self) -> float:
        """Conditional expressions in 100 statements."""
        return 100 * self.conditional / max(self.statements, 1)

    @property
    def expressions_of_statement(self) -> float:
        """Expressions of an average statement."""
        return self.expressions / max(self.statements, 1)

    @property
    def statements_in_100_lines(self) -> float:
        """Statements in 100 lines."""
        return 100 * self.statements / max(self.lines, 1)


def of_rooms(package: Path) -> dict[str, Density]:
    """Return the counts of each room of a package."""
    rooms: defaultdict[str, Density] = defaultdict(Density)
    for path in package.rglob("*.py"):
        folders = path.relative_to(package).parts[:-1]
        room = folders[0] if folders else "root"
        rooms[room].add(of_module(path.read_text(encoding="utf-8")))
    return dict(sorted(rooms.items()))


def of_module(text: str) -> Density:
    """Return the counts of one module."""
    tree = ast.parse(text)
    counts = Density(lines=text.count("\n"), helpers=len([*helpers(tree)]))
    for node in ast.walk(tree):
        counts.statements += isinstance(node, ast.stmt)
        counts.expressions += isinstance(node, ast.expr)
        if isinstance(node, ast.IfExp):
            counts.conditional += 1
            counts.nested += _conditionals(node) > 1
    counts.in_comprehensions = _in_comprehensions(tree)
    return counts


def _conditionals(tree: ast.AST) -> int:
    return sum(isinstance(node, ast.IfExp) for node in ast.walk(tree))


def _in_comprehensions(node: ast.AST) -> int:
    """Count the conditional expressions inside comprehensions, each of them once."""
    if isinstance(node, _COMPREHENSIONS):
        return _conditionals(node)
    return sum(map(_in_comprehensions, ast.iter_child_nodes(node)))


def helpers(tree: ast.Module) -> Iterator[str]:
    """Yield the names of a module's short private functions with one caller."""
    named: Counter[str] = Counter()
    called: Counter[str] = Counter()
    defined: Counter[str] = Counter()
    short = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            named[_name(node)] += 1
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            defined[node.name] += 1
            if _is_short_private(node):
                short.append(node)
        elif isinstance(node, ast.Call):
            called[_name(node.func)] += 1
    for function in short:
        name = function.name
        is_property = any(_name(decorator) == "property" for decorator in function.decorator_list)
        if named[name] == 1 and defined[name] == 1 and (is_property or called[name] == 1):
            yield name


def _is_short_private(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    lines = (function.end_lineno or 0) - function.lineno + 1
    decorators = {_name(decorator) for decorator in function.decorator_list}
    is_private = function.name.startswith("_") and not function.name.startswith("__")
    return is_private and lines <= MAX_HELPER_LINES and decorators <= _OF_METHODS


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return ""


def public_names(package: Path) -> dict[str, list[str]]:
    """Return the modules that define each public name."""
    modules: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        statements = ast.parse(path.read_text(encoding="utf-8")).body
        names = {node.name for node in statements if isinstance(node, _DEFINITIONS)}  # overloads are one definition
        for name in names:
            if not name.startswith("_"):
                modules[name].append(str(path.relative_to(package)))
    return dict(modules)


def repeated_names(package: Path) -> dict[str, list[str]]:
    """Return the public names that several modules define, each with the modules."""
    return {name: modules for name, modules in sorted(public_names(package).items()) if len(modules) > 1}
