"""Traces that a service keeps: the interface that lists and fetches them, and errors that explain a failure.

`ListedTrace.version` changes when a trace changes, so an unchanged trace is not fetched again. If a service sends the
same pages again and again, or empty pages, the import ends with an error.

A failure is explained in one sentence, which never contains a key. The services' clients have exceptions of their own,
which this module does not import. This module recognises an exception by the exception's HTTP status or name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import NoReturn, Protocol

from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.errors import MissingExtraError, TraceRecorderError
from trace_recorder.formats.foreign_runs.run import ForeignRun
from trace_recorder.values.messages import Payload


@dataclass(frozen=True, slots=True)
class ListedTrace:
    """One trace of a service's list. Its `version` is "" if the trace has not ended, or may still change."""

    identity: str
    version: str


class TraceService(Protocol):
    """A service that keeps the traces of a project."""

    @property
    def format(self) -> str:
        """The name of the import format that reads the service's traces."""

    @property
    def address(self) -> str:
        """The service and the project, as `service:project`."""

    @property
    def settings(self) -> str:
        """The environment variables with the service's key and address."""

    def traces(self) -> Iterator[ListedTrace]:
        """Yield the traces of the project, page by page. Raises the exceptions of the service's client."""

    def run(self, trace: ListedTrace) -> ForeignRun | None:
        """Fetch a trace and return its run, or None if the trace is empty.

        Raises the exceptions of the service's client.
        """


def client_module(name: str, extra: str) -> ModuleType:
    """Import the package of a service's client. Raises MissingExtraError if the package is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        message = f"{name} is not installed: pip install 'trace-recorder[{extra}]'"
        raise MissingExtraError(message) from error


_STATUSES = {
    "LangSmithAuthError": 401,
    "LangSmithNotFoundError": 404,
    "LangSmithRateLimitError": 429,
}
_UNREACHABLE = {"ConnectionError", "TransportError", "APIConnectionError", "LangSmithConnectionError", "TimeoutError"}
"""The names of exceptions, or of their base classes, that a client raises if the service does not answer."""
_UNKNOWN = 500
"""The status that MLflow gives to exceptions without a more exact status, for example if the server does not answer."""
_RETRIED = re.compile(r"too many (\d{3}) error responses")
_MAX_TEXT = 300


class FetchError(TraceRecorderError):
    """The traces of a service could not be fetched: the key is missing or refused, or the service cannot be reached."""


class TraceFetchError(FetchError):
    """One trace of a service could not be fetched. Other traces may still be fetched."""


def refuse_service(service: TraceService, error: Exception, *, trace: str | None = None) -> NoReturn:
    """Raise a FetchError that explains a client's exception.

    Raise a TraceFetchError if only `trace` cannot be fetched. Any exception that is not about the connection or the key
    is taken to be about the data that the service sent.
    """
    if isinstance(error, FetchError):
        raise error
    if isinstance(error, MissingExtraError):
        raise FetchError(str(error)) from error
    status, refusal = _status(error), _refusal(error)
    if refusal is not None and status in (401, 403):
        hint = f"Its key and its address are read from {service.settings}."
        raise FetchError(f"{service.address}: {refusal}. {hint}") from error
    if refusal is not None:
        hint = "The imported runs stay. Run the command again to continue."
        raise FetchError(f"{service.address}: {refusal}. {hint}") from error
    why = _why_unreadable(error, status)
    if trace is None:
        raise FetchError(f"{service.address}: {why}") from error
    raise TraceFetchError(f"{service.address}, trace {trace}: {why}") from error


def _why_unreadable(error: Exception, status: int | None) -> str:
    why = type(error).__name__
    if status:
        why = f"HTTP status {status}"
    text = _text_of(error)
    if text:
        return f"it cannot be read ({why}): {text}"
    return f"it cannot be read ({why})"


def _refusal(error: Exception) -> str | None:
    """Return the reason why a service refuses all requests, or None if the error has another reason."""
    status = _status(error)
    if status == 401:
        return "the service refused the key (HTTP status 401)"
    if status == 403:
        return "the key gives no access to this (HTTP status 403)"
    if status == 429:
        return "the service asks for fewer requests (HTTP status 429)"
    names = {kind.__name__ for cause in _with_causes(error) for kind in type(cause).__mro__}
    if status in (None, _UNKNOWN) and not names.isdisjoint(_UNREACHABLE):
        return f"the service did not answer ({type(error).__name__})"
    return None


def _status(error: Exception) -> int | None:
    """Return the HTTP status in a client's exception or in one of its causes, or None."""
    unknown = None
    for cause in _with_causes(error):
        status = _stated_status(cause)
        if status is None:
            continue
        if status != _UNKNOWN:
            return status
        unknown = status
    return unknown


def _stated_status(error: BaseException) -> int | None:
    status = getattr(error, "status_code", None) or getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return status
    mlflow_status = getattr(error, "get_http_status_code", None)
    if mlflow_status is not None:
        return int(mlflow_status())
    if type(error).__name__ == "RetryError":
        match = _RETRIED.search(str(error))
        if match is not None:
            return int(match[1])
    return next((_STATUSES[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _STATUSES), None)


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(10):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _text_of(error: Exception) -> str:
    """Return the service's message: from the body of its answer, or otherwise the text of the exception."""
    body: Payload = getattr(error, "body", None)
    text = as_text(as_dict(body).get("message")) or as_text(as_dict(body).get("detail")) or ""
    if body is None:
        text = str(error)
    text = " ".join(text.split())
    if len(text) > _MAX_TEXT:
        text = f"{text[:_MAX_TEXT]}…"
    return text


MAX_STALE = 100
"""After this many consecutive pages without a new id, the list counts as endless."""


class ListedIds:
    """The ids that were listed so far, and how many of the last pages had no new id. Error messages name `address`."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._known: set[str] = set()
        self._stale_pages = 0

    def new_ids(self, page: Iterable[str]) -> list[str]:
        """Return the new ids of a page, each once.

        Raises FetchError after `MAX_STALE` consecutive pages without a new id.
        """
        new = [identity for identity in dict.fromkeys(page) if identity not in self._known]
        self._known.update(new)
        if new:
            self._stale_pages = 0
        else:
            self._stale_pages += 1
        if self._stale_pages == MAX_STALE:
            raise FetchError(
                f"{self._address}: {MAX_STALE} pages in a row have nothing new, but the service sends more."
            )
        return new
