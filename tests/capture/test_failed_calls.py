"""Calls that fail and are retried."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import openai
import pytest
import tenacity

from tests.capture.recorded_clients import ASK, create, interactions, recorded_client
from tests.provider import CHAT, SILENCE, UNANSWERED, Answer, Server, plain, serving
from trace_recorder import TrajectoryRecorder


def test_retries_of_an_sdk_are_attempts(tmp_path: Path) -> None:
    """A call that an SDK retries is one interaction. Each attempt has its status, error and time."""
    path = tmp_path / "run.json"
    busy = plain({"error": {"message": "slow down", "type": "rate_limit"}}, 429, **{"retry-after-ms": "1"})
    with recorded_client(path, busy, busy, plain(CHAT), max_retries=2) as (client, _):
        create(client)

    [interaction] = interactions(path)
    attempts = [
        (attempt.number, attempt.status, attempt.error and attempt.error.type, attempt.inferred)
        for attempt in interaction.attempts
    ]
    assert attempts == [(0, 429, "rate_limit", False), (1, 429, "rate_limit", False), (2, 200, None, False)]
    assert interaction.error is None
    assert interaction.response.content == "hi"


def test_retries_of_the_user_s_code_are_inferred(tmp_path: Path) -> None:
    """In a user's own retry loop, every call is recorded, and their grouping is marked as inferred."""
    path = tmp_path / "run.json"
    with recorded_client(path, plain({"error": {"message": "no"}}, 500), plain(CHAT)) as (client, _):
        tenacity.Retrying(stop=tenacity.stop_after_attempt(3))(create, client)

    [one] = interactions(path)
    assert [(attempt.status, attempt.inferred) for attempt in one.attempts] == [(500, False), (200, True)]


def test_simultaneous_equal_requests_are_separate_interactions(tmp_path: Path) -> None:
    """Ten simultaneous equal requests are ten interactions."""
    path = tmp_path / "run.json"

    async def calls(url: str, recorder: TrajectoryRecorder) -> None:
        async with openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1") as client:
            recorder.wrap(client)
            await asyncio.gather(*(client.chat.completions.create(model="m", messages=ASK) for _ in range(10)))  # type: ignore[call-overload]

    with serving(plain(CHAT)) as server, TrajectoryRecorder(path, strict=True) as recorder:
        asyncio.run(calls(server.url, recorder))

    assert [len(call.attempts) for call in interactions(path)] == [1] * 10


def test_a_provider_error_is_recorded_and_passes(tmp_path: Path) -> None:
    """An answer of status 400 raises the SDK's exception, and is recorded with the body that the server sent."""
    path = tmp_path / "run.json"
    body = {"error": {"message": "bad tool", "type": "invalid_request_error"}}
    with recorded_client(path, plain(body, 400)) as (client, _):
        with pytest.raises(openai.BadRequestError):
            create(client)

    [one] = interactions(path)
    assert one.error is not None
    assert (one.error.type, one.error.message, one.error.status) == ("invalid_request_error", "bad tool", 400)
    assert (one.answered, one.raw_response, one.to_document()["response"]) == (False, body, {})


def test_a_refused_connection_is_recorded(tmp_path: Path) -> None:
    """A refused connection raises the same error as without wrapping, and the call is recorded with the error."""
    path = tmp_path / "run.json"
    with TrajectoryRecorder(path, strict=True) as recorder:
        with recorder.wrap(openai.OpenAI(api_key="k", base_url="http://127.0.0.1:9/v1", max_retries=0)) as client:
            with pytest.raises(openai.APIConnectionError):
                create(client)

    [one] = interactions(path)
    assert one.error is not None
    assert (one.error.type, one.complete, one.raw_request) == ("ConnectError", False, {"messages": ASK, "model": "m"})


def test_a_timeout_is_recorded(tmp_path: Path) -> None:
    """A timeout raises the same error as without wrapping, and the call is recorded with the error."""
    path = tmp_path / "run.json"
    with recorded_client(path, Answer([SILENCE]), timeout=httpx2.Timeout(None, read=0.1)) as (client, _):
        with pytest.raises(openai.APITimeoutError):
            create(client)

    [one] = interactions(path)
    assert one.error is not None
    assert (one.error.type, one.complete) == ("ReadTimeout", False)


def test_a_cancelled_call_is_recorded_as_cancelled(tmp_path: Path) -> None:
    """A cancellation reaches the caller, and the call is recorded as cancelled."""
    path = tmp_path / "run.json"

    async def cancelled(server: Server, recorder: TrajectoryRecorder) -> None:
        async with openai.AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0) as client:
            recorder.wrap(client)
            asking = asyncio.ensure_future(client.chat.completions.create(model="m", messages=ASK))  # type: ignore[call-overload]
            while not (server.requests or asking.done()):
                await asyncio.sleep(0.01)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking

    with serving(UNANSWERED) as server, TrajectoryRecorder(path, strict=True) as recorder:
        asyncio.run(cancelled(server, recorder))

    [one] = interactions(path)
    assert one.error is not None
    assert (one.error.type, one.complete) == ("CancelledError", False)
