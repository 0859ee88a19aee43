"""Installs the seams of aiohttp and urllib3, each of which replaces one method of a class.

At each call, the new method looks up the recorder of its wrapped client, or else the recorder of the instrumented
process. A replay is called between the recording and the library, and may answer in place of the library. `unwrap`,
`uninstrument()` and the end of a replay restore the original method when nothing needs the new method any more. Until
then, the new method passes calls that are neither recorded nor replayed to the original method.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any
from weakref import WeakSet

from trace_recorder.capture.aiohttp_sessions import aiohttp_attempts, send_by_aiohttp
from trace_recorder.capture.replaced_methods import ReplacedMethod
from trace_recorder.capture.seam import Binding, guard
from trace_recorder.capture.urllib3_pools import send_by_urllib3, urllib3_attempts
from trace_recorder.locks import Lock
from trace_recorder.values.structs import Struct, field

Middleware = Callable[[str, Any], Any]
"""A function that takes a library's name and the library's method that sends requests.

The function returns a method to call instead. This method may answer the request itself.
"""


class Interception(Struct):
    """The recorder for the requests of one client, or of the whole process, and the functions that may answer them.

    Each of `middlewares` wraps the library's method, and may answer a request itself, as a replay does. The last of
    `middlewares` is the outermost, and the recording is around all of them.
    """

    binding: Binding | None = None
    middlewares: list[Middleware] = field(default_factory=list)
    layers: list[tuple[Any, Any]] = field(default_factory=list)
    """The methods of ours in a client, the newest last, each with the client's own attribute that it replaced."""
    is_recorded_inside: bool = False
    """Whether a middleware records the requests itself. There is then no recording around the middlewares."""

    def __bool__(self) -> bool:
        return self.binding is not None or bool(self.middlewares)


current_interception: ContextVar[Interception | None] = ContextVar("trace_recorder_interception", default=None)
"""The `Interception` of the client that is sending a request in this context."""


class Seam(Struct, frozen=True):
    """A class of a library, its method that sends a request, and the function that is called instead.

    `needs` is a name that the module has in every supported version. For example, only urllib3 2 has
    `BaseHTTPResponse`. `attempts` calls the method. For each attempt, it makes the function that sends one, passes it
    through a second function, and calls the result. `send` records an attempt.
    """

    library: str
    class_name: str
    method: str
    needs: str
    attempts: Callable[..., Any]
    send: Callable[..., Any]

    def original(self, module: ModuleType) -> Any:
        """Return the library's current method, or None if this version of the library is not supported."""
        method = vars(getattr(module, self.class_name, object)).get(self.method)
        return method if callable(method) and hasattr(module, self.needs) else None


SEAMS = {
    "aiohttp": Seam("aiohttp", "ClientSession", "_request", "ClientSession", aiohttp_attempts, send_by_aiohttp),
    "urllib3": Seam(
        "urllib3", "HTTPConnectionPool", "_make_request", "BaseHTTPResponse", urllib3_attempts, send_by_urllib3
    ),
}
LIBRARIES = tuple(SEAMS)


def recording(binding: Binding) -> Middleware:
    """Return a function that takes a library's method, and returns a method that also records to `binding`."""
    return lambda library, method: partial(SEAMS[library].send, method, binding)


