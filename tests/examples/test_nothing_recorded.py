"""docs/nothing-recorded.md quotes the package: each sentence in a first column is one that the code has."""

from __future__ import annotations

import ast
import re

import pytest

from tests.processes import ROOT

PAGE = (ROOT / "docs" / "nothing-recorded.md").read_text(encoding="utf-8")
SENTENCES = [row[1] for row in re.finditer(r"^\| `([^`]+)`", PAGE, re.MULTILINE)]
LEAST = 13
"""A text of the code with fewer characters than this is no evidence of a sentence."""


@pytest.fixture(scope="module")
def texts() -> frozenset[str]:
    """The texts in the code. A text with values in it is several texts."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "trace_recorder").rglob("*.py")]
    constants = {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return frozenset(part for text in constants if isinstance(text, str) for part in text.split("%s"))


def test_the_page_has_sentences_of_commands_and_of_programs() -> None:
    assert len(SENTENCES) >= 13


@pytest.mark.parametrize("sentence", SENTENCES)
def test_the_code_has_the_sentence(sentence: str, texts: frozenset[str]) -> None:
    assert any(sentence in text or (len(text) >= LEAST and text in sentence) for text in texts)
