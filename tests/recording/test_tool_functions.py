"""A recorded tool has the kind, name, signature and result of the function."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

import trace_recorder
from tests.recording.tool_runs import facts, plain
from trace_recorder import TrajectoryRecorder
from trace_recorder.values.jsonable import MAX_NODES
from trace_recorder.values.messages import Payload


async def coroutine(a: int) -> int:
    return a


def generator(a: int) -> Iterator[int]:
    yield a


async def asynchronous(a: int) -> AsyncIterator[int]:
    yield a


@pytest.mark.parametrize("function", [plain, coroutine, generator, asynchronous])
def test_a_tool_is_of_the_same_kind_as_its_function(
    recorder: TrajectoryRecorder, function: Callable[..., object]
) -> None:
    """A recorded tool has the function's name, signature, documentation and kind."""
    marked = recorder.tool(function)

    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    assert [kind(marked) for kind in kinds] == [kind(function) for kind in kinds]
    assert inspect.signature(marked) == inspect.signature(function)
    assert (marked.__name__, marked.__doc__, marked.__wrapped__) == (function.__name__, function.__doc__, function)  # type: ignore[attr-defined]


def with_defaults(a: int, b: int = 2, *, c: int = 3) -> int:
    return a + b + c


async def async_with_defaults(a: int, b: int = 2, *, c: int = 3) -> int:
    return a + b + c


@pytest.mark.parametrize("function", [with_defaults, async_with_defaults])
def test_a_tool_has_the_function_s_defaults(recorder: TrajectoryRecorder, function: Callable[..., object]) -> None:
    """A recorded tool has the function's defaults and signature, and a call records each default once."""
    marked: Payload = recorder.tool(function)

    assert (marked.__defaults__, marked.__kwdefaults__) == ((2,), {"c": 3})
    assert inspect.signature(marked) == inspect.signature(function)
    assert str(inspect.signature(marked, follow_wrapped=False)).startswith("(*args")
    result = marked(1, c=5)
    assert (asyncio.run(result) if inspect.iscoroutine(result) else result) == 8


def test_a_result_is_returned_unchanged(recorder: TrajectoryRecorder) -> None:
    """A result that is not JSON becomes a description in the file, and is returned unchanged."""
    result = object()

    assert recorder.tool(lambda: result, name="make")() is result
    assert facts(recorder, "result")[1][1]["__type__"] == "object"


class Box:
    """Methods that are tools."""

    def __init__(self, recorder: TrajectoryRecorder) -> None:
        self.recorder = recorder

    @trace_recorder.tool
    def method(self, a: int) -> int:
        return a

    @trace_recorder.tool
    @classmethod
    def above(cls, a: int) -> str:
        return f"{cls.__name__} {a}"

    @classmethod
    @trace_recorder.tool
    def below(cls, a: int) -> str:
        return f"{cls.__name__} {a}"

    @trace_recorder.tool
    @staticmethod
    def outside(a: int) -> int:
        return a

    @staticmethod
    @trace_recorder.tool(name="renamed")
    def inside(a: int) -> int:
        return a


def test_methods_are_tools_without_self(recorder: TrajectoryRecorder) -> None:
    """The decorator works on either side of @staticmethod and @classmethod. `self` and `cls` are not arguments."""
    box = Box(recorder)
    results = [box.method(1), box.above(2), Box.below(3), box.outside(4), Box.inside(5)]

    assert results == [1, "Box 2", "Box 3", 4, 5]
    names = ["method", "above", "below", "outside", "renamed"]
    calls = [one for one in facts(recorder, "name", "arguments") if one[0] == "tool_call"]
    assert calls == [("tool_call", name, {"a": number}) for number, name in enumerate(names, start=1)]


class Fetcher:
    async def __call__(self, a: int) -> int:
        return a


def test_partials_and_objects_that_can_be_called_are_tools(recorder: TrajectoryRecorder) -> None:
    """Partials and objects with `__call__` can be recorded as tools."""
    partly = recorder.tool(functools.partial(plain, 1), name="partly")
    called = recorder.tool(Fetcher())

    assert (partly(b="y"), asyncio.run(called(3))) == ("1y", 3)
    assert [one for one in facts(recorder, "name", "arguments") if one[0] == "tool_call"] == [
        ("tool_call", "partly", {"b": "y"}),
        ("tool_call", "Fetcher", {"a": 3}),
    ]


def test_all_values_of_a_generator_have_one_limit(recorder: TrajectoryRecorder) -> None:
    """A record has at most about a million parts, however many parts each value of a generator has."""

    @recorder.tool
    def read() -> Iterator[list[int]]:
        yield from 3 * [[0] * (MAX_NODES // 2)]

    for _ in read():
        pass

    [_, (_, result)] = facts(recorder, "result")
    assert sum(map(len, result)) <= MAX_NODES