class MethodPatch:
    """Replaces the methods of the seams. There is one instance. `_lock` is held while a method is replaced."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process = Interception()
        self._wrapped: WeakSet[Any] = WeakSet()
        self._replaced: dict[str, ReplacedMethod] = {}
        self._import_hook = ImportHook(LIBRARIES, self._patch_imported)

    def install(self, binding: Binding) -> None:
        """Record the requests of both libraries. A library that is not imported yet is patched after its import."""
        self._patch_all()
        self._process.binding = binding

    def remove(self) -> None:
        """Stop recording the process. Restore the methods if nothing else needs them."""
        self._process.binding = None
        self._restore_unneeded()

    def add(self, middleware: Middleware, *, records_all: bool = False) -> Callable[[], None]:
        """Let `middleware` answer the requests of all clients of the process. Return a function that undoes the change.

        If `records_all` is True, `middleware` also records the requests, as it sends them.
        """
        self._patch_all()
        self._process.middlewares.append(middleware)
        self._process.is_recorded_inside = records_all

        def undo() -> None:
            self._process.middlewares.remove(middleware)
            self._process.is_recorded_inside = False
            self._restore_unneeded()

        return undo

    def is_supported(self, module: ModuleType) -> bool:
        """Whether the method of this version of a library is replaced or can be replaced."""
        seam = SEAMS[module.__name__]
        return seam.library in self._replaced or seam.original(module) is not None

    def patch(self, module: ModuleType) -> None:
        """Replace the method of a library, if this version of it is supported."""
        seam = SEAMS[module.__name__]
        with self._lock:
            if not self.is_supported(module):
                return
            if seam.library not in self._replaced:
                owner = getattr(module, seam.class_name)
                self._replaced[seam.library] = ReplacedMethod(owner, seam.method, partial(self._send, seam))
            self._replaced[seam.library].put()

    def keep_for(self, client: object) -> None:
        """Do not restore the methods while a wrapped client exists."""
        self._wrapped.add(client)

    def release(self, client: object) -> None:
        """Forget a wrapped client. Restore the original methods if nothing else needs the new methods."""
        self._wrapped.discard(client)
        self._restore_unneeded()

    def _patch_all(self) -> None:
        for module in [import_module(library) for library in LIBRARIES if library in sys.modules]:
            self.patch(module)
        if self._import_hook not in sys.meta_path:
            sys.meta_path.insert(0, self._import_hook)

    def _patch_imported(self, module: ModuleType) -> None:
        with guard.protect("record the calls of a library that is imported now"):
            if self._process:
                self.patch(module)

    def _restore_unneeded(self) -> None:
        if self._process:
            return
        if self._import_hook in sys.meta_path:
            sys.meta_path.remove(self._import_hook)
        with self._lock:
            if not self._wrapped:
                for replaced in self._replaced.values():
                    replaced.take_out()

    def _send(self, seam: Seam, original: Any, owner: Any, *arguments: Any, **keywords: Any) -> Any:
        """Record or answer a request, or pass it to the library's own method."""
        here = current_interception.get()
        middlewares = (*self._process.middlewares, *(here.middlewares if here else ()))
        binding = (here and here.binding) or self._process.binding
        if binding is None and not middlewares:
            return original(owner, *arguments, **keywords)

        def around(method: Any) -> Any:
            for middleware in middlewares:
                method = middleware(seam.library, method)
            if binding is None or self._process.is_recorded_inside:
                return method
            return partial(seam.send, method, binding)

        return seam.attempts(original, around, bool(middlewares), owner, *arguments, **keywords)


class ImportHook:
    """A finder for `sys.meta_path`. It calls a function after one of `libraries` has been imported."""

    def __init__(self, libraries: Sequence[str], on_import: Callable[[ModuleType], None]) -> None:
        self._libraries = libraries
        self._on_import = on_import

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that the finders after this one find.

        If the module is one of `libraries`, patch its loader, so that the loader calls `on_import` after the import.
        """
        if name not in self._libraries:
            return None
        finders = list(sys.meta_path)
        # Several import hooks may be installed. Each hook asks only the finders after itself.
        behind = finders[finders.index(self) + 1 :] if self in finders else finders
        others = (getattr(finder, "find_spec", None) for finder in behind)
        spec = next((spec for find in others if find and (spec := find(name, path, target))), None)
        with guard.protect("notice the import of a library"):
            if spec is not None and spec.loader is not None:
                self._call_after_import(spec.loader)
        return spec

    def _call_after_import(self, loader: Any) -> None:
        """Call `on_import` after the next module that a loader executes, if it is one of the libraries.

        The loader is restored before it executes that module.
        """
        execute = loader.exec_module

        def executed(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)
            execute(module)
            if module.__name__ in self._libraries:  # a loader, such as zipimport's, may execute other modules first
                self._on_import(module)

        vars(loader)["exec_module"] = executed


method_patch = MethodPatch()
