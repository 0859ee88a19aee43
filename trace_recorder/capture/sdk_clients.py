"""Finds the HTTP clients inside an SDK's client, and binds their transports to a recorder.

The client stays the user's own object, of its own type. A client with an unknown structure, or with calls that do not
use its HTTP clients, is refused. A client is never half wrapped: all of its transports are found before the first one
is replaced. The recording transport has the original one inside, unchanged. `unwrap` restores the original.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Literal, NamedTuple, TypeVar
from weakref import ref

from trace_recorder.capture.mcp_sessions import SessionSlot, session_slots
from trace_recorder.capture.method_slots import MethodSlot, method_slots
from trace_recorder.capture.seam import Binding, Target, prepare
from trace_recorder.capture.transport import RecordingTransport, recording_class
from trace_recorder.capture.websocket_patch import websocket_patch
from trace_recorder.errors import BoundClientError, UnsupportedClientError
from trace_recorder.signal_handlers import WeakRegistry, suppress
from trace_recorder.values.structs import Struct

Library = Literal["httpx", "httpx2"]

LIBRARIES = ("httpx", "httpx2")
"""The HTTP libraries whose clients have transports that can be wrapped."""


class TransportSlot(Struct, frozen=True):
    """An attribute or an item of a client that holds a transport. `get` reads the transport, and `put` replaces it."""

    library: str
    asynchronous: bool
    get: Callable[[], Any]
    put: Callable[[Any], None]

    def binding(self) -> Binding | None:
        """Return the binding of the transport, or None if the transport does not record."""
        transport = self.get()
        return transport.binding if isinstance(transport, RecordingTransport) else None

    def bind(self, binding: Binding) -> None:
        """Record the requests that pass the transport: wrap it, or bind it again if it records already."""
        transport = self.get()
        if isinstance(transport, RecordingTransport):
            transport.binding = binding
        else:
            self.put(recording_class(self.library, asynchronous=self.asynchronous)(transport, binding))

    def restore(self) -> None:
        """Put back the original transport."""
        transport = self.get()
        if isinstance(transport, RecordingTransport):
            self.put(transport.inner)


def newest_library() -> Library:
    """Return the newest HTTP library that is installed. Raises ImportError if no such library is installed."""
    if find_spec("httpx2"):
        return "httpx2"
    if find_spec("httpx"):
        return "httpx"
    raise ImportError("An HTTP client needs httpx2 or httpx: pip install httpx2")


def library_of(http_client: object) -> str | None:
    """Return the library of an HTTP client: "httpx", "httpx2", or None for any other object."""
    for kind in type(http_client).__mro__:
        library = kind.__module__.partition(".")[0]
        if library in LIBRARIES and kind.__name__ in ("Client", "AsyncClient"):
            return library
    return None


def slots_of(http_client: Any) -> Iterator[TransportSlot]:
    """Yield a slot for each transport of an HTTP client, of its proxies, and of the clients inside it.

    Raises UnsupportedClientError for a client that keeps its transports in other attributes than the known ones.
    """
    library = library_of(http_client)
    mounts = getattr(http_client, "_mounts", None)
    if library is None or not hasattr(http_client, "_transport") or not isinstance(mounts, dict):
        raise UnsupportedClientError(
            f"this {type(http_client).__qualname__} keeps its transport where this version of trace_recorder does not "
            "look for it. Build the client with http_client=trace_recorder.http_client() instead."
        )
    asynchronous = hasattr(http_client, "aclose")
    get, put = partial(getattr, http_client, "_transport"), partial(setattr, http_client, "_transport")
    yield TransportSlot(library, asynchronous, get, put)
    for pattern, transport in mounts.items():
        if transport is not None:
            get, put = partial(mounts.__getitem__, pattern), partial(mounts.__setitem__, pattern)
            yield TransportSlot(library, asynchronous, get, put)
    for inner in list(getattr(http_client, "_loop_clients", {}).values()):
        yield from slots_of(inner)


MAKERS = ("_inner_client_cls", "_make_async_client")
"""Attributes that make HTTP clients later.

