"""Pydantic AI: agents on its models of four providers, sync and async, streamed, with an output of a type."""

from __future__ import annotations

import pytest

from examples.demo.policy import Action, Call
from tests.frameworks.judgement import ANSWERED, ASKED, STEPS, Runs
from tests.frameworks.page import agent, blocks, only_with, without_us
from tests.frameworks.provider import SCRIPT

only_with("pydantic_ai")
PAGE = blocks("Pydantic AI")
MODELS = (
    "openai:gpt-5",
    "openai-chat:gpt-5",
    "anthropic:claude-sonnet-4-5",
    "google:gemini-2.5-flash",
    "ollama:llama3.2",
)
AWAITED = """
import asyncio
async def main():
    print((await agent.run("What is the weather in Tokyo?")).output)
asyncio.run(main())
"""
STREAMED = """
import asyncio
async def main():
    async with agent.run_stream_events("What is the weather in Tokyo?") as events:
        async for event in events:
            print(event.event_kind)
asyncio.run(main())
"""
TYPED = """
from pydantic import BaseModel
class Weather(BaseModel):
    sunny: bool
print(agent.run_sync("What is the weather in Tokyo?", output_type=Weather).output)
"""
"""The model gives its answer as the call of another tool."""


def steps(model: str, result: str = "It's sunny in Tokyo.") -> list[object]:
    """The steps of a run; Google is sent an object."""
    told = f'{{"return_value":"{result}"}}' if model.startswith("google") else result
    return [(*ASKED[:2], [told]), ANSWERED]


@pytest.mark.parametrize("number", range(2))
def test_the_page_is_true(runs: Runs, number: int) -> None:
    """The blocks of the page record the agent, and leave it as it is."""
    assert runs.recorded(PAGE[number]) == STEPS


def test_an_agent_is_recorded_from_outside(runs: Runs) -> None:
    """`trace-recorder run` records the agent in which nothing is of ours."""
    assert runs.outside(without_us(PAGE[0])) == STEPS


@pytest.mark.parametrize("model", MODELS)
def test_an_agent_that_is_awaited_is_recorded(runs: Runs, model: str) -> None:
    """Each provider's calls are recorded, of one that gives its calls no ids too."""
    assert runs.instrumented(agent("Pydantic AI").replace(MODELS[0], model) + AWAITED) == steps(model)


@pytest.mark.parametrize("model", MODELS)
def test_an_agent_that_streams_is_recorded(runs: Runs, model: str) -> None:
    """The events of a streamed run reach the agent, and the file."""
    assert runs.instrumented(agent("Pydantic AI").replace(MODELS[0], model) + STREAMED) == steps(model)


def test_an_answer_of_a_type_is_a_call(runs: Runs) -> None:
    """Where the answer is to be an object, the model calls a tool that nobody runs: that call has no result."""
    typed = (SCRIPT[0], Action("", "", (Call("final_result", {"sunny": True}),)))

    asked, answered = runs.instrumented(agent("Pydantic AI") + TYPED, typed)

    assert asked == ASKED
    assert answered == ("calling_tool", [("final_result", {"sunny": True})], [])
