"""Stand-ins: recorded results of tools that do not run, as in a replay, and the run that is replayed.

The caller of a tool with a stand-in sees no difference: a coroutine function is still awaited, and a generator still
yields. The execution is recorded like any other.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from trace_recorder.errors import ReplayMismatchError
from trace_recorder.signal_handlers import suppress
from trace_recorder.values.messages import Payload
from trace_recorder.values.origins import RunOrigin
from trace_recorder.values.structs import Struct


class Outcome(Struct, frozen=True):
    """The outcome of an execution: its result or its exception. `items` are the values that a generator yielded."""

    result: Payload = None
    error: Exception | None = None
    items: tuple[Payload, ...] | None = None

    def give(self) -> Payload:
        """Return the result, or raise the exception."""
        if self.error is not None:
            raise self.error
        return self.result


StandIn = Callable[[str, Mapping[str, object]], Outcome | None]
"""A function that takes the name and the arguments of a tool.

The function returns the recorded outcome, or None if the tool must run.
"""


class _StandInBlock(Struct, frozen=True, eq=False):
    give: StandIn
    origin: RunOrigin | None


_in_context: ContextVar[_StandInBlock | None] = ContextVar("trace_recorder_stand_in", default=None)
_in_process: list[_StandInBlock] = []


def let_tool_run(_: str, __: Mapping[str, object]) -> None:
    """Return None, so that the tool runs.

    A context without a `stand_in_for_tools` block may use the recorded outcomes of a replay that is open elsewhere in
    the process. A block with this function prevents that.
    """


@contextmanager
def stand_in_for_tools(give: StandIn, origin: RunOrigin | None = None) -> Iterator[None]:
    """Call `give` before each tool runs, in this context and in each context without a block of its own.

    While several blocks are open, a tool in a context without a block raises ReplayMismatchError, because each of the
    blocks could give its result. If `origin` is given, a run that begins in the block is recorded as a replay or
    a fork of `origin`.
    """
    block = _StandInBlock(give, origin)
    token = _in_context.set(block)
    _in_process.append(block)
    try:
        yield
    finally:
        _in_process.remove(block)
        with suppress(ValueError):  # a block in an async generator may be left in a context other than its own
            _in_context.reset(token)


def outcome_of(name: str, arguments: Callable[[], Mapping[str, object]]) -> Outcome | None:
    """Return the recorded outcome of a tool, or None if the tool must run.

    Raises ReplayMismatchError if several blocks are open and none of them is in this context.
    """
    block = _in_context.get()
    if block is None and len(_in_process) > 1:
        raise ReplayMismatchError(
            f"{name} was called in a context that belongs to none of the {len(_in_process)} replays of this process: "
            "start the thread in a copy of its context, contextvars.copy_context().run(...)."
        )
    if block is None and _in_process:
        block = _in_process[0]
    if block is None:
        return None
    return block.give(name, arguments())


def origin_in_progress() -> RunOrigin | None:
    """Return the run that is being replayed or forked in this context.

    Return None if there is no such run. Return None also if several replays are open, and none of them is in this
    context.
    """
    block = _in_context.get()
    if block is None and len(_in_process) == 1:
        block = _in_process[0]
    if block is None:
        return None
    return block.origin


def stand_in_function(outcome: Outcome, kind: str) -> Callable[..., Any]:
    """Return a function that is called instead of a tool, and returns or raises the recorded outcome."""
    return _KINDS[kind](outcome)


def _function(outcome: Outcome) -> Callable[..., Any]:
    return lambda *_, **__: outcome.give()


def _coroutine(outcome: Outcome) -> Callable[..., Any]:
    async def given(*_: Any, **__: Any) -> Payload:
        return outcome.give()

    return given


def _generator(outcome: Outcome) -> Callable[..., Any]:
    def given(*_: Any, **__: Any) -> Generator[Payload, Any, Payload]:
        yield from outcome.items or ()
        return outcome.give()

    return given


def _async_generator(outcome: Outcome) -> Callable[..., Any]:
    async def given(*_: Any, **__: Any) -> AsyncGenerator[Payload, Any]:
        for item in outcome.items or ():
            yield item
        outcome.give()

    return given


_KINDS: Mapping[str, Callable[[Outcome], Callable[..., Any]]] = {
    "function": _function,
    "coroutine": _coroutine,
    "generator": _generator,
    "async_generator": _async_generator,
}
