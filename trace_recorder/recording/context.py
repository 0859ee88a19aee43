"""Steps and sub-agents: the current step and agent, kept in a context variable.

A step context names the current step and agent. It applies until its `with` block is left. A task that was started in
the block keeps the step context even after the block. So does a thread that runs in a copy of the context. Thus each of
ten concurrent sub-agents has a step context of its own. A step context belongs to one run, and does not apply to
records of another recorder. Each record of a step has the step's id, by which the fold collects these records. So a
process that is killed during a step loses nothing.

A block may be left in a different context than it was entered in, as in an async generator that another task closes.
The context in which the block was entered cannot be changed from the context in which it is left. So the block is
marked, and the task or the thread that entered the block ignores it from then on. A block may also be left before a
block that was entered later, as in generators that take turns.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar

from trace_recorder.clocks import monotonic_seconds
from trace_recorder.errors import RecorderStateError
from trace_recorder.facts import AgentStepFact, StepStartFact
from trace_recorder.locks import holds_lock
from trace_recorder.recording.run import Run
from trace_recorder.signal_handlers import ours
from trace_recorder.values.final_status import status_from_exception
from trace_recorder.values.jsonable import (
    error_message,
    is_error,
    to_jsonable,
    to_jsonable_of_type,
)
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.structs import Struct

T = TypeVar("T")
Owner = tuple[int, int | None]
"""The id of a thread, and the id of the task that runs in the thread, if any."""

_AGENT_MEMBERS = ("agent", "agent_id", "parent_agent_id", "parent_execution_id")


@dataclass(slots=True, eq=False)
class OpenBlock(Generic[T]):
    """One open `with` block: its value, such as a step context, and the thread and task that entered the block."""

    value: T
    owner: Owner
    left_elsewhere: bool = False
    token: Token[Any] | None = None


class OpenBlocks(Generic[T]):
    """The open `with` blocks of one kind, such as all blocks of steps and agents."""

    def __init__(self, name: str) -> None:
        self.blocks: ContextVar[tuple[OpenBlock[T], ...]] = ContextVar(name, default=())

    def enter(self, value: T) -> OpenBlock[T]:
        """Open a block in this context, and return it for `leave`."""
        block = OpenBlock(value, _current_owner())
        block.token = self.blocks.set((*self.open_here(), block))
        return block

    def leave(self, block: OpenBlock[T]) -> None:
        """Close a block in this context, and in the context in which it was entered."""
        token, block.token = block.token, None
        others = tuple(other for other in self.blocks.get() if other is not block)
        if token is not None:
            try:
                self.blocks.reset(token)
            except ours(ValueError):  # the block was entered in another context
                block.left_elsewhere = True
        self.blocks.set(others)

    def open_here(self) -> tuple[OpenBlock[T], ...]:
        """Return the blocks that are open in this context, the innermost last."""
        blocks = self.blocks.get()
        for block in blocks:
            if block.left_elsewhere:
                break
        else:
            return blocks
        owner = _current_owner()
        return tuple(block for block in blocks if not (block.left_elsewhere and block.owner == owner))

    def innermost(self) -> T | None:
        """Return the value of the innermost open block, or None outside of all blocks."""
        blocks = self.open_here()
        if not blocks:
            return None
        return blocks[-1].value


def _current_owner() -> Owner:
    task = _current_task("asyncio") or _current_task("trio.lowlevel")
    return threading.get_ident(), None if task is None else id(task)


def _current_task(module: str) -> object:
    """Return the current task of an event loop's library.

    Return None if no loop of this library runs in this thread.
    """
    library = sys.modules.get(module)
    if library is None:
        return None
    try:
        return library.current_task()
    except ours(RuntimeError):
        return None


class StepContext(Struct, frozen=True):
    """The step and the agent that are current in a run, as the members that go into each record."""

    run: Run
    members: Mapping[str, Payload]


_step_contexts: OpenBlocks[StepContext] = OpenBlocks("trace_recorder_step_context")
_executions: OpenBlocks[tuple[Run, str]] = OpenBlocks("trace_recorder_execution")


class ToolBody:
    """A context manager around the body of a tool.

    A sub-agent that begins inside it is recorded as started by this execution of the tool.
    """

    def __init__(self, run: Run | None, execution_id: str | None) -> None:
        self._execution = None if run is None or execution_id is None else (run, execution_id)
        self._block: OpenBlock[tuple[Run, str]] | None = None

    def __enter__(self) -> None:
        if self._execution is not None:
            self._block = _executions.enter(self._execution)

    def __exit__(self, *_: object) -> None:
        block, self._block = self._block, None
        if block is not None:
            _executions.leave(block)


def current_execution(run: Run) -> str | None:
    """Return the id of the tool execution in which the caller runs, or None outside of the tools of this run."""
    owner, identity = _executions.innermost() or (None, None)
    return identity if owner is run else None


def context_of(run: Run | None) -> Mapping[str, Payload]:
    """Return the members of a record that name the current agent and step of a run."""
    if not _step_contexts.blocks.get():  # most calls are outside of all blocks
        return {}
    for block in reversed(_step_contexts.open_here()):
        if block.value.run is run:
            return block.value.members
    return {}


def run_of_block() -> Run | None:
    """Return the run of the innermost step or sub-agent that is open in this context, or None outside of all blocks."""
    innermost = _step_contexts.innermost()
    if innermost is None:
        return None
    return innermost.run


def agent_of(run: Run) -> dict[str, Payload]:
    """Return the members of a record that name the current agent, without the members that name the step."""
    members = context_of(run)
    return {name: members[name] for name in (*_AGENT_MEMBERS, "redacted") if name in members}


def open_step_members(run: Run, number: object) -> dict[str, Payload]:
    """Return `step_id` of the open step as a dict if the step has this number. Otherwise return an empty dict."""
    members = context_of(run)
    if number is None or members.get("step_number") != number:
        return {}
    return without_none(step_id=members.get("step_id"))


def merge_facts(first: Mapping[str, Payload], second: Mapping[str, Payload]) -> dict[str, Payload]:
    """Merge the members of two mappings. `redacted` becomes the sum of both counts."""
    redacted = first.get("redacted", 0) + second.get("redacted", 0)
    return {**first, **second, **without_none(redacted=redacted or None)}


def record_or_defer(closing: Run | None, record: Callable[[], None]) -> None:
    """Call `record` now. If this thread holds a lock of recording, call `record` when the next record has been written.

    The thread holds such a lock if the garbage collector closes a generator while the thread writes a record. `closing`
    is the run of the generator that is being closed, or None if no generator is being closed.
    """
    if closing is not None and holds_lock():
        closing.unfinished.defer(record)
    elif not sys.is_finalizing():
        record()


class _ContextBlock:
    """A `with` block, sync or async, that sets the step context while it is open."""

    __slots__ = ("__weakref__", "_block", "_entered", "_run")

    def __init__(self, run: Run | None) -> None:
        self._run = run
        self._entered = False
        self._block: OpenBlock[StepContext] | None = None

    def _begin(self, run: Run) -> Mapping[str, Payload]:
        """Record the beginning of the block, and return the step context for its body."""
        raise NotImplementedError

    def _end(self, error: BaseException | None) -> None:
        """Record the end of the block."""

    def __enter__(self) -> Self:
        if self._entered:
            raise RecorderStateError(f"{self!r} was entered already. Make a new one for another block.")
        self._entered = True
        if self._run is not None:
            members = self._begin(self._run)
            self._block = _step_contexts.enter(StepContext(self._run, members))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        block, self._block = self._block, None
        if block is not None:
            _step_contexts.leave(block)
        self._end(error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, at)


class Step(_ContextBlock):
    """One step of the agent, while its block is open: `with recorder.step() as step:`.

    The agent may set `state`, `reflection` and `error` inside the block. If `state` is not set, the fold derives it.
    While the block is open, the state is "thinking". After the block, the state is "error" if `error` was set or an
    exception left the block, "calling_tool" if a tool was requested or run, and otherwise "completed". A step has no
    other attributes, so setting a misspelt attribute raises AttributeError.
    """

    __slots__ = ("_began", "_held", "_open", "error", "reflection", "state", "step_number")

    def __init__(self, run: Run | None, step_number: int) -> None:
        super().__init__(run)
        self.step_number = step_number
        self.state: object = None
        self.reflection: str | None = None
        self.error: object = None
        self._began = monotonic_seconds()
        self._open: dict[str, Payload] | None = None
        self._held: _OpenStep | None = None

    def _begin(self, run: Run) -> Mapping[str, Payload]:
        self._began = monotonic_seconds()
        members = {**context_of(run), "step_id": "", "step_number": to_jsonable_of_type(self.step_number, int)}
        with run.guard.protect("record the beginning of a step"):
            members["step_id"] = run.next_id("step")
            self._open = members
            self._held = _OpenStep(self)
            run.unfinished.hold(self._held)
            run.append(StepStartFact(**members))
        return members

    def _end(self, error: BaseException | None) -> None:
        members, self._open = self._open, None
        if self._run is not None and members is not None:
            if self._held is not None:
                self._run.unfinished.release(self._held)
            closed = isinstance(error, GeneratorExit)
            if (
                error is not None
                and self.error is None
                and not closed
                and status_from_exception(error).status != "completed"
            ):
                self.error = error
            members = {**members, "duration_seconds": round(monotonic_seconds() - self._began, 6)}
            record_or_defer(self._run if closed else None, partial(self._record_end, self._run, members))

    def _record_end(self, run: Run, members: dict[str, Payload]) -> None:
        with run.guard.protect("record the end of a step"):
            members = merge_facts(members, run.named(state=to_jsonable_of_type(self.state, str)))
            fact = AgentStepFact(
                **members,
                llm_response=None,
                tool_calls=None,
                tool_results=None,
                reflection=to_jsonable_of_type(self.reflection, str),
                error=to_jsonable(step_error(self.error)),
            )
            run.append_body(fact, b'{"llm_messages":null}')

    def __repr__(self) -> str:
        return f"<step {self.step_number}>"


class _OpenStep:
    """A step that its run must end if the step's block is still open at the end of the run.

    Nothing of a step is pending, because its records are written at once.
    """

    def __init__(self, step: Step) -> None:
        self._step = step

    def write_pending(self, *, last: bool = False) -> None:
        """Write nothing."""

    def wait(self) -> None:
        """Wait for nothing."""

    def abandoned_by_caller(self) -> None:
        """Write nothing."""

    def end_with_run(self) -> None:
        """Record the end of the step."""
        self._step._end(None)


class Caller(NamedTuple):
    """Who starts an agent: the members that name the step and the agent, and the id of the tool execution, if any."""

    members: Mapping[str, Payload]
    execution_id: str | None


class Agent(_ContextBlock):
    """A sub-agent, while its block is open: `with recorder.agent("researcher"):`.

    `agent_id` is unique in the run, even if several agents have the same name. `parent_agent_id` is the id of the
    enclosing agent. The agent's records also have the id of the tool execution that started the agent, if any. `caller`
    is who starts the agent, if the block is not entered in the context of its caller.
    """

    __slots__ = ("_caller", "agent_id", "name", "parent_agent_id")

    def __init__(self, run: Run | None, name: str, caller: Caller | None = None) -> None:
        super().__init__(run)
        self.name = name
        self._caller = caller
        self.agent_id: str | None = None
        self.parent_agent_id: str | None = None

    def _begin(self, run: Run) -> Mapping[str, Payload]:
        caller = self._caller or Caller(context_of(run), current_execution(run))
        outer = dict(caller.members)
        self.parent_agent_id = outer.pop("agent_id", None)
        outer.pop("parent_agent_id", None)
        outer.pop("parent_execution_id", None)
        outer.pop("redacted", None)
        with run.guard.protect("name an agent"):
            self.agent_id = run.next_id("agent")
            outer |= run.named(agent=to_jsonable_of_type(self.name, str)) | {"agent_id": self.agent_id}
        return outer | without_none(parent_agent_id=self.parent_agent_id, parent_execution_id=caller.execution_id)

    def __repr__(self) -> str:
        return f"<agent {self.name!r}>"


def step_error(error: object) -> Payload:
    """Return an error as JSON for the record of a step. An exception becomes a string of its class and its message."""
    if is_error(error):
        return f"{type(error).__name__}: {error_message(error)}"
    return to_jsonable(error)
