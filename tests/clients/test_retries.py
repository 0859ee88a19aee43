"""Which failures are retried, how long the client waits, and how the attempts are recorded."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import anthropic
import httpx
import httpx2
import ollama
import openai
import pytest
from google.genai import errors

from tests.clients.provider import client_at
from tests.processes import ROOT
from tests.provider import CHAT, DROP, GENERATED, MESSAGE, OLLAMA, UNANSWERED, Answer, plain, serving, stream
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.clients import Client
from trace_recorder.clients.retries import (
    MAX_SERVER_WAIT_SECONDS,
    RETRY_RULES,
    is_retried,
    server_wait_seconds,
    wait_seconds,
)
from trace_recorder.errors import AnswerError

REQUEST = httpx2.Request("POST", "http://x")
ANSWERS = {
    "openai": CHAT,
    "azure": CHAT,
    "doubao": CHAT,
    "openrouter": CHAT,
    "anthropic": MESSAGE,
    "google": GENERATED,
    "ollama": OLLAMA,
}
STATES = ("openai", "azure", "doubao", "openrouter", "anthropic")
"""Providers whose SDK sends the number of the attempt in a header."""


def responded(status: int, body: Any = None, **headers: str) -> httpx2.Response:
    return httpx2.Response(status, json=body, headers=headers, request=REQUEST)


def of_openai(status: int, body: Any = None, **headers: str) -> Exception:
    return openai.APIStatusError("no", response=responded(status, body, **headers), body=body)


def of_anthropic(status: int, body: Any = None) -> Exception:
    return anthropic.APIStatusError("no", response=responded(status, body), body=body)


ERRORS: dict[str, Exception] = {
    "x-should-retry: true": of_openai(400, **{"x-should-retry": "true"}),
    "x-should-retry: false": of_openai(503, **{"x-should-retry": "false"}),
    "insufficient_quota": of_openai(429, {"code": "insufficient_quota"}),
    "overloaded_error": of_anthropic(200, {"error": {"type": "overloaded_error"}}),
    "rate_limit_error": of_anthropic(200, {"error": {"type": "rate_limit_error"}}),
    "api_error": of_anthropic(200, {"error": {"type": "api_error"}}),
    "server_error": openai.APIError("no", request=REQUEST, body={"type": "server_error"}),
    "408": of_openai(408),
    "409": of_anthropic(409),
    "425": of_openai(425),
    "429": errors.ClientError(429, {}),
    "501": ollama.ResponseError("no", 501),
    "505": of_openai(505),
    "5xx": of_anthropic(529),
    "openai.APIConnectionError": openai.APITimeoutError(REQUEST),
    "anthropic.APIConnectionError": anthropic.APIConnectionError(request=REQUEST),
    "httpx2.UnsupportedProtocol": httpx2.UnsupportedProtocol("no"),
    "httpx.UnsupportedProtocol": httpx.UnsupportedProtocol("no"),
    "httpx2.TransportError": httpx2.ReadTimeout("no"),
    "httpx.TransportError": httpx.RemoteProtocolError("no"),
    "builtins.ConnectionError": ConnectionRefusedError("no"),
    "builtins.TimeoutError": TimeoutError("no"),
}
"""An error for each row of the table."""


def test_every_row_of_the_table_decides():
    """An error is retried if its row of the table says so."""
    assert {sign: is_retried(error) for sign, error in ERRORS.items()} == {
        sign: retried for sign, (retried, _) in RETRY_RULES.items()
    }


def test_the_docs_have_the_table() -> None:
    """results/clients.md has the current table."""
    lines = [f"| {sign} | {'yes' if retried else 'no'} | {why} |" for sign, (retried, why) in RETRY_RULES.items()]

    assert "\n".join(lines) in (ROOT / "results" / "clients.md").read_text()


@pytest.mark.parametrize(
    "error",
    [of_openai(400), of_anthropic(401), of_openai(404), errors.ClientError(400, {}), ollama.ResponseError("no", 404)],
)
def test_an_error_of_the_caller_is_not_retried(error):
    """An error whose status is in no row of the table is not retried."""
    assert not is_retried(error)


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), asyncio.CancelledError(), SystemExit()])
def test_other_exceptions_are_not_retried(error):
    """A mistake in code, an interrupt and a cancellation are raised without a retry."""
    assert not is_retried(error)


def test_a_very_long_wait_is_left_to_the_caller():
    """If the server asks for a wait of more than two minutes, the error is raised without a retry."""
    asked = {"retry-after": str(int(MAX_SERVER_WAIT_SECONDS) + 1)}

    assert (is_retried(of_openai(429)), is_retried(of_openai(429, **asked))) == (True, False)


GOOGLE_DELAY = {"error": {"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7.5s"}]}}


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (of_openai(429, **{"retry-after": "3"}), 3.0),
        (of_openai(429, **{"retry-after": "0.25"}), 0.25),
        (of_openai(429, **{"retry-after": "3", "retry-after-ms": "1500"}), 1.5),
        (of_openai(429, **{"retry-after": "Sat, 01 Jan 2000 00:00:00 GMT"}), 0.0),
        (of_openai(429, **{"retry-after": "soon"}), None),
        (of_openai(429, **{"retry-after": "nan"}), None),
        (of_openai(429), None),
        (errors.ClientError(429, GOOGLE_DELAY), 7.5),
        (ConnectionError("no"), None),
    ],
)
def test_the_server_s_delay_is_read(error, seconds):
    """The delay is read as seconds, milliseconds, a date, or Google's delay in the body, and an invalid delay is
    ignored.
    """
    assert server_wait_seconds(error) == seconds


def test_a_retry_after_date_is_waited_for():
    """If Retry-After is a date, the client waits until then."""
    at = datetime.now(UTC) + timedelta(seconds=60)

    left = server_wait_seconds(of_openai(429, **{"retry-after": format_datetime(at, usegmt=True)}))
    assert 0 < left < 65


def test_waits_double_with_jitter():
    """Without a delay from the server, waits double up to eight seconds, each less up to a quarter."""
    error = ConnectionError("no")

    waits = [wait_seconds(error, attempt) for attempt in range(1, 8)]
    most = [0.5, 1, 2, 4, 8, 8, 8]
    assert all(0.75 * most <= wait <= most for wait, most in zip(waits, most, strict=True))
    assert len({wait_seconds(error, 1) for _ in range(20)}) > 1


SOON = {"retry-after-ms": "1", "retry-after": "0"}


@pytest.mark.parametrize("provider", ANSWERS)
def test_every_attempt_is_recorded(tmp_path, provider):
    """A call that is refused twice is one interaction with three attempts, whose numbers are sent if the SDK has a
    header for them.
    """
    refused = plain({"error": {"message": "slow down"}}, 429, **SOON)
    with serving(refused, refused, plain(ANSWERS[provider])) as server:
        with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
            with client_at(server, provider, recorder=recorder) as client:
                said = client.chat("hello")

    [one] = load(recorder.trajectory_path).llm_interactions
    inferred = provider not in STATES
    assert (said.content, [attempt.status for attempt in one.attempts]) == ("hi", [429, 429, 200])
    assert [attempt.inferred for attempt in one.attempts] == [False, inferred, inferred]


@pytest.mark.parametrize("provider", ANSWERS)
def test_every_attempt_of_an_async_call_is_recorded(tmp_path, provider):
    """`achat` records every attempt too."""
    refused = plain({"error": {"message": "down"}}, 503, **SOON)

    async def ask(client: Client) -> str | None:
        async with client:
            return (await client.achat("hello")).content

    with serving(refused, plain(ANSWERS[provider])) as server:
        with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
            said = asyncio.run(ask(client_at(server, provider)))

    [one] = load(recorder.trajectory_path).llm_interactions
    assert (said, [attempt.status for attempt in one.attempts]) == ("hi", [503, 200])


def test_the_last_error_is_raised_unchanged(tmp_path):
    """If all attempts fail, the SDK's own error is raised, and all attempts are recorded."""
    refused = plain({"error": {"message": "slow down"}}, 429, **SOON)
    with serving(refused) as server, TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        with client_at(server, "openai", retries=1) as client, pytest.raises(openai.RateLimitError):
            client.chat("hello")

    [one] = load(recorder.trajectory_path).llm_interactions
    assert [attempt.status for attempt in one.attempts] == [429, 429]


