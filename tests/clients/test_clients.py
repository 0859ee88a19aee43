"""Creating clients: keys, URLs, names, missing packages, recorders, and what the import loads."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from tests.processes import python
from tests.provider import CHAT, CHAT_STREAM, plain, serving, stream
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.clients import (
    AnthropicClient,
    AzureClient,
    DoubaoClient,
    GoogleClient,
    OllamaClient,
    OpenAIClient,
    OpenRouterClient,
    TextDelta,
    create_client,
)
from trace_recorder.errors import (
    ClientError,
    MissingExtraError,
    MissingKeyError,
    StreamNotFinishedError,
    UnknownProviderError,
)

KEYS = [
    (OpenAIClient, "OPENAI_API_KEY"),
    (DoubaoClient, "ARK_API_KEY"),
    (DoubaoClient, "DOUBAO_API_KEY"),
    (OpenRouterClient, "OPENROUTER_API_KEY"),
    (AnthropicClient, "ANTHROPIC_API_KEY"),
    (GoogleClient, "GEMINI_API_KEY"),
    (GoogleClient, "GOOGLE_API_KEY"),
    (AzureClient, "AZURE_OPENAI_API_KEY"),
]
AZURE = {"azure_endpoint": "https://x.openai.azure.com", "api_version": "2024-10-21"}


@pytest.mark.parametrize(("kind", "name"), KEYS)
def test_the_key_is_taken_from_the_environment(monkeypatch, kind, name):
    """Each client takes its key from the provider's usual variables. Without a key, the error names these variables."""
    options = AZURE if kind is AzureClient else {}
    with pytest.raises(MissingKeyError, match=name):
        kind("m", **options)
    monkeypatch.setenv(name, "secret")

    sdk = kind("m", **options).sdk
    assert (sdk._api_client if kind is GoogleClient else sdk).api_key == "secret"


@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [
        (OpenAIClient, "OPENAI_BASE_URL", "/chat/completions"),
        (DoubaoClient, "ARK_BASE_URL", "/chat/completions"),
        (DoubaoClient, "DOUBAO_BASE_URL", "/chat/completions"),
        (OpenRouterClient, "OPENROUTER_BASE_URL", "/chat/completions"),
        (AzureClient, "AZURE_OPENAI_ENDPOINT", "/openai/deployments/m/chat/completions?api-version=v"),
    ],
)
def test_the_url_is_taken_from_the_environment(monkeypatch, kind, name, path):
    """Each client takes its URL from the provider's usual variables."""
    with serving(plain(CHAT)) as server:
        monkeypatch.setenv(name, server.url)
        monkeypatch.setenv("AZURE_OPENAI_API_VERSION", "v")
        with kind("m", api_key="k") as client:
            client.chat("hello")

    assert [path for path, _, _ in server.requests] == [path]


def test_some_providers_have_default_urls():
    """Clients of Doubao and OpenRouter have a default URL."""
    addresses = [str(kind(api_key="k").sdk.base_url) for kind in (DoubaoClient, OpenRouterClient)]

    assert addresses == ["https://ark.cn-beijing.volces.com/api/v3/", "https://openrouter.ai/api/v1/"]


def test_ollama_needs_no_key(monkeypatch):
    """A client of Ollama needs no key, and takes its URL from OLLAMA_HOST."""
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")

    assert str(OllamaClient("m").sdk._client.base_url) == "http://127.0.0.1:9"


@pytest.mark.parametrize("option", ["azure_ad_token", "azure_ad_token_provider"])
def test_azure_accepts_a_token_in_place_of_a_key(option):
    """With a token of Entra ID, or a function that returns one, no key is needed."""
    token = "t" if option == "azure_ad_token" else lambda: "t"
    with serving(plain(CHAT)) as server:
        with AzureClient("m", **{**AZURE, "azure_endpoint": server.url, option: token}) as client:
            client.chat("hello")

    [(_, headers, _)] = server.requests
    assert headers["authorization"] == "Bearer t"


@pytest.mark.parametrize("missing", ["azure_endpoint", "api_version"])
def test_missing_settings_of_azure_are_named(missing):
    """The error for a missing endpoint or version names the variable to set."""
    with pytest.raises(ClientError, match=f"has no {missing}: set AZURE_OPENAI_"):
        AzureClient("m", api_key="k", **{name: value for name, value in AZURE.items() if name != missing})


def test_a_client_is_created_by_its_provider_s_name():
    """`create_client` creates the client of a provider. The error for an unknown name lists the known names."""
    client = create_client("doubao", "m", api_key="k")
    assert (type(client), client.model) == (DoubaoClient, "m")

    with pytest.raises(UnknownProviderError, match="'groq'; there are openai, azure, doubao, openrouter, anthropic,"):
        create_client("groq")


