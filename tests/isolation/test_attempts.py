"""Which requests are attempts of one interaction: retries of an SDK, and requests that look like a user's retry."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest
import tenacity
from google import genai

from tests.agreement import agrees_when_saved
from tests.provider import CHAT, DROP, GENERATED, MESSAGE, Answer, Server, plain, serving
from tests.versions.shapes import of_the_sdks
from trace_recorder import LLMInteraction, TrajectoryRecorder, load
from trace_recorder.figures.stats import time_of
from trace_recorder.values.llm_interaction import pause_between

pytestmark = of_the_sdks
Payload = Any

ASK = [{"role": "user", "content": "hello"}]
OTHER = [{"role": "user", "content": "something else"}]
BUSY = plain({"error": {"message": "slow down", "type": "rate_limit"}}, 429, **{"retry-after-ms": "1"})
SSE = {"content-type": "text/event-stream"}
CUT = Answer([b"{", 0.01, DROP])


@contextmanager
def recorded(path: Path, *answers: Answer, retries: int = 0) -> Iterator[tuple[openai.OpenAI, Server]]:
    """Yield a wrapped OpenAI client, its server, and the path of a run."""
    with (
        serving(*answers) as server,
        TrajectoryRecorder(path, strict=True) as recorder,
        openai.OpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=retries) as client,
    ):
        yield recorder.wrap(client), server


def create(client: Payload, messages: Payload = ASK) -> Payload:
    """Make a call."""
    return client.chat.completions.create(model="m", messages=messages)


def attempts(one: LLMInteraction) -> list[tuple[int | None, str | None, bool]]:
    """Return the status and error of each attempt of an interaction, and whether the attempt is inferred."""
    assert [each.number for each in one.attempts] == list(range(len(one.attempts)))
    assert all(each.duration_seconds is not None and each.timestamp for each in one.attempts)
    return [(each.status, each.error.type if each.error else None, each.inferred) for each in one.attempts]


def on_file(path: Path) -> list[list[tuple[int | None, str | None, bool]]]:
    """Return the attempts of every interaction of a run."""
    return [attempts(call) for call in load(path).llm_interactions]


FIRST = (429, "rate_limit", False)
RETRIED = (200, None, False)
INFERRED = (200, None, True)
ALONE = [(200, None, False)]


def ask_openai(url: str, recorder: TrajectoryRecorder) -> None:
    with recorder.wrap(openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=2)) as client:
        create(client)


def ask_openai_async(url: str, recorder: TrajectoryRecorder) -> None:
    async def ask() -> None:
        async with openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=2) as client:
            await create(recorder.wrap(client))

    asyncio.run(ask())


def ask_anthropic(url: str, recorder: TrajectoryRecorder) -> None:
    with recorder.wrap(anthropic.Anthropic(api_key="k", base_url=url, max_retries=2)) as client:
        client.messages.create(model="m", max_tokens=9, messages=ASK)  # type: ignore[arg-type]


def ask_anthropic_async(url: str, recorder: TrajectoryRecorder) -> None:
    async def ask() -> None:
        async with anthropic.AsyncAnthropic(api_key="k", base_url=url, max_retries=2) as client:
            await recorder.wrap(client).messages.create(model="m", max_tokens=9, messages=ASK)  # type: ignore[arg-type]

    asyncio.run(ask())


def _gemini(url: str) -> genai.Client:
    retries = {"attempts": 3, "initial_delay": 0.01, "max_delay": 0.01, "jitter": 0.01}
    return genai.Client(api_key="k", http_options={"base_url": url, "retry_options": retries})  # type: ignore[arg-type]


def ask_google(url: str, recorder: TrajectoryRecorder) -> None:
    with recorder.wrap(_gemini(url)) as client:
        client.models.generate_content(model="m", contents="hello")


def ask_google_async(url: str, recorder: TrajectoryRecorder) -> None:
    async def ask() -> None:
        client = recorder.wrap(_gemini(url))
        await client.aio.models.generate_content(model="m", contents="hello")
        await client.aio.aclose()
        client.close()

    asyncio.run(ask())


SDKS = {
    "openai": (ask_openai, CHAT, False),
    "openai async": (ask_openai_async, CHAT, False),
    "anthropic": (ask_anthropic, MESSAGE, False),
    "anthropic async": (ask_anthropic_async, MESSAGE, False),
    "google": (ask_google, GENERATED, True),
    "google async": (ask_google_async, GENERATED, True),
}
"""How to call each SDK, its answers, and whether its retries can only be inferred."""


@pytest.mark.parametrize("sdk", SDKS)
def test_retries_of_an_sdk_are_one_interaction(tmp_path: Path, sdk: str) -> None:
    """A call that an SDK retries is one interaction, with status, error and time of each attempt. google-genai's are
    inferred.
    """
    path = tmp_path / "run.json"
    ask, body, inferred = SDKS[sdk]
    with serving(BUSY, plain({"error": {"message": "no"}}, 503, **{"retry-after-ms": "1"}), plain(body)) as server:
        with TrajectoryRecorder(path, strict=True) as recorder:
            ask(server.url, recorder)

    [one] = on_file(path)
    assert one == [(429, "rate_limit", False), (503, "http_error", inferred), (200, None, inferred)]
    assert len(server.requests) == 3


def test_an_echoed_key_of_a_refused_attempt_is_in_no_file(tmp_path: Path) -> None:
    """A client's key in a refusal is masked on file, and the caller of a raw response gets the key as sent."""
    key = "a-key-of-the-gateway"
    refused = plain({"error": {"message": f"wrong key {key}", "type": "invalid_key"}}, 401)
    busy = plain({"error": {"message": f"busy: {key}", "type": "rate_limit"}}, 429, **{"retry-after-ms": "1"})
    path = tmp_path / "run.json"
    with serving(busy, refused) as server, TrajectoryRecorder(path, strict=True) as recorder:
        with recorder.wrap(openai.OpenAI(api_key=key, base_url=f"{server.url}/v1", max_retries=2)) as client:
            with pytest.raises(openai.AuthenticationError, match=f"wrong key {key}"):
                create(client.with_raw_response)

    assert on_file(path) == [[FIRST, (401, "invalid_key", False)]]
    [one] = load(path).llm_interactions
    assert one.error is not None
    assert one.error.message.startswith("wrong key [REDACTED")
    assert key not in path.read_text() + path.with_suffix(".jsonl").read_text()


