"""Stand-ins: results that tools give without being run, as in a replay, and which run such a replay repeats.

Its caller sees no difference in a tool that has a stand-in: a coroutine function is still awaited, a generator still
yields. It is recorded like any execution.
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
    """What an execution gave: its result or its exception; `items` are what a generator yielded."""

    result: Payload = None
    error: Exception | None = None
    items: tuple[Payload, ...] | None = None

    def give(self) -> Payload:
        """Return the result, or raise the exception."""
        if self.error is not None:
            raise self.error
        return self.result


StandIn = Callable[[str, Mapping[str, object]], Outcome | None]
"""Returns what a tool of this name gave for these arguments; None if the tool is to be run."""


@dataclass(frozen=True, slots=True, eq=False)
class _StandInBlock:
    give: StandIn
    origin: ReplayOf | None


_in_context: ContextVar[_StandInBlock | None] = ContextVar("trace_recorder_stand_in", default=None)
_in_process: list[_StandInBlock] = []


def run_it(_: str, __: Mapping[str, object]) -> None:
    """Return no outcome: every tool is run, whatever another block of the process says."""


@contextmanager
def stand_in_for_tools(give: StandIn, origin: ReplayOf | None = None) -> Iterator[None]:
    """Have every tool ask `give` before it is run: in this context, and in contexts without such a block of their own.

    For these, the tool is refused while several blocks are open: it is not known which of them gives its result. Runs
    that begin in the block repeat `origin`.
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
    """Return the outcome of a tool that is not to be run, else None. Raises ReplayMismatchError; see above."""
    block = _in_context.get()
    if block is None and len(_in_process) > 1:
        raise ReplayMismatchError(
            f"{name} was called in a context that belongs to none of the {len(_in_process)} replays of this process: "
            "start the thread in a copy of its context, contextvars.copy_context().run(...)."
        )
    block = block or (_in_process[0] if _in_process else None)
    return None if block is None else block.give(name, arguments())


def replay_in_progress() -> ReplayOf | None:
    """Return the run that a run which begins here repeats; None if that is none, or one of several."""
    block = _in_context.get() or (_in_process[0] if len(_in_process) == 1 else None)
    return None if block is None else block.origin


def standing_in(outcome: Outcome, kind: str) -> Callable[..., Any]:
    """A function of a kind that gives an outcome: "function", "coroutine", "generator" or "async_generator"."""
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
