"""Patches the HTTP libraries so that all clients of the process, new and existing ones, are recorded.

A client of httpx or httpx2 chooses the transport of a request in one method, even for a proxy and for the user's own
transports. That method is replaced in the sync and the async client class. The new method returns a recording transport
around the chosen one. A wrapped client keeps its own recording transport. A library is patched when the program imports
it; this module imports no library. `remove` restores the method. `method_seams.py` patches aiohttp and urllib3.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol

from trace_recorder.capture.mcp_sessions import session_patch
from trace_recorder.capture.method_seams import ImportHook, method_patch
from trace_recorder.capture.replaced_methods import ReplacedMethod
from trace_recorder.capture.sdk_clients import LIBRARIES
from trace_recorder.capture.seam import Binding, Target, guard, prepare
from trace_recorder.capture.transport import RecordingTransport, recording_class
from trace_recorder.capture.unseen_clients import unseen_clients
from trace_recorder.capture.websocket_patch import websocket_patch
from trace_recorder.errors import UnsupportedClientError
from trace_recorder.locks import Lock

TRANSPORT_METHOD = "_transport_for_url"
"""The name of the method by which a client chooses the transport of a request."""


class Wrap(Protocol):
    """A function that replaces the transport of a request."""

    def __call__(self, transport: Any, library: str, *, asynchronous: bool) -> Any:
        """Return the transport to use instead of `transport`, which belongs to `library`."""


class TransportPatch:
    """Asks `wrap` for the transport of every request of the process, from `install` to `remove`."""

    def __init__(self, wrap: Wrap) -> None:
        self._lock = Lock()
        self._wrap: Wrap = wrap
        self._installed = False
        self._replaced: dict[type, ReplacedMethod] = {}
        self._import_hook = ImportHook(LIBRARIES, self._patch_module)

    def install(self) -> None:
        """Patch the libraries.

        Raises UnsupportedClientError, with nothing changed, if a library lacks `TRANSPORT_METHOD`.
        """
        # Import before the lock is taken. An import waits for a thread that imports the same library, and that thread
        # needs the lock.
        modules = [import_module(library) for library in LIBRARIES if library in sys.modules]
        with self._lock:
            kinds = [kind for module in modules for kind in _clients_of(module)]
            for kind in kinds:
                self._patch(kind)
            if self._import_hook not in sys.meta_path:
                sys.meta_path.insert(0, self._import_hook)
            self._installed = True

    def remove(self) -> None:
        """Restore the original methods."""
        with self._lock:
            self._installed = False
            if self._import_hook in sys.meta_path:
                sys.meta_path.remove(self._import_hook)
            for replaced in self._replaced.values():
                replaced.take_out()

    def _patch_module(self, module: ModuleType) -> None:
        with guard.protect("record the calls of a library that is imported now"), self._lock:
            if self._installed:
                for kind in _clients_of(module):
                    self._patch(kind)

    def _patch(self, kind: type) -> None:
        if kind not in self._replaced:
            library, asynchronous = kind.__module__.partition(".")[0], hasattr(kind, "aclose")

            def transport_for(original: Any, *arguments: Any, **keywords: Any) -> Any:
                transport = original(*arguments, **keywords)
                if not self._installed:
                    return transport
                return self._wrap(transport, library, asynchronous=asynchronous)

            self._replaced[kind] = ReplacedMethod(kind, TRANSPORT_METHOD, transport_for)
        self._replaced[kind].put()


class ClientPatch:
    """Lets one target record all calls of the process, from `install` to `remove`. There is one instance."""

    def __init__(self) -> None:
        self._binding: Binding | None = None
        self._transports = TransportPatch(self._recording)

    def install(self, target: Target) -> None:
        """Let `target` record every call from now on, instead of an earlier target.

        Raises UnsupportedClientError, with nothing changed, if httpx or httpx2 lacks `TRANSPORT_METHOD`. Unsupported
        versions of aiohttp and urllib3 are left alone; `unseen_clients.py` reports their connections to models.
        """
        prepare()
        self._transports.install()
        self._binding = binding = Binding(target, None)
        method_patch.install(binding)
        session_patch.install(binding)
        websocket_patch.install(binding)
        unseen_clients.watch("instrument")

    def remove(self) -> None:
        """Restore the original methods."""
        self._binding = None
        self._transports.remove()
        method_patch.remove()
        session_patch.remove()
        websocket_patch.remove()
        unseen_clients.unwatch("instrument")

    def _recording(self, transport: Any, library: str, *, asynchronous: bool) -> Any:
        binding = self._binding
        if binding is None or isinstance(transport, RecordingTransport):
            return transport
        return recording_class(library, asynchronous=asynchronous)(transport, binding)


def _clients_of(module: ModuleType) -> tuple[type, type]:
    """Return the client classes of an HTTP library.

    Raises UnsupportedClientError if a class lacks the method that chooses a transport.
    """
    kinds: tuple[type, type] = (module.Client, module.AsyncClient)
    if not all(callable(vars(kind).get(TRANSPORT_METHOD)) for kind in kinds):
        raise UnsupportedClientError(
            f"the clients of this version of {module.__name__} choose their transports in a way that instrument() does "
            "not know. Wrap the clients one by one: trace_recorder.wrap(client)."
        )
    return kinds


client_patch = ClientPatch()
