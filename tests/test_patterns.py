"""No regular expression of ours is of a kind that some versions of Python 3.11 match wrongly.

Before 3.11.5 (https://github.com/python/cpython/issues/106052), a possessive repetition of a group, `(?:…)*+`, leaves
the position in the middle of the last repetition if that repetition fails after a part of it has matched: the match is
too long, or fails. A repetition of characters, `[…]*+`, is matched correctly, and so is an atomic group, `(?>(?:…)*)`.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any

import pytest

import trace_recorder
from trace_recorder.lazy_patterns import LazyPattern
from trace_recorder.storage.redaction.patterns import FORMS

_ONE_CHARACTER = (codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN)
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)
_NOT_IMPORTED = re.compile(r"\.(?:site|__main__|cli\.jobs)(?:\.|$)")


def modules() -> Iterator[ModuleType]:
    """Return every module that can be imported here."""
    for found in pkgutil.walk_packages(trace_recorder.__path__, "trace_recorder."):
        if not _NOT_IMPORTED.search(found.name):
            yield import_module(found.name)


def patterns() -> dict[str, str]:
    """Return the regular expressions of the package, each with a module that has it."""
    by_text = {
        regex: "trace_recorder.storage.redaction.patterns"
        for shape in FORMS
        for regex in (shape.regex, shape.from_literal, shape.up_to_literal)
    }
    for module in modules():
        for value in _values(vars(module).values()):
            if isinstance(value, re.Pattern | LazyPattern):
                text = value.pattern
                by_text[text.decode("latin-1") if isinstance(text, bytes) else text] = module.__name__
    return by_text


def _values(values: Iterable[object], depth: int = 4) -> Iterator[object]:
    for value in values:
        yield getattr(value, "__self__", value)
        if depth and isinstance(value, list | tuple | dict):
            yield from _values(value.values() if isinstance(value, dict) else value, depth - 1)
        elif depth and is_dataclass(value) and not isinstance(value, type):
            yield from _values([getattr(value, field.name, None) for field in fields(value)], depth - 1)


def groups_repeated(parsed: Any) -> Iterator[Any]:
    """Return the groups in a parsed expression that are repeated possessively."""
    for code, arguments in parsed:
        if code is codes.POSSESSIVE_REPEAT and not (
            len(arguments[2]) == 1 and next(iter(arguments[2]))[0] in _ONE_CHARACTER
        ):
            yield arguments[2]
        for part in arguments if isinstance(arguments, tuple) else (arguments,):
            for inner in part if isinstance(part, list) else [part]:
                if isinstance(inner, _parser.SubPattern):
                    yield from groups_repeated(inner)


def fails_late(group: Any) -> bool:
    """Return whether a group may fail after a part of it has moved the position; doubtful groups count."""
    has_moved = has_matched = False
    for code, arguments in group:
        if code in _ONE_CHARACTER:
            if has_moved:
                return True
            has_matched = True
        elif code in _REPEATS:
            may_be_absent = arguments[0] == 0
            if not may_be_absent and (has_moved or has_matched or fails_late(arguments[2])):
                return True
            has_moved = True
        elif code is codes.BRANCH:
            if has_moved or has_matched or any(fails_late(one) for one in arguments[1]):
                return True
            has_moved = True
        else:
            return True
    return False


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r'(?:[a-z]*+("[^"]*+"))*+', True),
        (r"(?:[^<-]|-(?!----)){1,9}+", True),
        (r"(?:\\(?:[nrt]|u[0-9]{4})[^\\]*+)*+", True),
        (r"(?:[A-Z]|%[0-9]{2}){8,}+", True),
        (r"(?:\\{1,7}[nrt]|[ \n]){0,12}+", True),
        (r"x(?:\\.[^\\]*+)*+", False),
        (r'(?:[^"\\]++|\\.)*+', False),
        (r"(?>(?:[a-z]*+b)*)[a-z]++", False),
        (r"(?>a(?:[a-z]*+b)*+)", True),
    ],
)
def test_wrongly_matched_groups_are_found(text: str, *, expected: bool) -> None:
    """In random expressions, the groups that Python 3.11.2 matches wrongly are found, and no others."""
    assert any(map(fails_late, groups_repeated(_parser.parse(text)))) is expected


def test_no_pattern_has_a_wrongly_matched_group() -> None:
    """No regular expression of the package has a group that Python 3.11.2 matches wrongly."""
    all_patterns = patterns()
    wrong = [
        f"{module}: {text[:200]}"
        for text, module in all_patterns.items()
        if any(map(fails_late, groups_repeated(_parser.parse(text))))
    ]

    assert len(all_patterns) > 150, "too few were found"
    assert wrong == []
