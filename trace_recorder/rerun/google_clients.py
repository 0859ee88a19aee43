"""Clients of google-genai in a replay: their calls are led through httpx, the only library that a replay answers.

A client that sends in another way, and cannot be led, is refused.
"""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from typing import Any

from trace_recorder.capture.http_clients import library_of
from trace_recorder.capture.method_slots import uses_aiohttp, uses_google_auth
from trace_recorder.errors import UnsupportedClientError
from trace_recorder.values.messages import Payload


def refuse_unseen_calls(client: object) -> None:
    """Raise UnsupportedClientError for a client with calls that do not use its HTTP clients, and cannot be made to."""
    google = getattr(client, "_api_client", None)
    options = getattr(google, "_http_options", None)
    settings = getattr(options, "async_client_args", None) or {}
    aiohttp = google is not None and uses_aiohttp(google)
    asks_for_certificate = getattr(google, "_use_google_auth_async", None)
    reasons = {
        "an aiohttp_client of its own": aiohttp and getattr(options, "aiohttp_client", None) is not None,
        "settings for aiohttp alone": aiohttp and not _accepts(getattr(google, "_async_httpx_client", None), settings),
        "a client certificate": uses_google_auth(google) or bool(asks_for_certificate and asks_for_certificate()),
        "aiohttp for its async calls, as google-genai before 1.24 cannot do without": aiohttp
        and not hasattr(google, "_use_aiohttp"),
    }
    if found := " and ".join(reason for reason, holds in reasons.items() if holds):
        raise UnsupportedClientError(
            f"this {type(client).__module__}.{type(client).__qualname__} has {found}: a replay would not answer "
            "some of its calls. Build it with http_options={'httpx_client': trace_recorder.http_client(...), "
            "'httpx_async_client': trace_recorder.async_http_client(...)}."
        )


def _accepts(http_client: object, settings: dict[str, Payload]) -> bool:
    """Whether an async HTTP client of the same library accepts all of these arguments; True if there is no client."""
    library = library_of(http_client)
    return library is None or settings.keys() <= signature(import_module(library).AsyncClient).parameters.keys()


def avoid_aiohttp(client: object) -> None:
    """Make google-genai send async calls through its HTTP client even if aiohttp is installed."""
    google: Any = getattr(client, "_api_client", None)
    if google is not None and hasattr(google, "_use_aiohttp") and uses_aiohttp(google):
        vars(google)["_use_aiohttp"] = _never


def allow_aiohttp(client: object) -> None:
    """Undo that."""
    inside = getattr(getattr(client, "_api_client", None), "__dict__", {})
    if inside.get("_use_aiohttp") is _never:
        del inside["_use_aiohttp"]


def _never() -> bool:
    return False
