"""The answer to one request from a recording, and the exceptions that an HTTP library raises for it.

Each library has a file that makes its own response of an answer: `transport.py` for httpx and httpx2,
`urllib3_answers.py`, and `aiohttp_answers.py`. Which answer belongs to a request is decided by `Answers`.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any, Literal, Protocol

from trace_recorder.dialects.endpoints import Endpoint, endpoint_of
from trace_recorder.errors import ReplayMismatchError
from trace_recorder.rerun.exceptions import builtin_exception, exception_of
from trace_recorder.storage.stream_chunks import TimedBytes
from trace_recorder.values.final_status import CANCELLATION_CLASSES
from trace_recorder.values.origins import ReplayedFrom

Missing = Literal["error", "live"]
"""The treatment of a request without a recorded answer."""

_NOT_CAUGHT = ("KeyboardInterrupt", "SystemExit", "GeneratorExit")
CANCELLATION_GRACE_SECONDS = 1.0
"""How much longer than the recorded call took, a call that was cancelled waits to be cancelled again."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a call: a response, whole or in chunks, and the exception that ends it, if any.

    `status` is None where no response came. `error` is an exception's class and message. `stopped` says why the rest of
    the response is not on file: reading further raises an error with it. `seconds` is how long the recorded exchange
    took. `origin` is the recorded call that gives the answer.
    """

    status: int | None
    headers: dict[str, str]
    body: bytes = b""
    chunks: tuple[TimedBytes, ...] | None = None
    error: tuple[str, str] | None = None
    stopped: str | None = None
    seconds: float = 0.0
    origin: ReplayedFrom | None = None

    @property
    def pieces(self) -> tuple[TimedBytes, ...]:
        """The chunks of the body; a plain one is one chunk."""
        return ((0.0, self.body),) if self.chunks is None else self.chunks

    @property
    def is_cut_off(self) -> bool:
        """Whether something else than its end follows the body."""
        return self.error is not None or self.stopped is not None

    @property
    def was_cancelled(self) -> bool:
        """Whether the recorded call was cancelled, by its own task's cancellation."""
        return self.error is not None and self.error[0].rpartition(".")[2] in CANCELLATION_CLASSES


class Answers(Protocol):
    """Gives the recorded answer to a request. Raises ReplayMismatchError if no call fits.

    `missing` is "live" where requests without a recorded answer are sent.
    """

    speed: float | None
    missing: Missing

    def answer(self, endpoint: Endpoint, headers: list[tuple[bytes, bytes]], body: bytes) -> Answer | None:
        """The answer to one request; None where it is to be sent."""

    def polled(self, method: str, path: str) -> Answer | None:
        """The final answer to a poll of a recorded response; None for other requests."""

    def refused(self, said: str) -> ReplayMismatchError:
        """Return a mismatch to raise; the replay keeps it."""


class Refuses(Protocol):
    """A replay or a fork, as far as the end of an answer asks it."""

    def refused(self, said: str) -> ReplayMismatchError:
        """Return a mismatch to raise; the replay keeps it."""


class Pace:
    """Computes how long to wait for a chunk: `speed` times as fast as it came, or not at all."""

    def __init__(self, speed: float | None) -> None:
        self._speed = speed
        self._began = time.perf_counter()

    def seconds(self, at: float) -> float:
        """Return how many seconds to wait for what came at this time, in seconds since its request."""
        return 0.0 if self._speed is None else self.remaining(at / self._speed)

    def remaining(self, seconds: float) -> float:
        """Return how much is left of this many seconds since the request."""
        return max(0.0, seconds - (time.perf_counter() - self._began))


def endpoint_of_request(request: Any) -> Endpoint | None:
    """Return the dialect of a request; None if it is no LLM call."""
    return endpoint_of(request.method, request.url.host, request.url.path, request.url.port)


def answer_to(answers: Answers, request: Any, errors: Errors) -> Answer | None:
    """Return the answer to a request of a seam that hands over its body; None if the request is to be sent."""
    endpoint = endpoint_of_request(request)
    if endpoint is None:
        return answers.polled(request.method, request.url.path)
    try:
        return answers.answer(endpoint, request.headers.raw, b"".join(request.stream))
    except ReplayMismatchError as mismatch:
        raise errors.refusal(mismatch) from None


@dataclass(frozen=True, slots=True)
class Errors:
    """The exceptions of an HTTP library: a failed connection, any recorded one by its name, a broken body.

    `root` is the class of all of them. `named` are arguments that each class takes besides the message.
    """

    library: ModuleType
    root: type[Exception]
    connection: type[Exception]
    broken: type[Exception]
    named: dict[str, Any] = field(default_factory=dict)

    def refusal(self, mismatch: ReplayMismatchError) -> Exception:
        """Return a mismatch that is also a connection error of the library, which each SDK wraps in its own."""
        kind: Any = self.connection
        return _mismatch_class(kind)(str(mismatch), **self.named)

    def recorded(self, name: str, message: str) -> Exception | None:
        """Return an exception of the recorded class, the library's or Python's own; None if it ended the task."""
        plain = name.rpartition(".")[2]
        kind = getattr(self.library, plain, None)
        if isinstance(kind, type) and issubclass(kind, self.root):
            return exception_of(kind, self.root, message, self.named)
        if plain in CANCELLATION_CLASSES or plain in _NOT_CAUGHT:
            return None
        return builtin_exception(plain, message) or self.broken(f"{name}: {message}", **self.named)

    def ending(self, answer: Answer, answers: Refuses) -> Exception:
        """Return the end of a call that did not complete: the recorded exception, or a mismatch if none is on file."""
        error = None if answer.error is None else self.recorded(*answer.error)
        if error is None:
            why = ": ".join(filter(None, answer.error)) if answer.error else answer.stopped or "no answer had come"
            error = self.refusal(answers.refused(f"nothing is on file of what came next: {why}"))
        if answer.origin is not None:
            answer.origin.mark(error)
        return error


@cache
def _mismatch_class(connect_error: Any) -> Callable[..., Exception]:
    members = {"__module__": ReplayMismatchError.__module__}
    return type("ReplayMismatchError", (ReplayMismatchError, connect_error), members)


def refused_connection(mismatch: ReplayMismatchError) -> Exception:
    """Return a mismatch that is also a refused connection, which each HTTP library wraps in its own error."""
    return _mismatch_class(ConnectionRefusedError)(errno.ECONNREFUSED, str(mismatch))
