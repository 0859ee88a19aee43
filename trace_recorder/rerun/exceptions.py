"""Recorded exceptions, raised again: Python's own, by their names."""

from __future__ import annotations

import builtins


class _Shown(str):
    """A text that is its own `repr`, as KeyError shows what it is given."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def builtin_exception(name: str, message: str) -> Exception | None:
    """An exception of a class of Python's own that says the same; None where the class is not one that can."""
    kind = getattr(builtins, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        return None
    try:
        error = kind(_Shown(message) if issubclass(kind, KeyError) else message)
    except TypeError:  # such as UnicodeDecodeError, which is made of five things
        return None
    return error if str(error) == message else None