The first one, of google-genai, makes a client for each event loop. The second one, of aiobotocore, makes a client at
the first request.
"""


class MakerSlot(Struct, frozen=True):
    """An attribute with a function that makes HTTP clients.

    While the function is bound to a recorder, the calls of the clients that it makes are recorded.
    """

    owner: Any
    name: str

    def binding(self) -> Binding | None:
        """Return the binding of the clients that this function makes, or None if they do not record."""
        make = vars(self.owner).get(self.name)
        return make.args[1] if isinstance(make, partial) and make.func is _make_recorded else None

    def bind(self, binding: Binding) -> None:
        """Record the clients that are made from now on."""
        make = getattr(self.owner, self.name)
        original = make if self.binding() is None else make.args[0]
        setattr(self.owner, self.name, partial(_make_recorded, original, binding))

    def restore(self) -> None:
        """Put back the original function that makes the clients."""
        if self.binding() is not None:
            original = vars(self.owner).pop(self.name).args[0]
            if getattr(self.owner, self.name, None) != original:
                setattr(self.owner, self.name, original)


def maker_slots(owner: object) -> Iterator[MakerSlot]:
    """Yield a slot for each attribute of an object that makes HTTP clients later."""
    yield from (MakerSlot(owner, name) for name in MAKERS if getattr(owner, name, None) is not None)


def _make_recorded(make: Callable[..., Any], binding: Binding, **arguments: Any) -> Any:
    made = make(**arguments)
    for slot in slots_of(made):
        slot.bind(binding)
    return made


def restore_transports(http_client: Any) -> None:
    """Restore the transports of an HTTP client. A client that does not record is not changed."""
    with suppress(UnsupportedClientError):
        for slot in slots_of(http_client):
            slot.restore()


Client = TypeVar("Client")
Slot = TransportSlot | MakerSlot | MethodSlot | SessionSlot

_made: WeakRegistry[Any] = WeakRegistry()
"""HTTP clients that `_make_http_client` made for the module `openai`.

The module had made no HTTP client of its own yet.
"""


def wrap(client: Client, target: Target, provider: str | None = None) -> Client:
    """Let `target` record the LLM calls of a client, and return the same client.

    For the modules `openai` and `ollama`, the client that their own functions use is wrapped. Raises
    UnsupportedClientError if no HTTP client is found in the client, or if some of its calls would not be recorded.
    Raises BoundClientError if a second client that shares its HTTP client is bound to another recorder, which still
    runs. Raises TypeError if `provider` is not a name.
    """
    if provider is not None and not isinstance(provider, str):
        raise TypeError(f"provider is {provider!r}, and must be the name of a provider, such as 'vllm', or None.")
    prepare()
    slots: list[Slot] = [*session_slots(client)] or _slots_in(client)
    _check_bindings(slots, client, target)
    fresh = Binding(target, provider, ref(client))
    for slot in slots:
        slot.bind(fresh)
    if any(isinstance(slot, TransportSlot) for slot in slots):
        websocket_patch.keep_for(client)
    return client


def unwrap(client: Client) -> Client:
    """Restore the transports that a client had, and return the client. A client that is not wrapped is not changed.

    Raises UnsupportedClientError if the object is not a client.
    """
    sessions, methods = [*session_slots(client)], [*method_slots(client)]
    candidates = [*_candidates(client)]
    makers = [slot for candidate in candidates for slot in maker_slots(candidate)]
    http_clients = [*filter(library_of, candidates)]
    if not (sessions or methods or makers or http_clients or isinstance(client, ModuleType)):
        raise UnsupportedClientError(f"unwrap() finds no HTTP client in {_name(client)}, which was never wrapped.")
    slots: list[Slot] = [*sessions, *methods, *makers]
    for slot in slots:
        slot.restore()
    for http_client in http_clients:
        restore_transports(http_client)
    drop_http_client(client)
    websocket_patch.release(client)
    return client


def _slots_in(client: object) -> list[Slot]:
    """Return the slots through which a client's calls go: methods, transports, and makers of HTTP clients.

    Raises UnsupportedClientError.
    """
    methods, http_clients, makers = ways_out(client)
    transports = [slot for http_client in http_clients for slot in slots_of(http_client)]
    return [*methods, *transports, *(slot for maker in makers for slot in maker_slots(maker))]


def _check_bindings(slots: Sequence[Slot], client: object, target: Target) -> None:
    """Raise BoundClientError if the new target would silently record the calls of another client too."""
    bound = [binding for slot in slots if (binding := slot.binding()) is not None]
    moving = [binding for binding in bound if binding.target != target and binding.target.is_running()]
    owners = [binding.client() for binding in moving if binding.client]
    other = next((owner for owner in owners if owner is not None and owner is not client), None)
    if other is not None:
        raise _shared_client_error(client, other)
    if moving:
        warnings.warn(
            f"this {type(client).__name__} was bound to another recorder, which still runs; from now on its calls are "
            "recorded by the new one. trace_recorder.wrap(client) uses the recorder that is active at each call.",
            stacklevel=4,
        )


def _shared_client_error(client: object, other: object) -> BoundClientError:
    return BoundClientError(
        f"This {type(client).__name__} shares its HTTP client with another {type(other).__name__}, which is bound to "
        "another recorder that still runs. Give each its own HTTP client, or let both follow the context: "
        "trace_recorder.wrap(client) uses the recorder that is active at each call."
    )


class WaysOut(NamedTuple):
    """The methods, the HTTP clients and the makers of HTTP clients through which a client's calls go."""

    methods: list[MethodSlot]
    http_clients: list[Any]
    makers: list[Any]