def test_the_pause_before_a_retry_is_time_of_the_call(tmp_path: Path) -> None:
    """The pause of an SDK before a retry belongs to the call in both files, and not to the tool before the call."""
    path = tmp_path / "run.json"
    busy = plain({"error": {"type": "rate_limit"}}, 429, **{"retry-after-ms": "300"})
    with serving(plain(CHAT), busy, plain(CHAT)) as server, TrajectoryRecorder(path, strict=True) as recorder:
        with openai.OpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=1) as client:
            create(recorder.wrap(client))
            recorder.tool(time.sleep, name="look")(0.05)
            create(client, OTHER)
        assert agrees_when_saved(recorder)

    run = load(path)
    _, retried = run.llm_interactions
    failed, answered = retried.attempts
    [result] = [result for step in run.agent_steps for result in step.tool_results]
    pause = pause_between(failed, answered)
    parts = [failed.duration_seconds, pause, answered.duration_seconds]
    assert pause is not None
    assert pause > 0.25
    assert retried.duration_seconds == pytest.approx(sum(part for part in parts if part is not None), abs=1e-5)
    assert time_of(run)["tool"] == pytest.approx(result.duration_seconds, abs=0.02)
    assert run.metrics["llm_seconds"] == pytest.approx(sum(call.duration_seconds or 0 for call in run.llm_interactions))


def test_a_call_cancelled_between_its_attempts_has_the_made_attempts(tmp_path: Path) -> None:
    """A call that is cancelled while its SDK waits to retry has failed with the last answer, and no request is in
    flight.
    """
    path = tmp_path / "run.json"

    async def work(server: Server, recorder: TrajectoryRecorder) -> None:
        async with openai.AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=2) as client:
            call = asyncio.create_task(create(recorder.wrap(client)))
            while '"llm_response"' not in path.with_suffix(".jsonl").read_text():
                await asyncio.sleep(0.005)
            call.cancel()
            with suppress(asyncio.CancelledError):
                await call
            await create(client)

    with serving(plain({"error": {"type": "rate_limit"}}, 429, **{"retry-after": "30"}), plain(CHAT)) as server:
        with TrajectoryRecorder(path, strict=True) as recorder:
            asyncio.run(work(server, recorder))

    assert on_file(path) == [[FIRST], ALONE]


