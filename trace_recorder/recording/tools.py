"""Tools: what the agent runs because a model asked for it, recorded before it runs and after it has.

A tool behaves as it would without us: what it returns and raises is passed on as it is, a coroutine stays a coroutine
and a generator a generator, and what goes wrong in recording stays in the run's guard. Which call of which response an
execution answers is not asked here: the fold finds it by the name and the arguments, or is told by `call_id`.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass
from functools import partial, wraps
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from trace_recorder.guard import try_call
from trace_recorder.recording.context import ToolBody, context_of, merge_facts, record_or_defer
from trace_recorder.recording.run import Run
from trace_recorder.values.jsonable import describe_error, json_key, members_to_json, to_jsonable, to_jsonable_of_type
from trace_recorder.values.messages import Payload, without_none

Tool = TypeVar("Tool", bound=Callable[..., object])
OpenRun = Callable[[], Run | None]
"""Gives the run that a call made now belongs to; None where it goes unrecorded."""

MAX_ITEMS = 1000
"""Of what a generator yields so many items are recorded, and the number of all of them."""


class Execution:
    """One execution of a tool, recorded when its block is entered and when it is left; `result` is what it gave."""

    __slots__ = (
        *("_about", "_arguments", "_began", "_call_id", "_items", "_run", "_yielded"),
        *("name", "result"),
    )

    def __init__(self, run: Run | None, name: str, arguments: object = None, call_id: str | None = None) -> None:
        self.result: object = None
        self.name = name
        self._run = run
        self._arguments = arguments
        self._call_id = call_id
        self._about: dict[str, Payload] | None = None
        self._began = 0.0
        self._items: list[Payload] | None = None
        self._yielded = 0

    def __enter__(self) -> Self:
        if self._run is not None:
            with self._run.guard("record a tool call"):
                self._call(self._run)
        self._began = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        seconds = round(time.perf_counter() - self._began, 6)
        about, self._about = self._about, None
        if self._run is not None and about is not None and not self._run.closed:
            closing = self._run if isinstance(error, GeneratorExit) else None
            record_or_defer(closing, partial(self._ended, self._run, {**about, "duration_seconds": seconds}, error))

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, at)

    def _call(self, run: Run) -> None:
        given = without_none(name=to_jsonable_of_type(self.name, str), call_id=to_jsonable_of_type(self._call_id, str))
        about = {"execution_id": run.next_id("tool"), **merge_facts(run.named(**given), context_of(run))}
        run.append(
            "tool_call",
            about,
            members_to_json({"arguments": to_jsonable({} if self._arguments is None else self._arguments)}),
        )
        self._about = about

    def _ended(self, run: Run, about: dict[str, Payload], error: BaseException | None) -> None:
        closed = isinstance(error, GeneratorExit)
        with run.guard("record a tool result"):
            about |= {"success": None if closed else error is None}
            about |= without_none(yielded=self._yielded or None, ended_by="it was closed" if closed else None)
            returned = to_jsonable(self.result)
            said = (
                {"result": returned}
                if self._items is None
                else {"result": self._items, **without_none(returned=returned)}
            )
            failed = None if error is None or closed else describe_error(error)
            run.append("tool_result", about, members_to_json({**said, **without_none(error=failed)}))

    def _body(self) -> ToolBody:
        """The block in which the tool itself runs."""
        about = self._about or {}
        return ToolBody(self._run, about.get("execution_id"))

    def _collect(self) -> None:
        """Hear that it is a generator: its result is what it yields."""
        self._items = []

    def _add(self, item: object) -> None:
        """Hear one item of a generator."""
        self._yielded += 1
        if self._run is not None and self._items is not None and self._yielded <= MAX_ITEMS:
            with self._run.guard("record an item of a tool"):
                self._items.append(to_jsonable(item))


class AnnouncedExecution(Execution):
    """An execution that the agent tells of: `with recorder.tool_call("bash", {…}, call_id="call_1") as call:`.

    Set `call.result` to what the tool gives; an exception that leaves the block is its error, and passes on. A marked
    function that is called inside, by the same name, is this execution, and sets the result itself.
    """

    __slots__ = ("_claimed", "_inside", "_token")

    def __init__(self, run: Run | None, name: str, arguments: object, call_id: str | None) -> None:
        super().__init__(run, name, arguments, call_id)
        self._token: Token[AnnouncedExecution | None] | None = None
        self._inside: ToolBody | None = None
        self._claimed = False

    def __enter__(self) -> Self:
        super().__enter__()
        self._token = _announced.set(self)
        self._inside = self._body()
        self._inside.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._inside is not None:
            self._inside.__exit__()
        token, self._token = self._token, None
        if token is not None:
            with suppress(ValueError):  # a block in an async generator may be left in another context
                _announced.reset(token)
        super().__exit__(kind, error, at)

    def _claim(self, name: str) -> bool:
        """Whether this is the execution of a marked function of this name: it is that of one."""
        taken, self._claimed = self._claimed, self._claimed or name == self.name
        return not taken and self._claimed


class _ClaimedExecution(Execution):
    """An execution that a block around it has announced, and will end."""

    __slots__ = ("_announced",)

    def __init__(self, announced: AnnouncedExecution) -> None:
        super().__init__(None, announced.name)
        self._announced = announced

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            self._announced.result = self.result

    def _collect(self) -> None:
        self._announced._collect()

    def _add(self, item: object) -> None:
        self._announced._add(item)


_announced: ContextVar[AnnouncedExecution | None] = ContextVar("trace_recorder_announced_tool", default=None)


def make_tool(open_run: OpenRun, function: object, name: str | None) -> Any:
    """Make a tool of a function of any kind; without one, give what makes one."""
    if function is None:
        return partial(make_tool, open_run, name=name)
    if isinstance(function, staticmethod | classmethod):
        return type(function)(make_tool(open_run, function.__func__, name))
    if not callable(function):
        raise TypeError(f"tool() was given {function!r}, and takes a function. Its name is given as tool(name=…).")
    made: Any = _wrapped(_ToolFunction(open_run, function, name or _name_of(function)), function)
    for defaults in ("__defaults__", "__kwdefaults__"):  # for who reads them; the function has its own
        stated = getattr(function, defaults, None)
        if isinstance(stated, tuple | dict):
            setattr(made, defaults, stated)
    return made


def _name_of(function: object) -> str:
    return json_key(getattr(function, "__name__", None) or type(function).__name__)


@dataclass(slots=True)
class _ToolFunction:
    """A function that is a tool: how its executions begin."""

    open_run: OpenRun
    function: Callable[..., object]
    name: str

    def execution(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Execution:
        """What a call of it is; inside a block that announced it, it is that one's."""
        announced = _announced.get()
        if announced is not None and announced._claim(self.name):
            return _ClaimedExecution(announced)
        run = self.open_run()
        if run is None:
            return Execution(None, self.name)
        arguments: Mapping[str, object] = {}
        with run.guard("read a tool's arguments"):
            arguments = try_call(lambda: self._bound(args, kwargs), lambda _: _unbound(args, kwargs))
        return Execution(run, self.name, arguments)

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


