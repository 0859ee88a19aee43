"""The answer to one request from a recording, and the exceptions that an HTTP library raises for such an answer.

For each library, one file turns an answer into a response of that library: `transport.py` for httpx and httpx2,
`urllib3_answers.py`, and `aiohttp_answers.py`. `Answers` is the interface of the objects that
choose the answer to a request.
"""

from __future__ import annotations

import builtins
import errno
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any, Literal, NamedTuple, Protocol

from trace_recorder.capture.seam import LibraryRequest, recognise_request
from trace_recorder.clocks import monotonic_seconds
from trace_recorder.dialects.endpoints import Endpoint, Poll
from trace_recorder.errors import ReplayMismatchError
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.stream_chunks import TimedBytes
from trace_recorder.values.final_status import CANCELLATION_CLASSES
from trace_recorder.values.origins import ReplayedFrom


class _KeyErrorMessage(str):
    """A text whose `repr` is the text itself, because the message of a KeyError is the `repr` of its argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def builtin_exception(name: str, message: str) -> Exception | None:
    """Return a built-in exception with this message, or None if no such class exists or it cannot have this message."""
    kind = getattr(builtins, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        return None
    if issubclass(kind, KeyError):
        message = _KeyErrorMessage(message)
    try:
        error = kind(message)
    except ours(TypeError):  # such as UnicodeDecodeError, which takes five arguments
        return None
    if str(error) != message:
        return None
    return error


def exception_of(kind: type[Exception], root: type[Exception], message: str, kwargs: dict[str, Any]) -> Exception:
    """Return an exception of a library's class with this message.

    `root` is the base class of the library's exceptions. If `kwargs` is not empty, the class is called with the message
    and `kwargs`. Otherwise the exception is made without the constructor, because the classes have different
    constructors. If the class cannot have the message, the nearest base class that can is used.
    """
    if kwargs:
        return kind(message, **kwargs)
    for candidate in (base for base in kind.__mro__ if issubclass(base, root)):
        error = candidate.__new__(candidate, message)
        try:
            if str(error) == message or candidate is root:
                return error
        except ours(AttributeError, TypeError):  # `str(error)` needs attributes that only the constructor sets
            continue
    return root(message)


Missing = Literal["error", "live"]
"""What happens to a request without a recorded answer: ReplayMismatchError is raised, or the request is sent."""

FRAMING_HEADERS = ("content-length", "transfer-encoding", "connection", "keep-alive")
"""The headers that say where a body ends. A replay writes its own values, because the recorded body is decoded."""
_ENDS_PROCESS = ("KeyboardInterrupt", "SystemExit", "GeneratorExit")
CANCELLATION_GRACE_SECONDS = 1.0
"""A replay of a cancelled call waits this many seconds longer than the recorded call.

