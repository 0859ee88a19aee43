"""Stand-ins: recorded results of tools that do not run, as in a replay, and the run that is replayed.

The caller of a tool with a stand-in sees no difference: a coroutine function is still awaited, and a generator still
yields. The execution is recorded like any other.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from trace_recorder.errors import ReplayMismatchError
from trace_recorder.signal_handlers import suppress
from trace_recorder.values.messages import Payload
from trace_recorder.values.origins import ReplayOf


@dataclass(frozen=True, slots=True)
class Outcome:
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
"""Returns the recorded outcome of a tool of this name with these arguments, or None if the tool must run."""


@dataclass(frozen=True, slots=True, eq=False)
class _StandInBlock:
    give: StandIn
    origin: ReplayOf | None


_in_context: ContextVar[_StandInBlock | None] = ContextVar("trace_recorder_stand_in", default=None)
_in_process: list[_StandInBlock] = []


def run_it(_: str, __: Mapping[str, object]) -> None:
    """Return no outcome, so that every tool runs, even if another block of the process has outcomes."""


@contextmanager
def stand_in_for_tools(give: StandIn, origin: ReplayOf | None = None) -> Iterator[None]:
    """Make every tool ask `give` before it runs, in this context and in contexts without a block of their own.

    In a context without a block, a tool is refused while several blocks are open, because any of them could give its
    result. A run that begins in the block is recorded as a replay of `origin`, if given.
    """
    block = _StandInBlock(give, origin)
    token = _in_context.set(block)
    _in_process.append(block)
    try:
        yield
    finally:
        _in_process.remove(block)
        with suppress(ValueError):  # a block in an async generator may be left in another context
            _in_context.reset(token)


def outcome_of(name: str, arguments: Callable[[], Mapping[str, object]]) -> Outcome | None:
    """Return the outcome of a tool that must not run, or None.

    Raises ReplayMismatchError if several blocks are open and none of them is in this context.
    """
    block = _in_context.get()
    if block is None and len(_in_process) > 1:
        raise ReplayMismatchError(
            f"{name} was called in a context that belongs to none of the {len(_in_process)} replays of this process: "
            "start the thread in a copy of its context, contextvars.copy_context().run(...)."
        )
    block = block or (_in_process[0] if _in_process else None)
    return None if block is None else block.give(name, arguments())


def replay_in_progress() -> ReplayOf | None:
    """Return the run that is being replayed in this context.

    Return None if there is no replay. Return None also if several replays are open, and none of them in this context.
    """
    block = _in_context.get() or (_in_process[0] if len(_in_process) == 1 else None)
    return None if block is None else block.origin


def standing_in(outcome: Outcome, kind: str) -> Callable[..., Any]:
    """Return a function that gives an outcome. `kind` is "function", "coroutine", "generator" or "async_generator"."""
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
