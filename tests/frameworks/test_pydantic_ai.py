"""Pydantic AI: agents on its models of four providers, sync, async and streamed, with a typed output."""

from __future__ import annotations

import pytest

from examples.demo.policy import Action, Call
from tests.frameworks.judgement import ANSWERED, ASKED, STEPS, Runs
from tests.frameworks.page import agent, blocks, only_with, without_us
from tests.scripted_model import SCRIPT

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
FOR_GOOGLE = (*ASKED[:2], ['{"return_value":"It\'s sunny in Tokyo."}'])
"""The result as an object, as it is sent to Google."""
MADE_UP_FOR_GOOGLE = ("contents[*].parts[*].functionCall.id", "contents[*].parts[*].functionResponse.id")
"""The ids that the framework generates for tool calls of Google, which have none."""
TYPED = """
from pydantic import BaseModel
class Weather(BaseModel):
    sunny: bool
print(agent.run_sync("What is the weather in Tokyo?", output_type=Weather).output)
"""
"""The model gives its answer as a call of a second tool."""


EACH = [step for model in MODELS for step in (FOR_GOOGLE if model.startswith("google") else ASKED, ANSWERED)]


@pytest.mark.parametrize("number", range(2))
def test_the_page_s_agent_is_recorded(runs: Runs, number: int) -> None:
    """The code blocks of the docs page record the agent, and do not change what it does."""
    assert runs.recorded(PAGE[number]) == STEPS


def test_an_agent_is_recorded_from_outside(runs: Runs) -> None:
    """`trace-recorder run` records the unmodified agent."""
    assert runs.outside(without_us(PAGE[0])) == STEPS


@pytest.mark.parametrize("way", [AWAITED, STREAMED], ids=["awaited", "streamed"])
def test_every_provider_is_recorded(runs: Runs, way: str) -> None:
    """Each provider's calls are recorded with their tool results, even if the provider's tool calls have no ids."""
    code = "".join(agent("Pydantic AI").replace(MODELS[0], model) + way for model in MODELS)
    assert runs.ignoring(*MADE_UP_FOR_GOOGLE).instrumented(code, SCRIPT * len(MODELS)) == EACH


def test_a_typed_answer_is_a_call(runs: Runs) -> None:
    """A typed answer is recorded as the call of a tool that never runs, and has no result."""
    typed = (SCRIPT[0], Action("", "", (Call("final_result", {"sunny": True}),)))

    asked, answered = runs.instrumented(agent("Pydantic AI") + TYPED, typed)

    assert asked == ASKED
    assert answered == ("calling_tool", [("final_result", {"sunny": True})], [])
