"""LlamaIndex: its function agent on three of its models, with and without streaming."""

from __future__ import annotations

import pytest

from tests.frameworks.judgement import STEPS, Runs
from tests.frameworks.page import agent, blocks, only_with, without_us
from tests.scripted_model import SCRIPT

only_with("llama_index")
PAGE = blocks("LlamaIndex")
MODELS = ('OpenAI(model="gpt-4o-mini")', 'OpenAIResponses(model="gpt-4o-mini")', 'Anthropic(model="claude-sonnet-4-5")')
RUN = """
from llama_index.llms.openai import OpenAIResponses
from llama_index.llms.anthropic import Anthropic
async def main():
    agent = FunctionAgent(tools=[get_weather], llm=MODEL, streaming=STREAMING)
    print(str(await agent.run("What is the weather in Tokyo?")))
asyncio.run(main())
"""


@pytest.mark.parametrize("number", range(2))
def test_the_page_s_agent_is_recorded(runs: Runs, number: int) -> None:
    """The code blocks of the docs page record the streaming agent, and do not change what it does."""
    assert runs.recorded(PAGE[number]) == STEPS


def test_an_agent_is_recorded_from_outside(runs: Runs) -> None:
    """`trace-recorder run` records the unmodified agent."""
    assert runs.outside(without_us(PAGE[0])) == STEPS


def test_every_model_is_recorded(runs: Runs) -> None:
    """Each model's calls are recorded, with and without streaming, and the result of the tool."""
    each = [RUN.replace("MODEL", model).replace("STREAMING", way) for model in MODELS for way in ("True", "False")]
    assert runs.instrumented(agent("LlamaIndex") + "".join(each), SCRIPT * len(each)) == STEPS * len(each)
