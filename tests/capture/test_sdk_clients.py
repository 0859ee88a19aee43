"""Finding the transports inside each SDK's client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import anthropic
import httpx
import httpx2
import ollama
import openai
import pytest
from google import genai
from google.auth.credentials import Credentials
from google.genai.types import HttpOptions

from tests.capture.server import CHAT, GENERATED, MESSAGE, OLLAMA, Server, plain, serving
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

ASK = [{"role": "user", "content": "hello"}]


class _Token(Credentials):
    """Credentials that need no server."""

    def __init__(self) -> None:
        super().__init__()
        self.token = "ya29.a-token-that-must-not-be-on-file"

    def refresh(self, request: object) -> None:
        return


def _openai(server: Server) -> openai.OpenAI:
    return openai.OpenAI(api_key="sk-the-openai-client", base_url=f"{server.url}/v1", max_retries=0)


def _google(server: Server) -> genai.Client:
    return genai.Client(api_key="a-key-of-the-client", http_options=HttpOptions(base_url=server.url))


def _call_openai(server: Server, bind: Callable[[object], None]) -> object:
    with _openai(server) as client:
        bind(client)
        return client.chat.completions.create(model="m", messages=ASK).choices[0].message.content


def _call_async_openai(server: Server, bind: Callable[[object], None]) -> object:
    async def call() -> object:
        async with openai.AsyncOpenAI(api_key="sk-the-openai-client", base_url=f"{server.url}/v1") as client:
            bind(client)
            return (await client.chat.completions.create(model="m", messages=ASK)).choices[0].message.content

    return asyncio.run(call())


def _call_azure(server: Server, bind: Callable[[object], None]) -> object:
    with openai.AzureOpenAI(
        api_key="a-key-of-the-client", azure_endpoint=server.url, api_version="2024-10-21"
    ) as client:
        bind(client)
        return client.chat.completions.create(model="m", messages=ASK).choices[0].message.content


def _call_async_azure(server: Server, bind: Callable[[object], None]) -> object:
    async def call() -> object:
        async with openai.AsyncAzureOpenAI(
            azure_ad_token="a-token-of-the-client", azure_endpoint=server.url, api_version="2024-10-21"
        ) as client:
            bind(client)
            return (await client.chat.completions.create(model="m", messages=ASK)).choices[0].message.content

    return asyncio.run(call())


def _call_anthropic(server: Server, bind: Callable[[object], None]) -> object:
    with anthropic.Anthropic(api_key="a-key-of-the-client", base_url=server.url) as client:
        bind(client)
        return client.messages.create(model="m", max_tokens=9, messages=ASK).content[0].text


def _call_async_anthropic(server: Server, bind: Callable[[object], None]) -> object:
    async def call() -> object:
        async with anthropic.AsyncAnthropic(api_key="a-key-of-the-client", base_url=server.url) as client:
            bind(client)
            return (await client.messages.create(model="m", max_tokens=9, messages=ASK)).content[0].text

    return asyncio.run(call())


def _call_google(server: Server, bind: Callable[[object], None]) -> object:
    with _google(server) as client:
        bind(client)
        return client.models.generate_content(model="m", contents="hello").text


def _call_async_google(server: Server, bind: Callable[[object], None]) -> object:
    client = _google(server)
    bind(client)

    async def call() -> object:
        async with client.aio as aio:
            return (await aio.models.generate_content(model="m", contents="hello")).text

    answer = asyncio.run(call())
    client.close()
    return answer


def _call_vertex(server: Server, bind: Callable[[object], None]) -> object:
    with genai.Client(
        vertexai=True, project="p", location="l", credentials=_Token(), http_options=HttpOptions(base_url=server.url)
    ) as client:
        bind(client)
        return client.models.generate_content(model="m", contents="hello").text


def _call_ollama(server: Server, bind: Callable[[object], None]) -> object:
    with ollama.Client(host=server.url) as client:
        bind(client)
        return client.chat(model="m", messages=ASK).message.content


def _call_async_ollama(server: Server, bind: Callable[[object], None]) -> object:
    async def call() -> object:
        client = ollama.AsyncClient(host=server.url)
        bind(client)
        try:
            return (await client.chat(model="m", messages=ASK)).message.content
        finally:
            await client.close()

    return asyncio.run(call())


CALLS = {
    "openai": (_call_openai, CHAT, "openai", "openai-chat"),
    "openai async": (_call_async_openai, CHAT, "openai", "openai-chat"),
    "azure": (_call_azure, CHAT, "azure", "openai-chat"),
    "azure async": (_call_async_azure, CHAT, "azure", "openai-chat"),
    "anthropic": (_call_anthropic, MESSAGE, "anthropic", "anthropic-messages"),
    "anthropic async": (_call_async_anthropic, MESSAGE, "anthropic", "anthropic-messages"),
    "google": (_call_google, GENERATED, "google", "google-generate"),
    "google async": (_call_async_google, GENERATED, "google", "google-generate"),
    "vertex": (_call_vertex, GENERATED, "google", "google-generate"),
    "ollama": (_call_ollama, OLLAMA, "ollama", "ollama-chat"),
    "ollama async": (_call_async_ollama, OLLAMA, "ollama", "ollama-chat"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_of_each_client_is_recorded_once(tmp_path: Path, name: str) -> None:
    """Each client's call is on file once, with its dialect, provider, model and answer."""
    call, body, provider, api = CALLS[name]
    with serving(plain(body)) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        answer = call(server, recorder.wrap)

    [one] = load(recorder.trajectory_path).llm_interactions
    assert (answer, one.provider, one.api, one.model, one.response and one.response.content, one.complete) == (
        "hi",
        provider,
        api,
        "m",
        "hi",
        True,
    )
    assert [one.raw_request] == server.bodies()
    assert one.raw_response == body