def ways_out(client: object) -> WaysOut:
    """Return the ways through which a client's calls go.

    Raises UnsupportedClientError if the client has neither methods nor HTTP clients of these kinds.
    """
    methods = [*method_slots(client)]
    for method in methods:
        method.check()
    _make_http_client(client)
    candidates = [*_candidates(client)]
    http_clients = [*filter(library_of, candidates)]
    makers = [candidate for candidate in candidates if any(maker_slots(candidate))]
    if not (methods or http_clients or makers):
        raise _unknown_client_error(client)
    return WaysOut(methods, http_clients, makers)


def _unknown_client_error(client: object) -> UnsupportedClientError:
    return UnsupportedClientError(
        f"wrap() finds no HTTP client that it knows in {_name(client)}. Give it a client of openai, anthropic, "
        "google-genai or ollama, the module openai or ollama itself, or a client of httpx, httpx2, aiohttp, "
        "requests or urllib3; or build the client with http_client=trace_recorder.http_client()."
    )


def _candidates(client: object) -> Iterator[Any]:
    """Yield the objects that may be HTTP clients: the client, and the attributes in which SDKs keep an HTTP client."""
    yield client
    inside = _attribute(client, "_client")  # openai, anthropic, ollama
    yield inside
    google = getattr(client, "_api_client", None)  # google-genai's Client, and its `.aio`
    yield _attribute(google, "_httpx_client")
    yield _attribute(google, "_async_httpx_client")
    aws = _attribute(_attribute(client, "_endpoint"), "http_session")  # aiobotocore
    yield aws
    yield _attribute(aws, "_session")
    if isinstance(client, ModuleType):
        yield _attribute(inside, "_client")  # the module ollama: its functions are the methods of one client
        yield _attribute(client, "http_client")  # the module openai: each of its clients uses this HTTP client


def _make_http_client(client: object) -> None:
    """Make the HTTP client that the module `openai` would make at its first call. This needs no API key."""
    if isinstance(client, ModuleType) and vars(client).get("http_client", client) is None:
        make = vars(client).get("DefaultHttpxClient")
        if make is not None:
            _made.add(made := make())
            vars(client)["http_client"] = made


def drop_http_client(client: object) -> None:
    """Close and remove the HTTP client that `_make_http_client` made for a module.

    Do nothing if the module has used that client already.
    """
    made = _attribute(client, "http_client") if isinstance(client, ModuleType) else None
    if made is not None and made in _made and _attribute(client, "_client") is None:
        vars(client)["http_client"] = None
        made.close()


def _attribute(owner: object, name: str) -> Any:
    return getattr(owner, name, None) if owner is not None else None


def _name(client: object) -> str:
    """Return the name of a client for a message. The client may be a module, or a class instead of an object."""
    if isinstance(client, ModuleType | type):
        return repr(client)
    return f"this {type(client).__module__}.{type(client).__qualname__}"
