"""Installs the seams that replace one method of a class: those of aiohttp and urllib3.

The method asks at each call where it records to: to the recorder of its wrapped client, or else to that of the
instrumented process. `unwrap` and `uninstrument()` restore it when nothing needs it any more. Until then a call that is
recorded nowhere passes through.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from inspect import iscoroutinefunction
from types import ModuleType
from typing import Any
from weakref import WeakSet, ref

from trace_recorder.capture import aiohttp_sessions, urllib3_pools
from trace_recorder.capture.seam import Binding
from trace_recorder.errors import UnsupportedClientError

_bound_here: ContextVar[Binding | None] = ContextVar("trace_recorder_binding", default=None)
"""To what the client is bound that is sending a request in this context."""


@dataclass(frozen=True, slots=True)
class Seam:
    """A class of a library, its method that sends a request, and the function that sends and records instead.

    `needs` is a name that the module has in each version that is supported: urllib3 has it since 2.0.
    """

    library: str
    class_name: str
    method: str
    needs: str
    send: Callable[..., Any]


SEAMS = {
    seam.library: seam
    for seam in (
        Seam("aiohttp", "ClientSession", "_request", "ClientSession", aiohttp_sessions.send),
        Seam("urllib3", "HTTPConnectionPool", "_make_request", "BaseHTTPResponse", urllib3_pools.send),
    )
}
LIBRARIES = tuple(SEAMS)

FUNNELS = {
    ("aiohttp", "ClientSession"): ("aiohttp", "_request"),
    ("urllib3", "PoolManager"): ("urllib3", "urlopen"),
    ("urllib3", "HTTPConnectionPool"): ("urllib3", "urlopen"),
    ("requests", "Session"): ("urllib3", "send"),
    ("botocore", "URLLib3Session"): ("urllib3", "send"),
}
"""By the library and the name of a client's class: whose seam it uses, and its method that all its requests pass."""


class MethodPatch:
    """Replaces the methods of the seams. There is one instance. `_lock` is held while a method is replaced."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.process_binding: Binding | None = None
        self._wrapped: WeakSet[Any] = WeakSet()
        self._restore: dict[str, Callable[[], None]] = {}

    def install(self, binding: Binding) -> None:
        """Record what passes the libraries that are imported; the caller calls `patch` for those that come later."""
        for module in [import_module(library) for library in LIBRARIES if library in sys.modules]:
            self.patch(module)
        self.process_binding = binding

    def remove(self) -> None:
        """Restore the methods, unless wrapped clients need them."""
        self.process_binding = None
        with self._lock:
            while self._restore and not self._wrapped:
                self._restore.popitem()[1]()

    def patch(self, module: ModuleType) -> bool:
        """Replace the method of a library. Return False, with nothing changed, for a version that is not supported."""
        seam = SEAMS[module.__name__]
        with self._lock:
            if seam.library in self._restore:
                return True
            kind = getattr(module, seam.class_name, None)
            original = vars(kind).get(seam.method) if kind is not None else None
            if not callable(original) or not hasattr(module, seam.needs):
                return False
            ours = self._replacement(seam, original)
            setattr(kind, seam.method, ours)

            def restore() -> None:
                if vars(kind).get(seam.method) is ours:  # if another patch is around ours, ours stays and does nothing
                    setattr(kind, seam.method, original)

            self._restore[seam.library] = restore
            return True

    def keep_for(self, client: object) -> None:
        """Keep the methods replaced as long as a wrapped client exists."""
        self._wrapped.add(client)

    def release(self, client: object) -> None:
        """Restore the methods if nothing needs them any more."""
        self._wrapped.discard(client)
        if self.process_binding is None:
            self.remove()

    def _replacement(self, seam: Seam, original: Any) -> Any:
        @wraps(original)
        def send(owner: Any, *arguments: Any, **named: Any) -> Any:
            binding = _bound_here.get() or self.process_binding
            if binding is None:
                return original(owner, *arguments, **named)
            return seam.send(original, binding, owner, *arguments, **named)

        @wraps(original)
        async def send_async(owner: Any, *arguments: Any, **named: Any) -> Any:
            return await send(owner, *arguments, **named)

        return send_async if iscoroutinefunction(original) else send


method_patch = MethodPatch()


@dataclass(frozen=True, slots=True)
class MethodSlot:
    """A client, and its method that all its requests pass. While it is bound, they are recorded."""

    client: Any
    method: str
    library: str

    def binding(self) -> Binding | None:
        """Return to what the client is bound."""
        binding: Binding | None = getattr(vars(self.client).get(self.method), "trace_recorder_binding", None)
        return binding

    def bind(self, binding: Binding) -> None:
        """Record the calls of the client. Raises UnsupportedClientError for a version that is not supported."""
        if not method_patch.patch(import_module(self.library)):
            raise UnsupportedClientError(
                f"wrap() does not record this version of {self.library}: docs/attach.md has the versions that it does. "
                "Update it, or give the SDK an HTTP client: http_client=trace_recorder.http_client()."
            )
        method_patch.keep_for(self.client)
        vars(self.client)[self.method] = _bound_method(self.client, self.method, binding)

    def restore(self) -> None:
        """Restore the method of the client."""
        if self.binding() is not None:
            del vars(self.client)[self.method]
            method_patch.release(self.client)


def method_slot(client: object) -> MethodSlot | None:
    """Return the slot of a client of aiohttp, requests, urllib3 or boto3; None for any other object."""
    endpoint = getattr(client, "_endpoint", None) if type(client).__module__.startswith("botocore.") else None
    client = getattr(endpoint, "http_session", client)  # the session of a client of boto3
    for kind in type(client).__mro__:
        funnel = FUNNELS.get((kind.__module__.partition(".")[0], kind.__name__))
        if funnel is not None:
            return MethodSlot(client, funnel[1], funnel[0])
    return None


def _bound_method(client: object, method: str, binding: Binding) -> Any:
    """Return a function that calls a client's method while the client's binding is known in the context."""
    owner = ref(client)  # the client holds the function, and is to be freed when its last user drops it

    def send(*arguments: Any, **named: Any) -> Any:
        before = _bound_here.get()
        _bound_here.set(binding)
        try:
            return getattr(type(owner()), method)(owner(), *arguments, **named)
        finally:
            _bound_here.set(before)

    async def send_async(*arguments: Any, **named: Any) -> Any:
        before = _bound_here.get()
        _bound_here.set(binding)
        try:
            return await getattr(type(owner()), method)(owner(), *arguments, **named)
        finally:
            _bound_here.set(before)  # no reset: a coroutine may be closed in another context

    bound: Any = send_async if iscoroutinefunction(getattr(type(client), method)) else send
    bound.trace_recorder_binding = binding
    return bound
