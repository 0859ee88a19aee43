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
    async for token, metadata in agent.astream(question, stream_mode="messages"):
        print(metadata["langgraph_node"], token.text)
asyncio.run(main())
"""
INVOKED = """
import asyncio
print(asyncio.run(agent.ainvoke(question))["messages"][-1].text)
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


@pytest.mark.parametrize("way", [STREAMED, AWAITED, INVOKED], ids=["streamed", "awaited stream", "awaited"])
def test_every_provider_is_recorded(runs: Runs, way: str) -> None:
    """What an agent does on each of four packages is recorded, streamed with tokens, and awaited."""
    code = "".join(agent("LangChain").replace(MODELS[0], model) + way for model in MODELS)
    assert runs.instrumented(code, SCRIPT * len(MODELS)) == STEPS * len(MODELS)


def test_the_responses_api_is_recorded(runs: Runs) -> None:
    """A model that was told to use OpenAI's Responses API is recorded in that dialect."""
    assert runs.instrumented(agent("LangChain") + RESPONSES) == STEPS
