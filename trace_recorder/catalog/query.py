"""The query language for runs:

`status:failed tool:bash>10 since:7d "exit code 1"`. A query is a list of terms, and a run has to match all terms.
docs/many-runs.md describes the terms. This file parses a query; `conditions.py` makes SQL from its terms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import get_args

from trace_recorder.catalog.fact_values import NUMBERS
from trace_recorder.errors import QueryError
from trace_recorder.values.trajectory import Status

_QUOTED = r'"(?>(?:[^"]|"")*)"'
_VALUE = rf'(?>(?:{_QUOTED}|[^\s"])+)'
_TERM = re.compile(
    rf"(?P<not>-)?(?:(?P<field>[A-Za-z_]+)(?P<relation>:|~|[<>]=?|=)(?P<value>{_VALUE})|(?P<words>{_VALUE}))(?=\s|$)"
)
_NAME = re.compile(rf"(?P<name>{_QUOTED}|[^<>=]*+)(?:(?P<relation>[<>]=?|=)(?P<value>.*))?", re.DOTALL)
_PART = re.compile(rf'({_QUOTED})|([^"]+)')
_AGO = re.compile(r"(\d{1,6})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

_WITHOUT_VALUE = re.compile(r"([A-Za-z_]+)(:|~|[<>]=?|=)")

RELATIONS = ("<", "<=", ">", ">=", "=")
MAX_TERMS = 100
"""SQLite refuses a condition of 1,000 terms."""
JUDGEMENTS = ("success", "no-success")
STATUSES: tuple[str, ...] = (*get_args(Status), *JUDGEMENTS)
"""The statuses of a run, and the judgements of the caller."""
CHOICES = {
    "success": ("yes", "no", "unknown"),
    "is": ("failed",),
    "has": ("error",),
}
"""Fields that take only these values."""
TEXTS = ("status", "task", "model", "provider", "agent", "error", "id", "text")
"""Fields whose values are texts."""
NAMES = ("tool", "failed_tool", "reward", "meta", "annotation")
"""Fields whose values are names; a number or a text may follow."""
TIMES = ("since", "until")
FIELDS = (*TEXTS, *CHOICES, *NAMES, *TIMES, *NUMBERS)


@dataclass(frozen=True, slots=True)
class Term:
    """One condition. `value` is a word, a phrase, a text, a name, or a time in seconds since 1970.

    `relation` compares with `number`; for a key of metadata, `=` compares with `text`.
    """

    field: str
    value: str | float = ""
    relation: str | None = None
    number: float | None = None
    text: str | None = None
    negated: bool = False


def parse_query(query: str) -> tuple[Term, ...]:
    """Return the terms of a query. Raises QueryError if a term cannot be understood."""
    terms, place = [], 0
    while place < len(query):
        if query[place].isspace():
            place += 1
            continue
        match = _TERM.match(query, place)
        if match is None:
            raise QueryError(f"{query[place:]!r} has a quotation mark without its other one")
        terms.append(_term(match))
        place = match.end()
    if len(terms) > MAX_TERMS:
        raise QueryError(f"the query has {len(terms)} terms: at most {MAX_TERMS} are understood")
    return tuple(terms)


def _term(match: re.Match[str]) -> Term:
    negated = match["not"] is not None
    if match["words"] is not None:
        empty = _WITHOUT_VALUE.fullmatch(match["words"])
        if empty is not None and empty[1].lower() in FIELDS:
            raise QueryError(f"{match[0]!r} needs a value directly behind it, without a space")
        return Term("words", _unquoted(match["words"]), negated=negated)
    field, relation, value = match["field"].lower(), match["relation"], match["value"]
    if field in NUMBERS:
        return _number_term(field, relation, value, negated=negated)
    if field == "text" and relation == "~":
        return Term(field, _unquoted(value), negated=negated)
    if relation != ":" or field == "text":
        if field in FIELDS:
            raise QueryError(f"{match[0]!r}: {field} goes with {'~' if field == 'text' else ':'}")
        return Term("words", _unquoted(match[0][negated:]), negated=negated)
    return _field_term(field, value, negated=negated)


def _field_term(field: str, value: str, *, negated: bool) -> Term:
    if field == "status":
        _check_statuses(_unquoted(value))
    if field in TEXTS:
        return Term(field, _unquoted(value), negated=negated)
    if field in CHOICES:
        if value not in CHOICES[field]:
            raise QueryError(f"{field}:{value} is none of {', '.join(f'{field}:{one}' for one in CHOICES[field])}")
        return Term(field, value, negated=negated)
    if field in TIMES:
        return Term(field, time_of(_unquoted(value)).timestamp(), negated=negated)
    if field in NAMES:
        return _name_term(field, value, negated=negated)
    raise QueryError(f"there is no field {field!r}: it is one of {', '.join(FIELDS)}. Quotation marks make it a text.")


def _check_statuses(value: str) -> None:
    unknown = next((one for one in value.split(",") if one not in STATUSES), None)
    if unknown is not None:
        raise QueryError(f"status:{value}: {unknown!r} is none of {', '.join(STATUSES)}")


def _name_term(field: str, value: str, *, negated: bool) -> Term:
    """Return a term for a name, with the number or text that follows it. A quoted name may have any character."""
    match = _NAME.fullmatch(value)
    if match is None:
        raise QueryError(f"{field}:{value}: after a name in quotation marks comes {' '.join(RELATIONS)} or nothing")
    if not match["name"]:
        raise QueryError(f"{field}:{value} needs a name before {match['relation']}")
    name, relation = _unquoted(match["name"]), match["relation"]
    if relation is None:
        return Term(field, name, negated=negated)
    if field not in {"meta", "annotation"}:
        return Term(field, name, relation, number_of(match["value"]), negated=negated)
    if relation != "=":
        raise QueryError(f"{field}:{value}: a text goes with =")
    return Term(field, name, relation, text=_unquoted(match["value"]), negated=negated)


def _number_term(field: str, relation: str, value: str, *, negated: bool) -> Term:
    found = re.fullmatch(r"([<>]=?|=)?(.*)", value) if relation == ":" else None
    if found is not None:
        relation, value = found[1] or "=", found[2]
    if relation not in RELATIONS:
        raise QueryError(f"{field}{relation}{value}: a number goes with one of {' '.join(RELATIONS)}")
    return Term(field, relation=relation, number=number_of(value), negated=negated)


def number_of(text: str) -> float:
    """Return a number of a query. Raises QueryError."""
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if number != number or abs(number) == float("inf"):  # noqa: PLR0124 - nan is not itself
        raise QueryError(f"{text!r} is not a number")
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def time_of(text: str) -> datetime:
    """Parse a date, a time, or a duration before now. A time without a zone is local. Raises QueryError."""
    try:
        if ago := _AGO.fullmatch(text):
            return datetime.now().astimezone() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        raise QueryError(f"{text!r} is no time, such as 2025-06-12, 2025-06-12T22:05, 7d or 12h") from None


def _unquoted(value: str) -> str:
    """Return a value without its quotation marks. Two quotation marks inside become one."""
    parts: Iterable[tuple[str, str]] = _PART.findall(value)
    return "".join(quoted[1:-1].replace('""', '"') or plain for quoted, plain in parts)
