"""Finds the HTTP clients inside an SDK's client, and binds their transports to a recorder.

The client stays the user's own object, of its own type. A client with an unknown structure, or with calls that do not
use its HTTP clients, is refused and never half wrapped: all of its transports are found before the first is replaced.
`unwrap` restores what was there.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from inspect import signature
from types import ModuleType, SimpleNamespace
from typing import Any, TypeVar
from weakref import ref

from trace_recorder.capture.http_clients import (
    TransportSlot,
    bind_inner_clients,
    library_of,
    restore_transports,
    slots_of,
)
from trace_recorder.capture.method_seams import MethodSlot, method_slot
from trace_recorder.capture.seam import Binding, Target
from trace_recorder.errors import BoundClientError, UnsupportedClientError
from trace_recorder.recording.weak_registry import WeakRegistry

Client = TypeVar("Client")
Slot = TransportSlot | MethodSlot

_made: WeakRegistry[Any] = WeakRegistry()
"""The HTTP clients that were made here for a module that had none yet."""


def wrap(client: Client, target: Target, provider: str | None = None) -> Client:
    """Record the LLM calls of a client to `target`; return the same client.

    For the modules `openai` and `ollama`, the client that their own functions use is wrapped. Raises
    UnsupportedClientError if no HTTP client is found in the client, or if some of its calls would not be recorded, and
    BoundClientError if its HTTP client is bound, through another client, to another recorder that is still running, and
    TypeError if `provider` is no name.
    """
    if provider is not None and not isinstance(provider, str):
        raise TypeError(f"provider is {provider!r}, and has to be the name of a provider, such as 'vllm', or None.")
    own = method_slot(client)
    http_clients = [] if own is not None else http_clients_of(client)
    slots: list[Slot] = [slot for http_client in http_clients for slot in slots_of(http_client)]
    slots += [own] if own is not None else []
    _check_bindings(slots, client, target)
    fresh = Binding(target, provider, ref(client))
    for slot in slots:
        slot.bind(fresh)
    for http_client in http_clients:
        bind_inner_clients(http_client, fresh)
    avoid_aiohttp(client)
    return client


def unwrap(client: Client) -> Client:
    """Restore the transports that a client had; return the same client. A client that is not wrapped is not changed.

    Raises UnsupportedClientError for what is no client.
    """
    own = method_slot(client)
    if own is not None:
        own.restore()
        return client
    http_clients = [*filter(library_of, _candidates(client))]
    if not http_clients and not isinstance(client, ModuleType):
        raise UnsupportedClientError(f"unwrap() finds no HTTP client in {_name(client)}, which was never wrapped.")
    for http_client in http_clients:
        restore_transports(http_client)
    restore_settings(client)
    return client


def restore_settings(client: object) -> None:
    """Undo what was changed in a client other than its transports."""
    inside = getattr(_google_client(client), "__dict__", {})
    if inside.get("_use_aiohttp") is _never:
        del inside["_use_aiohttp"]
    _drop_http_client(client)


def _check_bindings(slots: Sequence[Slot], client: object, target: Target) -> None:
    """Raise BoundClientError if the calls of another client would silently be recorded to a new target too."""
    bound = [binding for slot in slots if (binding := slot.binding()) is not None]
    moving = [one for one in bound if one.target != target and one.target.is_running()]
    owners = [one.client() for one in moving if one.client]
    other = next((owner for owner in owners if owner is not None and owner is not client), None)
    if other is not None:
        raise _shared(client, other)
    if moving:
        warnings.warn(
            f"this {type(client).__name__} was bound to another recorder, which still runs; from now on its calls are "
            "recorded by the new one. trace_recorder.wrap(client) follows the context instead.",
            stacklevel=4,
        )


def _shared(client: object, other: object) -> BoundClientError:
    return BoundClientError(
        f"This {type(client).__name__} shares its HTTP client with another {type(other).__name__}, which is bound to "
        "another recorder that still runs. Give each its own HTTP client, or let both follow the context: "
        "trace_recorder.wrap(client) records each call to the recorder that is active where it is made."
    )


def http_clients_of(client: object) -> list[Any]:
    """The HTTP clients inside an SDK's client, or the client itself where it is one. All of its calls go through them.

    Raises UnsupportedClientError where there are none, or some calls would pass by them.
    """
    _refuse_unseen_calls(client)
    _make_http_client(client)
    found = [candidate for candidate in _candidates(client) if library_of(candidate)]
    if not found:
        raise UnsupportedClientError(
            f"wrap() finds no HTTP client that it knows in {_name(client)}. Give it a client of openai, anthropic, "
            "google-genai or ollama, the module openai or ollama itself, or a client of httpx, httpx2, aiohttp, "
            "requests or urllib3; or build the client with http_client=trace_recorder.http_client()."
        )
    return found


def _candidates(client: object) -> Iterator[Any]:
    """Yield what may be an HTTP client: the object itself, and the attributes in which the SDKs keep theirs."""
    yield client
    inside = _attribute(client, "_client")  # openai, anthropic, ollama
    yield inside
    google = _google_client(client)
    yield _attribute(google, "_httpx_client")
    yield _attribute(google, "_async_httpx_client")
    if isinstance(client, ModuleType):
        yield _attribute(inside, "_client")  # the module ollama: its functions are the methods of one client
        yield _attribute(client, "http_client")  # the module openai: every client that it makes uses this one


def _make_http_client(client: object) -> None:
    """Set the HTTP client that the module `openai` would make at its first call, which may be before a key is set."""
    if isinstance(client, ModuleType) and vars(client).get("http_client", client) is None:
        make = vars(client).get("DefaultHttpxClient")
        if make is not None:
            _made.add(made := make())
            vars(client)["http_client"] = made


def _drop_http_client(client: object) -> None:
    """Remove that HTTP client, if the module has not used it yet."""
    made = _attribute(client, "http_client") if isinstance(client, ModuleType) else None
    if made is not None and made in _made and _attribute(client, "_client") is None:
        vars(client)["http_client"] = None
        made.close()


def _google_client(client: object) -> object:
    """Return the inner client of google-genai's Client or of its `.aio`; an empty object for any other client."""
    return getattr(client, "_api_client", None) or SimpleNamespace()


