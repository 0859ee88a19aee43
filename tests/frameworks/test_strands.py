"""Strands Agents on Gemini: it makes up ids of tool calls, so that no two runs send the same."""

from __future__ import annotations

from tests.frameworks.judgement import ANSWERED, ASKED, INSTRUMENTED, Runs
from tests.frameworks.page import agent, blocks, only_with, without_us

only_with("strands")
PAGE = blocks("Strands Agents")
AWAITED = """
import asyncio
print(asyncio.run(agent.invoke_async("What is the weather in Tokyo?")))
"""
OUTPUT = '{"output":[{"text":"It\'s sunny in Tokyo."}]}'
"""The result as Strands sends it to Gemini: a list of contents."""
SAID = "It is sunny in Tokyo.\n\n"
SENT = [(*ASKED[:2], [OUTPUT]), ANSWERED]


def test_the_page_is_true(runs: Runs) -> None:
    """The block of the page records the agent, which streams."""
    assert runs.once(PAGE[0]) == (SAID, SENT)


def test_an_agent_is_recorded_from_outside(runs: Runs) -> None:
    """`trace-recorder run` records the agent in which nothing is of ours."""
    assert runs.once_outside(without_us(PAGE[0])) == (SAID, SENT)


def test_an_agent_that_is_awaited_is_recorded(runs: Runs) -> None:
    """`invoke_async` is recorded."""
    assert runs.once(INSTRUMENTED.format(agent("Strands Agents") + AWAITED)) == (SAID, SENT)
