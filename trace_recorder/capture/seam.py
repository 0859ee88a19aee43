"""What the seams of all HTTP libraries share: the form of a request, who records it, and the mark while it is sent.

A seam is one file for one HTTP library. It passes a request to `begin_exchange` of `exchange.py`. If the request is a
call or a poll, `begin_exchange` returns an `Exchange`. The seam passes the status, the headers and the chunks of the
response to this `Exchange`.

One library may use another: httpx may send by aiohttp, and requests always sends by urllib3. A call is recorded by the
outermost seam that recognises it. That seam marks the request in the context, and a seam inside it does not record a
marked request.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Protocol
from urllib.parse import unquote, urlsplit
from weakref import WeakKeyDictionary, ref

from trace_recorder.capture.attempts import SentRequest
from trace_recorder.capture.decoding import PLAIN_BEGINNINGS, may_be_encoded
from trace_recorder.dialects.dialect import DIALECTS
from trace_recorder.dialects.endpoints import Endpoint, Recognition, canonical_host, is_model_server, recognise
from trace_recorder.guard import Guard
from trace_recorder.reading.live_document.whole_document import import_document_calls
from trace_recorder.recording.run import Run
from trace_recorder.signal_handlers import WeakRegistry, ours
from trace_recorder.storage.redaction import first_look
from trace_recorder.storage.redaction.name_patterns import NAMED
from trace_recorder.values.structs import Struct, replace

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

opening_websockets: WeakRegistry[Any] = WeakRegistry()
"""The objects by which recorded websockets are opened in event loops. Each has its address as `uri`."""

Redirect = Callable[[str, object], socket.socket | None]
"""A function that gets an address and the client of an SDK, or None, that connects to it.

It returns the socket to use in place of the network, or None if the connection is not its own.
"""

ADDED_EXTENSION = "trace_recorder_added"
"""The extension of a request of httpx by which the proxy says what it adds to the body when it is sent.

The value is the member `added` of the request's record.
"""

_MAX_UNREAD_HOSTS = 10
_NO_EXTENSIONS: Mapping[str, Any] = MappingProxyType({})
_unread_hosts: WeakKeyDictionary[Run, set[str]] = WeakKeyDictionary()


class Target(Protocol):
    """Decides which recorder records a call: always the same one, or the one that is current where the call is made."""

    follows_context: ClassVar[bool]
    """Whether calls may belong to different recorders, so that the run of a call may be inferred."""

    def open_run(self) -> Run | None:
        """Return the run of a call made now, or None if the call is not recorded.

        Raises only if the recorder is strict.
        """

    def run_of_tool(self) -> Run | None:
        """Return the run of a tool that is called now, as `open_run` does for an LLM call."""

    def run_in_progress(self) -> Run | None:
        """Return the open run, or None. Never begin a run."""

    def is_running(self) -> bool:
        """Whether a run is open."""

    def is_inferred(self, run: Run, /) -> bool:
        """Whether nothing states that a call made now belongs to a run. `run` is what `open_run` has returned.

        Called only if `follows_context` is True.
        """


class Binding(Struct):
    """The target of a seam, the provider if the user named it, and the wrapped client."""

    target: Target
    provider: str | None
    client: ref[object] | None = None


@dataclass(frozen=True, slots=True)
class Url:
    """An address as text, and the parts of it that show whether a model is served there."""

    text: str
    host: str = field(init=False)
    raw_host: bytes = field(init=False)
    """The host as bytes, which urls of httpx have too."""
    path: str = field(init=False)
    port: int | None = field(init=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.text)
        host = parts.hostname or ""
        values = {"host": host, "raw_host": host.encode("utf-8", "replace"), "path": parts.path, "port": parts.port}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        return self.text


class Headers(Struct, frozen=True):
    """Headers as pairs of bytes."""

    raw: list[tuple[bytes, bytes]]


class LibraryRequest(Struct, frozen=True, eq=False):
    """A request of a library whose own objects are not like those of httpx.

    Call `begin_exchange` with `tuple` as the `plain_body` of such a request.
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
    """Import the dialects and the readers of calls, and compile the search for secrets, once.

    This takes 70 ms, which would delay the event loop at the first call. Nothing of this may be left to the document's
    thread, because a fork may come in the middle of an import, or to the exit after Ctrl-C, because importing a module
    that makes dataclasses changes the exit code there.
    """
    DIALECTS.import_all()
    import_document_calls()
    first_look.find_words()
    NAMED.match("")


