"""DSPy: its ReAct agent through LiteLLM, and the engine whose calls are not recorded."""

from __future__ import annotations

from examples.demo.policy import Action
from tests.frameworks.judgement import ANSWERED, ASKED, Runs
from tests.frameworks.page import agent, blocks, only_with, without_us

only_with("dspy")
PAGE = blocks("DSPy")
AWAITED = """
import asyncio
print(asyncio.run(react.acall(question="What is the weather in Tokyo?")).answer)
"""
ASK = 'print(react(question="What is the weather in Tokyo?").answer)\n'


def filled(**fields: str) -> Action:
    """Return an answer in the form of DSPy's chat adapter."""
    texts = [f"[[ ## {name} ## ]]\n{value}" for name, value in fields.items()]
    return Action("", "\n\n".join([*texts, "[[ ## completed ## ]]"]))


SAID = (
    filled(next_thought="I look.", next_tool_name="get_weather", next_tool_args='{"city": "Tokyo"}'),
    filled(next_thought="That is it.", next_tool_name="finish", next_tool_args="{}"),
    filled(reasoning="I looked.", answer="It is sunny in Tokyo."),
)


def test_the_page_s_agent_is_recorded(runs: Runs) -> None:
    """The code block of the docs page records the agent and its tool, and does not change what it does."""
    assert runs.recorded(PAGE[0], SAID) == [ASKED, ANSWERED, ANSWERED]


def test_an_agent_is_recorded_from_outside(runs: Runs) -> None:
    """`trace-recorder run` records the unmodified agent, whose tool calls are text."""
    assert runs.outside(without_us(PAGE[0]), SAID) == [ANSWERED] * 3


def test_an_awaited_agent_is_recorded(runs: Runs) -> None:
    """An agent that is called by `acall` is recorded."""
    assert runs.instrumented(agent("DSPy") + AWAITED, SAID) == [ANSWERED] * 3


def test_its_own_engine_is_not_recorded(runs: Runs) -> None:
    """Calls of DSPy's own engine, which uses sockets, are not recorded, as the docs page says."""
    own = "engine='lm15', api_base=os.environ['OPENAI_BASE_URL']"
    code = "import os\n" + (agent("DSPy") + ASK).replace("engine='litellm'", own)

    assert runs.unseen(code, SAID) == ("It is sunny in Tokyo.\n", 3, 0)
