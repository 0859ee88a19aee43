"""The URL of a client decides which provider its calls are recorded for, with every SDK."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.provider import CHAT, GENERATED, MESSAGE, OLLAMA
from tests.versions import anthropic_shapes, google_shapes, ollama_shapes, openai_shapes
from tests.versions.shapes import http_clients, of_the_sdks, speaks
from trace_recorder import TrajectoryRecorder, load

pytestmark = of_the_sdks
Payload = Any

OF_OPENAI = {
    "https://api.openai.com": "openai",
    "https://openrouter.ai/api": "openrouter",
    "https://ark.cn-beijing.volces.com/api/v3": "doubao",
    "https://api.deepseek.com": "deepseek",
    "https://api.groq.com/openai": "groq",
    "http://localhost:11434": "ollama",
    "https://bedrock-runtime.us-east-1.amazonaws.com/openai": "bedrock",
    "https://mine.openai.azure.com/openai": "azure",
    "https://gateway.example": "openai",
}
"""URLs without the version part, and their providers."""


def answering(client: Payload, body: Payload) -> Payload:
    """Let a client's HTTP client get this answer to every request."""
    http = import_module(speaks(client))
    http_clients(client)[0]._transport.close()
    http_clients(client)[0]._transport = http.MockTransport(lambda request: http.Response(200, json=body))
    return client


def served(path: Path) -> list[tuple[str | None, str | None, str | None]]:
    """Return the provider, dialect and answer of each recorded call."""
    calls = load(path).llm_interactions
    return [(call.provider, call.api, call.response.content if call.response else None) for call in calls]


@pytest.mark.parametrize(("url", "provider"), OF_OPENAI.items())
def test_the_provider_of_an_openai_client_follows_from_its_url(tmp_path: Path, url: str, provider: str) -> None:
    """An openai client with a different URL is recorded under the name of that provider."""
    pytest.importorskip("openai")
    with TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        with recorder.wrap(answering(openai_shapes.sync(url), CHAT)) as client:
            client.chat.completions.create(**openai_shapes.ASK)

    assert served(recorder.trajectory_path) == [(provider, "openai-chat", "hi")]


def test_the_user_may_name_the_provider(tmp_path: Path) -> None:
    """`provider=` takes precedence over the URL."""
    pytest.importorskip("openai")
    with TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        with recorder.wrap(answering(openai_shapes.sync("https://api.openai.com"), CHAT), provider="mine") as client:
            client.chat.completions.create(**openai_shapes.ASK)

    assert served(recorder.trajectory_path) == [("mine", "openai-chat", "hi")]


@pytest.mark.parametrize(
    ("url", "provider"),
    [
        ("https://api.anthropic.com", "anthropic"),
        ("https://openrouter.ai/api", "openrouter"),
        ("https://api.deepseek.com/anthropic", "deepseek"),
        ("https://mine.services.ai.azure.com/anthropic", "azure"),
        ("https://bedrock-mantle.us-east-1.api.aws/anthropic", "bedrock"),
        ("https://aws-external-anthropic.us-east-1.api.aws", "anthropic"),
        ("https://gateway.example", "anthropic"),
    ],
)
def test_the_provider_of_an_anthropic_client_follows_from_its_url(tmp_path: Path, url: str, provider: str) -> None:
    """An anthropic client with a different URL is recorded under the name of that provider."""
    pytest.importorskip("anthropic")
    with TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        with recorder.wrap(answering(anthropic_shapes.sync(url), MESSAGE)) as client:
            client.messages.create(**anthropic_shapes.ASK)

    assert served(recorder.trajectory_path) == [(provider, "anthropic-messages", "hi")]


@pytest.mark.parametrize("url", ["https://generativelanguage.googleapis.com", "https://gateway.example"])
def test_the_provider_of_a_google_client_is_google(tmp_path: Path, url: str) -> None:
    """A google-genai client is recorded as Google's, also through a gateway."""
    pytest.importorskip("google.genai")
    client = answering(google_shapes.gemini(url), GENERATED)
    with TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        recorder.wrap(client).models.generate_content(**google_shapes.ASK)

    assert served(recorder.trajectory_path) == [("google", "google-generate", "hi")]


@pytest.mark.parametrize("url", ["http://localhost:11434", "https://ollama.com", "https://gateway.example"])
def test_the_provider_of_an_ollama_client_is_ollama(tmp_path: Path, url: str) -> None:
    """An ollama client is recorded as Ollama's, on any host."""
    pytest.importorskip("ollama")
    client = answering(ollama_shapes.sync(url), OLLAMA)
    with TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        recorder.wrap(client).chat(**ollama_shapes.ASK)

    assert served(recorder.trajectory_path) == [("ollama", "ollama-chat", "hi")]
