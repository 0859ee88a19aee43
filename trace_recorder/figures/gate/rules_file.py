"""Reads the rules of a check from a TOML file.

Each key has a reader, which takes the value of the key. A mistake is one sentence with its place in the file, such as
`tools.compare`. All mistakes of a file are reported together.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from trace_recorder.errors import RulesError
from trace_recorder.figures.gate.rules import (
    FIGURES,
    ArgumentRule,
    CountRange,
    ErrorRules,
    FigureLimits,
    Limit,
    Pairing,
    Passing,
    PromptComparison,
    ResultComparison,
    ResultRules,
    Rules,
    ToolComparison,
    ToolRules,
)

Value = Any
"""A value of TOML."""
Reader = Callable[[Value], Value]
"""Reads the value of a key. Raises ValueError with the rest of a sentence that begins with the key."""


def read_rules(path: Path) -> Rules:
    """Read the rules of a file. Raises RulesError with a sentence for each mistake, and OSError."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise RulesError(f"{path} is not UTF-8: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise RulesError(f"{path} is not TOML: {error}") from None
    reading = _RulesReader()
    rules = reading.rules(document)
    if reading.mistakes:
        raise RulesError("\n".join(f"{path}: {mistake}" for mistake in reading.mistakes))
    return rules


@dataclass
class _RulesReader:
    """Reads the tables of a file, and collects the mistakes."""

    mistakes: list[str] = field(default_factory=list)

    def rules(self, document: Mapping[str, Value]) -> Rules:
        values = self.table("", document, TOP_KEYS)
        arguments = []
        for number, element in enumerate(values.pop("arguments", ()), 1):
            rule = self.argument_rule(f"arguments[{number}]", element)
            if rule is not None:
                arguments.append(rule)
        tables = {
            name: make(**self.table(name, values.pop(name), readers))
            for name, (make, readers) in TABLES.items()
            if name in values
        }
        return replace(Rules(), arguments=tuple(arguments), **tables, **values)

    def table(self, place: str, table: Mapping[str, Value], readers: Mapping[str, Reader]) -> dict[str, Value]:
        """Return the values of a table that have no mistake."""
        values = {}
        for key, value in table.items():
            name = ".".join(filter(None, [place, key]))
            if key not in readers:
                advice = f"there are {', '.join(readers)}"
                close = get_close_matches(key, readers, n=1)
                if close:
                    advice = f"did you mean {close[0]}?"
                self.mistakes.append(f"{name} is not a rule; {advice}")
                continue
            try:
                values[key] = readers[key](value)
            except ValueError as error:
                self.mistakes.append(f"{name}: {error}")
        return values

    def argument_rule(self, place: str, table: Mapping[str, Value]) -> ArgumentRule | None:
        """Return the rule of an element of `[[arguments]]`, or None if it has a mistake."""
        before = len(self.mistakes)
        values = self.table(place, table, _ARGUMENTS)
        if "tool" not in table:
            self.mistakes.append(f'{place} has no tool: name one, or "*" for each tool')
        conditions = [name for name in ("equals", "one_of", "matches") if name in table]
        if len(conditions) > 1:
            self.mistakes.append(f"{place} has {' and '.join(conditions)}; give one of them")
        if len(self.mistakes) > before:
            return None
        if "equals" in values:
            values["one_of"] = (values.pop("equals"),)
        return ArgumentRule(**values)


# ── readers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _choice(alias: object) -> Reader:
    names = get_args(alias)

    def read(value: Value) -> str:
        if value not in names or not isinstance(value, str):
            raise ValueError(f"{_shown(value)} is not one of {', '.join(map(_shown, names))}")
        return value

    return read


def _of_type(kind: type, description: str) -> Reader:
    def read(value: Value) -> Value:
        if type(value) is not kind:
            raise ValueError(f"{_shown(value)} is not {description}")
        return value

    return read


def _elements(read: Reader) -> Reader:
    def read_all(value: Value) -> tuple[Value, ...]:
        return tuple(map(read, _list(value)))

    return read_all


def _pattern(value: Value) -> re.Pattern[str]:
    try:
        return re.compile(_text(value))
    except re.error as error:
        raise ValueError(f"{_shown(value)} is not a regular expression: {error}") from None


def _pointer(value: Value) -> str:
    text: str = _text(value)
    if text and not text.startswith("/"):
        raise ValueError(f'{_shown(value)} is not a JSON pointer: it begins with "/", such as "/path"')
    return text


def _call_number(value: Value) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"{_shown(value)} is not the number of a call: the first is 1")
    return value


def _counts(value: Value) -> dict[str, CountRange]:
    counts = {}
    for name, count in _table(value).items():
        try:
            counts[name] = CountRange.of(count)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return counts


def _json_value(value: Value) -> Value:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError(f"{_shown(value)} is not a value that an argument can have: arguments are JSON") from None
    return value


def _tables(value: Value) -> Value:
    if not isinstance(value, list) or not all(isinstance(element, dict) for element in value):
        raise ValueError("write [[arguments]] before each rule about arguments")
    return value


def _limit(value: Value) -> Limit | None:
    if value is False:
        return None
    return Limit.of(value)


def _shown(value: Value) -> str:
    """Return a value as TOML writes it, if it is simple."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


_text = _of_type(str, "a text")
_flag = _of_type(bool, "true or false")
_table = _of_type(dict, "a table")
_list = _of_type(list, "a list")
_texts, _patterns = _elements(_text), _elements(_pattern)

TOP_KEYS: dict[str, Reader] = {
    "pair": _choice(Pairing),
    "passing": Passing.of,
    "ignore": _patterns,
    "tools": _table,
    "arguments": _tables,
    "errors": _table,
    "limits": _table,
    "prompts": _choice(PromptComparison),
    "models": _flag,
    "result": _table,
}
_ARGUMENTS: dict[str, Reader] = {
    "tool": _text,
    "pointer": _pointer,
    "call": _call_number,
    "equals": _json_value,
    "one_of": _elements(_json_value),
    "matches": _pattern,
}
TABLES: dict[str, tuple[Callable[..., Value], dict[str, Reader]]] = {
    "tools": (
        ToolRules,
        {"compare": _choice(ToolComparison), "in_order": _texts, "forbidden": _texts, "counts": _counts},
    ),
    "errors": (ErrorRules, {"compare": _flag, "allowed": _patterns}),
    "limits": (FigureLimits, dict.fromkeys(FIGURES, _limit)),
    "result": (ResultRules, {"compare": _choice(ResultComparison), "contains": _texts, "matches": _pattern}),
}
"""The tables of a file: what each makes, and its keys."""
