"""Blocks that are left in another task or order than they were entered in: later calls are not inside them."""

from __future__ import annotations

import asyncio
import contextvars
import gc
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

import pytest

from tests.chat_calls import asked, call, said
from tests.journals import records_of
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.values.messages import Payload

Left = Callable[[AsyncIterator[None]], Coroutine[None, None, None]]


def ask(recorder: TrajectoryRecorder, text: str) -> None:
    call(recorder, asked(text), said("done", identity=text))


def where(recorder: TrajectoryRecorder) -> dict[Payload, tuple[Payload, Payload, Payload]]:
    """Return the agent, the agent around it and the step of each call, by the text of its question."""
    return {
        call.input_messages[0].content: (call.agent, call.parent_agent_id, call.step_number)
        for call in load(recorder.trajectory_path).llm_interactions
    }


async def closed_by_another_task(items: AsyncIterator[None]) -> None:
    """Take the first item, and have a second task close the generator."""
    await anext(items)
    await asyncio.create_task(items.aclose())  # type: ignore[attr-defined]


async def broken_out_of(items: AsyncIterator[None]) -> None:
    """Take the first item and leave the loop, so that the event loop closes the generator when it is collected."""
    async for _ in items:
        break
    del items
    gc.collect()
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.mark.parametrize("leave", [closed_by_another_task, broken_out_of])
def test_blocks_of_an_async_generator_end_with_it(recorder: TrajectoryRecorder, leave: Left) -> None:
    """When an async generator is closed, by whichever task, the caller's later records belong to the caller's agent and
    step.
    """

    async def research() -> AsyncIterator[None]:
        async with recorder.agent("researcher"), recorder.step():
            ask(recorder, "inside")
            yield

    async def lead() -> None:
        with recorder.agent("lead"):
            await leave(research())
            ask(recorder, "later")
            with recorder.step(), recorder.agent("writer"):
                ask(recorder, "in a later step")
        ask(recorder, "after all")

    asyncio.run(lead())

    assert where(recorder) == {
        "inside": ("researcher", "agent_1", 1),
        "later": ("lead", None, None),
        "in a later step": ("writer", "agent_1", 2),
        "after all": (None, None, None),
    }


def test_alternating_generators_keep_their_steps(recorder: TrajectoryRecorder) -> None:
    """Two generators that take turns each stay in their own step, and after both no step is open."""

    def work(name: str) -> Iterator[None]:
        with recorder.step():
            yield
            ask(recorder, name)

    first, second = work("first"), work("second")
    next(first)
    next(second)
    first.close()
    list(second)
    ask(recorder, "after both")

    assert where(recorder) == {"second": (None, None, 2), "after both": (None, None, None)}


@pytest.mark.parametrize("leave", [closed_by_another_task, broken_out_of])
def test_an_announced_tool_ends_with_its_generator(recorder: TrajectoryRecorder, leave: Left) -> None:
    """A tool announced in a generator ends when the generator is closed: later tools and agents have no link to it."""
    bash = recorder.tool(lambda: "later", name="bash")

    async def work() -> AsyncIterator[None]:
        with recorder.tool_call("bash", call_id="c1"):
            yield

    async def lead() -> None:
        await leave(work())
        bash()
        with recorder.agent("writer"):
            ask(recorder, "write")

    asyncio.run(lead())

    results = [record.data for record in records_of(recorder.trajectory_path) if record.kind == "tool_result"]
    assert [(result["execution_id"], result.get("result")) for result in results] == [
        ("tool_1", None),
        ("tool_2", "later"),
    ]
    [one] = load(recorder.trajectory_path).llm_interactions
    assert (one.agent, one.parent_execution_id) == ("writer", None)


@pytest.mark.parametrize("leave", [None, closed_by_another_task, broken_out_of])
def test_work_started_in_a_block_stays_within_it(recorder: TrajectoryRecorder, leave: Left | None) -> None:
    """Tasks, callbacks, and threads with a copied context stay in the block that they were started in, after it was
    left.
    """
    started: list[asyncio.Future[None]] = []
    is_over = asyncio.Event()
    contexts: list[contextvars.Context] = []

    async def work() -> None:
        await is_over.wait()
        ask(recorder, "task")

    async def research() -> AsyncIterator[None]:
        with recorder.agent("researcher"), recorder.step():
            started.append(asyncio.ensure_future(work()))
            contexts.append(contextvars.copy_context())
            yield

    async def lead() -> None:
        if leave is not None:
            await leave(research())
        else:
            async for _ in research():
                pass
        is_over.set()
        await asyncio.gather(*started)
        await asyncio.get_running_loop().run_in_executor(None, contexts[0].run, ask, recorder, "thread")
        ask(recorder, "lead")

    asyncio.run(lead())

    inside = ("researcher", None, 1)
    assert where(recorder) == {"task": inside, "thread": inside, "lead": (None, None, None)}