def _unbound(args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
    return {**({"args": args} if args else {}), **kwargs}


def _wrapped(tool: _ToolFunction, function: Callable[..., Any]) -> Callable[..., object]:
    called = function if inspect.isroutine(function) else getattr(type(function), "__call__", function)  # noqa: B004 - it is the method that is wanted
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
            execution.result = function(*args, **kwargs)
        return execution.result

    return wrapper


def _coroutine(tool: _ToolFunction, function: Callable[..., Any]) -> Callable[..., object]:
    @wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        with tool.execution(args, kwargs) as execution, execution._body():
            execution.result = await function(*args, **kwargs)
        return execution.result

    return wrapper


def _generator(tool: _ToolFunction, function: Callable[..., Any]) -> Callable[..., object]:
    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with tool.execution(args, kwargs) as execution:
            execution._collect()
            execution.result = yield from _RecordedGenerator(function(*args, **kwargs), execution)
        return execution.result

    return wrapper


class _RecordedGenerator(Generator[Any, Any, Any]):
    """A generator with the recording listening in."""

    def __init__(self, inner: Generator[Any, Any, Any], execution: Execution) -> None:
        self._inner = inner
        self._execution = execution

    def send(self, value: Any) -> Any:
        with self._execution._body():  # and not in what its caller does between two items
            item = self._inner.send(value)
        self._execution._add(item)
        return item

    def throw(self, *error: Any) -> Any:
        with self._execution._body():
            item = self._inner.throw(*error)
        self._execution._add(item)
        return item

    def close(self) -> None:
        self._inner.close()


def _async_generator(tool: _ToolFunction, function: Callable[..., Any]) -> Callable[..., object]:
    @wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        with tool.execution(args, kwargs) as execution:
            execution._collect()
            inner = function(*args, **kwargs)
            moved = inner.__anext__()
            while True:
                try:
                    with execution._body():
                        item = await moved
                except StopAsyncIteration:
                    return
                execution._add(item)
                try:
                    sent = yield item
                except GeneratorExit:
                    await inner.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 - it is the tool's own to catch or to pass on
                    moved = inner.athrow(error)
                else:
                    moved = inner.asend(sent)

    return wrapper