@pytest.mark.parametrize("name", CALLS)
def test_no_key_is_on_file(tmp_path: Path, name: str) -> None:
    """The key or token of a client appears in neither file."""
    call, body, *_ = CALLS[name]
    echo = {**body, "echo": "a-key-of-the-client, sk-the-openai-client, a-token-of-the-client"}
    with serving(plain(echo)) as server, TrajectoryRecorder(directory=tmp_path) as recorder:
        call(server, recorder.wrap)

    written = recorder.trajectory_path.read_text() + recorder.trajectory_path.with_suffix(".jsonl").read_text()
    sent = " ".join(value for _, headers, _ in server.requests for value in headers.values())
    keys = (
        "a-key-of-the-client",
        "sk-the-openai-client",
        "a-token-of-the-client",
        "ya29.a-token-that-must-not-be-on-file",
    )
    assert [key for key in keys if key in sent and key in written] == []


def test_keys_in_headers_and_urls_are_not_on_file(tmp_path: Path) -> None:
    """What stands in extra headers, in the URL's query and in its user part is not on file."""
    with serving(plain(CHAT)) as server, TrajectoryRecorder(directory=tmp_path) as recorder:
        url = server.url.replace("http://", "http://user:the-password-of-the-url@")
        with recorder.wrap(
            openai.OpenAI(api_key="sk-client", base_url=f"{url}/v1", default_query={"api_key": "the-key-of-the-url"})
        ) as client:
            client.chat.completions.create(
                model="m",
                messages=[{"role": "user", "content": "my key is the-key-of-a-header"}],
                extra_headers={"X-Gateway-Key": "the-key-of-a-header", "Cookie": "session=the-cookie"},
                extra_query={"key": "the-key-of-the-query"},
            )

    assert b"the-key-of-the-url" in server.requests[0][0].encode()
    written = recorder.trajectory_path.read_text() + recorder.trajectory_path.with_suffix(".jsonl").read_text()
    secrets = (
        "the-password-of-the-url",
        "the-key-of-the-url",
        "the-key-of-a-header",
        "the-cookie",
        "the-key-of-the-query",
    )
    assert [secret for secret in secrets if secret in written] == []
    assert "my key is [REDACTED:known-secret]" in written


def test_a_wrapped_client_is_the_same_object() -> None:
    """wrap and unwrap return the very client, and unwrap leaves what was there before."""
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
    """unwrap gives a google-genai client its transports and its inner clients' class back."""
    client = genai.Client(api_key="k")
    inner = client._api_client._async_httpx_client
    before = client._api_client._httpx_client._transport, inner._transport, vars(inner).keys()

    unwrap(wrap(client))

    assert (client._api_client._httpx_client._transport, inner._transport, vars(inner).keys()) == before
    client.close()


def test_proxies_are_recorded_too(tmp_path: Path) -> None:
    """A call that goes through a mounted transport is recorded."""
    with serving(plain(CHAT)) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        mounts = {"http://": httpx2.HTTPTransport()}
        with openai.OpenAI(
            api_key="k", base_url=f"{server.url}/v1", http_client=httpx2.Client(mounts=mounts)
        ) as client:
            recorder.wrap(client).chat.completions.create(model="m", messages=ASK)

    assert len(load(recorder.trajectory_path).llm_interactions) == 1


def test_copies_of_a_client_are_recorded_once(tmp_path: Path) -> None:
    """with_options() and copy() share the recording, and wrapping a copy or the client again adds nothing."""
    with serving(plain(CHAT)) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        client = recorder.wrap(recorder.wrap(_openai(server)))
        recorder.wrap(client.with_options(timeout=5)).chat.completions.create(model="m", messages=ASK)
        client.copy().chat.completions.create(model="m", messages=ASK)
        client.close()

    assert len(load(recorder.trajectory_path).llm_interactions) == 2


