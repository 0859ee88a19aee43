"""Parses queries for runs, and makes SQL from them.

An example is `status:failed tool:bash>10 since:7d "exit code 1"`. A query is a list of terms, and a run has to match
all terms. docs/many-runs.md describes the terms. This module parses a query, and makes an SQL condition from its terms,
for the tables of `value_tables.py`.

This SQL alone decides whether a run matches. For a run in an index, the SQL is evaluated on the index. For any other
run, the SQL is evaluated on tables in memory with the values of that run. So the same tokenizer (FTS5's `unicode61`)
finds the words in both cases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import get_args
from unicodedata import category

from trace_recorder.catalog.searched_values import NUMBERS, SearchPlace, TextSearch, storable
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
"""A query with more terms than this is refused. SQLite itself refuses 1,000 terms."""
JUDGEMENTS = ("success", "no-success")
STATUSES: tuple[str, ...] = (*get_args(Status), *JUDGEMENTS)
"""The values that `status:` accepts: the statuses of a run, and whether the caller judged it a success."""
CHOICES = {
    "success": ("yes", "no", "unknown"),
    "is": ("success", "failed"),
    "has": ("error",),
}
"""Fields that accept only these values."""
TEXTS = ("status", "task", "model", "provider", "agent", "error", "id", "parent", "session", "tag", "text")
"""Fields whose values are texts."""
NAMES = ("tool", "failed_tool", "reward", "meta", "annotation")
"""Fields whose values are names. A comparison with a number or a text may follow the name, as in `tool:bash>10`."""
TIMES = ("since", "until", "older")
"""Fields whose values are times. `older` accepts only an age, such as 90d, and means `until`."""
FIELDS = (*TEXTS, *CHOICES, *NAMES, *TIMES, *NUMBERS)


@dataclass(frozen=True, slots=True)
class Term:
    """One term of a query. `value` is a word, a phrase, a text, a name, or a time in seconds since 1970.

    `relation` compares the value of the field or of the name with `number`. An example is ">". If `field` is "meta" or
    "annotation", the only `relation` is "=", and the value is compared with `text`. A term without a comparison has no
    `relation`.
    """

    field: str
    value: str | float = ""
    relation: str | None = None
    number: float | None = None
    text: str | None = None
    negated: bool = False


def parse_query(query: str) -> tuple[Term, ...]:
    """Return the terms of a query. Raises QueryError if a term is wrong."""
    terms, place = [], 0
    while place < len(query):
        if query[place].isspace():
            place += 1
            continue
        match = _TERM.match(query, place)
        if match is None:
            raise QueryError(f"{query[place:]!r} has an opening quotation mark without a closing one")
        terms.append(_term(match))
        place = match.end()
    if len(terms) > MAX_TERMS:
        raise QueryError(f"the query has {len(terms)} terms; at most {MAX_TERMS} are allowed")
    return tuple(terms)


def _term(match: re.Match[str]) -> Term:
    negated = match["not"] is not None
    if match["words"] is not None:
        empty = _WITHOUT_VALUE.fullmatch(match["words"])
        if empty is not None and empty[1].lower() in FIELDS:
            raise QueryError(f"{match[0]!r} needs a value directly after it, without a space")
        if not any(character.isalnum() or category(character) == "Co" for character in match["words"]):
            raise QueryError(f"{match[0]!r} has no letter and no digit, so it is not a word; text~ finds characters")
        return Term("words", _unquoted(match["words"]), negated=negated)
    field, relation, value = match["field"].lower(), match["relation"], match["value"]
    if field in NUMBERS:
        return _number_term(field, relation, value, negated=negated)
    if field == "text" and relation == "~":
        return Term(field, _unquoted(value), negated=negated)
    if relation != ":" or field == "text":
        if field in FIELDS:
            raise QueryError(f"{match[0]!r}: after {field} comes {'~' if field == 'text' else ':'}")
        return Term("words", _unquoted(match[0][negated:]), negated=negated)
    return _field_term(field, value, negated=negated)


def _field_term(field: str, value: str, *, negated: bool) -> Term:
    if field == "status":
        unknown = next((word for word in _unquoted(value).split(",") if word not in STATUSES), None)
        if unknown is not None:
            raise QueryError(f"{field}:{value}: {unknown!r} is not one of {', '.join(STATUSES)}")
    if field in TEXTS:
        return Term(field, _unquoted(value), negated=negated)
    if field in CHOICES:
        if value not in CHOICES[field]:
            raise QueryError(f"{field}:{value} is not one of {', '.join(f'{field}:{word}' for word in CHOICES[field])}")
        return Term(field, value, negated=negated)
    if field == "older":
        if parse_age(_unquoted(value)) is None:
            raise QueryError(
                f"older:{value}: an age is expected, such as 90d, 12h or 2w; until:2025-06-12 takes a date"
            )
        field = "until"
    if field in TIMES:
        return Term(field, parse_moment(_unquoted(value)).timestamp(), negated=negated)
    if field in NAMES:
        return _name_term(field, value, negated=negated)
    known = ", ".join(FIELDS)
    raise QueryError(f"there is no field {field!r}; quote the term to search for it as text. The fields are {known}")


def _name_term(field: str, value: str, *, negated: bool) -> Term:
    """Return the term for a name, and for the comparison that may follow the name.

    A quoted name may have any character.
    """
    match = _NAME.fullmatch(value)
    if match is None:
        raise QueryError(f"{field}:{value}: after a name in quotation marks, only {' '.join(RELATIONS)} may follow")
    if not match["name"]:
        raise QueryError(f"{field}:{value} needs a name before {match['relation']}")
    name, relation = _unquoted(match["name"]), match["relation"]
    if relation is None:
        return Term(field, name, negated=negated)
    if field not in {"meta", "annotation"}:
        return Term(field, name, relation, number_of(match["value"]), negated=negated)
    if relation != "=":
        raise QueryError(f"{field}:{value}: a text is compared with = only")
    return Term(field, name, relation, text=_unquoted(match["value"]), negated=negated)


def _number_term(field: str, relation: str, value: str, *, negated: bool) -> Term:
    if relation == ":":
        match = re.fullmatch(r"([<>]=?|=)?(.*)", value)
        if match is not None:
            relation, value = match[1] or "=", match[2]
    if relation not in RELATIONS:
        raise QueryError(f"{field}{relation}{value}: a number is compared with one of {' '.join(RELATIONS)}")
    return Term(field, relation=relation, number=number_of(value), negated=negated)


def number_of(text: str) -> float:
    """Parse a number in a query. Raises QueryError if the text is not a finite number."""
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if number != number or abs(number) == float("inf"):  # noqa: PLR0124 - nan is not itself
        raise QueryError(f"{text!r} is not a number")
    if number.is_integer() and abs(number) < 2**53:
        return int(number)
    return number


def parse_age(text: str) -> timedelta | None:
    """Parse an age such as "30d" or "12h". Return None for any other text."""
    match = _AGO.fullmatch(text)
    if match is None:
        return None
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def parse_moment(text: str) -> datetime:
    """Parse a date, a time, or a duration before now such as "7d".

    A time without a zone is local time. Raises QueryError for any other text.
    """
    try:
        age = parse_age(text)
        if age is not None:
            return datetime.now().astimezone() - age
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        raise QueryError(f"{text!r} is not a time such as 2025-06-12, 2025-06-12T22:05, 7d or 12h") from None


def _unquoted(value: str) -> str:
    """Return a value without its quotation marks. In a quoted part, two quotation marks become one."""
    parts: Iterable[tuple[str, str]] = _PART.findall(value)
    return "".join(quoted[1:-1].replace('""', '"') or plain for quoted, plain in parts)


# ── SQL ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

Parameter = str | float | TextSearch
"""A parameter of SQL. `FactTables` replaces a search in texts by the ids of the runs as a JSON list."""
_JUDGEMENTS = dict(zip(JUDGEMENTS, ("r.success IS 1", "r.success IS 0"), strict=True))
_IS = {"success": "r.success IS 1", "failed": "(r.success IS 0 OR r.status = 'failed')"}
_HAS_ERROR = "(r.error IS NOT NULL OR ifnull(r.failed_calls, 0) <> 0 OR ifnull(r.failed_tool_calls, 0) <> 0)"
_WITH_TEXT = "r.id IN (SELECT value FROM json_each(?))"
_WITH_NAME = "r.id IN (SELECT f.run FROM names n JOIN facts f ON f.name = n.id WHERE n.kind = '{}' AND {})"
_OF_CALLS = frozenset({"model", "provider", "agent", "error", "tool", "failed_tool", "cost"})
_SUCCESS = {"yes": "r.success IS 1", "no": "r.success IS 0", "unknown": "r.success IS NULL"}


@dataclass(frozen=True, slots=True)
class Condition:
    """An SQL condition that is true if the run `r` matches, and the parameters of the SQL."""

    sql: str
    parameters: tuple[Parameter, ...] = ()
    needs_texts: bool = False
    needs_calls: bool = False
    """Whether the calls of a run have to be read. If False, the beginning and the end of the document are enough."""


EVERY_RUN = Condition("1")
"""A condition that is true for every run."""


def condition_of(terms: Iterable[Term]) -> Condition:
    """Return the SQL condition that is true for the runs that match all terms."""
    parts = [*map(_condition, terms)]
    return Condition(
        " AND ".join(part.sql for part in parts) or "1",
        tuple(parameter for part in parts for parameter in part.parameters),
        any(part.needs_texts for part in parts),
        any(part.needs_calls for part in parts),
    )


def condition_of_texts(is_wanted: Callable[[str], bool], places: Collection[SearchPlace]) -> Condition:
    """Return the condition that the run has a text in one of `places` for which `is_wanted` returns True."""
    return _with_text(TextSearch(is_wanted=is_wanted, places=places))


def _with_text(search: TextSearch) -> Condition:
    return Condition(_WITH_TEXT, (search,), needs_texts=True, needs_calls=True)


def _condition(term: Term) -> Condition:
    if term.field in NUMBERS:
        condition = Condition(f"r.{term.field} {term.relation} ?", (_number(term),))
    else:
        condition = _CONDITIONS[term.field](term)
    # A run matches the negation if the condition is false or unknown.
    sql = condition.sql
    if term.negated:
        sql = f"NOT ifnull({sql}, 0)"
    return replace(condition, sql=sql, needs_calls=condition.needs_calls or term.field in _OF_CALLS)


def _words(term: Term) -> Condition:
    phrase = storable(str(term.value)).replace('"', '""').replace("\0", " ")  # NUL would end the phrase
    return _with_text(TextSearch(f'"{phrase}"'))


def _substring(term: Term) -> Condition:
    part = _text(term)
    return _with_text(TextSearch(part=part, is_wanted=lambda text: part in text))


def _status(term: Term) -> Condition:
    """Return the condition that a run has one of the statuses in the term.

    `success` and `no-success` count as statuses.
    """
    words = [*dict.fromkeys(_text(term).split(","))]
    sql = " OR ".join(_JUDGEMENTS.get(word, "r.status = ?") for word in words)
    return Condition(f"({sql})", tuple(word for word in words if word not in _JUDGEMENTS))


def _in_name(kind: str) -> Callable[[Term], Condition]:
    """Return a function from a term to the condition that a name of this kind contains the term's text.

    Case is ignored.
    """
    return lambda term: _has_name(kind, "instr(folded(n.name), ?) > 0", _text(term).casefold())


def _named(kind: str, number: str = "number") -> Callable[[Term], Condition]:
    """Return a function from a term to the condition that the run has the term's name as a name of this kind."""

    def condition(term: Term) -> Condition:
        if term.text is not None:
            return _has_name(kind, "n.name = ? AND f.text = ?", _text(term), storable(term.text))
        if term.relation is not None:
            return _has_name(kind, f"n.name = ? AND f.{number} {term.relation} ?", _text(term), _number(term))
        if number == "failed":
            return _has_name(kind, "n.name = ? AND f.failed > 0", _text(term))
        return _has_name(kind, "n.name = ?", _text(term))

    return condition