def test_a_broken_connection_is_retried(tmp_path):
    """A request whose connection breaks before the answer is retried."""
    cut = Answer([DROP])
    with serving(cut, plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        with client_at(server, "openai") as client:
            said = client.chat("hello")

    [one] = load(recorder.trajectory_path).llm_interactions
    assert (said.content, len(one.attempts)) == ("hi", 2)


def test_retries_can_be_turned_off():
    """With retries=0, a request is sent once, because the SDK's own retries are always off."""
    with serving(plain({"error": {}}, 503, **SOON)) as server, client_at(server, "anthropic", retries=0) as client:
        with pytest.raises(anthropic.APIStatusError):
            client.chat("hello")

    assert len(server.requests) == 1


def test_a_header_of_the_caller_stays():
    """The caller's extra headers are sent beside the header with the attempt's number."""
    with serving(plain({}, 503, **SOON), plain(CHAT)) as server, client_at(server, "openai") as client:
        client.chat("hello", extra_headers={"x-own": "1"})

    told = [(headers["x-own"], headers["x-stainless-retry-count"]) for _, headers, _ in server.requests]
    assert told == [("1", "0"), ("1", "1")]


def test_an_error_in_the_body_of_a_200_is_an_error(tmp_path):
    """An answer of OpenRouter with status 200 and an error in the body is retried if its code is temporary, and raised
    otherwise.
    """
    slow = plain({"error": {"code": 503, "message": "slow"}})
    with serving(slow, plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        with client_at(server, "openrouter") as client:
            response = client.chat("hello")
    with serving(plain({"error": {"code": 402, "message": "no money"}})) as server:
        with client_at(server, "openrouter") as client, pytest.raises(AnswerError, match="no money") as raised:
            client.chat("hello")

    errors_on_file = [call.error is not None for call in load(recorder.trajectory_path).llm_interactions]
    assert (response.content, raised.value.status_code, errors_on_file) == ("hi", 402, [True, False])


def events(*listed: dict[str, Any]) -> list[bytes]:
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in listed]


OVERLOADED, BEGUN, STARTED, TEXT, STOPPED = events(
    {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}},
    {"type": "message_start", "message": {"id": "m", "content": [], "usage": {}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
    {"type": "message_stop"},
)


def test_a_stream_is_retried_before_its_first_event():
    """A stream that begins with an error is requested again, and the caller gets only the second answer."""
    with serving(stream(OVERLOADED), stream(BEGUN, STARTED, TEXT, STOPPED)) as server:
        with client_at(server, "anthropic") as client:
            *_, last = client.stream("hello")

    assert (last.response.content, len(server.requests)) == ("hi", 2)


def test_a_stream_that_breaks_later_raises_its_error():
    """A stream that breaks after its first event raises its error, without a retry."""
    with serving(stream(BEGUN, STARTED, TEXT, OVERLOADED)) as server, client_at(server, "anthropic") as client:
        with pytest.raises(anthropic.APIStatusError, match="overloaded"):
            list(client.stream("hello"))

    assert len(server.requests) == 1


def test_a_cancelled_call_is_not_retried():
    """Cancelling `achat` ends the call without a retry."""

    async def ask(client: Client) -> None:
        async with client:
            task = asyncio.create_task(client.achat("hello"))
            while not server.requests:
                await asyncio.sleep(0.01)
            task.cancel()
            await task

    with serving(UNANSWERED) as server, pytest.raises(asyncio.CancelledError):
        asyncio.run(ask(client_at(server, "openai")))

    time.sleep(0.05)
    assert len(server.requests) == 1
