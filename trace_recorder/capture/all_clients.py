"""Every HTTP client of the process, whoever made it, and when: recorded where a client asks for its transport.

httpx and httpx2 have one method that says which transport a request takes, a custom one and a proxy's included. It is
replaced in their two client classes, and answers with a recording transport around that one; a client that is wrapped
keeps its own. A library that is imported later is met when it is imported, and none is imported for this. `forget`
puts back what was there. Whom the calls are told is not known here.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Protocol

from trace_recorder.capture.http_clients import LIBRARIES
from trace_recorder.capture.transport import Binding, Recording, Target, guard, recording_class
from trace_recorder.errors import UnsupportedClientError

SEAM = "_transport_for_url"
"""The method of a client that says which transport a request takes."""


class Wrap(Protocol):
    """Gives the transport that takes the place of another."""

    def __call__(self, transport: Any, library: str, *, asynchronous: bool) -> Any:
        """The transport to be used in place of this one of a library."""


@dataclass(frozen=True, slots=True)
class _Replaced:
    """A client class whose method was replaced: what was there, and what is there now."""

    kind: type
    found: Any
    ours: Any

    def put_back(self) -> None:
        """Put back what was there, unless somebody has replaced ours meanwhile: without a target it does nothing."""
        if vars(self.kind).get(SEAM) is self.ours:
            setattr(self.kind, SEAM, self.found)


class Transports:
    """Has `wrap` asked for the transport of every request of the process, from `follow` to `forget`.

    `wrap` is given the transport that a request would take, its library, and whether it is an async one.
    """

    def __init__(self, wrap: Wrap) -> None:
        self._lock = threading.RLock()
        self._wrap: Wrap = wrap
        self._follows = False
        self._replaced: list[_Replaced] = []
        self._at_import = AtImport(self._met)

    def follow(self) -> None:
        """Begin. Raises UnsupportedClientError for a library whose clients have no such method, and changes nothing."""
        with self._lock:
            modules = [import_module(library) for library in LIBRARIES if library in sys.modules]
            kinds = [kind for module in modules for kind in _clients_of(module)]
            for kind in kinds:
                self._replace(kind)
            if self._at_import not in sys.meta_path:
                sys.meta_path.insert(0, self._at_import)
            self._follows = True

    def forget(self) -> None:
        """Leave everything as it was found."""
        with self._lock:
            self._follows = False
            if self._at_import in sys.meta_path:
                sys.meta_path.remove(self._at_import)
            while self._replaced:
                self._replaced.pop().put_back()

    def _met(self, module: ModuleType) -> None:
        with guard("record what goes through a library that is imported now"), self._lock:
            for kind in _clients_of(module) if self._follows else ():
                self._replace(kind)

    def _replace(self, kind: type) -> None:
        if any(one.kind is kind for one in self._replaced):
            return
        found = vars(kind)[SEAM]
        library, asynchronous = kind.__module__.partition(".")[0], hasattr(kind, "aclose")

        @wraps(found)
        def transport_for(client: Any, *arguments: Any, **named: Any) -> Any:
            transport = found(client, *arguments, **named)
            return self._wrap(transport, library, asynchronous=asynchronous) if self._follows else transport

        setattr(kind, SEAM, transport_for)
        self._replaced.append(_Replaced(kind, found, transport_for))


class Everywhere:
    """Has all calls of the process recorded by one target, from `follow` to `forget`. There is one of it."""

    def __init__(self) -> None:
        self._binding: Binding | None = None
        self._transports = Transports(self._recording)

    def follow(self, target: Target) -> None:
        """Have every call told to `target` from now on, and no more to the one before.

        Raises UnsupportedClientError for a library whose clients have no such method; then nothing is changed.
        """
        self._transports.follow()
        self._binding = Binding(target, None)

    def forget(self) -> None:
        """Leave everything as it was found."""
        self._binding = None
        self._transports.forget()

    def _recording(self, transport: Any, library: str, *, asynchronous: bool) -> Any:
        binding = self._binding
        if binding is None or isinstance(transport, Recording):
            return transport
        return recording_class(library, asynchronous=asynchronous)(transport, binding)


def _clients_of(module: ModuleType) -> tuple[type, type]:
    """The client classes of an HTTP library, in which the method is where it is looked for."""
    kinds: tuple[type, type] = (module.Client, module.AsyncClient)
    if not all(callable(vars(kind).get(SEAM)) for kind in kinds):
        raise UnsupportedClientError(
            f"the clients of this version of {module.__name__} choose their transports in a way that instrument() does "
            "not know. Wrap the clients one by one: trace_recorder.wrap(client)."
        )
    return kinds


class AtImport:
    """Stands before the other finders of modules, and tells of an HTTP library when it has been imported."""

    def __init__(self, tell: Callable[[ModuleType], None]) -> None:
        self._tell = tell

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find what the others find; have the loader of an HTTP library tell when it is done."""
        if name not in LIBRARIES:
            return None
        others = (getattr(finder, "find_spec", None) for finder in list(sys.meta_path) if finder is not self)
        spec = next((spec for find in others if find and (spec := find(name, path, target))), None)
        with guard("be told when a library is imported"):
            if spec is not None and spec.loader is not None:
                self._listen(spec.loader)
        return spec

    def _listen(self, loader: Any) -> None:
        """Hear of the next module that a loader makes; after that it is again as it was."""
        execute = loader.exec_module

        def executed(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)
            execute(module)
            if module.__name__ in LIBRARIES:  # a loader of an archive may have been asked to make another one
                self._tell(module)

        vars(loader)["exec_module"] = executed


everywhere = Everywhere()