@pytest.mark.parametrize("module", [httpx, httpx2])
def test_http_clients_of_both_libraries_can_be_wrapped(tmp_path: Path, module: object) -> None:
    """An httpx or httpx2 client is wrapped itself, for frameworks that take one."""
    with serving(plain(CHAT)) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        with recorder.wrap(module.Client()) as client:  # type: ignore[attr-defined]
            client.post(f"{server.url}/v1/chat/completions", json={"model": "m", "messages": ASK})
            client.post(f"{server.url}/v1/other", json={})

    [one] = load(recorder.trajectory_path).llm_interactions
    assert one.response.content == "hi"


def test_http_client_makes_a_recording_client(tmp_path: Path) -> None:
    """http_client() follows the context, and serves an SDK that takes it."""
    with serving(plain(CHAT)) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        with openai.OpenAI(api_key="k", base_url=f"{server.url}/v1", http_client=http_client()) as client:
            client.chat.completions.create(model="m", messages=ASK)

    assert len(load(recorder.trajectory_path).llm_interactions) == 1


def test_async_http_client_makes_a_recording_client(tmp_path: Path) -> None:
    """async_http_client() can be bound to a recorder and told the provider."""

    async def call(url: str, recorder: TrajectoryRecorder) -> None:
        made = async_http_client(recorder=recorder, provider="doubao")
        async with openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1", http_client=made) as client:
            await client.chat.completions.create(model="m", messages=ASK)

    with serving(plain(CHAT)) as server:
        recorder = TrajectoryRecorder(directory=tmp_path, strict=True)
        asyncio.run(call(server.url, recorder))
        recorder.finalize()

    assert [one.provider for one in load(recorder.trajectory_path).llm_interactions] == ["doubao"]


def test_an_unknown_client_is_refused() -> None:
    """wrap() of what holds no HTTP client says what to give it."""
    with pytest.raises(UnsupportedClientError, match=r"wrap\(\) finds no HTTP client .* http_client="):
        wrap(object())


def test_one_http_client_is_not_bound_to_two_recorders(tmp_path: Path) -> None:
    """Binding a second client on one HTTP client to a second recorder is refused while the first runs."""
    with httpx2.Client() as shared:
        first, second = (openai.OpenAI(api_key="k", http_client=shared) for _ in range(2))
        with TrajectoryRecorder(directory=tmp_path) as one, TrajectoryRecorder(directory=tmp_path) as other:
            one.wrap(first)
            with pytest.raises(BoundClientError, match="follow the context"):
                other.wrap(second)
        with TrajectoryRecorder(directory=tmp_path) as later:
            assert later.wrap(second) is second


def test_a_binding_moves_with_a_warning(tmp_path: Path) -> None:
    """Wrapping by another recorder moves the client to it, with a warning while the first still runs."""
    with serving(plain(CHAT)) as server, TrajectoryRecorder(directory=tmp_path) as one:
        client = one.wrap(_openai(server))
        with TrajectoryRecorder(directory=tmp_path) as other:
            with pytest.warns(UserWarning, match="bound to another recorder"):
                other.wrap(client)
            client.chat.completions.create(model="m", messages=ASK)
        client.close()

    recorded = [len(load(recorder.trajectory_path).llm_interactions) for recorder in (one, other)]
    assert recorded == [0, 1]


def test_one_client_follows_many_runs(tmp_path: Path) -> None:
    """A client that follows the context records each concurrent run to its own file."""

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

    said = [[one.input_messages[0].content for one in load(path).llm_interactions] for path, _ in runs]
    assert said == [[str(number)] * 3 for _, number in runs]


def test_a_thread_without_context_falls_back_to_the_only_run(tmp_path: Path) -> None:
    """A call in a plain thread goes to the only recorder running; where several run, it leaves a gap in each."""
    with serving(plain(CHAT)) as server:
        client = wrap(_openai(server))

        def call() -> None:
            thread = threading.Thread(target=lambda: client.chat.completions.create(model="m", messages=ASK))
            thread.start()
            thread.join()

        with TrajectoryRecorder(directory=tmp_path) as first:
            call()
            with TrajectoryRecorder(directory=tmp_path) as second:
                call()
        call()
        client.close()

    loaded = [load(recorder.trajectory_path) for recorder in (first, second)]
    assert [len(trajectory.llm_interactions) for trajectory in loaded] == [1, 0]
    assert [[gap.what for gap in trajectory.gaps] for trajectory in loaded] == [["record an LLM call"]] * 2


def test_a_client_of_an_ended_run_goes_on_unrecorded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After finalize a bound client works as if unwrapped, with one warning."""
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