def _refuse_unseen_calls(client: object) -> None:
    """Refuse a google-genai client that sends calls without its HTTP clients and cannot be made to use them."""
    google = _google_client(client)
    options = _attribute(google, "_http_options")
    settings = _attribute(options, "async_client_args") or {}
    aiohttp = _is_true(google, "_use_aiohttp")
    reasons = {
        "an aiohttp_client of its own": aiohttp and _attribute(options, "aiohttp_client") is not None,
        "settings for aiohttp alone": aiohttp and not _accepts(_attribute(google, "_async_httpx_client"), settings),
        "a client certificate": _is_true(google, "_use_google_auth_sync") or _is_true(google, "_use_google_auth_async"),
        "aiohttp for its async calls, as google-genai before 1.24 cannot do without": _requires_aiohttp(google),
    }
    if found := " and ".join(reason for reason, holds in reasons.items() if holds):
        raise UnsupportedClientError(
            f"{_name(client)} has {found}: some of its calls would pass by its HTTP clients, unseen. Build it with "
            "http_options={'httpx_client': trace_recorder.http_client(...), 'httpx_async_client': "
            "trace_recorder.async_http_client(...)}, and give these what they need to reach the server."
        )


def _requires_aiohttp(google: object) -> bool:
    """Whether this is a version of google-genai that always uses aiohttp if it is installed, and it is."""
    module = sys.modules.get(type(google).__module__)
    return not hasattr(google, "_use_aiohttp") and bool(_attribute(module, "has_aiohttp"))


def _is_true(google: object, name: str) -> bool:
    method = _attribute(google, name)
    return bool(method and method())


def _accepts(http_client: object, settings: dict[str, Any]) -> bool:
    """Whether an async HTTP client of the same library accepts all of these arguments; True if there is no client."""
    library = library_of(http_client)
    return library is None or settings.keys() <= signature(import_module(library).AsyncClient).parameters.keys()


def avoid_aiohttp(client: object) -> None:
    """Make google-genai send async calls through its HTTP client even if aiohttp is installed."""
    google = _google_client(client)
    if _is_true(google, "_use_aiohttp"):
        vars(google)["_use_aiohttp"] = _never


def _never() -> bool:
    return False


def _attribute(owner: object, name: str) -> Any:
    return getattr(owner, name, None) if owner is not None else None


def _name(client: object) -> str:
    """Return how a message names a client; it may be a module, or a class that was passed instead of an object."""
    if isinstance(client, ModuleType | type):
        return repr(client)
    return f"this {type(client).__module__}.{type(client).__qualname__}"
