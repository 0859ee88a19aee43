"""The transports of a fork.

They record each call in the child run, and answer the call from the parent run or send it. A fork may change a request
before it is sent. The recording transport is inside the forking transport, so that the child's journal has the changed
request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any, Protocol

from trace_recorder.capture.method_seams import current_interception, recording
from trace_recorder.capture.sdk_clients import TransportSlot, newest_library, slots_of
from trace_recorder.capture.seam import Binding, recognise_request
from trace_recorder.capture.transport import RecordingTransport, recording_class, send, send_async
from trace_recorder.dialects.endpoints import Endpoint, with_model
from trace_recorder.errors import ReplayMismatchError
from trace_recorder.rerun.answers import Answer, Errors, Outgoing
from trace_recorder.rerun.clients import ANSWERING, ReplayTransports, take_out
from trace_recorder.rerun.transport import httpx_errors, replaying_class, transport_class

BindingOf = Callable[[Binding | None], Binding]
"""A function that takes the binding of a wrapped client, or None, and returns the binding that records a call."""


class Decider(Protocol):
    """A fork, which decides about each call: an answer, or the request to send."""

    speed: float | None

    def decide(self, endpoint: Endpoint, headers: list[tuple[bytes, bytes]], body: bytes) -> Answer | Outgoing:
        """Return the answer to a request, or the request to send. Raises ReplayMismatchError."""

    def refused(self, message: str) -> ReplayMismatchError:
        """Return a mismatch to raise. The fork remembers the mismatch."""


@dataclass(frozen=True, slots=True)
class _DecidedAnswer:
    """The answer that a fork has decided for one request, with the methods of `Answers`.

    If `decided` is None, the request is sent.
    """

    decided: Answer | None
    fork: Decider

    @property
    def speed(self) -> float | None:
        return self.fork.speed

    def answer(self, *_: object) -> Answer | None:
        return self.decided

    def polled(self, *_: object) -> None:
        return None

    def refused(self, message: str) -> ReplayMismatchError:
        return self.fork.refused(message)


class Forking:
    """A forking transport without the method that handles a request.

    That method is sync or async, and is in the subclasses.
    """

    library: str

    def __init__(self, inner: Any, fork: Decider, binding: BindingOf) -> None:
        self.inner = inner
        self.fork = fork
        self.binding = binding

    def route(self, request: Any, body: bytes, *, asynchronous: bool) -> tuple[Any, Any]:
        """Return the transport for a request, and the request to pass to it."""
        endpoint = recognise_request(request).call
        if endpoint is None:
            return self.inner, request
        errors = httpx_errors(import_module(self.library), request)
        decision = decision_of(self.fork, request, endpoint, body, errors)
        inner = self.inner
        if isinstance(decision, Answer):
            inner = replaying_class(self.library, asynchronous=asynchronous)(None, _DecidedAnswer(decision, self.fork))
            if isinstance(self.inner, RecordingTransport):  # the client's own recorder records the call too
                inner = type(self.inner)(inner, self.inner.binding)
        else:
            request = _as_decided(request, body, decision)
        own = None
        if isinstance(self.inner, RecordingTransport):
            own = self.inner.binding
        return recording_class(self.library, asynchronous=asynchronous)(inner, self.binding(own)), request


class SyncForking(Forking):
    """The forking transport of a sync client."""

    def handle_request(self, request: Any) -> Any:
        """Answer one request, or send it by the inner transport."""
        transport, request = self.route(request, request.read(), asynchronous=False)
        return send(transport, request)

    def close(self) -> None:
        """Close the inner transport."""
        self.inner.close()


class AsyncForking(Forking):
    """The forking transport of an async client."""

    async def handle_async_request(self, request: Any) -> Any:
        """Answer one request, or send it by the inner transport."""
        transport, request = self.route(request, await request.aread(), asynchronous=True)
        return await send_async(transport, request)

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self.inner.aclose()


def decision_of(fork: Decider, request: Any, endpoint: Endpoint, body: bytes, errors: Errors) -> Answer | Outgoing:
    """Return the decision of a fork about a request. Raises a mismatch as an error of the HTTP library."""
    try:
        decision = fork.decide(endpoint, request.headers.raw, body)
        if isinstance(decision, Outgoing) and _changes(decision, request, body) and _is_signed(request.headers.raw):
            raise fork.refused(
                f"a fork cannot change the call to {request.url.host}: the request is signed (AWS SigV4), and the "
                "provider would refuse it. Change the model or the prompt in the program, and fork without changes."
            )
        return decision
    except ReplayMismatchError as mismatch:
        raise errors.refusal(mismatch) from None


def _changes(outgoing: Outgoing, request: Any, body: bytes) -> bool:
    path = request.url.path
    return outgoing.body != body or (outgoing.model is not None and with_model(path, outgoing.model) != path)


def _is_signed(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(name.lower() == b"authorization" and value.startswith(b"AWS4-") for name, value in headers)


def _as_decided(request: Any, body: bytes, outgoing: Outgoing) -> Any:
    """Return the request to send. If the fork changes nothing, return the same object."""
    url = request.url
    if outgoing.model is not None:
        url = url.copy_with(raw_path=with_model(url.raw_path.decode("ascii"), outgoing.model).encode("ascii"))
    if outgoing.body == body and url == request.url:
        return request
    headers = [(name, value) for name, value in request.headers.raw if name.lower() != b"content-length"]
    extensions = dict(request.extensions)
    return type(request)(request.method, url, headers=headers, content=outgoing.body, extensions=extensions)


@cache
def forking_class(library: str, *, asynchronous: bool) -> type:
    """Return the class of forking transports for a library ("httpx" or "httpx2")."""
    return transport_class("ForkingTransport", library, AsyncForking if asynchronous else SyncForking)


class ForkTransports(ReplayTransports):
    """The transports that a fork has replaced. `remove` restores the original transports.

    If `records_all` is True, no seam records the calls a second time. `binding` then returns the binding of a wrapped
    client unchanged.
    """

    def __init__(self, fork: Any, binding: BindingOf, *, records_all: bool = False) -> None:
        super().__init__(fork)
        self._fork = fork
        self._binding = binding
        self.records_all = records_all

    def http_client(self, library: str | None, *, asynchronous: bool, **kwargs: Any) -> Any:
        """Make an HTTP client of the named library. If `library` is None, use the newest installed library."""
        module = import_module(library or newest_library())
        kind = module.AsyncClient if asynchronous else module.Client
        client = kind(**{"follow_redirects": True, **kwargs})
        for slot in slots_of(client):
            self.put(slot)
        return client

    def put(self, slot: TransportSlot) -> None:
        """Answer the requests of one transport, or pass them to it."""
        transport = slot.get()
        ours = self.replaying(transport, slot.library, asynchronous=slot.asynchronous)
        if ours is not transport:
            slot.put(ours)
            self.undo.append(partial(take_out, slot, ours))

    def replaying(self, transport: Any, library: str, *, asynchronous: bool) -> Any:
        """Return a transport that answers requests or passes them to `transport`."""
        inner = transport
        if isinstance(transport, RecordingTransport):
            inner = transport.inner
        if isinstance(inner, Forking) and inner.fork is self._fork:
            return transport
        return forking_class(library, asynchronous=asynchronous)(transport, self._fork, self._binding)

    def middleware(self, library: str, method: Any) -> Any:
        """Return a method that answers requests, or changes them and sends them by the library's own method."""
        answering = ANSWERING[library]

        def forked(owner: Any, *args: Any, **kwargs: Any) -> Any:
            request = answering.read(owner, *args, **kwargs)
            endpoint = recognise_request(request).call
            if endpoint is None:
                return answering.answered(_DecidedAnswer(None, self._fork), method, owner, *args, **kwargs)
            body = b"".join(request.stream)
            decision = decision_of(self._fork, request, endpoint, body, answering.errors())
            answer = None
            if isinstance(decision, Answer):
                answer = decision
            elif _changes(decision, request, body):
                args, kwargs = answering.changed(request, args, kwargs, decision)
            inner = partial(answering.answered, _DecidedAnswer(answer, self._fork), method)
            here = current_interception.get()
            own = None
            if here is not None:
                own = here.binding
            return recording(self._binding(own))(library, inner)(owner, *args, **kwargs)

        return forked

    def skip_pauses(self, client: Any) -> None:
        """Do nothing. Some retries of a fork go to a live provider, which needs the pauses between them."""
