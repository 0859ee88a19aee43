"""Recorded exceptions, raised again: Python's own, by their names."""

from __future__ import annotations

import builtins

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
