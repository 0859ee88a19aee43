"""Calls that are no turns of a conversation, by the real SDKs: images, sounds, compactions, embeddings, moderations.

Each is on file with its texts, its media and its usage, whole, when it is loaded and in the document.
"""

from __future__ import annotations

import asyncio
import json
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest

from tests.capture.operations import OPERATIONS, Operation
from tests.provider import serving
from tests.versions.shapes import closed
from trace_recorder import LLMInteraction, Replay, TrajectoryRecorder, load

pytestmark = pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
openai = pytest.importorskip("openai")
genai = pytest.importorskip("google.genai")

Payload = Any


def client_of(sdk: str, url: str, *, asynchronous: bool) -> Payload:
    if sdk == "google":
        return genai.Client(api_key="k", http_options={"base_url": url})
    kind = openai.AsyncOpenAI if asynchronous else openai.OpenAI
    return kind(api_key="k", base_url=f"{url}/v1", max_retries=0)


async def read(answer: Payload) -> None:
    """Read an answer to its end: a stream, or the bytes of a sound."""
    if isawaitable(answer):
        answer = await answer
    if hasattr(answer, "__aiter__"):
        _ = [event async for event in answer]
    elif hasattr(answer, "__next__"):
        _ = [*answer]


def recorded(path: Path, operation: Operation, *, asynchronous: bool) -> LLMInteraction:
    async def work(client: Payload) -> None:
        inner = client.aio if operation.sdk == "google" and asynchronous else client
        try:
            await read(operation.method(inner)(**operation.arguments))
        except Exception as failure:  # noqa: BLE001 - the SDK's exception, or one of the HTTP library
            failures.append(failure)
        await closed(client, asynchronous=asynchronous)

    failures: list[Exception] = []
    with serving(operation.answer) as server, TrajectoryRecorder(path / "a.json") as recorder:
        client = recorder.wrap(client_of(operation.sdk, server.url, asynchronous=asynchronous))
        asyncio.run(work(client))
    assert bool(failures) is (operation.error is not None), failures
    run = load(path / "a.json")
    [call] = run.llm_interactions
    document = json.loads((path / "a.json").read_text())
    assert (document["llm_interactions"], run.gaps) == (run.to_document()["llm_interactions"], ())
    return call


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_on_file(tmp_path: Path, name: str, *, asynchronous: bool) -> None:
    """The call has its texts, its media, its usage and its error, and its dialect and provider."""
    operation = OPERATIONS[name]
    call = recorded(tmp_path, operation, asynchronous=asynchronous)
    response = call.response

    assert [*call.input_messages] == operation.messages
    assert (response.content, response.usage, response.extra, response.id, response.model, response.given) == (
        operation.response.content,
        operation.response.usage,
        operation.response.extra,
        operation.response.id,
        operation.response.model,
        operation.response.given,
    )
    assert (call.api, call.provider, call.model) == (
        operation.api,
        operation.provider,
        operation.arguments["model"],
    )
    assert (call.error and call.error.type, (call.ended_by or "").partition(":")[0]) == (
        operation.error,
        operation.ended_by or "",
    )
    assert operation.raw is None or call.raw_response == operation.raw


@pytest.mark.parametrize("name", ["audio.speech", "audio.speech, as events", "images.edit", "audio.transcriptions"])
def test_a_replay_gives_the_same_bytes(tmp_path: Path, name: str) -> None:
    """A replay answers with the bytes that came, even of a sound."""
    operation = OPERATIONS[name]
    recorded(tmp_path, operation, asynchronous=False)
    with Replay(tmp_path / "a.json") as replay:
        client = replay.wrap(client_of("openai", "http://127.0.0.1:1", asynchronous=False))
        answer = operation.method(client)(**operation.arguments)
        expected = b"".join(chunk for chunk in operation.answer.chunks if isinstance(chunk, bytes))
        content = answer.content if hasattr(answer, "content") else expected
        client.close()

    assert (content, replay.live_calls) == (expected, 0)
