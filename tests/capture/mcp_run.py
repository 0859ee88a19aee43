"""A run whose tools are those of an MCP server, for the tests of what shows such a run.

The model asks for six tools. The client cuts one result, and one of the tools is the agent's own and asks the server
twice.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.capture.mcp_calls import connected, outcome
from tests.chat_calls import asked, call, said
from trace_recorder import TrajectoryRecorder
from trace_recorder.values.messages import Payload

CALLS = (
    ("c_add", "mcp__misbehaving__add", '{"a": 1, "b": 2}'),
    ("c_image", "mcp__misbehaving__image", "{}"),
    ("c_slow", "slow", "{}"),
    ("c_fail", "fail", "{}"),
    ("c_refuse", "refuse", "{}"),
    ("c_sum", "sum_up", '{"numbers": [3, 4, 5]}'),
)
"""The model's calls: id, name, and arguments. `sum_up` is a tool of the agent."""
SEEN = {
    "c_add": "3",
    "c_image": "a picture",
    "c_slow": "done",
    "c_fail": "no such file",
    "c_refuse": "unknown tool",
    "c_sum": "12",
}
"""What the model saw of each result. The image is not there."""
OFFERED = ("mcp__misbehaving__add", "mcp__misbehaving__image", "slow", "fail", "sum_up")
"""The tools in each prompt. The server lists `slow` and `fail`, and the names of two others name the server."""


def tool(name: str) -> Payload:
    """Return the definition of a tool."""
    function = {"name": name, "description": f"Use {name}.", "parameters": {"type": "object", "properties": {}}}
    return {"type": "function", "function": function}


def record_tools_of_server(path: Path) -> Path:
    """Record the run, and return the path of its document."""
    with TrajectoryRecorder(path, task="use the server") as recorder:
        asyncio.run(_run(recorder))
    return path


async def _run(recorder: TrajectoryRecorder) -> None:
    tools = [*map(tool, OFFERED)]
    async with connected(recorder.wrap) as session:
        await session.list_tools()
        call(recorder, asked("go", tools=tools), said(None, calls=CALLS))
        await session.call_tool("add", {"a": 1, "b": 2})
        await session.call_tool("image", {})
        await session.call_tool("slow", {}, progress_callback=_ignore)
        await outcome(session.call_tool("fail", {}))
        await outcome(session.call_tool("refuse", {}))

        @recorder.tool
        async def sum_up(numbers: list[int]) -> str:
            total = 0
            for number in numbers:
                result = await session.call_tool("add", {"a": total, "b": number})
                total = int(result.content[0].text)
            return str(total)

        await sum_up([3, 4, 5])
    functions = [
        {"id": one, "type": "function", "function": {"name": name, "arguments": text}} for one, name, text in CALLS
    ]
    answer = {"role": "assistant", "content": None, "tool_calls": functions}
    results = [{"role": "tool", "tool_call_id": one, "content": text} for one, text in SEEN.items()]
    call(recorder, asked("go", answer, *results, tools=tools), said("The end."))


async def _ignore(*_: object) -> None:
    """Take a notification of progress."""
