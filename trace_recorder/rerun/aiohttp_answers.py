"""Recorded answers for aiohttp: a connector whose connections give the recorded bytes.

aiohttp itself reads the answer from such a connection and makes its own response. Therefore types, reads, timeouts and
traces work as in aiohttp. The lengths of the body and of its chunks differ from the recorded lengths, because the
recorded body is decoded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import copy
from functools import cache, partial
from importlib import import_module
from typing import Any

from trace_recorder.capture.aiohttp_sessions import read_aiohttp_request
from trace_recorder.capture.exchange import sending
from trace_recorder.capture.seam import ORIGIN_ATTRIBUTE, LibraryRequest
from trace_recorder.dialects.endpoints import with_model
from trace_recorder.rerun.answers import (
    CANCELLATION_GRACE_SECONDS,
    Answer,
    Answers,
    Errors,
    LibraryAnswers,
    Outgoing,
    Pace,
    answer_to,
)
from trace_recorder.rerun.urllib3_answers import chunk, head, is_whole


async def _answered(answers: Answers, original: Any, session: Any, *args: Any, **kwargs: Any) -> Any:
    """Answer a request of a session from the recording, or send the request.

    Raises the exception that ended the recorded call, if there was one.
    """
    request = read_aiohttp_request(session, *args, **kwargs)
    answer = None
    if not session.closed:
        answer = answer_to(answers, request, _errors())
    if answer is None:
        with sending(request, None):
            return await original(session, *args, **kwargs)
    pace = Pace(answers.speed)
    connector = _connector_class()(answer, answers, pace)
    await asyncio.sleep(0)  # other tasks run here, as they do while a task waits for the network
    if answer.status is None:
        raise await _ending(answer, answers, pace)
    try:
        if len(args) == 1:
            response = await original(session, *args, **kwargs, send_by=partial(connector.send, session))
        else:
            response = await _send_by_copy(original, session, connector, *args, **kwargs)
    except Exception as error:
        if answer.origin is not None:
            answer.origin.mark(error)
        raise
    setattr(response, ORIGIN_ATTRIBUTE, answer.origin)
    return response


async def _send_by_copy(original: Any, session: Any, connector: Any, *args: Any, **kwargs: Any) -> Any:
    """Send by a copy of the session that differs only in its connector."""
    replaying = copy(session)
    replaying._connector = connector
    try:
        return await original(replaying, *args, **kwargs)
    finally:
        replaying.detach()


def _changed(
    request: LibraryRequest, args: tuple[Any, ...], kwargs: dict[str, Any], outgoing: Outgoing
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments for sending a request that a fork has changed.

    If the address names the model, the address is changed too.
    """
    if len(args) == 1:
        [sent] = args
        if outgoing.model is not None:
            sent.url = type(sent.url)(with_model(str(sent.url), outgoing.model), encoded=True)
        sent.headers.popall("Content-Length", None)
        sent.update_body_from_data(outgoing.body)
        return args, kwargs
    method, url = args
    more = {name: value for name, value in kwargs.items() if name != "json"}
    if outgoing.model is not None:
        url = with_model(request.url.text, outgoing.model)
        more.pop("params", None)  # the address already has the parameters
    own_headers = dict(kwargs.get("headers") or {})
    headers = {name: value for name, value in own_headers.items() if name.lower() != "content-length"}
    if kwargs.get("json") is not None and "content-type" not in map(str.lower, headers):
        headers["Content-Type"] = "application/json"
    return (method, url), {**more, "data": outgoing.body, "headers": headers}


def _errors() -> Errors:
    library = import_module("aiohttp")
    return Errors(library, library.ClientError, library.ClientConnectionError, library.ClientPayloadError)


AIOHTTP_ANSWERS = LibraryAnswers(_answered, read_aiohttp_request, _changed, _errors)


