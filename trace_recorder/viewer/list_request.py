"""What is asked of the list of runs: filters, an order, a search, and which of the rows.

The filters are terms of the query language of `find`, where that has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from trace_recorder.catalog.query import Term, number_of, parse_query, time_of
from trace_recorder.viewer.asked import MAX_AT_ONCE, BadRequestError, number_in

Column = Literal[
    "status",
    "task",
    "model",
    "start_time",
    "execution_time_seconds",
    "steps",
    "errors",
    "tokens",
    "cost",
    "rewards",
]
COLUMNS: tuple[Column, ...] = get_args(Column)


@dataclass(frozen=True, slots=True)
class ListRequest:
    """A request for some rows of the list. Rows are counted from 0; `last` is included."""

    filters: tuple[Term, ...] = ()
    text: str = ""
    """Words of the task, the file, the model or the provider; a part of each is enough."""
    model: str | None = None
    began_since: float | None = None
    """Seconds since 1970. A run of unknown start counts by the time of its files."""
    began_until: float | None = None
    query: str = ""
    """A search in the language of `find`."""
    column: Column = "start_time"
    descending: bool = True
    first: int = 0
    last: int = MAX_AT_ONCE - 1
    since: str | None = None
    """The version that the caller has. The answer is short if it is still that of the list."""
    version: str | None = None
    """The version of the list whose rows are requested."""

    @property
    def arrangement(self) -> ListRequest:
        """Return the request without what does not change which rows there are, and in which order."""
        return replace(self, first=0, last=0, since=None, version=None)


def list_request_in(asked: Mapping[str, str]) -> ListRequest:
    """Return the request that an address has. Raises BadRequestError and QueryError."""
    first = number_in(asked.get("from", "0"), "from")
    last = number_in(asked["to"], "to") if "to" in asked else first + MAX_AT_ONCE - 1
    sort = asked.get("sort") or "-start_time"
    column = next((name for name in COLUMNS if name == sort.removeprefix("-")), None)
    if column is None:
        raise BadRequestError(f"sort must be one of {', '.join(COLUMNS)}, with - before it if it descends.")
    return ListRequest(
        filters=tuple(_filters(asked)),
        text=asked.get("text", ""),
        model=asked.get("model") or None,
        began_since=_moment(asked.get("began_since")),
        began_until=_moment(asked.get("began_until")),
        query=asked.get("query", "").strip(),
        column=column,
        descending=sort.startswith("-"),
        first=first,
        last=min(last, first + MAX_AT_ONCE - 1),
        since=asked.get("since"),
        version=asked.get("version"),
    )


def _moment(text: str | None) -> float | None:
    return time_of(text).timestamp() if text else None


def _filters(asked: Mapping[str, str]) -> Iterator[Term]:
    if status := asked.get("status", "").replace(" ", "-"):
        [term, *_] = parse_query(f'status:"{status.replace(chr(34), "")}"')
        yield term
    if "errors" in asked:
        yield Term("has", "error")
    if cost := asked.get("cost"):
        yield Term("cost", relation=">=", number=number_of(cost))
