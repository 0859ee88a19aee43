"""Records the websockets of wrapped clients, and of the process if it is instrumented.

The seam itself, `websocket_clients.py`, is imported with the package `websockets`, because few programs use it.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from trace_recorder.capture.method_seams import ImportHook
from trace_recorder.capture.replaced_methods import ReplacedMethod
from trace_recorder.capture.seam import Binding, Redirect, guard
from trace_recorder.signal_handlers import WeakRegistry

MODULES = ("websockets.sync.client", "websockets.asyncio.client")


class WebsocketPatch:
    """Replaces the handshakes of the package `websockets`. There is one instance."""

    def __init__(self) -> None:
        self.process: Binding | None = None
        """Who records the connections that no wrapped client opens."""
        self.redirects: list[Redirect] = []
        """The functions of replays, each of which may answer a connection."""
        self._wrapped: WeakRegistry[Any] = WeakRegistry()
        self._replaced: dict[str, list[ReplacedMethod]] = {}
        self.import_hook = ImportHook(MODULES, self._patch_imported)
        """Stays in `sys.meta_path` while a wrapped client lives, because SDKs import the library to connect."""

    def install(self, binding: Binding) -> None:
        """Record all connections of the process to models. The library is patched when the program imports it."""
        self.process = binding
        self._patch_all()

    def remove(self) -> None:
        """Record only the connections of wrapped clients. Connections that are open are recorded to their end."""
        self.process = None
        self._restore_unneeded()

    def keep_for(self, client: object) -> None:
        """Record the connections of a wrapped client."""
        self._wrapped.add(client)
        self._patch_all()

    def release(self, client: object) -> None:
        """Forget a wrapped client."""
        self._wrapped.discard(client)
        self._restore_unneeded()

    def redirect(self, function: Redirect) -> None:
        """Let a replay answer connections until `stop_redirecting`."""
        self.redirects.append(function)
        self._patch_all()

    def stop_redirecting(self, function: Redirect) -> None:
        """Open all connections again. Those that are open are answered to their end."""
        self.redirects.remove(function)
        self._restore_unneeded()

    def _is_needed(self) -> bool:
        return self.process is not None or bool(self.redirects) or any(True for _ in self._wrapped)

    def _patch_all(self) -> None:
        for module in [sys.modules[name] for name in MODULES if name in sys.modules]:
            self._patch_imported(module)
        if self.import_hook not in sys.meta_path:
            sys.meta_path.insert(0, self.import_hook)

    def _patch_imported(self, module: ModuleType) -> None:
        with guard.protect("record the websockets of a library that is imported now"):
            if not self._is_needed():
                return
            if module.__name__ not in self._replaced:
                from trace_recorder.capture.websocket_clients import Handshakes  # noqa: PLC0415 - few programs need it

                self._replaced[module.__name__] = Handshakes(self).replaced_methods(module)
            for method in self._replaced[module.__name__]:
                method.put()

    def _restore_unneeded(self) -> None:
        if self._is_needed():
            return
        if self.import_hook in sys.meta_path:
            sys.meta_path.remove(self.import_hook)
        for method in [method for methods in self._replaced.values() for method in methods]:
            method.take_out()


websocket_patch = WebsocketPatch()
