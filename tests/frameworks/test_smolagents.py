"""smolagents: agents that call tools, and agents that write code, on two of its models, with and without streaming."""

from __future__ import annotations

import pytest

from examples.demo.policy import Action, Call
from tests.frameworks.judgement import ASKED, Runs, Step
from tests.frameworks.page import agent, blocks, only_with, without_us
from tests.scripted_model import SCRIPT

only_with("smolagents")
PAGE = blocks("smolagents")
MODELS = ('OpenAIModel(model_id="gpt-5")', 'LiteLLMModel(model_id="anthropic/claude-sonnet-4-5")')
CALLING = (SCRIPT[0], Action("", "That is it.", (Call("final_answer", {"answer": "sunny"}),)))
CODING = (
    Action("", "Thought: I look outside.\n<code>\nseen = get_weather(city='Tokyo')\nprint(seen)\n</code>"),
    Action("", "Thought: That is it.\n<code>\nfinal_answer(seen)\n</code>"),
)
FINAL: Step = ("calling_tool", [("final_answer", {"answer": "sunny"})], [])
WRITTEN: Step = ("completed", [], [])
RUN = 'print(agent.run("What is the weather in Tokyo?"))\n'


def made(kind: str, model: str, *, streamed: bool, marked: bool = True) -> str:
    """Return the agent of the docs page with the given class and model, and with or without the recorder's decorator on
    its tool.
    """
    tool = agent("smolagents").partition("agent =")[0].replace("OpenAIModel", "OpenAIModel, LiteLLMModel, CodeAgent")
    if marked:
        tool = f"import trace_recorder\n{tool}".replace("@tool\n", "@tool\n@trace_recorder.tool\n")
    return (
        f"{tool}agent = {kind}(tools=[get_weather], model={model}, stream_outputs={streamed}, verbosity_level=0)\n{RUN}"
    )


def each(kind: str) -> str:
    """Return agents of a class on both models, with and without streaming."""
    return "".join(made(kind, model, streamed=streamed) for model in MODELS for streamed in (False, True))


@pytest.mark.parametrize("number", range(2))
def test_the_page_s_agent_is_recorded(runs: Runs, number: int) -> None:
    """The code blocks of the docs page record the agent and its tool, and do not change what it does."""
    assert runs.recorded(PAGE[number], CALLING) == [ASKED, FINAL]


def test_an_agent_is_recorded_from_outside(runs: Runs) -> None:
    """`trace-recorder run` records the unmodified agent.

    Its tool result is not recognised, because the HTTP traffic does not mark it.
    """
    assert runs.outside(without_us(PAGE[0]), CALLING) == [(*ASKED[:2], []), FINAL]


def test_agents_that_call_tools_are_recorded(runs: Runs) -> None:
    """Tool calls are read from the HTTP traffic and results from the decorator, even if LiteLLM does not read a stream
    to its end.
    """
    assert runs.instrumented(each("ToolCallingAgent"), CALLING * 4) == [ASKED, FINAL] * 4


def test_agents_that_write_code_are_recorded(runs: Runs) -> None:
    """A tool that the agent's code calls is in the step of that code."""
    assert runs.instrumented(each("CodeAgent"), CODING * 4) == [ASKED, WRITTEN] * 4


def test_without_a_mark_a_tool_is_only_text(runs: Runs) -> None:
    """Without the recorder's decorator, the agent's code and its output are only texts in the messages."""
    assert runs.instrumented(made("CodeAgent", MODELS[0], streamed=False, marked=False), CODING) == [WRITTEN, WRITTEN]
