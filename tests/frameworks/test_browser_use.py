"""browser-use: its chat models, and its agent with a real browser if Chromium is installed."""

from __future__ import annotations

import json
import shutil

import pytest

from examples.demo.policy import Action
from tests.frameworks.judgement import ANSWERED, INSTRUMENTED, Runs
from tests.frameworks.page import blocks, only_with, without_us

only_with("browser_use")
PAGE = blocks("browser-use")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
ANSWER = "It is sunny in Tokyo."
MODELS = """
import asyncio, os
from browser_use.llm import ChatAnthropic, ChatGoogle, ChatOllama, ChatOpenAI
from browser_use.llm.messages import UserMessage
MODELS = (
    ChatOpenAI(model="gpt-4o-mini"),
    ChatGoogle(model="gemini-2.5-flash", api_key="k"),
    ChatAnthropic(model="claude-sonnet-4-5"),
    ChatOllama(model="llama3", host=os.environ["OLLAMA_HOST"]),
)
async def main():
    for model in MODELS:
        print((await model.ainvoke([UserMessage(content="What is the weather in Tokyo?")])).completion)
asyncio.run(main())
"""


def acted(**action: object) -> Action:
    """Return an answer in the form that browser-use asks for: an object with the next actions."""
    state = {"thinking": "t", "evaluation_previous_goal": "e", "memory": "m", "next_goal": "n"}
    return Action("", json.dumps({**state, "action": [action]}))


STEPS = [ANSWERED] * 3
"""Two steps of the agent, and a call in which a model judges them."""
SAID = (acted(wait={"seconds": 1}), acted(done={"text": ANSWER, "success": True}))


def test_every_model_is_recorded(runs: Runs) -> None:
    """A call of each of browser-use's chat models is recorded."""
    printed, steps = runs.once(INSTRUMENTED.format(MODELS), (Action("", ANSWER),))
    assert (printed, steps) == (f"{ANSWER}\n" * 4, [ANSWERED] * 4)


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_the_page_s_agent_is_recorded(runs: Runs) -> None:
    """The agent of the docs page is recorded with its browser, and its actions are texts in the answers."""
    assert runs.once(PAGE[0], SAID) == (f"{ANSWER}\n", STEPS)


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_an_agent_is_recorded_from_outside(runs: Runs) -> None:
    """`trace-recorder run` records the unmodified agent."""
    assert runs.once_outside(without_us(PAGE[0]), SAID) == (f"{ANSWER}\n", STEPS)
