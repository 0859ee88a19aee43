"""LlamaIndex on Gemini: its function agent over aiohttp, with and without streaming."""

from __future__ import annotations

from tests.frameworks.judgement import INSTRUMENTED, STEPS, Runs
from tests.frameworks.page import agent, only_with
from tests.scripted_model import SCRIPT

only_with("llama_index.llms.google_genai")
RUN = """
from llama_index.llms.google_genai import GoogleGenAI
async def main():
    llm = GoogleGenAI(model="gemini-2.5-flash", context_window=100_000, max_tokens=1000)
    agent = FunctionAgent(tools=[get_weather], llm=llm, streaming=STREAMING)
    print(str(await agent.run("What is the weather in Tokyo?")))
asyncio.run(main())
"""
AGENT = agent("LlamaIndex").replace("from llama_index.llms.openai import OpenAI\n", "").partition("llm = ")[0]


def test_gemini_is_recorded(runs: Runs) -> None:
    """The agent's calls are recorded with the result of the tool, with and without streaming."""
    each = [RUN.replace("STREAMING", way) for way in ("True", "False")]

    printed, steps = runs.once(INSTRUMENTED.format(AGENT + "".join(each)), SCRIPT * 2)
    assert (printed, steps) == ("It is sunny in Tokyo.\n" * 2, STEPS * 2)


def test_an_agent_is_recorded_from_outside(runs: Runs) -> None:
    """`trace-recorder run` records the unmodified agent."""
    assert runs.once_outside(AGENT + RUN.replace("STREAMING", "True")) == ("It is sunny in Tokyo.\n", STEPS)
