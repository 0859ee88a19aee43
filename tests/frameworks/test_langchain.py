"""LangChain: agents of `create_agent` on its packages for four providers."""

from __future__ import annotations

import pytest

from tests.frameworks.judgement import STEPS, Runs
from tests.frameworks.page import agent, blocks, only_with, without_us
from tests.frameworks.provider import SCRIPT

only_with("langchain")
PAGE = blocks("LangChain")
MODELS = ("openai:gpt-5", "anthropic:claude-sonnet-4-5", "google_genai:gemini-2.5-flash", "ollama:llama3.1")
STREAMED = """
for token, metadata in agent.stream(question, stream_mode="messages"):
    print(metadata["langgraph_node"], token.text)
"""
AWAITED = """
import asyncio
async def main():
    result = await agent.ainvoke(question)
    print(result["messages"][-1].text)
    async for token, metadata in agent.astream(question, stream_mode="messages"):
        print(metadata["langgraph_node"], token.text)
asyncio.run(main())
"""
RESPONSES = """
from langchain_openai import ChatOpenAI
agent = create_agent(ChatOpenAI(model="gpt-5", use_responses_api=True), tools=[get_weather])
print(agent.invoke(question)["messages"][-1].text)
"""


@pytest.mark.parametrize("number", range(2))
def test_the_page_is_true(runs: Runs, number: int) -> None:
    """The blocks of the page record the agent, and leave it as it is."""
    assert runs.recorded(PAGE[number]) == STEPS


def test_an_agent_is_recorded_from_outside(runs: Runs) -> None:
    """`trace-recorder run` records the agent in which nothing is of ours."""
    assert runs.outside(without_us(PAGE[0])) == STEPS


@pytest.mark.parametrize("model", MODELS)
def test_an_agent_that_streams_is_recorded(runs: Runs, model: str) -> None:
    """The tokens of each provider's stream reach the agent, and the file."""
    assert runs.instrumented(agent("LangChain").replace(MODELS[0], model) + STREAMED) == STEPS


@pytest.mark.parametrize("model", MODELS)
def test_an_agent_that_is_awaited_is_recorded(runs: Runs, model: str) -> None:
    """`ainvoke` and `astream` are recorded, one after the other."""
    assert runs.instrumented(agent("LangChain").replace(MODELS[0], model) + AWAITED, SCRIPT * 2) == STEPS * 2


def test_the_responses_api_is_recorded(runs: Runs) -> None:
    """A model that was told to use OpenAI's Responses API is recorded in that dialect."""
    assert runs.instrumented(agent("LangChain") + RESPONSES) == STEPS
