"""Replaces the network by a replay: in the HTTP clients of an SDK's client, or of the whole process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
from trace_recorder.rerun import aiohttp_answers, urllib3_answers
from trace_recorder.rerun.answers import Answers
from trace_recorder.rerun.retry_pauses import RetryPauses
from trace_recorder.rerun.transport import AsyncReplaying, SyncReplaying, replaying_class

_ABSENT = object()
ANSWERING: dict[str, Any] = {"aiohttp": aiohttp_answers, "urllib3": urllib3_answers}
"""By the library of a seam that is a method: the module that makes its responses of answers."""


class Installed:
    """The transports that one replay has replaced; `remove` restores the original ones."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.undo: list[Callable[[], None]] = []
        self._removed = False
        self._everywhere = TransportPatch(self.replaying)
        self._answers_all = False
        self._pauses = RetryPauses(self._is_answered)

    def wrap(self, client: object) -> None:
        """Put a replaying transport inside each that the client has; a recording one continues to record."""
        methods, http_clients, owners = ways_out(client)
        for method in methods:
            self.undo.append(method.answer(self.around))
        for http_client in http_clients:
            for place in slots_of(http_client):
                self.put(place)
        for owner in owners:
            self._follow_made(owner)
        self.undo.insert(0, partial(_drop, client, http_clients))  # last: transports are restored by then
        self.skip_pauses(client)

    def http_client(self, library: str | None, *, asynchronous: bool, **arguments: Any) -> Any:
        """Make an HTTP client of a library: the one that is given, or else the newest that is installed."""
        library = library or newest_library()
        module = import_module(library)
        kind = module.AsyncClient if asynchronous else module.Client
        network = module.AsyncHTTPTransport if asynchronous else module.HTTPTransport
        inner = network() if self._answers.missing == "live" else None
        transport = replaying_class(library, asynchronous=asynchronous)(inner, self._answers)
        self._pauses.skip()
        return kind(**{"follow_redirects": True, **arguments, "transport": transport})

    def everywhere(self) -> None:
        """Answer every client of the process, also those that are made later."""
        self._everywhere.install()
        self._answers_all = True
        self._pauses.skip()
        self.undo.extend([self._everywhere.remove, method_patch.add(self.around)])

    def remove(self) -> None:
        """Restore what was there; a recording transport that was put around ours since stays."""
        self._removed = True
        self._pauses.restore()
        while self.undo:
            self.undo.pop()()

    def put(self, place: TransportSlot) -> None:
        """Answer what passes one transport, a recording one around it staying there."""
        outer = place.get()
        records = isinstance(outer, RecordingTransport)
        inner = outer.inner if records else outer
        ours = self.replaying(inner, place.library, asynchronous=place.asynchronous)
        if ours is inner:
            return
        if records:
            outer.inner = ours
        else:
            place.put(ours)
        self.undo.append(partial(take_out, place, ours))

    def replaying(self, transport: Any, library: str, *, asynchronous: bool) -> Any:
        """A transport that answers around another one, which a recording one stays around."""
        self._pauses.skip()  # an SDK may have been imported since
        if isinstance(transport, (SyncReplaying, AsyncReplaying)) and transport.answers is self._answers:
            return transport
        if isinstance(transport, RecordingTransport):
            return type(transport)(
                self.replaying(transport.inner, library, asynchronous=asynchronous), transport.binding
            )
        return replaying_class(library, asynchronous=asynchronous)(transport, self._answers)

    def around(self, library: str, method: Any) -> Any:
        """Return what answers the requests that a library's method would send, or sends them by it."""
        return partial(ANSWERING[library].answered, self._answers, method)

    def _follow_made(self, owner: Any) -> None:
        """Also answer the HTTP clients that an object makes later. google-genai makes one for each event loop."""
        for name in MAKERS:
            make = getattr(owner, name, None)
            if make is not None:
                self._replace(owner, name, partial(self._made, make))

    def _made(self, make: Callable[..., Any], **arguments: Any) -> Any:
        made = make(**arguments)
        for place in slots_of(made) if not self._removed else ():
            self.put(place)
        return made

    def _is_answered(self, http_client: Any) -> bool:
        """Whether the retries of an HTTP client are answered from the recording, and by no provider."""
        if self._answers.missing == "live" or library_of(http_client) is None:
            return False
        return self._answers_all or any(_holds(place.get(), self._answers) for place in slots_of(http_client))

    def skip_pauses(self, client: Any) -> None:
        """Make the retries of a client of google-genai wait for nothing, which keeps its pauses itself."""
        google = getattr(client, "_api_client", None) if self._answers.missing == "error" else None
        for retrying in filter(None, (getattr(google, "_retry", None), getattr(google, "_async_retry", None))):
            self._replace(retrying, "wait", lambda _: 0.0)

    def _replace(self, owner: Any, name: str, value: object) -> None:
        """Set an attribute of an object until `remove`, unless other code sets another value meanwhile."""
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


def _holds(transport: Any, answers: Answers) -> bool:
    """Whether a transport, or one inside it, answers from a replay."""
    while transport is not None:
        if isinstance(transport, SyncReplaying | AsyncReplaying) and transport.answers is answers:
            return True
        transport = getattr(transport, "inner", None)
    return False


def take_out(place: TransportSlot, ours: Any) -> None:
    """Replace our transport by the one inside it, whatever has been put around it since."""
    outer = place.get()
    if outer is ours:
        place.put(ours.inner)
        return
    while (inner := vars(outer).get("inner")) is not None:
        if inner is ours:
            outer.inner = ours.inner
            return
        outer = inner


def _drop(client: object, http_clients: list[Any]) -> None:
    """Remove the HTTP client that was made for a module, unless it is recorded."""
    if not any(place.binding() for http_client in http_clients for place in slots_of(http_client)):
        drop_http_client(client)
