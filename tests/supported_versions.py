"""Reads the supported versions from the project's files."""

from __future__ import annotations

import ast
import tomllib

from tests.processes import ROOT

EXTRAS = ("openai", "anthropic", "google", "ollama")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def matrix() -> dict[str, object]:
    """Return the tables of noxfile.py, read without nox."""
    tree = ast.parse((ROOT / "noxfile.py").read_text())
    return {
        name.id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for name in node.targets
        if isinstance(name, ast.Name) and name.id in {"PYTHONS", "OLDEST", "BETWEEN", "NEWEST", "FRAMEWORKS"}
    }


def rows(name: str, heading: str) -> list[list[str]]:
    """Return the rows of the table under a heading of a document."""
    section = (ROOT / name).read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def results_of(name: str) -> list[list[str]]:
    """Return the results in a document, a row for each Python."""
    return [[row, python, *cells] for row, pythons, *cells in rows(name, "Results") for python in pythons.split(", ")]
