"""Finding the HTTP transports inside each SDK's client, and putting a recording one around them.

The client stays the user's own object, of its own type. A client whose inside has an unfamiliar shape, or of which
some calls would pass by its HTTP clients, is refused, never half wrapped: all of its places are found before the
first is changed. `unwrap` restores what was there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from types import ModuleType, SimpleNamespace
from typing import Any, TypeVar
from weakref import ref

from trace_recorder.capture.transport import Binding, Recording, Target, recording_class
from trace_recorder.errors import BoundClientError, UnsupportedClientError

Client = TypeVar("Client")
_LIBRARIES = ("httpx", "httpx2")


@dataclass(frozen=True, slots=True)
class Place:
    """A place that holds a transport: how to read it, how to put another there, and for which library."""

    library: str
    asynchronous: bool
    get: Callable[[], Any]
    put: Callable[[Any], None]


def wrap(client: Client, target: Target, provider: str | None = None) -> Client:
    """Have a client's LLM calls told to `target`; return the same client.

    The modules `openai` and `ollama` are taken for the client that their own functions use. Raises
    UnsupportedClientError for a client in which no HTTP client is found, and BoundClientError where its HTTP client
    is bound, through another client, to another recorder that still runs.
    """
    _refuse_ways_round(client)
    http_clients = _http_clients(client)
    places = [place for http_client in http_clients for place in _places(http_client)]
    bound = [binding for place in places if (binding := _binding(place.get())) is not None]
    for binding in bound:
        _may_move(binding, client, target)
    fresh = Binding(target, provider, ref(client))
    for place in places:
        _put(place, fresh)
    for http_client in http_clients:
        _follow_loops(http_client, fresh)
    _leave_aiohttp(client)
    return client


def unwrap(client: Client) -> Client:
    """Give a client back the transports that it had; return the same client. One that is not wrapped stays as it is."""
    for http_client in filter(library_of, _candidates(client)):
        vars(http_client).pop("_inner_client_cls", None)
        for place in _places(http_client):
            transport = place.get()
            if isinstance(transport, Recording):
                place.put(transport.inner)
    vars(_google_client(client)).pop("_use_aiohttp", None)
    return client


def _binding(transport: object) -> Binding | None:
    return transport.binding if isinstance(transport, Recording) else None


def _may_move(binding: Binding, client: object, target: Target) -> None:
    """Let a binding move to another target, unless a second client's calls would silently move with it."""
    if binding.target is target or not binding.target.is_running():
        return
    owner = binding.client() if binding.client else None
    if owner is not None and owner is not client:
        raise BoundClientError(
            f"This {type(client).__name__} shares its HTTP client with another {type(owner).__name__}, which is bound "
            "to another recorder that still runs. Give each its own HTTP client, or let both follow the context: "
            "trace_recorder.wrap(client) records each call to the recorder that is active where it is made."
        )
    warn_of_move(client)


def warn_of_move(client: object) -> None:
    """Say that a client's calls go to another recorder from now on."""
    warnings.warn(
        f"this {type(client).__name__} was bound to another recorder, which still runs; from now on its calls are "
        "recorded by the new one. trace_recorder.wrap(client) follows the context instead.",
        stacklevel=5,
    )


def _put(place: Place, binding: Binding) -> None:
    transport = place.get()
    if isinstance(transport, Recording):
        transport.binding = binding
    else:
        place.put(recording_class(place.library, asynchronous=place.asynchronous)(transport, binding))


def library_of(http_client: object) -> str | None:
    """Of which HTTP library an object is a client: "httpx", "httpx2", or None."""
    for kind in type(http_client).__mro__:
        library = kind.__module__.partition(".")[0]
        if library in _LIBRARIES and kind.__name__ in ("Client", "AsyncClient"):
            return library
    return None


def _http_clients(client: object) -> list[Any]:
    """The HTTP clients inside an SDK's client, or the client itself where it is one."""
    _make_http_client(client)
    found = [candidate for candidate in _candidates(client) if library_of(candidate)]
    if not found:
        raise UnsupportedClientError(
            f"wrap() finds no HTTP client that it knows in {_name(client)}. Give it a client of openai, anthropic, "
            "google-genai or ollama, the module openai or ollama itself, or an httpx or httpx2 client; or build the "
            "client with http_client=trace_recorder.http_client()."
        )
    return found


