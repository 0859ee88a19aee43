"""instructor: typed answers, streamed and awaited; an invalid answer is requested again."""

from __future__ import annotations

import pytest

from examples.demo.policy import Action, Call
from tests.frameworks.judgement import Runs, Step
from tests.frameworks.page import agent, blocks, only_with, without_us

only_with("instructor")
PAGE = blocks("instructor")
MODELS = ("openai/gpt-5-mini", "anthropic/claude-sonnet-4-5")
LACKING: dict[str, object] = {"name": "John"}
WHOLE: dict[str, object] = {"name": "John", "age": 25}
GIVEN: Step = ("calling_tool", [("User", WHOLE)], [])
ASK = 'messages = [{"role": "user", "content": "John is 25 years old"}]\n'
STREAMED = "for user in client.create_partial(response_model=User, messages=messages): print(user)\n"
TWICE = "print(client.create(response_model=User, messages=messages, max_retries=2))\n"
AWAITED = """
import asyncio
client = instructor.from_provider('openai/gpt-5-mini', async_client=True)
async def main():
    print(await client.create(response_model=User, messages=messages))
    async for user in client.create_partial(response_model=User, messages=messages):
        print(user)
asyncio.run(main())
"""


def saying(*arguments: dict[str, object]) -> list[Action]:
    """Return the answers of a model that gives these objects, one in each turn."""
    return [Action("", "", (Call("User", each),)) for each in arguments]


@pytest.mark.parametrize("number", range(2))
def test_the_page_s_call_is_recorded(runs: Runs, number: int) -> None:
    """The code blocks of the docs page record the call, and do not change what it does."""
    assert runs.recorded(PAGE[number], saying(WHOLE)) == [GIVEN]


def test_a_program_is_recorded_from_outside(runs: Runs) -> None:
    """`trace-recorder run` records the unmodified program."""
    assert runs.outside(without_us(PAGE[0]), saying(WHOLE)) == [GIVEN]


def test_an_invalid_answer_is_asked_for_again(runs: Runs) -> None:
    """The message about an invalid answer is the result of the first call, and the second request is an interaction of
    its own.
    """
    first, second = runs.instrumented(agent("instructor") + ASK + TWICE, saying(LACKING, WHOLE))

    assert first[:2] == ("calling_tool", [("User", LACKING)])
    assert ["validation error" in result.lower() for result in first[2]] == [True]
    assert second == GIVEN


@pytest.mark.parametrize("way", [STREAMED, AWAITED], ids=["streamed", "awaited"])
def test_every_provider_is_recorded(runs: Runs, way: str) -> None:
    """A stream of partial objects reaches the program and is recorded, and so are the answers of an async client."""
    each = [ASK + (agent("instructor") + way).replace(MODELS[0], model) for model in MODELS]
    calls = 2 * way.count("await client") * len(MODELS) or len(MODELS)
    assert runs.instrumented("".join(each), saying(WHOLE)) == [GIVEN] * calls
