"""Recorded exceptions, raised again: Python's own, by their names, and those of HTTP libraries, by their classes."""

from __future__ import annotations

import builtins
from typing import Any

from trace_recorder.signal_handlers import ours


class _Shown(str):
    """A text that is its own `repr`: KeyError shows the `repr` of its argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def builtin_exception(name: str, message: str) -> Exception | None:
    """Return an exception of one of Python's own classes with this message; None if the class cannot have it."""
    kind = getattr(builtins, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        return None
    try:
        error = kind(_Shown(message) if issubclass(kind, KeyError) else message)
    except ours(TypeError):  # such as UnicodeDecodeError, which takes five arguments
        return None
    return error if str(error) == message else None


def exception_of(kind: type[Exception], root: type[Exception], message: str, named: dict[str, Any]) -> Exception:
    """Return an exception of a library's class with this message, or of the nearest class above that can have it.

    `root` is the class above which there is nothing of the library's. Classes differ in their arguments: if `named` is
    empty, the exception is made without its constructor.
    """
    if named:
        return kind(message, **named)
    for candidate in (one for one in kind.__mro__ if issubclass(one, root)):
        error = candidate.__new__(candidate, message)
        try:
            if str(error) == message or candidate is root:
                return error
        except ours(AttributeError, TypeError):  # it says what its constructor was given
            continue
    return root(message)
