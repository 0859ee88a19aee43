"""LangChain: agents of `create_agent` with its packages for four providers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.frameworks.judgement import STEPS, Runs
from tests.frameworks.page import agent, blocks, only_with, without_us
from tests.scripted_model import SCRIPT

only_with("langchain")
PAGE = blocks("LangChain")
MODELS = ("openai:gpt-5", "anthropic:claude-sonnet-4-5", "ollama:llama3.1", "google_genai:gemini-2.5-flash")
STREAMED = """
for token, metadata in agent.stream(question, stream_mode="messages"):
    print(metadata["langgraph_node"], token.text)
"""
AWAITED_STREAM = """
import asyncio
async def main():
    async for token, metadata in agent.astream(question, stream_mode="messages"):
        print(metadata["langgraph_node"], token.text)
asyncio.run(main())
"""
AWAITED = """
import asyncio
print(asyncio.run(agent.ainvoke(question))["messages"][-1].text)
"""
RESPONSES = """
from langchain_openai import ChatOpenAI
agent = create_agent(ChatOpenAI(model="gpt-5", use_responses_api=True), tools=[get_weather])
print(agent.invoke(question)["messages"][-1].text)
"""


@pytest.mark.parametrize("number", range(3))
def test_the_page_s_agent_is_recorded(runs: Runs, number: int) -> None:
    """The code blocks of the docs page record the agent, and do not change what it does."""
    assert runs.recorded(PAGE[number]) == STEPS


def test_an_agent_is_recorded_from_outside(runs: Runs) -> None:
    """`trace-recorder run` records the unmodified agent."""
    assert runs.outside(without_us(PAGE[0])) == STEPS


def on_each(way: str, models: Sequence[str]) -> str:
    """Return the agent of the page on each of these models."""
    return "".join(agent("LangChain").replace(MODELS[0], model) + way for model in models)


def test_every_package_is_recorded(runs: Runs) -> None:
    """The tokens of each provider's stream reach the agent and are recorded."""
    assert runs.instrumented(on_each(STREAMED, MODELS), SCRIPT * 4) == STEPS * 4


@pytest.mark.parametrize("way", [AWAITED, AWAITED_STREAM], ids=["whole", "streamed"])
def test_an_async_agent_is_recorded(runs: Runs, way: str) -> None:
    """An async agent is recorded, with and without streaming; Google's package uses aiohttp if it is installed."""
    assert runs.instrumented(on_each(way, MODELS), SCRIPT * 4) == STEPS * 4


def test_the_responses_api_is_recorded(runs: Runs) -> None:
    """A model that uses OpenAI's Responses API is recorded in that dialect."""
    assert runs.instrumented(agent("LangChain") + RESPONSES) == STEPS
