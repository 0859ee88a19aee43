"""Tools: functions that the agent runs for a model, recorded before and after each execution.

Recording does not change a tool. Results and exceptions pass through. A coroutine function stays a coroutine function,
and a generator function stays a generator function. The run's guard catches failures of recording. The fold
(`reading/open_calls.py`) decides which tool call an execution answers: by `call_id` if the agent states one, or else by
name and arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from functools import partial, wraps
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, cast

from trace_recorder.clocks import monotonic_seconds
from trace_recorder.facts import ToolCallFact, ToolResultFact
from trace_recorder.guard import ignore_failures
from trace_recorder.recording.context import OpenBlock, OpenBlocks, ToolBody, context_of, merge_facts, record_or_defer
from trace_recorder.recording.run import Run
from trace_recorder.recording.stand_ins import outcome_of, stand_in_function
from trace_recorder.values.jsonable import describe_error, describe_value, member_name, to_jsonable, to_jsonable_of_type
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.structs import Struct

Tool = TypeVar("Tool", bound=Callable[..., object])
OpenRun = Callable[[], Run | None]
"""A function that returns the run of a tool call that begins now, or None if the call is not recorded."""

MAX_ITEMS = 1000
"""The record of a generator has at most this many items. The member `yielded` of the record counts all items."""


class Execution:
    """One execution of a tool: a context manager that records its beginning, and its end with `result`."""

    __slots__ = (
        *("_arguments", "_began", "_call_id", "_items", "_members", "_replayed", "_run", "_yielded"),
        *("name", "result"),
    )

    def __init__(self, run: Run | None, name: str, arguments: object = None, call_id: str | None = None) -> None:
        self.result: object = None
        self.name = name
        self._run = run
        self._arguments = arguments
        self._call_id = call_id
        self._members: dict[str, Payload] | None = None
        self._began = 0.0
        self._items: list[Payload] | None = None
        self._yielded = 0
        self._replayed: Literal[True] | None = None

    def __enter__(self) -> Self:
        if self._run is not None:
            with self._run.guard.protect("record a tool call"):
                self._record_call(self._run)
        self._began = monotonic_seconds()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        seconds = round(monotonic_seconds() - self._began, 6)
        members, self._members = self._members, None
        if self._run is not None and members is not None and not self._run.closed:
            closing = self._run if isinstance(error, GeneratorExit) else None
            record_or_defer(
                closing, partial(self._record_end, self._run, {**members, "duration_seconds": seconds}, error)
            )

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, at)

    def _record_call(self, run: Run) -> None:
        name = to_jsonable_of_type(self.name, str)
        if name is None:  # the name of a tool is never null
            name = describe_value(None)
        names = run.named(name=name, **without_none(call_id=to_jsonable_of_type(self._call_id, str)))
        members = {"execution_id": run.next_id("tool"), **merge_facts(names, context_of(run))}
        arguments = {} if self._arguments is None else self._arguments
        run.append(ToolCallFact(**members, arguments=to_jsonable(arguments)))
        self._members = members

    def _record_end(self, run: Run, members: dict[str, Payload], error: BaseException | None) -> None:
        closed = isinstance(error, GeneratorExit)
        with run.guard.protect("record a tool result"):
            members |= without_none(yielded=self._yielded or None, ended_by="it was closed" if closed else None)
            members |= without_none(replayed=self._replayed)
            returned = to_jsonable(self.result)
            texts = {"result": returned}
            if self._items is not None:
                values = to_jsonable(self._items)  # a copy, because all values together have one limit
                texts = {"result": values, **without_none(returned=returned)}
            if error is not None and not closed:
                texts["error"] = describe_error(error)
            run.append(ToolResultFact(**members, success=None if closed else error is None, **texts))

    def _body(self) -> ToolBody:
        """Return the context manager in which the tool itself runs."""
        return ToolBody(self._run, (self._members or {}).get("execution_id"))

    def _mark_replayed(self) -> None:
        """Mark the execution: the tool did not run, because a recording gave its result."""
        self._replayed = True

    def _collect_items(self) -> None:
        """Record the items that a generator yields as its result."""
        self._items = []

    def _add_item(self, item: object) -> None:
        """Record one item of a generator."""
        self._yielded += 1
        if self._run is not None and self._items is not None and self._yielded <= MAX_ITEMS:
            with self._run.guard.protect("record an item of a tool"):
                self._items.append(to_jsonable(item))


class AnnouncedExecution(Execution):
    """An execution that the agent announces: `with recorder.tool_call("bash", {…}, call_id="call_1") as call:`.

    Set `call.result` to the tool's result. An exception that leaves the block is recorded as the error, and raised. If
    a `@tool` function of the same name is called inside the block, no second execution is recorded, and `result`
    becomes the function's result.
    """

    __slots__ = ("_block", "_claimed", "_inside")

    def __init__(self, run: Run | None, name: str, arguments: object, call_id: str | None) -> None:
        super().__init__(run, name, arguments, call_id)
        self._block: OpenBlock[AnnouncedExecution] | None = None
        self._inside: ToolBody | None = None
        self._claimed = False

    def __enter__(self) -> Self:
        super().__enter__()
        self._block = _announced.enter(self)
        self._inside = self._body()
        self._inside.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._inside is not None:
            self._inside.__exit__()
        block, self._block = self._block, None
        if block is not None:
            _announced.leave(block)
        super().__exit__(kind, error, traceback)

    def _claim(self, name: str) -> bool:
        """Claim this execution for a `@tool` function.

        Return False if the function has a different name, or if another function has claimed the execution already.
        """
        taken, self._claimed = self._claimed, self._claimed or name == self.name
        return not taken and self._claimed


class _ClaimedExecution(Execution):
    """The execution of a `@tool` function inside a `tool_call` block. Only the execution of the block is recorded."""

    __slots__ = ("_announced",)

    def __init__(self, announced: AnnouncedExecution) -> None:
        super().__init__(None, announced.name)
        self._announced = announced

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            self._announced.result = self.result

    def _mark_replayed(self) -> None:
        self._announced._mark_replayed()

    def _collect_items(self) -> None:
        self._announced._collect_items()

    def _add_item(self, item: object) -> None:
        self._announced._add_item(item)


_announced: OpenBlocks[AnnouncedExecution] = OpenBlocks("trace_recorder_announced_tool")


def make_tool(open_run: OpenRun, function: object, name: str | None) -> Any:
    """Wrap a function of any kind, so that its calls are recorded. If `function` is None, return a decorator."""
    if function is None:
        return partial(make_tool, open_run, name=name)
    if isinstance(function, staticmethod | classmethod):
        return type(function)(make_tool(open_run, function.__func__, name))
    if not callable(function):
        raise TypeError(f"tool() was given {function!r}, and takes a function. Its name is given as tool(name=…).")
    name = name or member_name(getattr(function, "__name__", None) or type(function).__name__)
    wrapper: Any = _wrapped(_ToolFunction(open_run, function, name), function)
    for defaults in ("__defaults__", "__kwdefaults__"):  # frameworks read these, and `wraps` does not copy them
        values = getattr(function, defaults, None)
        if isinstance(values, tuple | dict):
            setattr(wrapper, defaults, values)
    return wrapper


class _ToolFunction(Struct):
    """A function that is a tool."""

    open_run: OpenRun
    function: Callable[..., object]
    name: str

    def execution(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Execution:
        """Return the execution for a call of the tool.

        If the call is inside a `tool_call` block of the same name, return the block's execution.
        """
        announced = _announced.innermost()
        if announced is not None and announced._claim(self.name):
            return _ClaimedExecution(announced)
        run = self.open_run()
        if run is None:
            return Execution(None, self.name)
        arguments: Mapping[str, object] = {}
        with run.guard.protect("read a tool's arguments"):
            arguments = self._arguments(args, kwargs)
        return Execution(run, self.name, arguments)

    def to_run(
        self, execution: Execution, kind: str, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> Callable[..., Any]:
        """Return the function that a call runs: the tool, or its replacement in a replay."""
        outcome = outcome_of(self.name, partial(self._arguments, args, kwargs))
        if outcome is None:
            return self.function
        execution._mark_replayed()
        return stand_in_function(outcome, kind)

    def _arguments(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Mapping[str, object]:
        """Return the arguments of a call by name.

        If they do not fit the signature, positional arguments are in `args`.
        """
        with ignore_failures:
            return self._bound(args, kwargs)
        if args:
            return {"args": args, **kwargs}
        return kwargs

    def _bound(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        signature = inspect.signature(self.function)
        bound = dict(signature.bind(*args, **kwargs).arguments)
        first = next(iter(signature.parameters), None)
        owner = getattr(self.function, "__qualname__", "").rpartition(".")[0]
        if first in {"self", "cls"} and owner and not owner.endswith("<locals>"):
            del bound[first]
        for parameter in signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                bound |= cast(dict[str, object], bound.pop(parameter.name, {}))
        return bound


def _wrapped(tool: _ToolFunction, function: Callable[..., Any]) -> Callable[..., object]:
    called = function if inspect.isroutine(function) else getattr(type(function), "__call__", function)  # noqa: B004 - the method itself is needed
    if inspect.isasyncgenfunction(function) or inspect.isasyncgenfunction(called):
        return _async_generator(tool, function)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called):
        return _coroutine(tool, function)
    if inspect.isgeneratorfunction(function) or inspect.isgeneratorfunction(called):
        return _generator(tool, function)
    return _function(tool, function)


def _function(tool: _ToolFunction, function: Callable[..., Any]) -> Callable[..., object]:
    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with tool.execution(args, kwargs) as execution, execution._body():
            execution.result = tool.to_run(execution, "function", args, kwargs)(*args, **kwargs)
        return execution.result

    return wrapper


def _coroutine(tool: _ToolFunction, function: Callable[..., Any]) -> Callable[..., object]:
    @wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        with tool.execution(args, kwargs) as execution, execution._body():
            execution.result = await tool.to_run(execution, "coroutine", args, kwargs)(*args, **kwargs)
        return execution.result

    return wrapper


def _generator(tool: _ToolFunction, function: Callable[..., Any]) -> Callable[..., object]:
    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with tool.execution(args, kwargs) as execution:
            execution._collect_items()
            items = tool.to_run(execution, "generator", args, kwargs)(*args, **kwargs)
            execution.result = yield from _RecordedGenerator(items, execution)
        return execution.result

    return wrapper


class _RecordedGenerator(Generator[Any, Any, Any]):
    """A generator that records each item of the generator inside it."""

    def __init__(self, inner: Generator[Any, Any, Any], execution: Execution) -> None:
        self._inner = inner
        self._execution = execution

    def send(self, value: Any) -> Any:
        with self._execution._body():  # only while the tool itself runs, not while its caller handles an item
            item = self._inner.send(value)
        self._execution._add_item(item)
        return item

    def throw(self, *error: Any) -> Any:
        with self._execution._body():
            item = self._inner.throw(*error)
        self._execution._add_item(item)
        return item

    def close(self) -> None:
        self._inner.close()


def _async_generator(tool: _ToolFunction, function: Callable[..., Any]) -> Callable[..., object]:
    @wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        with tool.execution(args, kwargs) as execution:
            execution._collect_items()
            inner = tool.to_run(execution, "async_generator", args, kwargs)(*args, **kwargs)
            next_item = inner.__anext__()
            while True:
                try:
                    with execution._body():
                        item = await next_item
                except StopAsyncIteration:
                    return
                execution._add_item(item)
                try:
                    sent = yield item
                except GeneratorExit:
                    await inner.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 - it is thrown into the tool, which may catch it
                    next_item = inner.athrow(error)
                else:
                    next_item = inner.asend(sent)

    return wrapper
