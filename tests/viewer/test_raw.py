"""The page's data for sending a recorded request again: only a provider's own hosts get the variable of its API key."""

from __future__ import annotations

import pytest

from trace_recorder.viewer.raw import sending_of

KEYS = {
    ("https://api.openai.com/v1/chat/completions", "openai-chat"): "Authorization: Bearer $OPENAI_API_KEY",
    ("https://API.OpenAI.com:443/v1/responses", "openai-responses"): "Authorization: Bearer $OPENAI_API_KEY",
    ("https://api.anthropic.com/v1/messages", "anthropic-messages"): "x-api-key: $ANTHROPIC_API_KEY",
    ("https://api.anthropic.com/v1/chat/completions", "openai-chat"): "Authorization: Bearer $ANTHROPIC_API_KEY",
    ("https://r.openai.azure.com/openai/v1/responses", "openai-responses"): "api-key: $AZURE_OPENAI_API_KEY",
    ("https://generativelanguage.googleapis.com/v1/models/m:g", "google-generate"): "x-goog-api-key: $GEMINI_API_KEY",
    ("https://openrouter.ai/api/v1/messages", "anthropic-messages"): "Authorization: Bearer $OPENROUTER_API_KEY",
    ("https://api.groq.com/openai/v1/chat/completions", "openai-chat"): "Authorization: Bearer $GROQ_API_KEY",
}
NO_KEYS = (
    "http://api.openai.com/v1/chat/completions",
    "https://api.openai.com.evil.org/v1/chat/completions",
    "https://evilapi.openai.com.org/v1/chat/completions",
    "https://evil-openrouter.ai/v1/chat/completions",
    "https://api.openai.com@evil.org/v1/chat/completions",
    "https://evil.org\\@api.openai.com/v1/chat/completions",
    "https://api.openai.com:8443/v1/chat/completions",
    "https://api.openai.com\x1b/v1/chat/completions",
    "http://127.0.0.1:11434/v1/chat/completions",
    "-o https://api.openai.com/v1/chat/completions",
    "",
)


@pytest.mark.parametrize(("url", "api"), KEYS)
def test_a_provider_s_own_host_gets_its_key(url: str, api: str) -> None:
    """For a provider's own host, the data names the provider's header and the variable of its API key."""
    key = sending_of(url, api)["key"]

    assert f"{key['header']}: {key['prefix']}${key['variable']}" == KEYS[url, api]


@pytest.mark.parametrize("url", NO_KEYS)
def test_a_different_host_gets_no_key(url: str) -> None:
    """For a host that is not clearly a provider's own, no variable of an API key is named, in any dialect."""
    assert sending_of(url, "openai-chat") == {"headers": {"Content-Type": "application/json"}, "key": None}


def test_anthropic_s_dialect_has_its_version_header() -> None:
    """The data of a request in Anthropic's dialect has the version header that the provider requires."""
    assert sending_of("http://127.0.0.1/v1/messages", "anthropic-messages")["headers"] == {
        "Content-Type": "application/json",
        "anthropic-version": "2023-06-01",
    }