In this time, the program can cancel the call again.
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a call: a response, whole or in chunks, and the exception that ends the response, if any.

    `status` is None if no response came. `error` is the class and the message of the exception. `stopped` says why the
    rest of the response was not recorded. After the recorded part, a mismatch that quotes this text is raised.
    `seconds` is the duration of the recorded exchange. `origin` is the recorded call.
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
        """The chunks of the body. A body that is not a stream is one chunk."""
        if self.chunks is None:
            return ((0.0, self.body),)
        return self.chunks

    def pieces_in_time(self, pace: Pace) -> Iterator[bytes]:
        """Yield the chunks of the body, each at its time. The thread sleeps until a chunk is due."""
        for recorded, data in self.pieces:
            if seconds := pace.seconds(recorded):
                time.sleep(seconds)
            yield data

    @property
    def is_cut_off(self) -> bool:
        """Whether an exception ended the call, or a part of the body was not recorded."""
        return self.error is not None or self.stopped is not None

    @property
    def was_cancelled(self) -> bool:
        """Whether the recorded call ended because its task was cancelled."""
        return self.error is not None and self.error[0].rpartition(".")[2] in CANCELLATION_CLASSES


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A live request of a fork. `model` is the model that the address must name, or None to keep the address."""

    body: bytes
    model: str | None = None


class Answers(Protocol):
    """Gives the recorded answer to a request. Raises ReplayMismatchError if no recorded call fits the request.

    `missing` is "live" if requests without a recorded answer are sent.
    """

    speed: float | None
    missing: Missing

    def answer(self, endpoint: Endpoint, headers: list[tuple[bytes, bytes]], body: bytes) -> Answer | None:
        """Return the answer to a request, or None if the request is to be sent."""

    def polled(self, poll: Poll) -> Answer | None:
        """Return the final answer to a poll, or None if the recording has no such response."""

    def refused(self, message: str) -> ReplayMismatchError:
        """Return a mismatch to raise. The replay remembers the mismatch."""


class Refuser(Protocol):
    """The part of a replay or a fork that `Errors.ending` uses."""

    def refused(self, message: str) -> ReplayMismatchError:
        """Return a mismatch to raise. The replay remembers the mismatch."""


class Pace:
    """The times at which chunks are due: `speed` times as fast as recorded, or at once if `speed` is None."""

    def __init__(self, speed: float | None) -> None:
        self._speed = speed
        self._began = monotonic_seconds()

    def seconds(self, recorded: float) -> float:
        """Return how many seconds to wait for a chunk. `recorded` is its time in seconds since the recorded request."""
        if self._speed is None:
            return 0.0
        return self.remaining(recorded / self._speed)

    def remaining(self, seconds: float) -> float:
        """Return how long to wait until `seconds` have passed since the request."""
        return max(0.0, seconds - (monotonic_seconds() - self._began))


def answer_to(answers: Answers, request: Any, errors: Errors) -> Answer | None:
    """Return the answer to a request of aiohttp or urllib3, or None if the request is to be sent.

    If the request is not an LLM call, it may be a poll for the answer to an earlier call.
    """
    recognition = recognise_request(request)
    if recognition.poll is not None:
        return answers.polled(recognition.poll)
    if recognition.call is None:
        return None
    try:
        return answers.answer(recognition.call, request.headers.raw, b"".join(request.stream))
    except ReplayMismatchError as mismatch:
        raise errors.refusal(mismatch) from None


@dataclass(frozen=True, slots=True)
class Errors:
    """The exceptions of an HTTP library: for a failed connection, for a broken body, and for recorded class names.

    `root` is the base class of the exceptions. `kwargs` are the keyword arguments of each class besides the message.
    """

    library: ModuleType
    root: type[Exception]
    connection: type[Exception]
    broken: type[Exception]
    kwargs: dict[str, Any] = field(default_factory=dict)

    def refusal(self, mismatch: ReplayMismatchError) -> Exception:
        """Return the mismatch as an exception that is also a connection error of the library.

        An SDK treats the exception like any connection error, and wraps the exception in an error of its own.
        """
        kind: Any = self.connection
        return _mismatch_class(kind)(str(mismatch), **self.kwargs)

    def recorded(self, name: str, message: str) -> Exception | None:
        """Return an exception of the recorded class: a class of the library, or a built-in class, or else `broken`.

        Return None if such an exception ends a task or a process.
        """
        plain = name.rpartition(".")[2]
        kind = getattr(self.library, plain, None)
        if isinstance(kind, type) and issubclass(kind, self.root):
            return exception_of(kind, self.root, message, self.kwargs)
        if plain in CANCELLATION_CLASSES or plain in _ENDS_PROCESS:
            return None
        return builtin_exception(plain, message) or self.broken(f"{name}: {message}", **self.kwargs)

    def ending(self, answer: Answer, answers: Refuser) -> Exception:
        """Return the exception that ends an incomplete call: the recorded exception, or else a mismatch."""
        error = None
        why = answer.stopped or "no answer came"
        if answer.error is not None:
            error = self.recorded(*answer.error)
            why = ": ".join(filter(None, answer.error))
        if error is None:
            error = self.refusal(answers.refused(f"the rest of the answer is not on file: {why}"))
        if answer.origin is not None:
            answer.origin.mark(error)
        return error


class LibraryAnswers(NamedTuple):
    """The functions that a replay and a fork need for an HTTP library whose method they replace.

    `answered` answers one request from the recording, or sends the request. Its arguments are the answers, the
    library's own method, and the arguments of that method. `read` returns the request that a client is asked to send.
    `changed` returns the arguments of the method for a request that a fork has changed. `errors` returns the exceptions
    of the library.
    """

    answered: Callable[..., Any]
    read: Callable[..., LibraryRequest]
    changed: Callable[
        [LibraryRequest, tuple[Any, ...], dict[str, Any], Outgoing], tuple[tuple[Any, ...], dict[str, Any]]
    ]
    errors: Callable[[], Errors]


@cache
def _mismatch_class(connect_error: Any) -> Callable[..., Exception]:
    members = {"__module__": ReplayMismatchError.__module__}
    return type("ReplayMismatchError", (ReplayMismatchError, connect_error), members)


def refused_connection(mismatch: ReplayMismatchError) -> Exception:
    """Return the mismatch as an exception that is also a ConnectionRefusedError.

    Each HTTP library wraps a ConnectionRefusedError in an error of its own.
    """
    return _mismatch_class(ConnectionRefusedError)(errno.ECONNREFUSED, str(mismatch))