def body_in_memory(content: object) -> tuple[bytes, ...]:
    """Return a body as a tuple of one value, or an empty tuple if it is None or is made while it is sent."""
    if content is None:
        return ()
    if isinstance(content, str):
        return (content.encode("utf-8", "replace"),)
    try:
        return (bytes(memoryview(content)),)  # type: ignore[arg-type]  # it may be one
    except ours(TypeError):
        return ()


def recognise_request(request: Any) -> Recognition:
    """Return what the dialects say about a request."""
    url = request.url
    return recognise(request.method, url.host, url.path, url.port)


def note_unread(binding: Binding, request: Any) -> None:
    """Note a request that may be a call in an unknown dialect, if its host serves models.

    The open run gets a gap that names the host, once for each host. Only the host is on file, because an address may
    contain private data. No run is begun for such a request.
    """
    host = request.url.host
    if not is_model_server(host, request.url.port, os.environ):
        return
    run = binding.target.run_in_progress()
    if run is None:
        return
    hosts = _unread_hosts.setdefault(run, set())
    if host not in hosts and len(hosts) < _MAX_UNREAD_HOSTS:
        hosts.add(host)
        run.guard.queue_failure(f"record a request to {host}", "no dialect has this address")


def request_to_send(
    run: Run, endpoint: Endpoint, binding: Binding, request: Any, plain_body: type[Iterable[bytes]]
) -> SentRequest:
    """Return a request as it is about to be sent, with its body if the body is in memory."""
    if binding.provider:
        endpoint = replace(endpoint, provider=binding.provider)
    body, passes = b"", True
    if isinstance(request.stream, plain_body):
        body = b"".join(request.stream)
        passes = getattr(request, "body_passes", False)
    elif hasattr(request, "_content"):  # the body of a request of httpx that has been read
        body, passes = request.content, False
    target, headers = binding.target, request.headers.raw
    return SentRequest(
        endpoint,
        request.method,
        str(request.url),
        headers,
        body,
        passes=passes,
        is_encoded=body[:1] not in PLAIN_BEGINNINGS and may_be_encoded(headers, body),
        run_inferred=target.follows_context and target.is_inferred(run),
        added=getattr(request, "extensions", _NO_EXTENSIONS).get(ADDED_EXTENSION),
    )


def is_recorded_outside(run: Run, request: Any) -> bool:
    """Whether a seam around this one records a request to the same run.

    Two libraries have two objects for one request, which are compared by the method, the host and the path.
    """
    marked = request_in_progress.get()
    if marked is None or marked[0] is not run:
        return False
    outer = marked[1]
    if outer is request:
        return True
    if type(outer) is type(request):
        return False
    address, other = [(one.method, one.url.host, unquote(one.url.path)) for one in (request, outer)]
    return address == other


def is_sending_to(host: str) -> bool:
    """Whether a seam is sending to a host, in any thread."""
    hosts = [raw.decode("ascii", "replace") for raw in [*hosts_in_use.values()]]
    hosts += [urlsplit(websocket.uri).hostname or "" for websocket in opening_websockets]
    return canonical_host(host) in map(canonical_host, hosts)


class Wrapper:
    """An object with the attributes and the class of another object, `_inner`."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class of the object inside, so that `isinstance` is true for both classes."""
        return type(self._inner)

    def __getattr__(self, name: str) -> Any:
        if name == "_inner":  # a copy has no attributes at first, and looking up `_inner` would recurse
            raise AttributeError(name)
        return getattr(self._inner, name)


def after_fork() -> None:
    """Forget which requests are being sent, because the threads that send them do not exist in the child."""
    hosts_in_use.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=after_fork)
