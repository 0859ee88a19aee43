"""Conditions of a query as SQL over the tables of `fact_tables.py`.

This SQL alone decides whether a run matches. It runs on the index. For a run that no index has, it runs on tables in
memory with the facts of that run. So FTS5's `unicode61` cuts words in both cases.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from trace_recorder.catalog.fact_values import NUMBERS, Place, storable
from trace_recorder.catalog.query import JUDGEMENTS, Term

Parameter = str | float
_JUDGEMENTS = dict(zip(JUDGEMENTS, ("r.success IS 1", "r.success IS 0"), strict=True))
_FAILED = "(r.success IS 0 OR r.status = 'failed')"
_HAS_ERROR = "(r.error IS NOT NULL OR ifnull(r.failed_calls, 0) <> 0 OR ifnull(r.failed_tool_calls, 0) <> 0)"
_WITH_TEXT = "r.id IN (SELECT run FROM uses WHERE text IN (SELECT id FROM texts WHERE instr(text, ?) > 0))"
_WITH_WANTED_TEXT = (
    "r.id IN (SELECT run FROM uses WHERE place IN ({}) AND text IN (SELECT id FROM texts WHERE is_wanted(text)))"
)
_WITH_WORDS = "r.id IN (SELECT run FROM uses WHERE text IN (SELECT rowid FROM words WHERE words MATCH ?))"
_WITH_NAME = "r.id IN (SELECT n.run FROM names n WHERE n.kind = '{}' AND {})"
_OF_CALLS = frozenset({"model", "provider", "agent", "error", "tool", "failed_tool", "cost"})
_SUCCESS = {"yes": "r.success IS 1", "no": "r.success IS 0", "unknown": "r.success IS NULL"}


@dataclass(frozen=True, slots=True)
class Condition:
    """SQL that is true for each matching run `r`, and the parameters of the SQL."""

    sql: str
    parameters: tuple[Parameter, ...] = ()
    needs_texts: bool = False
    needs_calls: bool = False
    """Whether the calls of a run have to be read. If not, the ends of the document are enough."""
    is_wanted: Callable[[str], bool] | None = None
    """The Python function that the SQL calls as `is_wanted` with a text."""


EVERY_RUN = Condition("1")
"""The condition that every run meets."""


def condition_of(terms: Iterable[Term]) -> Condition:
    """Return the SQL condition that is true for the runs that match all terms."""
    parts = [_negated(_condition(term)) if term.negated else _condition(term) for term in terms]
    return Condition(
        " AND ".join(part.sql for part in parts) or "1",
        tuple(parameter for part in parts for parameter in part.parameters),
        any(part.needs_texts for part in parts),
        any(part.needs_calls for part in parts),
    )


def condition_of_texts(is_wanted: Callable[[str], bool], places: Collection[Place]) -> Condition:
    """Return the condition that is true if a function accepts a text of the run in one of these places."""
    listed = ", ".join("?" * len(places))
    return Condition(
        _WITH_WANTED_TEXT.format(listed), tuple(places), needs_texts=True, needs_calls=True, is_wanted=is_wanted
    )


def _negated(one: Condition) -> Condition:
    """Return the negation of a condition. A run matches the negation if the condition is false or unknown."""
    return replace(one, sql=f"NOT ifnull({one.sql}, 0)")


def _condition(term: Term) -> Condition:
    if term.field in NUMBERS:
        condition = Condition(f"r.{term.field} {term.relation} ?", (_number(term),))
    else:
        condition = _CONDITIONS[term.field](term)
    return replace(condition, needs_calls=condition.needs_calls or term.field in _OF_CALLS)


def _words(term: Term) -> Condition:
    phrase = storable(str(term.value)).replace('"', '""').replace("\0", " ")  # NUL would end the phrase
    return Condition(_WITH_WORDS, (f'"{phrase}"',), needs_texts=True, needs_calls=True)


def _substring(term: Term) -> Condition:
    return Condition(_WITH_TEXT, (_text(term),), needs_texts=True, needs_calls=True)


def _status(term: Term) -> Condition:
    """Return the condition that a run has one of several statuses. The caller's judgement counts as a status."""
    words = [*dict.fromkeys(_text(term).split(","))]
    sql = " OR ".join(_JUDGEMENTS.get(word, "r.status = ?") for word in words)
    return Condition(f"({sql})", tuple(word for word in words if word not in _JUDGEMENTS))


def _in_column(column: str) -> Callable[[Term], Condition]:
    """Return a function from a term to its condition: the column contains the term's text. Case is ignored."""
    return lambda term: Condition(f"instr(folded(r.{column}), ?) > 0", (_text(term).casefold(),))


def _in_name(kind: str) -> Callable[[Term], Condition]:
    """Return a function from a term to its condition: a name of this kind contains its text. Case is ignored."""
    return lambda term: _has_name(kind, "instr(folded(n.name), ?) > 0", _text(term).casefold())


def _named(kind: str, number: str = "number") -> Callable[[Term], Condition]:
    """Return a function from a term to its condition: the run has the term's name, as a name of this kind."""

    def condition(term: Term) -> Condition:
        if term.text is not None:
            return _has_name(kind, "n.name = ? AND n.text = ?", _text(term), storable(term.text))
        if term.relation is not None:
            return _has_name(kind, f"n.name = ? AND n.{number} {term.relation} ?", _text(term), _number(term))
        is_there = " AND n.failed > 0" if number == "failed" else ""
        return _has_name(kind, f"n.name = ?{is_there}", _text(term))

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
    "task": _in_column("task"),
    "model": _in_name("model"),
    "provider": _in_name("provider"),
    "agent": _in_name("agent"),
    "error": _in_name("error"),
    "success": lambda term: Condition(_SUCCESS[str(term.value)]),
    "is": lambda _: Condition(_FAILED),
    "has": lambda _: Condition(_HAS_ERROR),
    "tool": _named("tool"),
    "failed_tool": _named("tool", "failed"),
    "reward": _named("reward"),
    "meta": _named("meta"),
    "annotation": _named("annotation"),
    "since": lambda term: Condition("r.began >= ?", (float(term.value),)),
    "until": lambda term: Condition("r.began < ?", (float(term.value),)),
}
