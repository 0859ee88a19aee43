"""The OpenAI Agents SDK: its runner, sync, async and streamed, on both dialects of OpenAI."""

from __future__ import annotations

import pytest

from examples.demo.policy import Action, Call
from tests.frameworks.judgement import STEPS, Runs
from tests.frameworks.page import agent, blocks, only_with, without_us
from tests.scripted_model import SCRIPT

only_with("agents")
PAGE = blocks("OpenAI Agents SDK")
STREAMED = """
import asyncio
async def main():
    result = Runner.run_streamed(agent, "What is the weather in Tokyo?")
    async for event in result.stream_events():
        print(event.type)
    print(result.final_output)
asyncio.run(main())
"""
ON_CHAT = """
from agents import OpenAIChatCompletionsModel
from openai import AsyncOpenAI
agent.model = OpenAIChatCompletionsModel(model="gpt-5", openai_client=AsyncOpenAI())
"""
HANDED_OFF = """
lead = Agent(name="Lead", instructions="Hand over.", handoffs=[agent])
print(Runner.run_sync(lead, "What is the weather in Tokyo?").final_output)
"""


@pytest.mark.parametrize("number", range(2))
def test_the_page_s_agent_is_recorded(runs: Runs, number: int) -> None:
    """The code blocks of the docs page record the agent, and do not change what it does."""
    assert runs.recorded(PAGE[number]) == STEPS


def test_an_agent_is_recorded_from_outside(runs: Runs) -> None:
    """`trace-recorder run` records the unmodified agent."""
    assert runs.outside(without_us(PAGE[0])) == STEPS


def test_a_streaming_agent_is_recorded(runs: Runs) -> None:
    """The events of a streamed run reach the agent and are recorded, in both dialects."""
    code = agent("OpenAI Agents SDK") + STREAMED + ON_CHAT + STREAMED
    assert runs.instrumented(code, SCRIPT * 2) == STEPS * 2


def test_an_agent_that_hands_over_is_recorded(runs: Runs) -> None:
    """A handover is recorded as a tool call with a result, followed by the calls of the second agent."""
    over = Action("", "", (Call("transfer_to_assistant", {}),))

    handed, *rest = runs.instrumented(agent("OpenAI Agents SDK") + HANDED_OFF, (over, *SCRIPT))

    assert handed == ("calling_tool", [("transfer_to_assistant", {})], ['{"assistant": "Assistant"}'])
    assert rest == STEPS