async def _ending(answer: Answer, answers: Answers, pace: Pace) -> Exception:
    """Return the exception that ends a call.

    If the recorded call was cancelled, wait first, so that the program can cancel this call too.
    """
    if answer.was_cancelled:
        await asyncio.sleep(pace.remaining(answer.seconds) + CANCELLATION_GRACE_SECONDS)
    return _errors().ending(answer, answers)


class RecordedConnection(asyncio.Transport):
    """A connection that gives a recorded answer to aiohttp. Sent bytes are dropped."""

    def __init__(self, protocol: Any, answer: Answer, answers: Answers, pace: Pace) -> None:
        super().__init__()
        self._protocol = protocol
        self._answer = answer
        self._answers = answers
        self._pace = pace
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._loop = asyncio.get_running_loop()
        self._responding = self._loop.create_task(self._respond())
        self._closing = False

    async def _respond(self) -> None:
        """Pass each recorded chunk to aiohttp at its time, when the reader has room."""
        answer, protocol = self._answer, self._protocol
        protocol.data_received(head(answer))
        for recorded, data in answer.pieces:
            await asyncio.sleep(self._pace.seconds(recorded))
            await self._has_room.wait()
            if data and is_whole(answer):
                protocol.data_received(data)
            elif data:
                protocol.data_received(chunk(data))
        if answer.is_cut_off:
            await self._break_off()
        elif not is_whole(answer):
            protocol.data_received(chunk(b""))

    async def _break_off(self) -> None:
        """Wait until the reader has read all received bytes and waits for more. A caller may leave the rest unread.

        Then make the reader raise the exception that ends the call. If the exception came earlier, aiohttp would drop
        the unread bytes.
        """
        body = getattr(self._protocol, "_payload", None)
        seconds = 0.0
        while body is not None and (body._buffer or body._waiter is None):
            await asyncio.sleep(seconds)
            seconds = min(2 * seconds + 0.001, 0.1)
        error = await _ending(self._answer, self._answers, self._pace)
        (body or self._protocol).set_exception(error)

    def write(self, data: object) -> None:
        """Drop sent bytes."""

    def is_closing(self) -> bool:
        """Whether the connection is closed."""
        return self._closing

    def close(self) -> None:
        """Stop passing chunks to aiohttp, and tell it that the connection is lost."""
        if not self._closing:
            self._closing = True
            self._responding.cancel()
            if not self._loop.is_closed():
                self._loop.call_soon(self._protocol.connection_lost, None)

    abort = close

    def pause_reading(self) -> None:
        """Pass no chunk until `resume_reading` is called."""
        self._has_room.clear()

    def resume_reading(self) -> None:
        """Pass chunks again."""
        self._has_room.set()


@cache
def _connector_class() -> type:
    """Return a connector class for aiohttp. Such a connector opens one connection, which gives one answer."""

    class ReplayConnector(import_module("aiohttp").BaseConnector):  # type: ignore[misc]
        def __init__(self, answer: Answer, answers: Answers, pace: Pace) -> None:
            super().__init__(force_close=True)
            self._answer: Answer | None = answer
            self._answers = answers
            self._pace = pace
            self._restore: Callable[[], None] = lambda: None

        async def send(self, session: Any, handler: Any, request: Any) -> Any:
            """Send one request of a session by this connector, which other requests do not see.

            aiohttp asks the session for its connector before it first waits.
            """
            self._restore = partial(setattr, session, "_connector", session._connector)
            try:
                session._connector = self
                return await handler(request)
            finally:
                if session._connector is self:
                    self._restore()

        async def connect(self, *args: Any, **kwargs: Any) -> Any:
            self._restore()
            return await super().connect(*args, **kwargs)

        async def _create_connection(self, request: Any, *_: object) -> Any:
            answer, self._answer = self._answer, None
            if answer is None:
                why = f"a replay does not follow the redirect of aiohttp to {request.url.host}"
                raise _errors().refusal(self._answers.refused(why))
            protocol = self._factory()
            protocol.connection_made(RecordedConnection(protocol, answer, self._answers, self._pace))
            return protocol

    return ReplayConnector
