"""The words of the formats: names of members, roles, types, reasons and states, in all wire dialects and in facts.

A text of a run that is exactly such a word is structure. If it were changed, readers could not read the run. The words
are the constants of the code that reads the dialects, so a new dialect brings its own words.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import CodeType, ModuleType

from trace_recorder import dialects, values
from trace_recorder.facts import KINDS
from trace_recorder.lazy_patterns import lazy_pattern

_WORD = lazy_pattern(r"\[?[A-Za-z][A-Za-z0-9]*(?:[_.:/-][A-Za-z0-9]+)*\]?")
_LONGEST = 40


@cache
def format_words() -> frozenset[str]:
    """Return the words of the formats."""
    words = {*KINDS}
    for kind in KINDS.values():
        words.update(kind.__struct_fields__)
    for module in _modules(values):
        for value in vars(module).values():
            words.update(getattr(value, "__struct_fields__", ()))
            words.update(getattr(value, "__dataclass_fields__", ()))
    for module in _modules(dialects):
        words.update(_constants_of(module.__name__))
    return frozenset(words)


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        yield import_module(module.name)


def _constants_of(module: str) -> Iterator[str]:
    """Yield the words among the constants of a module's code."""
    spec = find_spec(module)
    if spec is None or spec.loader is None:
        return
    waiting = [spec.loader.get_code(module)]  # type: ignore[attr-defined]  # all loaders of Python code have it
    while waiting:
        code = waiting.pop()
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                waiting.append(constant)
            yield from _words_in(constant)


def _words_in(constant: object) -> Iterator[str]:
    if isinstance(constant, str):
        if len(constant) <= _LONGEST and _WORD.fullmatch(constant):
            yield constant
    elif isinstance(constant, tuple | frozenset):
        for element in constant:
            yield from _words_in(element)