def test_a_model_must_be_named():
    """A client without a model raises an error, unless the call names a model."""
    with serving(plain(CHAT)) as server, OpenAIClient(api_key="k", base_url=server.url) as client:
        client.chat("hello", model="m-2")
        with pytest.raises(ClientError, match="No model"):
            client.chat("hello")

    assert [body["model"] for body in server.bodies()] == ["m-2"]


@pytest.mark.parametrize(
    ("package", "said"), [("openai", r"trace-recorder\[clients,openai\]"), ("tenacity", r"trace-recorder\[clients\]")]
)
def test_a_missing_package_is_named(monkeypatch, package, said):
    """If the SDK or tenacity is not installed, the error says what to install."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=said):
        OpenAIClient("m", api_key="k")


def test_importing_the_clients_imports_no_sdk():
    """Importing the clients imports no SDK, no HTTP library, no tenacity and no pydantic.

    Creating a client imports them.
    """
    ended = python("import json, sys, trace_recorder.clients; print(json.dumps(sorted(sys.modules)))")

    heavy = {"openai", "anthropic", "google", "ollama", "httpx", "httpx2", "tenacity", "pydantic"}
    assert {name.partition(".")[0] for name in json.loads(ended.stdout)} & heavy == set()


def test_a_client_uses_its_recorder_or_the_current_one(tmp_path):
    """`set_trajectory_recorder` binds both SDK clients. With None they follow the current recorder."""
    with serving(plain(CHAT)) as server:
        client = OpenAIClient("m", api_key="k", base_url=server.url)
        own = TrajectoryRecorder(tmp_path / "own.json", strict=True)
        with TrajectoryRecorder(tmp_path / "current.json", strict=True) as current:
            client.chat("to the current one")
            client.set_trajectory_recorder(own)
            client.chat("to its own")

            async def ask() -> None:
                async with client:
                    await client.achat("to its own, too")
                    client.set_trajectory_recorder(None)
                    await client.achat("to the current one again")

            asyncio.run(ask())
        own.finalize()

    heard = [
        [call.input_messages[0].content for call in load(recorder.trajectory_path).llm_interactions]
        for recorder in (current, own)
    ]
    assert heard == [["to the current one", "to the current one again"], ["to its own", "to its own, too"]]


def test_a_client_works_without_a_recorder():
    """A client without a recorder works, and nothing is recorded."""
    with serving(plain(CHAT)) as server, OpenAIClient("m", api_key="k", base_url=server.url) as client:
        assert client.chat("hello").content == "hi"


def test_parameters_are_passed_to_the_sdk():
    """Other arguments of a call are in the request unchanged, even if only the SDK knows them."""
    with serving(plain(CHAT)) as server, OpenAIClient("m", api_key="k", base_url=server.url) as client:
        client.chat("hello", temperature=0, extra_body={"own": 1}, timeout=5)

    assert server.bodies() == [
        {"model": "m", "messages": [{"role": "user", "content": "hello"}], "temperature": 0, "own": 1}
    ]


def test_a_stream_can_be_closed_early(tmp_path):
    """A stream that the caller closes early has no response, and its received part is recorded with the reason."""
    with serving(stream(*CHAT_STREAM[:1], 0.2, *CHAT_STREAM[1:])) as server:
        with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
            with OpenAIClient("m", api_key="k", base_url=server.url) as client, client.stream("hello") as events:
                first = next(events)
                with pytest.raises(StreamNotFinishedError):
                    events.response  # noqa: B018 - reading the attribute raises

    [one] = load(recorder.trajectory_path).llm_interactions
    assert (first, one.complete, one.response.content) == (TextDelta("Grü"), False, "Grü")


def test_an_async_stream_can_be_closed_early(tmp_path):
    """An async stream can be left early, and its received part is recorded."""

    async def ask(client: OpenAIClient) -> object:
        async with client, client.astream("hello") as events:
            return await anext(events)

    with serving(stream(*CHAT_STREAM[:1], 0.2, *CHAT_STREAM[1:])) as server:
        with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
            first = asyncio.run(ask(OpenAIClient("m", api_key="k", base_url=server.url)))

    [one] = load(recorder.trajectory_path).llm_interactions
    assert (first, one.complete) == (TextDelta("Grü"), False)


def test_a_stream_without_its_last_event_is_incomplete():
    """If a connection closes before the last event of the protocol, `Finished.complete` is False."""
    with serving(stream(*CHAT_STREAM[:2])) as server:
        with OpenAIClient("m", api_key="k", base_url=server.url) as client:
            *_, last = client.stream("hello")

    assert (last.complete, last.response.content) == (False, "Grüße")
