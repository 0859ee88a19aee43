"""LiteLLM: a loop of calls and tools on four providers, whole and streamed, sync and async."""

from __future__ import annotations

import pytest

from tests.frameworks.judgement import ANSWERED, STEPS, Runs
from tests.frameworks.page import agent, blocks, only_with, without_us
from tests.frameworks.provider import SCRIPT

only_with("litellm")
PAGE = blocks("LiteLLM")
MODELS = ("openai/gpt-5", "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-flash", "ollama_chat/llama3.1")
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
def test_the_page_is_true(runs: Runs, number: int, steps: object) -> None:
    """The blocks of the page record the agent, and leave it as it is."""
    assert runs.recorded(PAGE[number], SCRIPT if number == 0 else SCRIPT[1:]) == steps


def test_an_agent_is_recorded_from_outside(runs: Runs) -> None:
    """`trace-recorder run` records the agent in which nothing is of ours."""
    assert runs.outside(without_us(PAGE[0])) == STEPS


@pytest.mark.parametrize("ask", [WHOLE, STREAMED], ids=["whole", "streamed"])
@pytest.mark.parametrize("model", MODELS)
def test_a_loop_is_recorded(runs: Runs, model: str, ask: str) -> None:
    """Each provider's calls are recorded, and the results found, also where a stream's end is left unread."""
    assert runs.instrumented(agent("LiteLLM") + LOOP.replace("ASK", ask).replace("MODEL", repr(model))) == STEPS


@pytest.mark.parametrize("ask", [AWAITED, AWAITED_STREAM], ids=["whole", "streamed"])
@pytest.mark.parametrize("model", MODELS)
def test_a_loop_that_is_awaited_is_recorded(runs: Runs, model: str, ask: str) -> None:
    """The calls that aiohttp carries inside of httpx are recorded once."""
    assert runs.instrumented(agent("LiteLLM") + ASYNC.replace("ASK", ask).replace("MODEL", repr(model))) == STEPS
