"""Lets the exceptions of the agent's signal handlers reach the agent, even if a handler runs during recording.

Python runs a handler between any two bytecodes of the main thread. Therefore any statement of this package may raise
such an exception, for example a TimeoutError, which is an OSError. The exception belongs to the agent, so this package
must not catch it. In code that runs in the agent's threads, each `except` that names an exception class of Python uses
`ours`. A test of the rules checks this.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from inspect import CO_VARARGS
from types import CodeType, FrameType, TracebackType
from typing import Generic, TypeVar
from weakref import ref

Failure = TypeVar("Failure", bound=Exception)
Kept = TypeVar("Kept")


def ours(*kinds: type[Failure]) -> tuple[type[Failure], ...]:
    """Return these classes for an `except` clause. Return no class if the agent's signal handler raised the exception.

        except ours(OSError):

    catches the system's errors, but not a TimeoutError that the agent's alarm raised. Python evaluates the clause, and
    so calls this function, only after an exception.
    """
    error = sys.exception()
    if error is None or error.__traceback__ is None or error.__traceback__.tb_next is None:
        return kinds  # the function that catches the exception also raised it
    return () if raised_by_signal_handler(error) else kinds


class suppress(AbstractContextManager[None, bool]):  # noqa: N801 - it is used as contextlib's
    """Suppress exceptions as `contextlib.suppress` does. An exception of the agent's signal handlers is raised."""

    def __init__(self, *kinds: type[Exception]) -> None:
        self._kinds = kinds

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        return isinstance(error, self._kinds) and not raised_by_signal_handler(error)


def raised_by_signal_handler(error: BaseException) -> bool:
    """Whether a signal handler of the agent raised this exception.

    A handler is recognised in the traceback: one of the handler's arguments is the interrupted frame, which is also the
    caller of the handler. If the handler has rebound that argument, its code is compared with the code of the handlers
    that are installed now.
    """
    passed: set[CodeType | None] = set()
    entry = error.__traceback__
    try:
        while entry is not None and (last := entry).tb_next is not None:
            entry = last.tb_next  # the first frame, which catches the exception, is skipped
            code = entry.tb_frame.f_code
            if code.co_argcount >= 2 or code.co_flags & CO_VARARGS:  # a handler has two arguments
                if _receives_frame(entry.tb_frame, last.tb_frame):
                    return True
                passed.add(code)
        return bool(passed) and not passed.isdisjoint(_installed_handlers())
    except RecursionError:
        # The stack is too full to examine the traceback. `error` is then most likely a RecursionError itself, which no
        # handler raised.
        return False


def _receives_frame(called: FrameType, caller: FrameType) -> bool:
    """Whether a function got its caller's frame as an argument. Only signal handlers get that frame."""
    code = called.f_code
    names = code.co_varnames[: code.co_argcount + bool(code.co_flags & CO_VARARGS) + code.co_kwonlyargcount]
    values = called.f_locals
    arguments = [values.get(name) for name in names]
    return any(
        argument is caller or (type(argument) is tuple and any(inner is caller for inner in argument))
        for argument in arguments
    )


def _installed_handlers() -> set[CodeType | None]:
    return {_code_of(signal.getsignal(number)) for number in _SIGNALS} - {None}


def _code_of(handler: object) -> CodeType | None:
    """Return the code of a handler, which is a function, a method, a partial, or an object with `__call__`."""
    handler = getattr(handler, "func", handler)
    called = getattr(type(handler), "__call__", None)  # noqa: B004 - the method itself is needed
    for candidate in (handler, getattr(handler, "__func__", None), called):
        code = getattr(candidate, "__code__", None)
        if isinstance(code, CodeType):
            return code
    return None


_SIGNALS = tuple(signal.valid_signals())


class WeakRegistry(Generic[Kept]):
    """A set of objects, compared by identity, that other code keeps alive. A freed object is removed.

    A thread may list the objects while other threads add and remove some: each change is one operation of a dict.

    An object is removed without running Python code. A signal handler (Ctrl-C) may raise an exception in a destructor,
    or in the callback of a weak reference that `weakref.WeakSet` uses. Such an exception cannot propagate: Python
    prints and discards it. Here the callback is a method of `dict`, in which no handler runs.
    """

    def __init__(self) -> None:
        self._refs: dict[int, ref[Kept]] = {}

    def add(self, value: Kept) -> None:
        """Add an object. It is removed when it is freed."""
        key = id(value)
        self._refs[key] = ref(value, partial(self._refs.pop, key))  # `pop` gets the dead reference as its default

    def discard(self, value: Kept) -> None:
        """Remove an object."""
        self._refs.pop(id(value), None)

    def __contains__(self, value: object) -> bool:
        return id(value) in self._refs

    def __iter__(self) -> Iterator[Kept]:
        return iter([value for kept in list(self._refs.values()) if (value := kept()) is not None])