@pytest.mark.parametrize("sdk", [name for name in SDKS if "google" not in name])
def test_a_connection_that_breaks_is_an_attempt(tmp_path: Path, sdk: str) -> None:
    """An attempt whose connection breaks is recorded with its error, and the next attempt with the answer."""
    path = tmp_path / "run.json"
    ask, body, _ = SDKS[sdk]
    with serving(CUT, plain(body)) as server, TrajectoryRecorder(path, strict=True) as recorder:
        with suppress(httpx2.RemoteProtocolError):
            ask(server.url, recorder)

    assert on_file(path)[0][0] == (200, "RemoteProtocolError", False)
    assert sum(map(len, on_file(path))) == len(server.requests)


def test_retries_of_the_user_s_loop_are_inferred(tmp_path: Path) -> None:
    """In a user's own loop around an SDK that retries too, every request is recorded, and the loop's grouping is
    inferred.
    """
    path = tmp_path / "run.json"
    with recorded(path, BUSY, BUSY, BUSY, plain(CHAT), retries=1) as (client, _):
        tenacity.Retrying(stop=tenacity.stop_after_attempt(3))(create, client)

    assert on_file(path) == [[FIRST, FIRST, (429, "rate_limit", True), RETRIED]]


def test_an_equal_call_after_success_is_a_new_call(tmp_path: Path) -> None:
    """A request equal to one that succeeded is a new interaction."""
    path = tmp_path / "run.json"
    with recorded(path, BUSY, plain(CHAT), retries=1) as (client, _):
        create(client)
        create(client)

    assert on_file(path) == [[FIRST, RETRIED], ALONE]


def test_an_equal_call_after_a_different_call_is_a_new_call(tmp_path: Path) -> None:
    """A failed request, a different request, and the first one again are three interactions."""
    path = tmp_path / "run.json"
    with recorded(path, BUSY, plain(CHAT)) as (client, _):
        with suppress(openai.RateLimitError):
            create(client)
        create(client, OTHER)
        create(client)

    assert on_file(path) == [[FIRST], ALONE, ALONE]


def test_a_changed_request_is_a_new_call(tmp_path: Path) -> None:
    """A request that differs in any byte from the failed request before it is a new interaction."""
    path = tmp_path / "run.json"
    with recorded(path, BUSY, plain(CHAT)) as (client, _):
        with suppress(openai.RateLimitError):
            create(client)
        create(client, [*ASK, *OTHER])

    assert on_file(path) == [[FIRST], ALONE]


def test_an_equal_call_of_a_second_run_is_a_new_call(tmp_path: Path) -> None:
    """A request equal to one that failed in another run is a new interaction."""
    with serving(BUSY, plain(CHAT)) as server:
        with openai.OpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0) as client:
            for name in ("one", "two"):
                with TrajectoryRecorder(tmp_path / f"{name}.json", strict=True) as recorder:
                    with suppress(openai.RateLimitError):
                        create(recorder.wrap(client))

    assert [on_file(tmp_path / f"{name}.json") for name in ("one", "two")] == [[[FIRST]], [ALONE]]


def create_or_fail(client: Payload) -> None:
    """Make a call, and ignore its failure."""
    with suppress(openai.RateLimitError):
        create(client)


@pytest.mark.parametrize("retries", [0, 2])
def test_equal_calls_in_threads_that_fail_and_retry_are_separate(tmp_path: Path, retries: int) -> None:
    """Ten equal requests in ten threads, five of which first fail, are ten interactions."""
    path = tmp_path / "run.json"
    with recorded(path, *[BUSY] * 5, plain(CHAT), retries=retries) as (client, server):
        threads = [threading.Thread(target=create_or_fail, args=(client,)) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    found = on_file(path)
    assert len(found) == 10
    assert sum(map(len, found)) == len(server.requests)


@pytest.mark.parametrize("retries", [0, 2])
def test_equal_calls_in_tasks_that_fail_and_retry_are_separate(tmp_path: Path, retries: int) -> None:
    """Ten equal requests in ten tasks, five of which first fail, are ten interactions."""
    path = tmp_path / "run.json"

    async def calls(url: str, recorder: TrajectoryRecorder) -> None:
        async with openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=retries) as client:
            recorder.wrap(client)
            await asyncio.gather(*(create(client) for _ in range(10)), return_exceptions=True)

    with serving(*[BUSY] * 5, plain(CHAT)) as server, TrajectoryRecorder(path, strict=True) as recorder:
        asyncio.run(calls(server.url, recorder))

    found = on_file(path)
    assert len(found) == 10
    assert sum(map(len, found)) == len(server.requests)


