"""Checks the parameters of requests, and posted rewards and annotations.

A filter of the list becomes a term of the query language of `find` if the language has such a term.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from trace_recorder.catalog.query import Term, number_of, parse_moment, parse_query
from trace_recorder.values.messages import Payload

MAX_AT_ONCE = 10_000
"""An answer has at most this many messages, interactions or steps. A client requests further elements separately."""
MAX_DIGITS = 9


class BadRequestError(Exception):
    """A parameter or a body is not valid. The message says what is expected."""


class NotFoundError(Exception):
    """No run, message, interaction or step has the requested name or number."""


def number_in(text: str, name: str) -> int:
    """Return the number in a parameter. Raises BadRequestError."""
    if not text.isascii() or not text.isdecimal() or len(text) > MAX_DIGITS:
        raise BadRequestError(f"{name} must be a number.")
    return int(text)


def numbers_in(query: Mapping[str, str], first: int, end: int) -> Sequence[int]:
    """Return the numbers that the parameter `numbers` lists, or those between the parameters `from` and `to`.

    The existing numbers are those from `first` to `end - 1`. Raises BadRequestError, and NotFoundError if `numbers` has
    a number that does not exist.
    """
    if "numbers" in query:
        numbers = [number_in(text, "numbers") for text in query["numbers"].split(",")]
        if any(not first <= number < end for number in numbers):
            raise NotFoundError("no element has that number.")
        return numbers[:MAX_AT_ONCE]
    begin = number_in(query.get("from", str(first)), "from")
    last = end - 1
    if "to" in query:
        last = number_in(query["to"], "to")
    return range(max(first, begin), min(last + 1, end))[:MAX_AT_ONCE]


def seconds_in(text: str, at_most: float) -> float:
    """Return how many seconds a client asks to wait, up to `at_most`."""
    return min(number_in(text.partition(".")[0] or "0", "wait"), at_most)


def posted_object(data: bytes) -> dict[str, Payload]:
    """Return the posted JSON object. Raises BadRequestError."""
    try:
        posted = json.loads(data)
    except (ValueError, RecursionError):
        raise BadRequestError("a JSON object is expected.") from None
    if not isinstance(posted, dict):
        raise BadRequestError("a JSON object is expected.")
    return posted


def reward_in(posted: Mapping[str, Payload]) -> dict[str, Payload]:
    """Return the posted reward. Raises BadRequestError."""
    _refuse_unknown(posted, {"name", "value", "weight", "step_number", "explanation"})
    name, value, weight = posted.get("name"), posted.get("value"), posted.get("weight", 1.0)
    number, explanation = posted.get("step_number"), posted.get("explanation")
    if not isinstance(name, str) or not name.strip():
        raise BadRequestError("a reward needs a name.")
    if not _is_number(value) or not _is_number(weight):
        raise BadRequestError("the value of a reward, and its weight, have to be finite numbers.")
    if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
        raise BadRequestError("the number of a step must be an integer.")
    if explanation is not None and not isinstance(explanation, str):
        raise BadRequestError("an explanation must be a text.")
    return {"name": name, "value": value, "weight": weight, "step_number": number, "explanation": explanation}


def annotation_in(posted: Mapping[str, Payload]) -> tuple[str, Payload]:
    """Return the key and the value of the posted annotation. Raises BadRequestError."""
    _refuse_unknown(posted, {"key", "value"})
    key = posted.get("key")
    if not isinstance(key, str) or not key.strip():
        raise BadRequestError("an annotation needs a key.")
    if "value" not in posted:
        raise BadRequestError("an annotation needs a value.")
    return key, posted["value"]


def _refuse_unknown(posted: Mapping[str, Payload], known: set[str]) -> None:
    if others := posted.keys() - known:
        raise BadRequestError(f"{min(others)!r} is not known here.")


def _is_number(value: Payload) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


SortColumn = Literal[
    "status",
    "task",
    "model",
    "time",
    "duration",
    "steps",
    "errors",
    "tokens",
    "cost",
    "rewards",
]
"""The columns of the list. The orders of the command line (`catalog/selection.py`) have the same names."""
COLUMNS: tuple[SortColumn, ...] = get_args(SortColumn)


@dataclass(frozen=True, slots=True)
class ListRequest:
    """A request for some rows of the list. Rows are counted from 0; `last` is included."""

    filters: tuple[Term, ...] = ()
    text: str = ""
    """Words, or parts of words, to search for in the task, the file, the model and the provider."""
    model: str | None = None
    began_since: float | None = None
    """Only runs that began at or after this time (in seconds since 1970) are listed.

    For a run without a start time, the time of its files is compared.
    """
    began_until: float | None = None
    query: str = ""
    """A search in the language of `find`."""
    column: SortColumn = "time"
    descending: bool = True
    first: int = 0
    last: int = MAX_AT_ONCE - 1
    since: str | None = None
    """The version that the client has. If the list has the same version, the answer is short."""
    version: str | None = None
    """The version of the list whose rows are requested."""

    @property
    def arrangement(self) -> ListRequest:
        """Return the request with only the members that decide which rows the list has, and their order."""
        return replace(self, first=0, last=0, since=None, version=None)


def list_request_in(parameters: Mapping[str, str]) -> ListRequest:
    """Return the request for the list with these parameters. Raises BadRequestError and QueryError."""
    first = number_in(parameters.get("from", "0"), "from")
    last = number_in(parameters["to"], "to") if "to" in parameters else first + MAX_AT_ONCE - 1
    sort = parameters.get("sort") or "-time"
    column = next((name for name in COLUMNS if name == sort.removeprefix("-")), None)
    if column is None:
        raise BadRequestError(f"sort must be one of {', '.join(COLUMNS)}, with - before it if it descends.")
    return ListRequest(
        filters=tuple(_filters(parameters)),
        text=parameters.get("text", ""),
        model=parameters.get("model") or None,
        began_since=_timestamp(parameters.get("began_since")),
        began_until=_timestamp(parameters.get("began_until")),
        query=parameters.get("query", "").strip(),
        column=column,
        descending=sort.startswith("-"),
        first=first,
        last=min(last, first + MAX_AT_ONCE - 1),
        since=parameters.get("since"),
        version=parameters.get("version"),
    )


def _timestamp(text: str | None) -> float | None:
    return parse_moment(text).timestamp() if text else None


def _filters(parameters: Mapping[str, str]) -> Iterator[Term]:
    if status := parameters.get("status", "").replace(" ", "-"):
        [term, *_] = parse_query(f'status:"{status.replace(chr(34), "")}"')
        yield term
    if "errors" in parameters:
        yield Term("has", "error")
    if cost := parameters.get("cost"):
        yield Term("cost", relation=">=", number=number_of(cost))