def _candidates(client: object) -> Iterator[Any]:
    """Whatever may be an HTTP client: the object itself, and what it holds where the SDKs hold theirs."""
    yield client
    inside = _attribute(client, "_client")  # openai, anthropic, ollama
    yield inside
    google = _google_client(client)
    yield _attribute(google, "_httpx_client")
    yield _attribute(google, "_async_httpx_client")
    if isinstance(client, ModuleType):
        yield _attribute(inside, "_client")  # the module ollama: its functions are the methods of one client
        yield _attribute(client, "http_client")  # the module openai: whatever client it makes, this is the way out


def _make_http_client(client: object) -> None:
    """Give the module `openai` the HTTP client that it would make at its first call, before there are keys."""
    if isinstance(client, ModuleType) and vars(client).get("http_client", client) is None:
        vars(client)["http_client"] = vars(client)["DefaultHttpxClient"]()


def _google_client(client: object) -> object:
    """The inner client of google-genai's Client, and of its `.aio`; an empty object for any other client."""
    return getattr(client, "_api_client", None) or SimpleNamespace()


def _refuse_ways_round(client: object) -> None:
    """Refuse a google-genai client that has been told to send calls by something else than its HTTP clients."""
    google = _google_client(client)
    options = _attribute(google, "_http_options")
    settings = _attribute(options, "async_client_args") or {}
    aiohttp = _asks(google, "_use_aiohttp")
    reasons = {
        "an aiohttp_client of its own": aiohttp and _attribute(options, "aiohttp_client") is not None,
        "settings for aiohttp alone": aiohttp and not _takes(_attribute(google, "_async_httpx_client"), settings),
        "a client certificate": _asks(google, "_use_google_auth_sync") or _asks(google, "_use_google_auth_async"),
    }
    if found := " and ".join(reason for reason, holds in reasons.items() if holds):
        raise UnsupportedClientError(
            f"{_name(client)} has {found}: some of its calls would pass by its HTTP clients, unseen. Build it with "
            "http_options={'httpx_client': trace_recorder.http_client(...), 'httpx_async_client': "
            "trace_recorder.async_http_client(...)}, and give these what they need to reach the server."
        )


def _asks(google: object, name: str) -> bool:
    method = _attribute(google, name)
    return bool(method and method())


def _takes(http_client: object, settings: dict[str, Any]) -> bool:
    """Whether an async HTTP client of the same library takes all of these arguments; true where there is none."""
    library = library_of(http_client)
    return library is None or settings.keys() <= signature(import_module(library).AsyncClient).parameters.keys()


def _leave_aiohttp(client: object) -> None:
    """Have google-genai's async calls go through its HTTP client, also where aiohttp is installed."""
    google = _google_client(client)
    if hasattr(google, "_use_aiohttp"):
        vars(google)["_use_aiohttp"] = lambda: False


def _attribute(owner: object, name: str) -> Any:
    return getattr(owner, name, None) if owner is not None else None


def _name(client: object) -> str:
    """What to call a client in a message; one may be given a module, or a class in place of its object."""
    if isinstance(client, ModuleType | type):
        return repr(client)
    return f"this {type(client).__module__}.{type(client).__qualname__}"


def _places(http_client: Any) -> Iterator[Place]:
    """Everywhere that an HTTP client keeps a transport: its own, its proxies', and those of its inner clients."""
    library = library_of(http_client)
    if library is None or not hasattr(http_client, "_transport") or not isinstance(http_client._mounts, dict):
        raise UnsupportedClientError(
            f"this {type(http_client).__qualname__} keeps its transport where this version of trace_recorder does not "
            "look for it. Build the client with http_client=trace_recorder.http_client() instead."
        )
    asynchronous = hasattr(http_client, "aclose")
    yield Place(library, asynchronous, *_attribute_access(http_client, "_transport"))
    for pattern, transport in http_client._mounts.items():
        if transport is not None:
            yield Place(library, asynchronous, *_item_access(http_client._mounts, pattern))
    for inner in list(getattr(http_client, "_loop_clients", {}).values()):
        yield from _places(inner)


def _attribute_access(owner: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    return lambda: getattr(owner, name), lambda value: setattr(owner, name, value)


def _item_access(owner: MutableMapping[Any, Any], key: Any) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    return lambda: owner[key], lambda value: owner.__setitem__(key, value)


def _follow_loops(http_client: Any, binding: Binding) -> None:
    """Wrap the inner clients that google-genai makes later, one for each event loop."""
    make = getattr(type(http_client), "_inner_client_cls", None)
    if make is None:
        return

    def recording_client(**arguments: Any) -> Any:
        inner = make(**arguments)
        for place in _places(inner):
            _put(place, binding)
        return inner

    http_client._inner_client_cls = recording_client
