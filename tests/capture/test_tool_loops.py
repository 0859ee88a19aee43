"""Loops of an SDK that calls the model and the user's tools until there is an answer."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import pytest

from tests.provider import GENERATED, MESSAGE, Answer, plain, serving, stream
from tests.versions.answers import GENERATED_CALL, GENERATED_STREAM, MESSAGE_TOOL
from tests.versions.google_shapes import gemini
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.reading.validate import validate

Payload = Any
QUESTION: Payload = [{"role": "user", "content": "hello"}]


class NoWeatherError(Exception):
    """An exception that the tool raises."""


def weather(city: str) -> str:
    """Return the weather."""
    raise NoWeatherError(f"none in {city}")


async def weather_later(city: str) -> str:
    """Return the weather, asynchronously."""
    return weather(city)


def chat(url: str, recorder: TrajectoryRecorder, tool: Payload) -> object:
    client = recorder.wrap(gemini(url))
    try:
        return client.chats.create(model="m", config={"tools": [tool]}).send_message("hello").text
    finally:
        client.close()


def chat_streamed(url: str, recorder: TrajectoryRecorder, tool: Payload) -> object:
    client = recorder.wrap(gemini(url))
    try:
        chunks = client.chats.create(model="m", config={"tools": [tool]}).send_message_stream("hello")
        return [chunk.candidates[0].content.parts[-1].text for chunk in chunks][-1]
    finally:
        client.close()


def run_tools(url: str, recorder: TrajectoryRecorder, tool: Payload) -> object:
    with recorder.wrap(anthropic.Anthropic(api_key="k", base_url=url, max_retries=0)) as client:
        runner = client.beta.messages.tool_runner(
            model="m", max_tokens=9, messages=QUESTION, tools=[anthropic.beta_tool(tool)]
        )
        return runner.until_done().content[0].text  # type: ignore[union-attr]


def run_tools_async(url: str, recorder: TrajectoryRecorder, tool: Payload) -> object:
    async def work() -> object:
        async with recorder.wrap(anthropic.AsyncAnthropic(api_key="k", base_url=url, max_retries=0)) as client:
            own = anthropic.beta_async_tool(name="weather")(tool)
            runner = client.beta.messages.tool_runner(model="m", max_tokens=9, messages=QUESTION, tools=[own])
            return (await runner.until_done()).content[0].text  # type: ignore[union-attr]

    return asyncio.run(work())


GEMINI_STREAMS = (stream(f"data: {json.dumps(GENERATED_CALL)}\r\n\r\n".encode()), GENERATED_STREAM)
LOOPS: dict[str, tuple[Callable[..., object], Payload, tuple[Answer, ...], str]] = {
    "a Gemini chat": (chat, weather, (plain(GENERATED_CALL), plain(GENERATED)), "hi"),
    "a Gemini chat, streamed": (chat_streamed, weather, GEMINI_STREAMS, "hello"),
    "Anthropic's tool_runner": (run_tools, weather, (plain(MESSAGE_TOOL), plain(MESSAGE)), "hi"),
    "Anthropic's tool_runner, async": (run_tools_async, weather_later, (plain(MESSAGE_TOOL), plain(MESSAGE)), "hi"),
}


@pytest.mark.parametrize("is_recorded", [False, True], ids=["plain tool", "recorded tool"])
@pytest.mark.parametrize("name", LOOPS)
def test_a_tool_that_raises_inside_an_sdk_has_failed(
    tmp_path: Path, name: str, is_recorded: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A tool that raises inside an SDK's loop is recorded as failed, and so are both calls of the model."""
    caplog.set_level(logging.CRITICAL, "anthropic")
    run, tool, answers, answer = LOOPS[name]
    with serving(*answers) as server, TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        assert run(server.url, recorder, recorder.tool(name="weather")(tool) if is_recorded else tool) == answer

    loaded = load(recorder.trajectory_path)
    assert [call.response.content for call in loaded.llm_interactions] == [None, answer]
    [result] = loaded.agent_steps[0].tool_results
    assert (result.name, result.success, result.result) == ("weather", False, None)
    assert "none in Ulm" in str(result.error)
    assert validate(recorder.trajectory_path).ok
