"""The shared part of the seams of all HTTP libraries: which requests are calls, and which run records them.

A seam is one file for one HTTP library. It passes the method, the address, the headers and the body of a request to
`begin`. If the request is a call, `begin` returns an `Exchange`. The seam passes the status, the headers and the chunks
of the response to this `Exchange`.

One library may use another: httpx may send by aiohttp, and requests always sends by urllib3. A call is recorded by the
outermost seam that recognises it. That seam marks the request in the context, and a seam inside it does not record a
marked request.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Protocol
from urllib.parse import unquote, urlsplit
from weakref import WeakKeyDictionary, ref

from trace_recorder.capture import background_responses
from trace_recorder.capture.attempt_records import AttemptRecords
from trace_recorder.capture.attempts import SentRequest
from trace_recorder.capture.decoding import PLAIN_BEGINNINGS, may_be_encoded
from trace_recorder.capture.event_loops import run_in_thread
from trace_recorder.capture.exchange import Exchange, is_large
from trace_recorder.capture.passing_bodies import PassingBody
from trace_recorder.decompression import TooLargeError
from trace_recorder.dialects.dialect import DIALECTS
from trace_recorder.dialects.endpoints import Endpoint, canonical_host, endpoint_of, may_be_call, polled_response
from trace_recorder.guard import Guard
from trace_recorder.recording.context import context_of
from trace_recorder.recording.run import Run
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.redaction import key_finder

guard = Guard()
"""The guard for failures that happen before the run of a call is known."""

request_in_progress: ContextVar[tuple[Run, Any] | None] = ContextVar("trace_recorder_request_in_progress", default=None)
"""The request that a seam is sending, and its run.

A seam that is called inside this seam must not record the request again.
"""

hosts_in_use: dict[int, bytes] = {}
"""The hosts to which seams are sending, by the ids of the requests.

