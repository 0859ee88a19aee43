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
from weakref import WeakSet

from trace_recorder.capture import aiohttp_sessions, urllib3_pools
from trace_recorder.capture.seam import Binding

bound_here: ContextVar[Binding | None] = ContextVar("trace_recorder_binding", default=None)
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

    def original(self, module: ModuleType) -> Any:
        """Return the method as the library has it now; None for a version that is not supported."""
        method = vars(getattr(module, self.class_name, object)).get(self.method)
        return method if callable(method) and hasattr(module, self.needs) else None


SEAMS = {
    seam.library: seam
    for seam in (
        Seam("aiohttp", "ClientSession", "_request", "ClientSession", aiohttp_sessions.send),
        Seam("urllib3", "HTTPConnectionPool", "_make_request", "BaseHTTPResponse", urllib3_pools.send),
    )
}
LIBRARIES = tuple(SEAMS)


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

    def is_supported(self, module: ModuleType) -> bool:
        """Whether the method of this version of a library can be replaced, or is."""
        seam = SEAMS[module.__name__]
        return seam.library in self._restore or seam.original(module) is not None

    def patch(self, module: ModuleType) -> None:
        """Replace the method of a library; leave a version that is not supported as it is."""
        seam = SEAMS[module.__name__]
        with self._lock:
            original = seam.original(module)
            if seam.library in self._restore or original is None:
                return
            kind = getattr(module, seam.class_name)
            ours = self._replacement(seam, original)
            setattr(kind, seam.method, ours)

            def restore() -> None:
                if vars(kind).get(seam.method) is ours:  # if another patch is around ours, ours stays and does nothing
                    setattr(kind, seam.method, original)

            self._restore[seam.library] = restore

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
            binding = bound_here.get() or self.process_binding
            if binding is None:
                return original(owner, *arguments, **named)
            return seam.send(original, binding, owner, *arguments, **named)

        @wraps(original)
        async def send_async(owner: Any, *arguments: Any, **named: Any) -> Any:
            return await send(owner, *arguments, **named)

        return send_async if iscoroutinefunction(original) else send


method_patch = MethodPatch()
