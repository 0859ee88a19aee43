"""Strands Agents on Gemini, which generates ids of tool calls, so that no two runs send the same requests."""

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
"""The result in the form in which Strands sends it to Gemini: a list of contents."""
SAID = "It is sunny in Tokyo.\n\n"
SENT = [(*ASKED[:2], [OUTPUT]), ANSWERED]


def test_the_page_s_agent_is_recorded(runs: Runs) -> None:
    """The code block of the docs page records the streaming agent."""
    assert runs.once(PAGE[0]) == (SAID, SENT)


def test_an_agent_is_recorded_from_outside(runs: Runs) -> None:
    """`trace-recorder run` records the unmodified agent."""
    assert runs.once_outside(without_us(PAGE[0])) == (SAID, SENT)


def test_an_awaited_agent_is_recorded(runs: Runs) -> None:
    """An agent that is called by `invoke_async` is recorded."""
    assert runs.once(INSTRUMENTED.format(agent("Strands Agents") + AWAITED)) == (SAID, SENT)
