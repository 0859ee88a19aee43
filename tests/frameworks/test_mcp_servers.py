"""Frameworks whose agents use MCP servers: each call of a server is joined to the model's call."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest

from examples.demo.policy import Action, Call
from tests.capture.mcp_calls import SERVER
from tests.frameworks.judgement import INSTRUMENTED, Runs
from tests.frameworks.page import only_with
from trace_recorder import load

only_with("mcp")
COMMAND = {"command": sys.executable, "args": ["-I", "-S", str(SERVER)]}
OPENAI_AGENTS = f"""
import asyncio
from agents import Agent, Runner
from agents.mcp import MCPServerStdio

async def main():
    async with MCPServerStdio(params={COMMAND!r}, name="sums") as server:
        agent = Agent(name="Assistant", model="gpt-5", mcp_servers=[server])
        print((await Runner.run(agent, "What is 1 and 2?")).final_output)

asyncio.run(main())
"""
PYDANTIC_AI = f"""
import asyncio
from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

async def main():
    server = MCPToolset(StdioTransport(**{COMMAND!r}))
    agent = Agent("openai-chat:gpt-5", toolsets=[server])
    async with agent:
        print((await agent.run("What is 1 and 2?")).output)

asyncio.run(main())
"""
FRAMEWORKS = {"agents": OPENAI_AGENTS, "pydantic_ai": PYDANTIC_AI}
ADD = Call("add", {"a": 1, "b": 2})  # type: ignore[dict-item]  # numbers
SCRIPT = (Action("", "I add.", (ADD, ADD)), Action("", "It is 3."))


@pytest.mark.parametrize("package", FRAMEWORKS)
def test_the_calls_of_servers_are_joined(package: str, runs: Runs) -> None:
    """Two equal calls at once are two executions, each joined to one of the model's calls, with the server's result."""
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")

    printed, steps = runs.once(INSTRUMENTED.format(FRAMEWORKS[package]), SCRIPT)

    assert printed == "It is 3.\n"
    assert steps[0] == ("calling_tool", [("add", {"a": 1, "b": 2})] * 2, ["3", "3"])
    [document] = runs.place.glob("trajectories/*.json")
    results = [result for step in load(document).agent_steps for result in step.tool_results]
    assert [(call.server, call.joined_by) for result in results for call in result.mcp] == [("misbehaving", "name")] * 2
    assert len({result.call_id for result in results}) == 2
    assert [result.sent for result in results] == [None, None]
