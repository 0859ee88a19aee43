"""Replay with the client of each SDK: the recorded answer without a server, sync and async."""

from __future__ import annotations

import asyncio
import warnings
from pathlib import Path
from typing import Any

import openai
import pytest
from google import genai
from google.genai.types import HttpOptions

from tests.capture.sdk_calls import CALLS
from tests.provider import CHAT, GENERATED, Answer, Server, plain, serving
from tests.rerun.runs import KEY
from trace_recorder import ReplayMismatchError, TrajectoryRecorder, load, replay

DEAD = Server([])
DEAD.server_close()
"""An address where no server listens."""


@pytest.mark.parametrize("name", CALLS)
def test_each_client_is_answered_without_its_server(tmp_path: Path, name: str) -> None:
    """Each SDK's client returns the same as when it was recorded, and is unchanged after the block."""
    call, body, *_ = CALLS[name]
    path = tmp_path / "run.json"
    with serving(plain(body)) as server, TrajectoryRecorder(path, strict=True) as recorder:
        came = call(server, recorder.wrap)

    with replay(path) as run:
        again = call(DEAD, run.wrap)

    assert (came, again) == ("hi", "hi")


@pytest.mark.parametrize("name", CALLS)
def test_instrument_answers_each_client(tmp_path: Path, name: str) -> None:
    """With `instrument`, clients that are not wrapped return the same as when they were recorded."""
    call, body, *_ = CALLS[name]
    path = tmp_path / "run.json"
    with serving(plain(body)) as server, TrajectoryRecorder(path, strict=True) as recorder:
        call(server, recorder.wrap)

    with replay(path, instrument=True):
        assert call(DEAD, lambda made: made) == "hi"


def google(url: str) -> Any:
    return genai.Client(api_key=KEY, http_options=HttpOptions(base_url=url))


def generated(made: Any, text: str) -> Any:
    """Return the model's answer, awaited in a new event loop."""

    async def call() -> Any:
        answer = await made.aio.models.generate_content(model="m", contents=text)
        for inner in list(made._api_client._async_httpx_client._loop_clients.values()):
            await inner.aclose()
        return answer.text

    return asyncio.run(call())


def test_a_google_client_is_answered_in_later_loops(tmp_path: Path) -> None:
    """Google's async client makes an HTTP client for each event loop. Each of them is answered."""
    path = tmp_path / "run.json"
    with serving(plain(GENERATED)) as server, TrajectoryRecorder(path, strict=True) as recorder:
        made = recorder.wrap(google(server.url))
        came = [generated(made, text) for text in ("one", "two")]

    made = google(DEAD.url)
    with replay(path) as run:
        run.wrap(made)
        again = [generated(made, text) for text in ("one", "two")]

    assert again == came == ["hi", "hi"]
    assert "_inner_client_cls" not in vars(made._api_client._async_httpx_client)


@pytest.mark.parametrize("recorder_first", [True, False])
def test_a_google_client_is_recorded_and_replayed_in_each_loop(tmp_path: Path, recorder_first: bool) -> None:
    """Recorder and replay may wrap the client in any order. After the replay the client is still recorded."""
    path = tmp_path / "run.json"
    with serving(plain(GENERATED)) as server:
        with TrajectoryRecorder(path, strict=True) as recorder:
            generated(recorder.wrap(google(server.url)), "one")

        made = google(server.url)
        with TrajectoryRecorder(tmp_path / "again.json", strict=True) as recorder:
            with replay(path) as run:
                for wrap in (recorder.wrap, run.wrap) if recorder_first else (run.wrap, recorder.wrap):
                    wrap(made)
                generated(made, "one")
            generated(made, "two")

        asked = len(server.requests)
    texts = [call.input_messages[0].content for call in load(tmp_path / "again.json").llm_interactions]
    assert (texts, asked) == (["one", "two"], 2)


def test_an_azure_deployment_is_part_of_the_request(tmp_path: Path) -> None:
    """Azure names the model in its URL, so a different deployment is a mismatch, and the report names it."""
    path = tmp_path / "run.json"

    def azure(url: str) -> openai.AzureOpenAI:
        return openai.AzureOpenAI(api_key=KEY, azure_endpoint=url, api_version="2024-10-21", max_retries=0)

    def asked(made: openai.AzureOpenAI, deployment: str) -> str | None:
        with made:
            answer = made.chat.completions.create(model=deployment, messages=[{"role": "user", "content": "hello"}])
        return answer.choices[0].message.content

    with serving(plain(CHAT)) as server, TrajectoryRecorder(path, strict=True) as recorder:
        asked(recorder.wrap(azure(server.url)), "small")

    with replay(path) as run:
        assert asked(run.wrap(azure(DEAD.url)), "small") == "hi"
    with pytest.raises(openai.APIConnectionError) as raised, replay(path) as run:
        asked(run.wrap(azure(DEAD.url)), "large")
    assert isinstance(raised.value.__cause__, ReplayMismatchError)
    assert "openai-chat, large" in str(raised.value.__cause__)


def test_functions_of_the_openai_module_are_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the block the module has no additional HTTP client."""
    path = tmp_path / "run.json"
    monkeypatch.setattr(openai, "api_key", KEY)
    monkeypatch.setattr(openai, "base_url", f"{DEAD.url}/v1/")
    with serving(plain(CHAT)) as server, TrajectoryRecorder(path, strict=True) as recorder:
        with openai.OpenAI(api_key=KEY, base_url=f"{server.url}/v1") as made:
            recorder.wrap(made).chat.completions.create(model="m", messages=[])

    with replay(path) as run:
        run.wrap(openai)
        answer = openai.chat.completions.create(model="m", messages=[])
    openai.http_client.close()
    openai.http_client = openai._client = None

    assert answer.choices[0].message.content == "hi"


def test_an_error_and_its_retry_are_replayed_through_each_sdk(tmp_path: Path) -> None:
    """No SDK waits before its retry, and neither does Google's."""
    path = tmp_path / "run.json"
    retried = {"attempts": 2, "initial_delay": 0.01, "max_delay": 0.01, "http_status_codes": [503]}

    def made(url: str, **options: Any) -> Any:
        return genai.Client(api_key=KEY, http_options=HttpOptions(base_url=url, retry_options=options))

    busy = Answer([b'{"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}'], status=503)
    with serving(busy, plain(GENERATED)) as server, TrajectoryRecorder(path, strict=True) as recorder:
        client = recorder.wrap(made(server.url, **retried))
        came = client.models.generate_content(model="m", contents="one").text

    with warnings.catch_warnings(), replay(path) as run:
        client = run.wrap(made(DEAD.url, **{**retried, "initial_delay": 300.0, "max_delay": 300.0}))
        assert client.models.generate_content(model="m", contents="one").text == came == "hi"
