"""docs/nothing-recorded.md quotes the package: each sentence in a first column is one that the code has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from types import CodeType

import pytest

from tests.processes import ROOT

PAGE = (ROOT / "docs" / "nothing-recorded.md").read_text(encoding="utf-8")
SENTENCES = [row[1] for row in re.finditer(r"^\| `([^`]+)`", PAGE, re.MULTILINE)]
LEAST = 13
"""A text of the code with fewer characters than this is no evidence of a sentence."""


@pytest.fixture(scope="module")
def texts() -> frozenset[str]:
    """The texts in the code. A text with values in it is several texts."""
    modules = [SourceFileLoader("module", str(path)) for path in (ROOT / "trace_recorder").rglob("*.py")]
    constants = {text for module in modules for text in texts_of(module.get_code("module"))}
    return frozenset(part for text in constants for part in text.split("%s"))


def texts_of(constant: object) -> Iterator[str]:
    """Yield the texts of compiled code, which is usually there, while parsing the package takes seconds."""
    if isinstance(constant, str):
        yield constant
    elif isinstance(constant, CodeType | tuple | frozenset):
        for part in constant.co_consts if isinstance(constant, CodeType) else constant:
            yield from texts_of(part)


def test_the_page_has_sentences_of_commands_and_of_programs() -> None:
    assert len(SENTENCES) >= 13


@pytest.mark.parametrize("sentence", SENTENCES)
def test_the_code_has_the_sentence(sentence: str, texts: frozenset[str]) -> None:
    assert any(sentence in text or (len(text) >= LEAST and text in sentence) for text in texts)
