"""Replaces a method or a function, and restores it, in whatever order other libraries replace and restore it too.

Other code may have put a method of its own around ours. Then ours cannot be taken out: it stays below, and passes calls
on while nothing needs it. If ours is needed again, nobody can tell whether calls still reach it, so a second layer is
put on top. When a call passes several of our layers, only the outermost does its work.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any
from weakref import WeakKeyDictionary

Around = Callable[..., Any]
"""A function that is called instead of a method. It gets the method, and then the arguments of the call."""


class _Passage:
    """A call that passes the layer with this token. It is `open` until the call has returned."""

    __slots__ = ("open", "token")

    def __init__(self, token: object) -> None:
        self.token = token
        self.open = True


class ReplacedMethod:
    """The method `name` of `owner`, a class or a module. From `put` to `take_out`, `around` is called instead."""

    def __init__(self, owner: Any, name: str, around: Around) -> None:
        self.owner = owner
        self.name = name
        self._around = around
        self._layers: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        """Our methods that may still be called, each with the method that it replaced.

        A method that nothing refers to is gone from here.
        """
        self._passage: ContextVar[_Passage | None] = ContextVar("trace_recorder_passage", default=None)

    def put(self) -> None:
        """Replace the method, unless it is ours already."""
        current = vars(self.owner)[self.name]
        if current not in self._layers:
            layer = self._layer(current)
            self._layers[layer] = current
            setattr(self.owner, self.name, layer)

    def take_out(self) -> None:
        """Restore the method. If other code has replaced our method, leave the owner as it is."""
        while (current := vars(self.owner).get(self.name)) in self._layers:
            setattr(self.owner, self.name, self._layers[current])

    def _layer(self, original: Any) -> Any:
        token = object()

        @wraps(original)
        def replaced(*arguments: Any, **keywords: Any) -> Any:
            above = self._passage.get()
            if above is not None and above.open and above.token is not token:
                return original(*arguments, **keywords)
            if len(self._layers) == 1:
                return self._around(original, *arguments, **keywords)
            passage = _Passage(token)
            try:
                self._passage.set(passage)
                return self._around(original, *arguments, **keywords)
            finally:
                passage.open = False
                self._passage.set(above)

        @wraps(original)
        async def replaced_async(*arguments: Any, **keywords: Any) -> Any:
            above = self._passage.get()
            if above is not None and above.open and above.token is not token:
                return await original(*arguments, **keywords)
            if len(self._layers) == 1:
                return await self._around(original, *arguments, **keywords)
            passage = _Passage(token)
            try:
                self._passage.set(passage)
                return await self._around(original, *arguments, **keywords)
            finally:
                passage.open = False
                self._passage.set(above)  # `reset` fails if a coroutine is closed in a context other than its own

        return replaced_async if iscoroutinefunction(original) else replaced
