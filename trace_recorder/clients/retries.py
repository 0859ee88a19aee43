"""Retries of failed calls: after which errors a call is retried, and how long a client waits before each attempt.

Only the table `RETRY_RULES` says which errors are retried. An error has several signs: a header, a code, a status, a
class. The signs are looked up in the table from the most specific to the least specific, and the first sign in the
table decides. An error without a sign in the table is not retried. The SDKs' own retries are off, and tenacity retries
instead. So all clients wait in the same way, and each attempt is sent and recorded separately.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from email.utils import parsedate_to_datetime
from importlib import import_module
from itertools import count
from random import uniform
from typing import Any, TypeVar

from trace_recorder.dialects.json_access import as_dict, as_list
from trace_recorder.errors import MissingExtraError
from trace_recorder.values.messages import Payload

Answer = TypeVar("Answer")

RETRY_RULES: dict[str, tuple[bool, str]] = {
    "x-should-retry: true": (True, "the server says so (OpenAI, Anthropic)"),
    "x-should-retry: false": (False, "the server says so (OpenAI, Anthropic)"),
    "insufficient_quota": (False, "OpenAI's 429 for an account without credit, which does not end by itself"),
    "overloaded_error": (True, "Anthropic, as the first event of a stream that began with 200"),
    "rate_limit_error": (True, "Anthropic, also as the first event of a stream"),
    "api_error": (True, "Anthropic, also as the first event of a stream: an error inside Anthropic's systems"),
    "server_error": (True, "OpenAI, also as the first event of a stream"),
    "408": (True, "the server waited too long for the request"),
    "409": (True, "a lock that was not acquired in time"),
    "425": (True, "too early"),
    "429": (True, "a rate limit"),
    "501": (False, "the server does not support this"),
    "505": (False, "the server does not support the version of HTTP"),
    "5xx": (True, "the server failed, or is overloaded (503, Anthropic's 529)"),
    "openai.APIConnectionError": (True, "no connection, a broken connection, or a timeout"),
    "anthropic.APIConnectionError": (True, "no connection, a broken connection, or a timeout"),
    "httpx2.UnsupportedProtocol": (False, "an address that cannot be called"),
    "httpx.UnsupportedProtocol": (False, "an address that cannot be called"),
    "httpx2.TransportError": (True, "google-genai: no connection, a broken connection, or a timeout"),
    "httpx.TransportError": (True, "ollama, and older SDKs: no connection, a broken connection, or a timeout"),
    "builtins.ConnectionError": (True, "ollama: no connection"),
    "builtins.TimeoutError": (True, "a timeout"),
}
"""Maps the sign of an error (a header, a code, a status or a class) to whether the call is retried, and why."""

FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS = 0.5, 8.0
"""The first and the longest wait.

The wait doubles with each attempt. A random part of at most a quarter is subtracted.
"""
MAX_SERVER_WAIT_SECONDS = 120.0
"""If a server requests a longer wait than this, the call is not retried. The error is raised at once."""


class Retrier:
    """Retries failed calls up to `retries` times."""

    def __init__(self, retries: int) -> None:
        try:
            self._tenacity: Any = import_module("tenacity")
        except ModuleNotFoundError as error:
            raise MissingExtraError("The clients need tenacity: pip install 'trace-recorder[clients]'") from error
        self._rules = {
            "stop": self._tenacity.stop_after_attempt(retries + 1),
            "retry": self._tenacity.retry_if_exception(is_retried),
            "wait": lambda state: wait_seconds(state.outcome.exception(), state.attempt_number),
            "reraise": True,
        }

    def call(self, send: Callable[[int], Answer]) -> Answer:
        """Call `send` with the number of the attempt, from 0, until an attempt succeeds.

        The error of the last attempt, or an error that is not retried, is raised unchanged.
        """
        attempts = count()
        answer: Answer = self._tenacity.Retrying(**self._rules)(lambda: send(next(attempts)))
        return answer

    async def acall(self, send: Callable[[int], Awaitable[Answer]]) -> Answer:
        """Do the same as `call` with a `send` that is a coroutine function."""
        attempts = count()

        async def once() -> Answer:
            return await send(next(attempts))

        answer: Answer = await self._tenacity.AsyncRetrying(**self._rules)(once)
        return answer


def is_retried(error: BaseException) -> bool:
    """Return whether a call is retried after an error.

    The table decides, and the wait that the server requests must not be too long.
    """
    if not isinstance(error, Exception) or (server_wait_seconds(error) or 0.0) > MAX_SERVER_WAIT_SECONDS:
        return False
    return next((RETRY_RULES[sign][0] for sign in _signs(error) if sign in RETRY_RULES), False)


def wait_seconds(error: BaseException, attempts: int) -> float:
    """Return the seconds to wait after a number of attempts: as the server requests, or exponential with jitter."""
    requested = server_wait_seconds(error)
    if requested is not None:
        return requested
    wait: float = min(MAX_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** (attempts - 1))
    return wait * uniform(0.75, 1.0)  # noqa: S311 - jitter is not a secret


def server_wait_seconds(error: BaseException) -> float | None:
    """Return the wait that a server requests: in a header (milliseconds, seconds or a date), or in Google's error."""
    headers = _headers(error)
    readings = (
        (headers.get("retry-after-ms"), lambda text: float(text) / 1000),
        (headers.get("retry-after"), float),
        (headers.get("retry-after"), lambda text: parsedate_to_datetime(text).timestamp() - time.time()),
        (_google_retry_delay(error), lambda text: float(text.removesuffix("s"))),
    )
    for text, read in readings:
        if not isinstance(text, str):
            continue
        try:
            seconds = read(text)
        except (ValueError, OverflowError):
            continue
        if seconds == seconds:  # noqa: PLR0124 - NaN is not equal to itself
            return max(0.0, seconds)
    return None


def _signs(error: Exception) -> Iterator[str]:
    if value := _headers(error).get("x-should-retry"):
        yield f"x-should-retry: {value}"
    if isinstance(code := getattr(error, "code", None), str):
        yield code
    if status := _status(error):
        yield from (str(status), f"{status // 100}xx")
    elif isinstance(kind := getattr(error, "type", None), str):
        yield kind
    yield from (f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(error).__mro__)


def _status(error: Exception) -> int | None:
    """Return the HTTP status of an error, or None. SDKs have two names for the status."""
    codes = (getattr(error, name, None) for name in ("status_code", "code"))
    return next((code for code in codes if isinstance(code, int) and code >= 400), None)


def _headers(error: BaseException) -> dict[str, str]:
    """Return the headers of the response. Ollama's error has no response, but the HTTP error that caused it has one."""
    response = getattr(error, "response", None) or getattr(error.__context__, "response", None)
    headers = getattr(response, "headers", None) or {}
    return {str(name).lower(): str(value) for name, value in headers.items()}


def _google_retry_delay(error: BaseException) -> Payload:
    details = as_dict(as_dict(getattr(error, "details", None)).get("error")).get("details")
    return next((detail["retryDelay"] for detail in map(as_dict, as_list(details)) if "retryDelay" in detail), None)
