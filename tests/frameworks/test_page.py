"""docs/frameworks.md and its results: sections, blocks and results agree with the tests and with noxfile.py."""

from __future__ import annotations

import ast
from itertools import product

import pytest

from tests.frameworks.page import PAGE, agent, blocks, without_us
from tests.processes import ROOT
from tests.supported_versions import matrix, results_of, rows

PAGE_NAME = "docs/frameworks.md"
RESULTS = "results/frameworks.md"
BLOCKS = {
    "LangChain": 3,
    "OpenAI Agents SDK": 2,
    "Pydantic AI": 2,
    "smolagents": 2,
    "LiteLLM": 2,
    "LlamaIndex": 2,
    "instructor": 2,
    "Google ADK": 1,
    "Strands Agents": 1,
    "browser-use": 1,
    "DSPy": 1,
}
"""For each section, the number of its blocks. The framework's tests run all of them."""


def test_every_framework_has_a_section() -> None:
    """The page has exactly the tested sections, with the tested number of blocks, and its table a row for each."""
    named = [row[0] for row in rows(PAGE_NAME, "Which frameworks")]

    assert {name: len(blocks(name)) for name in BLOCKS} == BLOCKS
    assert (named, PAGE.read_text(encoding="utf-8").count("```python")) == (list(BLOCKS), sum(BLOCKS.values()))


@pytest.mark.parametrize("name", BLOCKS)
def test_an_agent_without_our_lines_is_a_program(name: str) -> None:
    """Each block without this package's lines is valid code, and ends with the same line as the block."""
    for block in blocks(name):
        plain = without_us(block)
        assert ast.unparse(ast.parse(block)).splitlines()[-1].strip() == plain.splitlines()[-1].strip()
    assert compile(agent(name), name, "exec")


def test_the_results_are_those_of_the_sessions() -> None:
    """Each framework of noxfile.py has tests, and results/frameworks.md has its results on the same Pythons, without
    failures and skips.
    """
    tables = matrix()
    results = [(name, python, failed, skipped) for name, python, _, _, failed, skipped in results_of(RESULTS)]
    pythons = [python for python in tables["PYTHONS"] if any(result[1] == python for result in results)]  # type: ignore[attr-defined]

    assert results == [(*one, "0", "0") for one in product(tables["FRAMEWORKS"], pythons)]  # type: ignore[call-overload]
    assert pythons
    assert all((ROOT / "tests" / "frameworks" / f"test_{name}.py").is_file() for name, *_ in results)
