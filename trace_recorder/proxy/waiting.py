"""Does something before a task waits, so that what has arrived by then can be passed on at once, as one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


@coroutine
def do_before_waits(do: Callable[[], Awaitable[None]], work: Awaitable[Result]) -> Generator[Any, Any, Result]:
    """Await `work`, and await `do()` each time before the task would wait. If `work` is ready, `do` is not called.

    An exception that `do` raises, such as a cancellation, is raised inside `work`, at the place where it waits.
    """
    steps = work.__await__()
    try:
        waits_for = next(steps)
        while True:
            try:
                yield from do().__await__()
                answer = yield waits_for
            except BaseException as error:  # noqa: BLE001 - `work` decides what happens then
                waits_for = steps.throw(error)
            else:
                waits_for = steps.send(answer)
    except StopIteration as end:
        result: Result = end.value
        return result
