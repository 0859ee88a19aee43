"""Asks servers for the tokens of calls, for the upstreams that `--tokens` names.

A request is recorded as the program sent it, with what is added. `AskingTransport`, inside the recording transport,
adds the members. So the answer is recorded as the server gave it. `UnaskedSend` takes what was added out of the answer
that the program gets.

A server that refuses the members gets the request without them, and is not asked again at that address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import httpx2

from trace_recorder.capture.sdk_clients import slots_of
from trace_recorder.capture.seam import ADDED_EXTENSION, request_in_progress
from trace_recorder.capture.transport import RecordingTransport
from trace_recorder.dialects.dialect import is_turn
from trace_recorder.dialects.endpoints import is_stream_type
from trace_recorder.dialects.token_servers import TOKEN_SERVERS, UnaskedAnswer, asking_body, missing_members
from trace_recorder.guard import Guard
from trace_recorder.recording.run import Run
from trace_recorder.values.json_text import NotJsonError
from trace_recorder.values.messages import Payload

AsgiEvent = Mapping[str, Any]
Send = Callable[[AsgiEvent], Awaitable[None]]

_EVENTS = "text/event-stream"
_REFUSALS = (400, 422)
_LONG_BODY_BYTES = 256 * 1024
"""A body with more bytes is read in a thread, because reading it would stop the event loop for some milliseconds."""
_MAX_QUOTED_CHARACTERS = 300
_ASK = "ask for tokens"
_MAX_REASONS = 20
_noted: WeakKeyDictionary[Run, set[str]] = WeakKeyDictionary()
"""The reasons that gaps of a run state already."""
_guard = Guard()


class TokenRequests:
    """Decides which requests ask for tokens. Keeps the addresses that refuse to be asked."""

    def __init__(self) -> None:
        self._refusals: dict[str, str] = {}
        """What each such address answered."""

    def watch(self, client: httpx2.AsyncClient) -> None:
        """Let a recording client add members to the requests that `forward` has marked."""
        for slot in slots_of(client):
            recording = slot.get()
            if isinstance(recording, RecordingTransport):
                recording.inner = AskingTransport(recording.inner, self._refusals)

    async def forward(  # noqa: PLR0913, PLR0917 - what the server knows of a request
        self,
        server: str,
        api: str,
        request: httpx2.Request,
        run: Run | None,
        send: Send,
        forward: Callable[[Send], Awaitable[int]],
    ) -> int:
        """Forward a request, which asks for tokens if it can. Return the status of the answer.

        `server` is the kind of the server, and `api` is the dialect of the request. `forward` sends the request, and
        passes the answer to the given function.
        """
        members: dict[str, Payload] = {}
        with _guard.protect(_ASK):
            members = await self._members_for(server, api, request, run)
        if not members:
            return await forward(send)
        request.extensions[ADDED_EXTENSION] = added = {"server": server, "members": members}
        answer = UnaskedSend(send, added, run)
        try:
            return await forward(answer)
        except httpx2.TransportError:
            await answer.break_off()
            raise

    async def _members_for(self, server: str, api: str, request: httpx2.Request, run: Run | None) -> dict[str, Payload]:
        """Return the members to add to a request. If a turn of a model cannot be asked, a gap in the run says why."""
        asked = TOKEN_SERVERS[server].asked.get(api)
        if asked == {} or (asked is None and not is_turn(api)):
            return {}
        why = self._refusals.get(_address(request))
        if asked is None:
            why = f"{server} has no member for them at {request.url.path}"
        elif why is None:
            try:
                members: dict[str, Payload] = await _in_thread_if_long(missing_members, request.content, asked)
                return members
            except NotJsonError:
                why = "the body is not a JSON object"
        _note(run, _ASK, why)
        return {}


async def _in_thread_if_long(function: Callable[..., Any], body: bytes, *arguments: Any) -> Any:
    if len(body) > _LONG_BODY_BYTES:
        return await asyncio.to_thread(function, body, *arguments)
    return function(body, *arguments)


def _address(request: httpx2.Request) -> str:
    """Return the address of a request without its query, which may have a key."""
    return str(request.url.copy_with(query=None))


def _note(run: Run | None, what: str, why: str | None) -> None:
    """Write a gap to the run, once for each reason."""
    if run is None or why is None:
        return
    reasons = _noted.setdefault(run, set())
    if why not in reasons and len(reasons) < _MAX_REASONS:
        reasons.add(why)
        run.guard.queue_failure(what, why)


class AskingTransport(httpx2.AsyncBaseTransport):
    """Adds members to the body of a request that has them in `ADDED_EXTENSION`. Other requests pass unchanged.

    `refusals` gets the address of a server that refused the members by a status 400 or 422 that names one of them, and
    that then accepted the request without them.
    """

    def __init__(self, inner: Any, refusals: dict[str, str]) -> None:
        self._inner = inner
        self._refusals = refusals

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request."""
        added = request.extensions.get(ADDED_EXTENSION)
        if added is None:
            return await self._send(request)
        response = await self._send(_asking(request, added["members"]))
        if response.status_code not in _REFUSALS:
            return response
        stream: Any = response.stream
        body = b"".join([chunk async for chunk in stream])
        await stream.aclose()
        response.stream = httpx2.ByteStream(body)
        if not any(name.encode() in body for name in added["members"]):
            return response
        without = await self._send(request)
        if without.status_code not in _REFUSALS:
            quoted = body.decode("utf-8", "replace")[:_MAX_QUOTED_CHARACTERS]
            why = f"{_address(request)} refused them with status {response.status_code}: {quoted}"
            self._refusals[_address(request)] = why
            in_progress = request_in_progress.get()
            if in_progress is not None:
                _note(in_progress[0], _ASK, why)
        return without

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        response: httpx2.Response = await self._inner.handle_async_request(request)
        return response

    async def aclose(self) -> None:
        """Close the transport inside."""
        await self._inner.aclose()


