"""Wrapping and unwrapping clients: which recorder records the calls of a client."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import httpx2
import openai
import pytest
from google import genai

from tests.capture.sdk_calls import ASK, _openai
from tests.provider import CHAT, plain, serving
from trace_recorder import (
    BoundClientError,
    TrajectoryRecorder,
    UnsupportedClientError,
    async_http_client,
    current_recorder,
    http_client,
    load,
    unwrap,
    wrap,
)


def test_a_wrapped_client_is_the_same_object() -> None:
    """`wrap` and `unwrap` return the same client, and `unwrap` restores its earlier state."""
    client = openai.OpenAI(api_key="k")
    before = client._client._transport, dict(client._client._mounts)

    same = wrap(client)
    wrapped = client._client._transport
    assert same is client
    assert unwrap(client) is client
    assert (client._client._transport, dict(client._client._mounts)) == before
    assert wrapped is not before[0]
    client.close()


def test_google_clients_are_restored() -> None:
    """`unwrap` restores a google-genai client's transports, and the class of the clients inside."""
    client = genai.Client(api_key="k")
    inner = client._api_client._async_httpx_client
    before = client._api_client._httpx_client._transport, inner._transport, vars(inner).keys()

    unwrap(wrap(client))

    assert (client._api_client._httpx_client._transport, inner._transport, vars(inner).keys()) == before
    client.close()


def test_calls_through_proxies_are_recorded(tmp_path: Path) -> None:
    """A call through a transport that is mounted for a proxy is recorded."""
    with serving(plain(CHAT)) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        mounts = {"http://": httpx2.HTTPTransport()}
        with openai.OpenAI(
            api_key="k", base_url=f"{server.url}/v1", http_client=httpx2.Client(mounts=mounts)
        ) as client:
            recorder.wrap(client).chat.completions.create(model="m", messages=ASK)

    assert len(load(recorder.trajectory_path).llm_interactions) == 1


def test_copies_of_a_client_are_recorded_once(tmp_path: Path) -> None:
    """Copies by `with_options()` and `copy()` are recorded once, even if a copy is wrapped too."""
    with serving(plain(CHAT)) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        client = recorder.wrap(recorder.wrap(_openai(server)))
        recorder.wrap(client.with_options(timeout=5)).chat.completions.create(model="m", messages=ASK)
        client.copy().chat.completions.create(model="m", messages=ASK)
        client.close()

    assert len(load(recorder.trajectory_path).llm_interactions) == 2


@pytest.mark.parametrize("module", [httpx, httpx2])
def test_http_clients_of_both_libraries_can_be_wrapped(tmp_path: Path, module: object) -> None:
    """An httpx or httpx2 client can be wrapped, for frameworks that accept such a client."""
    with serving(plain(CHAT)) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        with recorder.wrap(module.Client()) as client:  # type: ignore[attr-defined]
            client.post(f"{server.url}/v1/chat/completions", json={"model": "m", "messages": ASK})
            client.post(f"{server.url}/v1/other", json={})

    [one] = load(recorder.trajectory_path).llm_interactions
    assert one.response.content == "hi"


def test_http_client_returns_a_recording_client(tmp_path: Path) -> None:
    """A client that `http_client()` returns follows the context, and an SDK accepts it."""
    with serving(plain(CHAT)) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        with openai.OpenAI(api_key="k", base_url=f"{server.url}/v1", http_client=http_client()) as client:
            client.chat.completions.create(model="m", messages=ASK)

    assert len(load(recorder.trajectory_path).llm_interactions) == 1


def test_async_http_client_returns_a_recording_client(tmp_path: Path) -> None:
    """A client that `async_http_client()` returns can be bound to a recorder and a provider."""

    async def call(url: str, recorder: TrajectoryRecorder) -> None:
        made = async_http_client(recorder=recorder, provider="doubao")
        async with openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1", http_client=made) as client:
            await client.chat.completions.create(model="m", messages=ASK)

    with serving(plain(CHAT)) as server:
        recorder = TrajectoryRecorder(directory=tmp_path, strict=True)
        asyncio.run(call(server.url, recorder))
        recorder.finalize()

    assert [call.provider for call in load(recorder.trajectory_path).llm_interactions] == ["doubao"]


def test_an_unknown_client_is_refused() -> None:
    """`wrap()` refuses an object without an HTTP client, with an error that says what to pass instead."""
    with pytest.raises(UnsupportedClientError, match=r"wrap\(\) finds no HTTP client .* http_client="):
        wrap(object())


def test_an_http_client_is_not_bound_to_two_recorders(tmp_path: Path) -> None:
    """Two clients that share an HTTP client cannot be bound to two running recorders."""
    with httpx2.Client() as shared:
        first, second = (openai.OpenAI(api_key="k", http_client=shared) for _ in range(2))
        with TrajectoryRecorder(directory=tmp_path) as one, TrajectoryRecorder(directory=tmp_path) as other:
            one.wrap(first)
            with pytest.raises(BoundClientError, match="follow the context"):
                other.wrap(second)
        with TrajectoryRecorder(directory=tmp_path) as later:
            assert later.wrap(second) is second


def test_wrapping_by_a_second_recorder_moves_the_client(tmp_path: Path) -> None:
    """A client that a second recorder wraps is recorded by the second, with a warning if the first still runs."""
    with serving(plain(CHAT)) as server, TrajectoryRecorder(directory=tmp_path) as first:
        client = first.wrap(_openai(server))
        with TrajectoryRecorder(directory=tmp_path) as other:
            with pytest.warns(UserWarning, match="bound to another recorder"):
                other.wrap(client)
            client.chat.completions.create(model="m", messages=ASK)
        client.close()

    recorded = [len(load(recorder.trajectory_path).llm_interactions) for recorder in (first, other)]
    assert recorded == [0, 1]


def test_a_client_follows_many_runs(tmp_path: Path) -> None:
    """The calls of a client that follows the context are recorded in the file of their own concurrent run."""

    async def agent(client: openai.AsyncOpenAI, number: int) -> tuple[Path, int]:
        async with TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
            assert current_recorder() is recorder
            for _ in range(3):
                await client.chat.completions.create(model="m", messages=[{"role": "user", "content": str(number)}])
        return recorder.trajectory_path, number

    async def agents(url: str) -> list[tuple[Path, int]]:
        async with openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1") as client:
            wrap(client)
            return await asyncio.gather(*(agent(client, number) for number in range(8)))

    with serving(plain(CHAT)) as server:
        runs = asyncio.run(agents(server.url))

    prompts = [[call.input_messages[0].content for call in load(path).llm_interactions] for path, _ in runs]
    assert prompts == [[str(number)] * 3 for _, number in runs]


def test_a_client_of_an_ended_run_works_unrecorded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After `finalize`, a bound client works as if unwrapped, with one warning."""
    with serving(plain(CHAT)) as server:
        with TrajectoryRecorder(directory=tmp_path) as recorder:
            client = recorder.wrap(_openai(server))
        for _ in range(2):
            client.chat.completions.create(model="m", messages=ASK)
        client.close()

    assert len(load(recorder.trajectory_path).llm_interactions) == 0
    assert [record.message.partition(":")[0] for record in caplog.records if record.name == "trace_recorder"] == [
        "a wrapped client goes on unrecorded"
    ]
