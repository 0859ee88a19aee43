"""Recorded answers for urllib3 (also for requests and boto3): a connection whose socket gives the recorded bytes.

Then urllib3 itself reads the answer from that socket and makes its own response. Therefore types, reads, retries and
pools work as in urllib3. The lengths of the body and of its chunks differ from the recorded lengths, because the
recorded body is decoded.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from http import HTTPStatus
from importlib import import_module
from typing import Any

from trace_recorder.capture.exchange import sending
from trace_recorder.capture.seam import ORIGIN_ATTRIBUTE, LibraryRequest
from trace_recorder.capture.urllib3_pools import read_urllib3_request
from trace_recorder.dialects.endpoints import with_model
from trace_recorder.rerun.answers import (
    FRAMING_HEADERS,
    Answer,
    Answers,
    Errors,
    LibraryAnswers,
    Outgoing,
    Pace,
    answer_to,
)


def _answered(answers: Answers, original: Any, pool: Any, *args: Any, **kwargs: Any) -> Any:
    """Answer one request of a connection pool from the recording, or send the request.

    Raises the exception that ended the recorded call, if there was one.
    """
    request = read_urllib3_request(pool, *args, **kwargs)
    answer = answer_to(answers, request, _errors())
    if answer is None:
        with sending(request, None):
            return original(pool, *args, **kwargs)
    if answer.status is None:
        raise _errors().ending(answer, answers)
    connection = import_module("urllib3.connection").HTTPConnection(pool.host, pool.port)
    connection.sock = _RecordedSocket(_responding(answer, answers))
    connection.is_verified = True  # nothing is sent, so urllib3 must not warn about the certificate
    response = original(pool, connection, *args[1:], **kwargs)
    setattr(response, ORIGIN_ATTRIBUTE, answer.origin)
    return response


def _changed(
    request: LibraryRequest, args: tuple[Any, ...], kwargs: dict[str, Any], outgoing: Outgoing
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments for sending a request that a fork has changed.

    If the address names the model, the address is changed too.
    """
    connection, method, url, *more = args
    if outgoing.model is not None:
        url = with_model(url, outgoing.model)
    headers = {_text(name): _text(value) for name, value in request.headers.raw if name.lower() != b"content-length"}
    others = dict(zip(("body", "headers"), more, strict=False))
    return (connection, method, url), {**others, **kwargs, "body": outgoing.body, "headers": headers}


def _text(data: bytes) -> str:
    return data.decode("latin-1")


def _errors() -> Errors:
    kinds = import_module("urllib3.exceptions")
    return Errors(kinds, kinds.HTTPError, ConnectionRefusedError, kinds.ProtocolError)


URLLIB3_ANSWERS = LibraryAnswers(_answered, read_urllib3_request, _changed, _errors)


def head(answer: Answer) -> bytes:
    """Return the status line and the headers of an answer as HTTP/1.1.

    They state the length of the body, or that the body comes in chunks.
    """
    phrase = next((status.phrase for status in HTTPStatus if status.value == answer.status), "")
    framing = "transfer-encoding: chunked"
    if is_whole(answer):
        framing = f"content-length: {len(answer.body)}"
    kept = (f"{name}: {value}" for name, value in answer.headers.items() if name.lower() not in FRAMING_HEADERS)
    lines = [f"HTTP/1.1 {answer.status} {phrase}", *kept, framing]
    return "".join(f"{line}\r\n" for line in lines).encode("latin-1", "replace") + b"\r\n"


def chunk(data: bytes) -> bytes:
    """Return one chunk of a body. An empty chunk ends the body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def is_whole(answer: Answer) -> bool:
    """Return whether the complete body is sent at once, and not in chunks."""
    return answer.chunks is None and not answer.is_cut_off


def _responding(answer: Answer, answers: Answers) -> Iterator[bytes]:
    """Yield the bytes of the response as a server would send them, each chunk at its time.

    If the recorded call failed after the last chunk, raise its exception.
    """
    pace = Pace(answers.speed)
    yield head(answer)
    for data in filter(None, answer.pieces_in_time(pace)):
        if is_whole(answer):
            yield data
        else:
            yield chunk(data)
    if answer.is_cut_off:
        raise _errors().ending(answer, answers)
    if not is_whole(answer):
        yield chunk(b"")


class _RecordedSocket:
    """A socket with the methods that http.client calls. Sent bytes are dropped."""

    def __init__(self, received: Iterator[bytes]) -> None:
        self._received = received

    def makefile(self, *_: object, **__: object) -> io.BufferedReader:
        """Return the file from which the response is read."""
        return io.BufferedReader(_ReceivedBytes(self._received))

    def sendall(self, *_: object) -> None:
        """Drop sent bytes."""

    def settimeout(self, _: float | None) -> None:
        """Ignore timeouts: `speed` decides how long a read waits."""

    def shutdown(self, _: int) -> None:
        """Do nothing, because there is no connection."""

    def close(self) -> None:
        """Do nothing, because there is no connection to close."""


class _ReceivedBytes(io.RawIOBase):
    """A file of the received bytes. A read returns bytes from one element of `pieces` at most."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        """Return True, because the file can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with received bytes. Return the number of bytes, 0 at the end."""
        data = self._rest or next(self._pieces, b"")
        size = min(len(buffer), len(data))
        buffer[:size], self._rest = data[:size], data[size:]
        return size
