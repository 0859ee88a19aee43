"""Replaces the transports inside an HTTP client of httpx or httpx2 by recording ones, and restores them.

The original transport, the library's or the user's, stays unchanged inside the recording one; `restore_transports` puts
it back. The HTTP clients inside an SDK's client are found by `sdk_clients.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal

from trace_recorder.capture.seam import Binding
from trace_recorder.capture.transport import RecordingTransport, recording_class
from trace_recorder.errors import UnsupportedClientError
from trace_recorder.signal_handlers import suppress

Library = Literal["httpx", "httpx2"]

LIBRARIES = ("httpx", "httpx2")
"""The HTTP libraries with clients that are known."""


@dataclass(frozen=True, slots=True)
class TransportSlot:
    """A place that holds a transport: how to read it, how to put another there, and for which library."""

    library: str
    asynchronous: bool
    get: Callable[[], Any]
    put: Callable[[Any], None]

    def binding(self) -> Binding | None:
        """What the transport here is bound to; None where it does not record."""
        transport = self.get()
        return transport.binding if isinstance(transport, RecordingTransport) else None

    def bind(self, binding: Binding) -> None:
        """Record what passes here, by a transport around the one that is here, or by the one that records already."""
        transport = self.get()
        if isinstance(transport, RecordingTransport):
            transport.binding = binding
        else:
            self.put(recording_class(self.library, asynchronous=self.asynchronous)(transport, binding))

    def restore(self) -> None:
        """Put back the transport that was here."""
        transport = self.get()
        if isinstance(transport, RecordingTransport):
            self.put(transport.inner)


def newest_library() -> Library:
    """The newest HTTP library that is installed."""
    if find_spec("httpx2"):
        return "httpx2"
    if find_spec("httpx"):
        return "httpx"
    raise ImportError("An HTTP client needs httpx2 or httpx: pip install httpx2")


def library_of(http_client: object) -> str | None:
    """Of which HTTP library an object is a client: "httpx", "httpx2", or None."""
    for kind in type(http_client).__mro__:
        library = kind.__module__.partition(".")[0]
        if library in LIBRARIES and kind.__name__ in ("Client", "AsyncClient"):
            return library
    return None


def slots_of(http_client: Any) -> Iterator[TransportSlot]:
    """Everywhere that an HTTP client keeps a transport: its own, its proxies', and those of its inner clients.

    Raises UnsupportedClientError for a client that keeps them elsewhere.
    """
    library = library_of(http_client)
    mounts = getattr(http_client, "_mounts", None)
    if library is None or not hasattr(http_client, "_transport") or not isinstance(mounts, dict):
        raise UnsupportedClientError(
            f"this {type(http_client).__qualname__} keeps its transport where this version of trace_recorder does not "
            "look for it. Build the client with http_client=trace_recorder.http_client() instead."
        )
    asynchronous = hasattr(http_client, "aclose")
    yield TransportSlot(library, asynchronous, *_attribute_access(http_client, "_transport"))
    for pattern, transport in mounts.items():
        if transport is not None:
            yield TransportSlot(library, asynchronous, *_item_access(mounts, pattern))
    for inner in list(getattr(http_client, "_loop_clients", {}).values()):
        yield from slots_of(inner)


def _attribute_access(owner: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    return lambda: getattr(owner, name), lambda value: setattr(owner, name, value)


def _item_access(owner: MutableMapping[Any, Any], key: Any) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    return lambda: owner[key], lambda value: owner.__setitem__(key, value)


MAKERS = ("_inner_client_cls", "_make_async_client")
"""Attributes that make HTTP clients later: google-genai's for each event loop, aiobotocore's at its first request."""


@dataclass(frozen=True, slots=True)
class MakerSlot:
    """A place that holds a function which makes HTTP clients. While it is bound, the clients that it makes record."""

    owner: Any
    name: str

    def binding(self) -> Binding | None:
        """Return to what the clients are bound that are made here; None if they do not record."""
        make = vars(self.owner).get(self.name)
        return make.args[1] if isinstance(make, partial) and make.func is _recorded else None

    def bind(self, binding: Binding) -> None:
        """Record the clients that are made from now on."""
        make = getattr(self.owner, self.name)
        original = make if self.binding() is None else make.args[0]
        setattr(self.owner, self.name, partial(_recorded, original, binding))

    def restore(self) -> None:
        """Put back what made the clients."""
        if self.binding() is not None:
            original = vars(self.owner).pop(self.name).args[0]
            if getattr(self.owner, self.name, None) != original:
                setattr(self.owner, self.name, original)


def maker_slots(owner: object) -> Iterator[MakerSlot]:
    """Yield the places in an object that make HTTP clients later."""
    yield from (MakerSlot(owner, name) for name in MAKERS if getattr(owner, name, None) is not None)


def _recorded(make: Callable[..., Any], binding: Binding, **arguments: Any) -> Any:
    made = make(**arguments)
    for slot in slots_of(made):
        slot.bind(binding)
    return made


def restore_transports(http_client: Any) -> None:
    """Give an HTTP client back what it had; one that does not record stays as it is, whatever its shape."""
    with suppress(UnsupportedClientError):
        for slot in slots_of(http_client):
            slot.restore()