def test_equal_jobs_of_a_worker_look_like_retries(tmp_path: Path) -> None:
    """Equal jobs of one worker after a failure are grouped as inferred attempts, and no job is lost."""
    path = tmp_path / "run.json"
    with recorded(path, BUSY, plain(CHAT)) as (client, _):
        with ThreadPoolExecutor(1) as pool:
            list(pool.map(create_or_fail, [client] * 3))

    assert on_file(path) == [[FIRST, INFERRED], ALONE]


def test_a_failure_has_one_retry(tmp_path: Path) -> None:
    """At most one of ten equal tasks after a failure is its retry, so that the other tasks are interactions of their
    own.
    """
    path = tmp_path / "run.json"

    async def calls(url: str, recorder: TrajectoryRecorder) -> None:
        async with openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0) as client:
            recorder.wrap(client)
            with suppress(openai.RateLimitError):
                await create(client)
            await asyncio.gather(*(create(client) for _ in range(10)))

    with serving(BUSY, plain(CHAT)) as server, TrajectoryRecorder(path, strict=True) as recorder:
        asyncio.run(calls(server.url, recorder))

    assert sorted(on_file(path), key=len) == [*[ALONE] * 9, [FIRST, INFERRED]]


def test_a_failure_has_one_retry_in_threads(tmp_path: Path) -> None:
    """At most one of several threads with copies of the failed call's context makes its retry."""
    path = tmp_path / "run.json"
    with recorded(path, BUSY, plain(CHAT)) as (client, _):
        with suppress(openai.RateLimitError):
            create(client)
        with ThreadPoolExecutor(4) as pool:
            [pool.submit(contextvars.copy_context().run, create, client) for _ in range(4)]

    assert sorted(on_file(path), key=len) == [*[ALONE] * 3, [FIRST, INFERRED]]


def test_a_broken_stream_is_retried(tmp_path: Path) -> None:
    """A stream that broke off and the same request after it are two attempts, and both keep their received parts."""
    path = tmp_path / "run.json"
    half = Answer([b'data: {"choices":[{"index":0,"delta":{"content":"ha"}}]}\n\n', 0.02, DROP], 200, SSE)
    whole = Answer([b'data: {"choices":[{"index":0,"delta":{"content":"half"}}]}\n\n', b"data: [DONE]\n\n"], 200, SSE)
    with recorded(path, half, whole) as (client, _):
        for _ in range(2):
            with suppress(openai.APIConnectionError):
                list(client.chat.completions.create(model="m", messages=ASK, stream=True))  # type: ignore[arg-type]

    [one] = load(path).llm_interactions
    assert attempts(one) == [(200, "RemoteProtocolError", False), INFERRED]
    assert (one.complete, one.response and one.response.content) == (True, "half")


def test_a_broken_connection_after_a_stream_is_no_failure(tmp_path: Path) -> None:
    """After a stream that was complete when its connection broke, the same request is a new interaction."""
    path = tmp_path / "run.json"
    ended = Answer([b"data: [DONE]\n\n", 0.02, DROP], 200, SSE)
    with serving(ended) as server, TrajectoryRecorder(path, strict=True) as recorder:
        with recorder.wrap(httpx2.Client()) as client:
            for _ in range(2):
                with suppress(httpx2.RemoteProtocolError):
                    client.post(f"{server.url}/v1/chat/completions", json={"model": "m", "stream": True})

    assert on_file(path) == [ALONE, ALONE]


def test_a_redirect_is_an_attempt(tmp_path: Path) -> None:
    """A redirected request is one interaction: the redirect is its first attempt, and the target's answer its last."""
    path = tmp_path / "run.json"
    moved = Answer([], 307, {"location": "/v2/chat/completions"})
    with recorded(path, moved, plain(CHAT)) as (client, server):
        create(client)

    assert [sent for sent, _, _ in server.requests] == ["/v1/chat/completions", "/v2/chat/completions"]
    assert on_file(path) == [[(307, None, False), RETRIED]]
