"""Sub-agents that were started in a tool name the tool's execution, in the journal and in the document."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from trace_recorder import Trajectory, TrajectoryRecorder, load
from trace_recorder.reading.document import from_document

Payload = Any


def _say(recorder: TrajectoryRecorder, content: str, *calls: Payload) -> None:
    recorder.record_llm_interaction(
        [{"role": "user", "content": "q"}], {"content": content, "tool_calls": calls}, "p", "m"
    )


def _started(run: Trajectory) -> dict[str | None, str | None]:
    """Return the tool call in which each agent was started."""
    results = [result for step in run.agent_steps for result in step.tool_results if result.execution_id]
    calls = {result.execution_id: result.call_id for result in results}
    return {call.agent: calls.get(call.parent_execution_id) for call in run.llm_interactions}


def _ask(name: str, **arguments: Payload) -> Payload:
    return {"call_id": f"call_{name}", "name": name, "arguments": arguments}


def test_every_kind_of_tool_names_the_agents_that_it_started(tmp_path: Path) -> None:
    """An agent started in a function, generator, coroutine or block names its call.

    The caller's own acts between two items of a generator do not.
    """
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:

        @recorder.tool
        def function() -> None:
            with recorder.agent("of the function"):
                _say(recorder, "f")

        @recorder.tool
        def generator() -> Iterator[int]:
            yield 1
            with recorder.agent("of the generator"):
                _say(recorder, "g")
            yield 2

        @recorder.tool
        async def coroutine() -> None:
            with recorder.agent("of the coroutine"):
                _say(recorder, "c")

        @recorder.tool
        async def stream() -> AsyncIterator[int]:
            yield 1
            with recorder.agent("of the stream"):
                _say(recorder, "s")

        async def consume() -> None:
            async for _ in stream():
                with recorder.agent("beside the stream"):
                    _say(recorder, "b")

        _say(recorder, "main", *map(_ask, ("function", "generator", "coroutine", "stream", "block")))
        function()
        for _ in generator():
            with recorder.agent("beside the generator"):
                _say(recorder, "b")
        asyncio.run(coroutine())
        asyncio.run(consume())
        with recorder.tool_call("block", {}, call_id="call_block"), recorder.agent("of the block"):
            _say(recorder, "b")
        with recorder.agent("of nobody"):
            _say(recorder, "n")

    run = load(tmp_path / "run.json")
    assert _started(run) == {
        None: None,
        "of the function": "call_function",
        "of the generator": "call_generator",
        "beside the generator": None,
        "of the coroutine": "call_coroutine",
        "of the stream": "call_stream",
        "beside the stream": None,
        "of the block": "call_block",
        "of nobody": None,
    }
    assert _started(from_document(json.loads((tmp_path / "run.json").read_bytes()), "run")) == _started(run)


def test_parallel_executions_are_distinguished(tmp_path: Path) -> None:
    """Each agent names its own one of several parallel executions of a tool, and the innermost of nested ones."""

    async def main(recorder: TrajectoryRecorder) -> None:
        @recorder.tool
        async def look(who: str) -> None:
            await asyncio.sleep(0)
            with recorder.agent(who):
                _say(recorder, who, _ask(f"deeper_{who}"))
                await asyncio.sleep(0)
                with recorder.tool_call(f"deeper_{who}", {}), recorder.agent(f"{who}'s own"):
                    _say(recorder, "x")

        calls = [_ask("look", who=who) | {"call_id": f"call_{who}"} for who in ("east", "west")]
        _say(recorder, "main", *calls)
        await asyncio.gather(*(look(who=who) for who in ("west", "east")))

    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        asyncio.run(main(recorder))

    assert _started(load(tmp_path / "run.json")) == {
        None: None,
        "west": "call_west",
        "west's own": "call_deeper_west",
        "east": "call_east",
        "east's own": "call_deeper_east",
    }