def _has_name(kind: str, sql: str, *parameters: Parameter) -> Condition:
    return Condition(_WITH_NAME.format(kind, sql), parameters)


def _text(term: Term) -> str:
    return storable(str(term.value))


def _number(term: Term) -> float:
    return term.number or 0


_CONDITIONS: dict[str, Callable[[Term], Condition]] = {
    "words": _words,
    "text": _substring,
    "status": _status,
    "id": lambda term: Condition("r.trajectory_id = ?", (_text(term),)),
    "parent": lambda term: Condition("r.parent = ?", (_text(term),)),
    "session": lambda term: Condition("r.session = ?", (_text(term),)),
    "task": lambda term: Condition("instr(folded(r.task), ?) > 0", (_text(term).casefold(),)),  # case is ignored
    "model": _in_name("model"),
    "provider": _in_name("provider"),
    "agent": _in_name("agent"),
    "error": _in_name("error"),
    "tag": _named("tag"),
    "success": lambda term: Condition(_SUCCESS[str(term.value)]),
    "is": lambda term: Condition(_IS[str(term.value)]),
    "has": lambda _: Condition(_HAS_ERROR),
    "tool": _named("tool"),
    "failed_tool": _named("tool", "failed"),
    "reward": _named("reward"),
    "meta": _named("meta"),
    "annotation": _named("annotation"),
    "since": lambda term: Condition("r.began >= ?", (float(term.value),)),
    "until": lambda term: Condition("r.began < ?", (float(term.value),)),
}
