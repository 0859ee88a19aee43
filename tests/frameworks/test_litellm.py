"""LiteLLM: a loop of calls and tools on four providers, with and without streaming, sync and async."""

from __future__ import annotations

import pytest

from tests.frameworks.judgement import ANSWERED, STEPS, Runs
from tests.frameworks.page import agent, blocks, only_with, without_us
from tests.scripted_model import SCRIPT

only_with("litellm")
PAGE = blocks("LiteLLM")
MODELS = ("openai/gpt-5", "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-flash", "ollama_chat/llama3.1")
BEGIN = "messages = messages[:1]\n"
LOOP = """
while calls := (message := ASK.choices[0].message).tool_calls:
    messages.append(message)
    for call in calls:
        result = get_weather(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "name": call.function.name, "content": result})
print(message.content)
"""
ASYNC = "\nimport asyncio\nasync def main():" + LOOP.replace("\n", "\n    ") + "\nasyncio.run(main())\n"
WHOLE = "litellm.completion(MODEL, messages=messages, tools=tools)"
STREAMED = f"litellm.stream_chunk_builder(list({WHOLE[:-1]}, stream=True)), messages=messages)"
AWAITED = "(await litellm.acompletion(MODEL, messages=messages, tools=tools))"
AWAITED_STREAM = (
    f"litellm.stream_chunk_builder([one async for one in {AWAITED[:-2]}, stream=True))], messages=messages)"
)


@pytest.mark.parametrize(("number", "steps"), [(0, STEPS), (1, [ANSWERED] * 2)])
def test_the_page_s_agent_is_recorded(runs: Runs, number: int, steps: object) -> None:
    """The code blocks of the docs page record the agent, and do not change what it does."""
    assert runs.recorded(PAGE[number], SCRIPT if number == 0 else SCRIPT[1:]) == steps


MADE_UP = "messages[*].tool_call_id"
"""The ids that LiteLLM generates for tool calls of Ollama, which have none."""


def test_an_agent_is_recorded_from_outside(runs: Runs) -> None:
    """`trace-recorder run` records the unmodified agent."""
    assert runs.outside(without_us(PAGE[0])) == STEPS


def loops(code: str, *ways: str) -> str:
    """Return the loop for each model and each way of calling."""
    asking = (code.replace("ASK", way).replace("MODEL", repr(model)) for model in MODELS for way in ways)
    return agent("LiteLLM") + "".join(f"{BEGIN}{each}" for each in asking)


def test_every_provider_is_recorded(runs: Runs) -> None:
    """Each provider's calls and tool results are recorded, even if the loop does not read a stream to its end."""
    assert runs.ignoring(MADE_UP).instrumented(loops(LOOP, WHOLE, STREAMED), SCRIPT * 8) == STEPS * 8


def test_awaited_calls_are_recorded(runs: Runs) -> None:
    """Async calls, which aiohttp sends within httpx, are recorded once."""
    assert runs.ignoring(MADE_UP).instrumented(loops(ASYNC, AWAITED, AWAITED_STREAM), SCRIPT * 8) == STEPS * 8