There is no lock, because each change is one operation of a dict. `unseen_clients.py` checks whether a connection goes
to such a host. A context variable would not work: event loops look names up in threads without a context, and connect
in tasks of their own.
"""


_MAX_UNREAD_HOSTS = 10
_unread_hosts: WeakKeyDictionary[Run, set[str]] = WeakKeyDictionary()


class Target(Protocol):
    """Decides which recorder records a call: always the same one, or the one that is current where the call is made."""

    follows_context: ClassVar[bool]
    """Whether calls may belong to different recorders, so that the run of a call may be inferred."""

    def open_run(self) -> Run | None:
        """Return the run of a call made now, or None if the call is not recorded.

        Raises only if the recorder is strict.
        """

    def run_in_progress(self) -> Run | None:
        """Return the open run, or None. Never begin a run."""

    def is_running(self) -> bool:
        """Whether a run is open."""

    def is_inferred(self, run: Run, /) -> bool:
        """Whether nothing states that a call made now belongs to a run. `run` is what `open_run` has returned.

        Called only if `follows_context` is True.
        """


@dataclass(slots=True)
class Binding:
    """The target of a seam, the provider if the user named it, and the wrapped client."""

    target: Target
    provider: str | None
    client: ref[object] | None = None


@dataclass(frozen=True, slots=True)
class Url:
    """An address as text, and the parts of it that show whether a model is served there."""

    text: str
    host: str = field(init=False)
    path: str = field(init=False)
    port: int | None = field(init=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.text)
        for name, value in (("host", parts.hostname or ""), ("path", parts.path), ("port", parts.port)):
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Headers:
    """Headers as pairs of bytes."""

    raw: list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True, eq=False)
class LibraryRequest:
    """A request of a library whose own objects are not like those of httpx.

    Call `begin` with `tuple` as the `plain_body` of such a request.
    """

    method: str
    url: Url
    headers: Headers
    stream: tuple[bytes, ...]
    """The whole body, or an empty tuple if there is none, or if it is made while it is sent."""
    body_passes: bool = False
    """Whether the body is made while it is sent. The seam passes it through `Exchange.passing`."""


ORIGIN_ATTRIBUTE = "trace_recorder_origin"
"""The attribute by which a replay marks its response. The value names the recorded call that gave the answer."""


def prepare() -> None:
    """Import the dialects and compile the search for secrets, once.

    This takes 40 ms, which would delay the event loop at the first call.
    """
    DIALECTS.import_all()
    key_finder.prepare()


def body_in_memory(content: object) -> tuple[bytes, ...]:
    """Return a body as a tuple of one value, or an empty tuple if it is None or is made while it is sent."""
    if isinstance(content, str):
        return (content.encode("utf-8", "replace"),)
    try:
        return () if content is None else (bytes(memoryview(content)),)  # type: ignore[arg-type]  # it may be one
    except ours(TypeError):
        return ()


@contextmanager
def sending(request: LibraryRequest, exchange: Exchange | None) -> Iterator[None]:
    """Mark a request while it is sent. An exception is recorded as the end of the exchange, and is raised again."""
    before = request_in_progress.get()
    try:
        if exchange is not None:
            request_in_progress.set((exchange.run, request))
        hosts_in_use[id(request)] = request.url.host.encode("utf-8", "replace")
        yield
    except BaseException as error:
        if exchange is not None:
            exchange.failed(error)
        raise
    finally:
        request_in_progress.set(before)  # `reset` fails if a coroutine is closed in a context other than its own
        hosts_in_use.pop(id(request), None)


def begin(binding: Binding, request: Any, plain_body: type[Iterable[bytes]]) -> Exchange | None:
    """Record a request before it is sent. Return None if it is neither a call nor a poll, or is not recorded."""
    run, endpoint = _run_and_endpoint(binding, request)
    if run is None or endpoint is None:
        return _begin_poll_or_note(binding, request) if endpoint is None else None
    exchange: Exchange | None = None
    with run.guard.protect("record a request"):
        sent, passing = _sent_request(run, endpoint, binding, request, plain_body)
        records = AttemptRecords(run, _decoded(run, sent) if sent.is_encoded else sent, passing)
        exchange = Exchange(records)
        if passing is None:
            records.write_request(context_of(run))
        else:
            exchange.context = context_of(run)
        return exchange
    if exchange is not None:
        exchange.abandon()
    return None


async def begin_in_event_loop(binding: Binding, request: Any, plain_body: type[Iterable[bytes]]) -> Exchange | None:
    """Do the same as `begin` for an async client. A thread writes a large request, so that the event loop can run."""
    run, endpoint = _run_and_endpoint(binding, request)
    if run is None or endpoint is None:
        return _begin_poll_or_note(binding, request) if endpoint is None else None
    exchange: Exchange | None = None
    write: Callable[[], None] | None = None
    sent: SentRequest | None = None
    with run.guard.protect("record a request"):
        sent, passing = _sent_request(run, endpoint, binding, request, plain_body)
    if sent is None:
        return None
    if sent.is_encoded:
        sent = await _decoded_in_thread(run, sent)
    with run.guard.protect("record a request"):
        records = AttemptRecords(run, sent, passing)
        exchange = Exchange(records)
        exchange.context = context_of(run)
        if passing is not None:
            return exchange
        if not is_large(run, sent.body):
            records.write_request(exchange.context)
            return exchange
        write = exchange.request_in_thread(partial(records.write_request, exchange.context))
    if exchange is None or write is None:
        if exchange is not None:
            exchange.abandon()
        return None
    try:
        await run_in_thread(write, "request", exchange.is_waited_for)
    except BaseException as error:
        exchange.call_cancelled(error)
        raise
    return exchange


def _run_and_endpoint(binding: Binding, request: Any) -> tuple[Run | None, Endpoint | None]:
    """Return the run that records a request, and the request's endpoint.

    Both are None if a seam around this one records the request.
    """
    endpoint: Endpoint | None = None
    with guard.protect("find out whether a request is an LLM call"):
        endpoint = endpoint_of(request.method, request.url.host, request.url.path, request.url.port)
    run = binding.target.open_run() if endpoint else None
    marked = request_in_progress.get()
    return (None, None) if marked is not None and marked[0] is run and _is_same(marked[1], request) else (run, endpoint)


def is_call(request: Any) -> bool:
    """Whether a request is an LLM call."""
    url = request.url
    return endpoint_of(request.method, url.host, url.path, url.port) is not None


def _begin_poll_or_note(binding: Binding, request: Any) -> Exchange | None:
    """Return the exchange of a poll, or None. Note a request that may be a call in an unknown dialect."""
    exchange = _poll(binding, request)
    if exchange is None:
        with guard.protect("note a request that is not recorded"):
            _note_unread(binding, request)
    return exchange


def _note_unread(binding: Binding, request: Any) -> None:
    """Note a request to a model at an unknown address. The open run gets a gap that names the host, once for each host.

    Only the host is on file, because an address may contain private data. No run is begun for such a request.
    """
    url = request.url
    if request.method != "POST" or not may_be_call(url.host, url.port, url.path, os.environ):
        return
    run = binding.target.run_in_progress()
    hosts = set() if run is None else _unread_hosts.setdefault(run, set())
    if run is not None and url.host not in hosts and len(hosts) < _MAX_UNREAD_HOSTS:
        hosts.add(url.host)
        run.guard.queue_failure(f"record a request to {url.host}", "no dialect has this address")


def _poll(binding: Binding, request: Any) -> Exchange | None:
    """Return the exchange of a request that polls a response of a run, or None for any other request."""
    with guard.protect("find out whether a request polls a response"):
        polled = polled_response(request.method, request.url.path)
        polled_call = background_responses.find(*polled, binding.target.open_run) if polled else None
        if polled_call is None:
            return None
        run, call = polled_call
        marked = request_in_progress.get()
        if marked is None or marked[0] is not run or not _is_same(marked[1], request):
            endpoint = Endpoint(call.api, "", None, streams=False)
            sent = SentRequest(endpoint, request.method, str(request.url), request.headers.raw, b"")
            return Exchange(background_responses.PollRecords(run, sent, call))
    return None


def _sent_request(
    run: Run, endpoint: Endpoint, binding: Binding, request: Any, plain_body: type[Iterable[bytes]]
) -> tuple[SentRequest, PassingBody | None]:
    """Return a request as it is about to be sent, and where its body passes if it is made while it is sent."""
    if binding.provider:
        endpoint = replace(endpoint, provider=binding.provider)
    body, passes = b"", True
    if isinstance(request.stream, plain_body):
        body = b"".join(request.stream)
        passes = getattr(request, "body_passes", False)
    elif hasattr(request, "_content"):  # the body of a request of httpx that has been read
        body, passes = request.content, False
    target, headers = binding.target, request.headers.raw
    sent = SentRequest(
        endpoint,
        request.method,
        str(request.url),
        headers,
        body,
        is_encoded=body[:1] not in PLAIN_BEGINNINGS and may_be_encoded(headers, body),
        run_inferred=target.follows_context and target.is_inferred(run),
    )
    return sent, PassingBody(run.limits.body_bytes) if passes else None


def _decoded(run: Run, sent: SentRequest) -> SentRequest:
    """Return a request with its body decoded. The run gets a gap if the body is too large."""
    with run.guard.protect("decode the body of a request"):
        try:
            return sent.decoded()
        except TooLargeError as error:
            run.guard.queue_failure("record the body of a request", str(error))
            return replace(sent, body=b"", undecoded=sent.body, is_encoded=False)
    return sent


async def _decoded_in_thread(run: Run, sent: SentRequest) -> SentRequest:
    decoded: list[SentRequest] = []
    await run_in_thread(lambda: decoded.append(_decoded(run, sent)), "request")
    return decoded[0] if decoded else sent


def _is_same(outer: Any, inner: Any) -> bool:
    """Whether a request is the same as the request of a seam around this one.

    Two libraries have two objects for one request.
    """
    if outer is inner:
        return True
    if type(outer) is type(inner):
        return False
    addresses = [(request.method, request.url.host, unquote(request.url.path)) for request in (outer, inner)]
    return addresses[0] == addresses[1]


def is_sending_to(host: str) -> bool:
    """Whether a seam is sending to a host, in any thread."""
    sent = [*hosts_in_use.values()]
    return canonical_host(host) in [canonical_host(raw.decode("ascii", "replace")) for raw in sent]


def after_fork() -> None:
    """Forget which requests are being sent, because the threads that send them do not exist in the child."""
    hosts_in_use.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=after_fork)
