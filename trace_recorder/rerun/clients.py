"""Replaces the network with a replay: in the HTTP clients of one SDK client, or of the whole process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial, wraps
from importlib import import_module
from typing import Any

from trace_recorder.capture.all_clients import TransportPatch
from trace_recorder.capture.method_seams import method_patch
from trace_recorder.capture.sdk_clients import (
    MAKERS,
    TransportSlot,
    drop_http_client,
    library_of,
    newest_library,
    slots_of,
    ways_out,
)
from trace_recorder.capture.transport import RecordingTransport
from trace_recorder.rerun.aiohttp_answers import AIOHTTP_ANSWERS
from trace_recorder.rerun.answers import Answers, LibraryAnswers
from trace_recorder.rerun.transport import AsyncReplaying, SyncReplaying, replaying_class
from trace_recorder.rerun.urllib3_answers import URLLIB3_ANSWERS
from trace_recorder.rerun.websocket_answers import WebsocketAnswers

METHOD = "_calculate_retry_timeout"
"""The method that computes the pause before a retry, in the class `BaseClient` of each module in `MODULES`."""
MODULES = ("openai._base_client", "anthropic._base_client")


class RetryPauses:
    """The pauses of SDKs before retries.

    From `skip` to `restore`, clients that a replay answers do not pause, because a replay answers at once.

    The SDKs of openai and anthropic compute a pause in one method of a class that clients and their `with_options()`
    copies share. That method is replaced. The new method calls `is_answered` for each HTTP client, so clients that the
    replay does not answer still pause. google-genai has its pauses in each client (`ReplayTransports.skip_pauses`).
    """

    def __init__(self, is_answered: Callable[[Any], bool]) -> None:
        self._is_answered = is_answered
        self._active = True
        self._patched: dict[type, tuple[Any, Any]] = {}

    def skip(self) -> None:
        """Replace the method of each imported SDK, unless it was replaced before."""
        for name in MODULES:
            kind = getattr(sys.modules.get(name), "BaseClient", None)
            if kind is not None and kind not in self._patched and METHOD in vars(kind):
                self._patch(kind)

    def restore(self) -> None:
        """Restore the original method.

        If a later replay has replaced the method again, the method of this replay stays and has no effect.
        """
        self._active = False
        for kind, (original, ours) in self._patched.items():
            if vars(kind).get(METHOD) is ours:
                setattr(kind, METHOD, original)

    def _patch(self, kind: type) -> None:
        method = vars(kind)[METHOD]

        @wraps(method)
        def seconds(client: Any, *args: Any, **kwargs: Any) -> Any:
            if self._active and self._is_answered(getattr(client, "_client", None)):
                return 0.0
            return method(client, *args, **kwargs)

        self._patched[kind] = method, seconds
        setattr(kind, METHOD, seconds)


_ABSENT = object()
ANSWERING: dict[str, LibraryAnswers] = {"aiohttp": AIOHTTP_ANSWERS, "urllib3": URLLIB3_ANSWERS}
"""The libraries in which a replay replaces a method and not a transport."""


class ReplayTransports:
    """The transports that a replay has replaced. `remove` restores the original transports."""

    records_all = False
    """Whether every call is recorded here, so that the seams of the HTTP libraries must not record it again."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.undo: list[Callable[[], None]] = []
        self._removed = False
        self._everywhere = TransportPatch(self.replaying)
        self._answers_all = False
        self._pauses = RetryPauses(self._is_answered)

    def answer_websockets(self) -> None:
        """Answer the websockets of clients too, whenever they are opened."""
        websockets = WebsocketAnswers(self._answers, self._is_of_replay)
        websockets.install()
        self.undo.append(websockets.remove)

    def wrap(self, client: object) -> None:
        """Replace each transport of the client by a replaying transport.

        If a recording transport is around the replaced transport, the recording transport continues to record.
        """
        methods, http_clients, owners = ways_out(client)
        for method in methods:
            self.undo.append(method.answer(self.middleware))
        for http_client in http_clients:
            for slot in slots_of(http_client):
                self.put(slot)
        for owner in owners:
            self._follow_made(owner)
        self.undo.insert(0, partial(_drop, client, http_clients))  # undone last, when the transports are restored
        self.skip_pauses(client)

    def http_client(self, library: str | None, *, asynchronous: bool, **kwargs: Any) -> Any:
        """Make an HTTP client of the named library. If `library` is None, use the newest installed library."""
        library = library or newest_library()
        module = import_module(library)
        kind = module.AsyncClient if asynchronous else module.Client
        network = module.AsyncHTTPTransport if asynchronous else module.HTTPTransport
        inner = network() if self._answers.missing == "live" else None
        transport = replaying_class(library, asynchronous=asynchronous)(inner, self._answers)
        self._pauses.skip()
        return kind(**{"follow_redirects": True, **kwargs, "transport": transport})

    def everywhere(self) -> None:
        """Answer every client of the process, including clients that are made later."""
        self._everywhere.install()
        self._answers_all = True
        self._pauses.skip()
        self.undo.extend([self._everywhere.remove, method_patch.add(self.middleware, records_all=self.records_all)])

    def remove(self) -> None:
        """Restore the original transports.

        If a recording transport was put around a replaying transport later, the recording transport stays.
        """
        self._removed = True
        self._pauses.restore()
        while self.undo:
            self.undo.pop()()

    def put(self, slot: TransportSlot) -> None:
        """Answer the requests of one transport.

        If the transport is a recording transport, replace the transport inside it.
        """
        outer = slot.get()
        records = isinstance(outer, RecordingTransport)
        inner = outer.inner if records else outer
        ours = self.replaying(inner, slot.library, asynchronous=slot.asynchronous)
        if ours is inner:
            return
        if records:
            outer.inner = ours
        else:
            slot.put(ours)
        self.undo.append(partial(take_out, slot, ours))

    def replaying(self, transport: Any, library: str, *, asynchronous: bool) -> Any:
        """Return a transport that answers requests or passes them to `transport`.

        If `transport` is a recording transport, return a recording transport around the replaying transport.
        """
        self._pauses.skip()  # an SDK may have been imported after the last `skip`
        if isinstance(transport, (SyncReplaying, AsyncReplaying)) and transport.answers is self._answers:
            return transport
        if isinstance(transport, RecordingTransport):
            return type(transport)(
                self.replaying(transport.inner, library, asynchronous=asynchronous), transport.binding
            )
        return replaying_class(library, asynchronous=asynchronous)(transport, self._answers)

    def middleware(self, library: str, method: Any) -> Any:
        """Return a method that answers requests, or sends them by the library's own method."""
        return partial(ANSWERING[library].answered, self._answers, method)

    def _follow_made(self, owner: Any) -> None:
        """Also answer HTTP clients that an object makes later, as google-genai does for each event loop."""
        for name in MAKERS:
            make = getattr(owner, name, None)
            if make is not None:
                self._replace(owner, name, partial(self._made, make))

    def _made(self, make: Callable[..., Any], **kwargs: Any) -> Any:
        client = make(**kwargs)
        if not self._removed:
            for slot in slots_of(client):
                self.put(slot)
        return client

    def _is_answered(self, http_client: Any) -> bool:
        """Return whether the retries of an HTTP client are answered from the recording and never by a provider."""
        if self._answers.missing == "live":
            return False
        return library_of(http_client) is not None and self._is_answered_here(http_client)

    def _is_of_replay(self, client: object) -> bool:
        """Return whether a replay answers the client of an SDK, which may be None, or every client."""
        http_client = getattr(client, "_client", None)
        return self._answers_all or (library_of(http_client) is not None and self._is_answered_here(http_client))

    def _is_answered_here(self, http_client: Any) -> bool:
        return self._answers_all or any(_answers_from(slot.get(), self._answers) for slot in slots_of(http_client))

    def skip_pauses(self, client: Any) -> None:
        """Set the pauses between the retries of a client to zero if the client has them, as google-genai does."""
        if self._answers.missing != "error":
            return
        google = getattr(client, "_api_client", None)
        for retrying in filter(None, (getattr(google, "_retry", None), getattr(google, "_async_retry", None))):
            self._replace(retrying, "wait", lambda _: 0.0)

    def _replace(self, owner: Any, name: str, value: object) -> None:
        """Set an attribute of an object. `remove` restores the attribute, unless other code has set another value."""
        before = vars(owner).get(name, _ABSENT)
        setattr(owner, name, value)

        def undo() -> None:
            if vars(owner).get(name) is not value:
                return
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

        self.undo.append(undo)


def _answers_from(transport: Any, answers: Answers) -> bool:
    """Return whether a transport, or a transport inside it, answers from a replay."""
    while transport is not None:
        if isinstance(transport, SyncReplaying | AsyncReplaying) and transport.answers is answers:
            return True
        transport = getattr(transport, "inner", None)
    return False


def take_out(slot: TransportSlot, ours: Any) -> None:
    """Replace our transport by the transport inside it, even if another transport was put around ours later."""
    outer = slot.get()
    if outer is ours:
        slot.put(ours.inner)
        return
    while (inner := vars(outer).get("inner")) is not None:
        if inner is ours:
            outer.inner = ours.inner
            return
        outer = inner


def _drop(client: object, http_clients: list[Any]) -> None:
    """Remove the HTTP client that was made for the module of an SDK. If a recorder records the HTTP client, keep it."""
    if not any(slot.binding() for http_client in http_clients for slot in slots_of(http_client)):
        drop_http_client(client)
