"""Where a replay takes the place of the network: in the HTTP clients of an SDK's client, or of the whole process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from trace_recorder.capture.all_clients import TransportPatch
from trace_recorder.capture.http_clients import TransportSlot, newest_library, slots_of
from trace_recorder.capture.sdk_clients import avoid_aiohttp, http_clients_of
from trace_recorder.capture.transport import RecordingTransport
from trace_recorder.rerun.transport import Answers, AsyncReplaying, SyncReplaying, replaying_class


class Installed:
    """What one replay has put in, until `remove` puts back what was there."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.undo: list[Callable[[], None]] = []
        self._everywhere = TransportPatch(self.replaying)

    def wrap(self, client: object) -> None:
        """Put a replaying transport inside each that the client has; one that records goes on to do so."""
        for http_client in http_clients_of(client):
            for place in slots_of(http_client):
                self.put(place)
            self._follow_loops(http_client)
        avoid_aiohttp(client)
        self.skip_sleeps(client)

    def http_client(self, library: str | None, *, asynchronous: bool, **arguments: Any) -> Any:
        """Make an HTTP client of a library: the one that is given, or else the newest that is installed."""
        library = library or newest_library()
        module = import_module(library)
        kind = module.AsyncClient if asynchronous else module.Client
        network = module.AsyncHTTPTransport if asynchronous else module.HTTPTransport
        inner = network() if self._answers.missing == "live" else None
        transport = replaying_class(library, asynchronous=asynchronous)(inner, self._answers)
        return kind(**{"follow_redirects": True, **arguments, "transport": transport})

    def everywhere(self) -> None:
        """Answer every client of the process, also those that are made later."""
        self._everywhere.install()
        self.undo.append(self._everywhere.remove)

    def remove(self) -> None:
        """Put back what was there."""
        while self.undo:
            self.undo.pop()()

    def put(self, place: TransportSlot) -> None:
        """Answer what passes one transport, a recording one around it staying there."""
        transport = place.get()
        if isinstance(transport, RecordingTransport):
            inner = transport.inner
            transport.inner = self.replaying(inner, place.library, asynchronous=place.asynchronous)
            self.undo.append(partial(setattr, transport, "inner", inner))
        else:
            place.put(self.replaying(transport, place.library, asynchronous=place.asynchronous))
            self.undo.append(partial(place.put, transport))

    def replaying(self, transport: Any, library: str, *, asynchronous: bool) -> Any:
        """A transport that answers around another one, which a recording one stays around."""
        if isinstance(transport, (SyncReplaying, AsyncReplaying)) and transport.answers is self._answers:
            return transport
        if isinstance(transport, RecordingTransport):
            return type(transport)(
                self.replaying(transport.inner, library, asynchronous=asynchronous), transport.binding
            )
        return replaying_class(library, asynchronous=asynchronous)(transport, self._answers)

    def _follow_loops(self, http_client: Any) -> None:
        """Answer the inner clients too that google-genai makes later, one for each event loop."""
        make = vars(http_client).get("_inner_client_cls") or getattr(type(http_client), "_inner_client_cls", None)
        if make is None:
            return

        def made(**arguments: Any) -> Any:
            inner = make(**arguments)
            for place in slots_of(inner):
                self.put(place)
            return inner

        before = vars(http_client).get("_inner_client_cls")
        http_client._inner_client_cls = made
        self.undo.append(
            partial(http_client.__dict__.pop, "_inner_client_cls")
            if before is None
            else partial(setattr, http_client, "_inner_client_cls", before)
        )

    def skip_sleeps(self, client: Any) -> None:
        """Have a client's own retries wait for nothing."""
        if hasattr(client, "_calculate_retry_timeout"):  # openai and anthropic
            client._calculate_retry_timeout = lambda *_, **__: 0.0
            self.undo.append(partial(client.__dict__.pop, "_calculate_retry_timeout", None))
        google = getattr(client, "_api_client", None)
        for retrying in filter(None, (getattr(google, "_retry", None), getattr(google, "_async_retry", None))):
            self.undo.append(partial(setattr, retrying, "wait", retrying.wait))
            retrying.wait = lambda _: 0.0