def _asking(request: httpx2.Request, members: Mapping[str, Payload]) -> httpx2.Request:
    """Return a request with more members. Its answer must not be compressed, because the proxy edits the answer."""
    body = asking_body(request.content, members)
    changed = {b"content-length": b"%d" % len(body), b"accept-encoding": b"identity"}
    headers = [(name, changed.get(name.lower(), value)) for name, value in request.headers.raw]
    return httpx2.Request(request.method, request.url, headers=headers, content=body, extensions=request.extensions)


class UnaskedSend:
    """Passes an answer to the program as if the request had not asked for tokens.

    An event of a stream passes when its last byte is there. Any other body passes when it is complete.
    """

    def __init__(self, send: Send, added: Mapping[str, Payload], run: Run | None) -> None:
        self._send = send
        self._answer = UnaskedAnswer(added)
        self._run = run
        self._begins: AsgiEvent = {}
        """The beginning of an answer whose length is not known yet."""
        self._body = bytearray()
        self._is_edited = True
        self._is_stream = False

    async def __call__(self, event: AsgiEvent) -> None:
        """Take an event of ASGI: the beginning of the answer, or a part of its body."""
        if event["type"] == "http.response.start":
            await self._begin(event)
        elif not self._is_edited:
            await self._send(event)
        elif self._is_stream:
            await self._send_events(event.get("body", b""), is_last=not event.get("more_body", False))
        else:
            self._body += event.get("body", b"")
            if not event.get("more_body", False):
                await self._send_whole()

    async def break_off(self) -> None:
        """Send the beginning of an answer that was broken off before the program got anything."""
        if self._begins:
            await self._send(self._begins)

    async def _begin(self, event: AsgiEvent) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event["headers"]}
        media = headers.get("content-type", "")
        why = None
        if headers.get("content-encoding", "identity") != "identity":
            why = "the answer is compressed, although the request allows no compression"
        elif is_stream_type(media) and not media.startswith(_EVENTS):
            why = f"the answer is a stream of {media}"
        _note(self._run, "take tokens out of an answer for the program", why)
        self._is_edited = why is None
        self._is_stream = media.startswith(_EVENTS)
        if self._is_stream and self._is_edited:
            event = {**event, "headers": [pair for pair in event["headers"] if pair[0] != b"content-length"]}
        if self._is_stream or not self._is_edited:
            await self._send(event)
        else:
            self._begins = event

    async def _send_events(self, data: bytes, *, is_last: bool) -> None:
        events = self._answer.events(data)
        if is_last:
            events += self._answer.rest()
        if events or is_last:
            await self._send({"type": "http.response.body", "body": events, "more_body": not is_last})

    async def _send_whole(self) -> None:
        begins, self._begins = self._begins, {}
        body = await _in_thread_if_long(self._answer.whole, bytes(self._body))
        headers = []
        for name, value in begins["headers"]:
            headers.append((name, b"%d" % len(body) if name == b"content-length" else value))
        await self._send({**begins, "headers": headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})
