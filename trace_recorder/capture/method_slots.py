"""Wraps clients of aiohttp, urllib3, requests, boto3, aiobotocore and google-genai by replacing one method of each.

All requests of each of these clients go through one method. While the client is bound to a recorder or a replay, a
replacement of this method sets the context variable `bound_here` during each call. Its value, a `Bound`, has the
client's recorder and replays. The seam of the HTTP library that sends the request reads the variable
(`method_seams.py`). `sdk_clients.py` binds the transports of httpx.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import update_wrapper
from importlib import import_module
from inspect import iscoroutinefunction, signature
from typing import Any
from weakref import ref

from trace_recorder.capture.method_seams import Around, Bound, bound_here, method_patch
from trace_recorder.capture.seam import Binding
from trace_recorder.errors import UnsupportedClientError


def _always(_: object) -> bool:
    return True


def uses_aiohttp(google: object) -> bool:
    """Whether a client of google-genai sends its async calls by aiohttp.

    Versions before 1.24 do so if aiohttp is installed.
    """
    ask = getattr(google, "_use_aiohttp", None)
    if ask is None:
        return bool(getattr(sys.modules.get(type(google).__module__), "has_aiohttp", False))
    return bool(ask())


def uses_google_auth(google: object) -> bool:
    """Whether a client of google-genai makes its sync calls with google-auth, which sends them with requests."""
    ask = getattr(google, "_use_google_auth_sync", None)
    return bool(ask and ask())


@dataclass(frozen=True, slots=True)
class Funnel:
    """A method through which all requests of a client go, and the library whose seam they reach.

    `is_used` says whether a client uses the method.
    """

    library: str
    method: str
    is_used: Callable[[object], bool] = _always


FUNNELS = {
    ("aiohttp", "ClientSession"): (Funnel("aiohttp", "_request"),),
    ("urllib3", "PoolManager"): (Funnel("urllib3", "urlopen"),),
    ("urllib3", "HTTPConnectionPool"): (Funnel("urllib3", "urlopen"),),
    ("requests", "Session"): (Funnel("urllib3", "send"),),
    ("botocore", "URLLib3Session"): (Funnel("urllib3", "send"),),
    ("aiobotocore", "AIOHTTPSession"): (Funnel("aiohttp", "send"),),
    ("google", "BaseApiClient"): (
        Funnel("aiohttp", "_async_request", uses_aiohttp),
        Funnel("urllib3", "_request", uses_google_auth),
    ),
}
"""The methods through which a client's requests go, by the library and the name of the client's class."""


@dataclass(frozen=True, slots=True)
class MethodSlot:
    """A client, and its method through which all its requests go.

    While the method is bound to a recorder, the client's requests are recorded.
    """

    client: Any
    method: str
    library: str

    def binding(self) -> Binding | None:
        """Return the binding of the client, or None if it is not recorded."""
        return bound.binding if (bound := self.bound()) else None

    def bound(self) -> Bound | None:
        """Return the client's `Bound`, or None if its calls are neither recorded nor answered by a replay."""
        bound: Bound | None = getattr(vars(self.client).get(self.method), "trace_recorder_bound", None)
        return bound

    def check(self) -> None:
        """Raise UnsupportedClientError for a version of the library that is not supported."""
        if not method_patch.is_supported(import_module(self.library)):
            raise UnsupportedClientError(
                f"wrap() does not record this version of {self.library}: docs/attach.md lists the supported versions. "
                "Update it, or give the SDK an HTTP client: http_client=trace_recorder.http_client()."
            )

    def bind(self, binding: Binding) -> None:
        """Record the calls of the client."""
        self._bind().binding = binding

    def restore(self) -> None:
        """Stop recording the client. Restore its method unless a replay answers its calls."""
        bound = self.bound()
        if bound is not None:
            bound.binding = None
            self._restore_unneeded(bound)

    def answer(self, around: Around) -> Callable[[], None]:
        """Let `around` answer the calls of the client. Return a function that undoes the change."""
        bound = self._bind()
        bound.arounds.append(around)

        def undo() -> None:
            bound.arounds.remove(around)
            self._restore_unneeded(bound)

        return undo

    def _bind(self) -> Bound:
        method_patch.patch(import_module(self.library))
        method_patch.keep_for(self.client)
        bound = self.bound()
        if bound is None:
            members, bound = vars(self.client), Bound()
            members[self.method] = _bound_method(self.client, self.method, bound, members.get(self.method))
        return bound

    def _restore_unneeded(self, bound: Bound) -> None:
        if not bound and self.bound() is bound:
            members = vars(self.client)
            original = members.pop(self.method).trace_recorder_original
            if original is not None:
                members[self.method] = original
            method_patch.release(self.client)


def method_slots(client: object) -> Iterator[MethodSlot]:
    """Yield the methods through which a client's requests go: its own methods, or those of a client inside it."""
    aws = type(client).__module__.partition(".")[0] in ("botocore", "aiobotocore")
    for owner in (
        client,
        getattr(getattr(client, "_endpoint", None), "http_session", None) if aws else None,
        getattr(client, "_api_client", None),
    ):
        for funnel in _funnels(owner):
            slot = MethodSlot(owner, funnel.method, funnel.library)
            if slot.bound() is not None or funnel.is_used(owner):
                yield slot


def _funnels(owner: object) -> tuple[Funnel, ...]:
    names = ((kind.__module__.partition(".")[0], kind.__name__) for kind in type(owner).__mro__)
    return next((FUNNELS[name] for name in names if name in FUNNELS), ())


def _bound_method(client: object, method: str, here: Bound, original: Any) -> Any:
    """Return a function that sets `bound_here` to `here`, calls the client's method, and restores `bound_here`.

    `original` is the client's own attribute of that name, or None.
    """
    owner = ref(client)  # weak, because the client holds the function, and must be freed with its last user

    def call(*arguments: Any, **keywords: Any) -> Any:
        if original is not None:
            return original(*arguments, **keywords)
        return getattr(type(owner()), method)(owner(), *arguments, **keywords)

    def send(*arguments: Any, **keywords: Any) -> Any:
        before = bound_here.get()
        try:
            bound_here.set(here)  # inside the `try`, so that it is undone if a signal handler then raises
            return call(*arguments, **keywords)
        finally:
            bound_here.set(before)

    async def send_async(*arguments: Any, **keywords: Any) -> Any:
        before = bound_here.get()
        try:
            bound_here.set(here)  # inside the `try`, so that it is undone if a signal handler then raises
            return await call(*arguments, **keywords)
        finally:
            bound_here.set(before)  # `reset` fails if a coroutine is closed in another context

    replaced = getattr(client, method) if original is None else original
    bound: Any = update_wrapper(send_async if iscoroutinefunction(getattr(type(client), method)) else send, replaced)
    del bound.__wrapped__  # this attribute would keep the client alive
    bound.__signature__ = signature(replaced)
    bound.trace_recorder_bound = here
    bound.trace_recorder_original = original
    return bound
