"""Wraps clients of aiohttp, urllib3, requests, boto3, aiobotocore and google-genai by replacing one method of each.

All requests of each of these clients go through one method. While the client is bound to a recorder or a replay, a
replacement of this method sets the context variable `current_interception` during each call. Its value, an
`Interception`, has the client's recorder and replays. The seam of the HTTP library that sends the request reads the
variable (`method_seams.py`). `sdk_clients.py` binds the transports of httpx.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from importlib import import_module
from inspect import iscoroutinefunction, signature
from typing import Any
from weakref import ref

from trace_recorder.capture.method_seams import Interception, Middleware, current_interception, method_patch
from trace_recorder.capture.seam import Binding
from trace_recorder.errors import UnsupportedClientError
from trace_recorder.values.structs import Struct

_KEPT_AS = "_trace_recorder_of_"
"""The beginning of the name under which a client keeps the `Interception` of a method. The method's name follows."""


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


class RequestMethod(Struct, frozen=True):
    """A method through which all requests of a client go, and the library whose seam the requests reach.

    `is_used` says whether a client uses the method.
    """

    library: str
    method: str
    is_used: Callable[[object], bool] = _always


REQUEST_METHODS = {
    ("aiohttp", "ClientSession"): (RequestMethod("aiohttp", "_request"),),
    ("urllib3", "PoolManager"): (RequestMethod("urllib3", "urlopen"),),
    ("urllib3", "HTTPConnectionPool"): (RequestMethod("urllib3", "urlopen"),),
    ("requests", "Session"): (RequestMethod("urllib3", "send"),),
    ("botocore", "URLLib3Session"): (RequestMethod("urllib3", "send"),),
    ("aiobotocore", "AIOHTTPSession"): (RequestMethod("aiohttp", "send"),),
    ("google", "BaseApiClient"): (
        RequestMethod("aiohttp", "_async_request", uses_aiohttp),
        RequestMethod("urllib3", "_request", uses_google_auth),
    ),
}
"""The methods through which a client's requests go, by the library and the name of the client's class."""


class MethodSlot(Struct, frozen=True):
    """A client, and its method through which all its requests go.

    While the method is bound to a recorder, the client's requests are recorded.
    """

    client: Any
    method: str
    library: str

    def binding(self) -> Binding | None:
        """Return the binding of the client, or None if it is not recorded."""
        return interception.binding if (interception := self.interception()) else None

    def interception(self) -> Interception | None:
        """Return the client's `Interception`, or None if its calls are neither recorded nor answered by a replay."""
        interception = self._kept()
        return interception or None

    def is_bound(self) -> bool:
        """Whether our method is in the client, although it may have nothing to do."""
        return self._kept() is not None

    def _kept(self) -> Interception | None:
        kept: Interception | None = vars(self.client).get(_KEPT_AS + self.method)
        return kept

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
        interception = self._kept()
        if interception is not None:
            interception.binding = None
            self._restore_unneeded(interception)

    def answer(self, middleware: Middleware) -> Callable[[], None]:
        """Let `middleware` answer the calls of the client. Return a function that undoes the change."""
        interception = self._bind()
        interception.middlewares.append(middleware)

        def undo() -> None:
            interception.middlewares.remove(middleware)
            self._restore_unneeded(interception)

        return undo

    def _bind(self) -> Interception:
        method_patch.patch(import_module(self.library))
        method_patch.keep_for(self.client)
        members = vars(self.client)
        interception = self._kept()
        if interception is None:
            members[_KEPT_AS + self.method] = interception = Interception()
        current = members.get(self.method)
        if all(layer is not current for layer, _ in interception.layers):
            layer = _bound_method(self.client, self.method, interception, current)
            interception.layers.append((layer, current))
            members[self.method] = layer
        return interception

    def _restore_unneeded(self, interception: Interception) -> None:
        """Restore the client's method, unless it is needed. Below a method of other code, ours stays."""
        if interception:
            return
        members, layers = vars(self.client), interception.layers
        while layers and members.get(self.method) is layers[-1][0]:
            original = layers[-1][1]
            if original is None:
                del members[self.method]
            else:
                members[self.method] = original
            layers.pop()
        if not layers:
            members.pop(_KEPT_AS + self.method, None)
        method_patch.release(self.client)


def method_slots(client: object) -> Iterator[MethodSlot]:
    """Yield the methods through which a client's requests go.

    The methods are the client's own, or belong to a client inside it.
    """
    aws = type(client).__module__.partition(".")[0] in ("botocore", "aiobotocore")
    for owner in (
        client,
        getattr(getattr(client, "_endpoint", None), "http_session", None) if aws else None,
        getattr(client, "_api_client", None),
    ):
        names = ((kind.__module__.partition(".")[0], kind.__name__) for kind in type(owner).__mro__)
        for request_method in next(filter(None, map(REQUEST_METHODS.get, names)), ()):
            slot = MethodSlot(owner, request_method.method, request_method.library)
            if slot.is_bound() or request_method.is_used(owner):
                yield slot


@contextmanager
def _intercepting(interception: Interception) -> Iterator[None]:
    """Set `current_interception` in a block."""
    before = current_interception.get()
    try:  # around the first `set` too, because a signal handler may raise right after the statement
        current_interception.set(interception)
        yield
    finally:
        current_interception.set(before)  # `reset` fails if a coroutine is closed in a context other than its own


def _bound_method(client: object, method: str, interception: Interception, original: Any) -> Any:
    """Return a function that calls the client's method with `current_interception` set to `interception`.

    `original` is the client's own attribute of that name, or None.
    """
    owner = ref(client)  # weak, because the client holds the function, and must be freed with its last user

    def call(*arguments: Any, **keywords: Any) -> Any:
        if original is not None:
            return original(*arguments, **keywords)
        return getattr(type(owner()), method)(owner(), *arguments, **keywords)

    def send(*arguments: Any, **keywords: Any) -> Any:
        with _intercepting(interception):
            return call(*arguments, **keywords)

    async def send_async(*arguments: Any, **keywords: Any) -> Any:
        with _intercepting(interception):
            return await call(*arguments, **keywords)

    replaced = getattr(client, method) if original is None else original
    bound: Any = update_wrapper(send_async if iscoroutinefunction(getattr(type(client), method)) else send, replaced)
    del bound.__wrapped__  # this attribute would keep the client alive
    bound.__signature__ = signature(replaced)
    return bound
