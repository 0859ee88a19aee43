"""The edited requests of a fork: each dialect's model and system prompt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trace_recorder.dialects.endpoints import Endpoint, with_model
from trace_recorder.rerun.answers import Outgoing
from trace_recorder.rerun.forking import Changes

USER = {"role": "user", "content": "hi"}
OLD, NEW = {"role": "system", "content": "Be kind."}, {"role": "system", "content": "Be brief."}
DEVELOPER = {"role": "developer", "content": "Be kind."}
PROMPTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "chat": ("openai-chat", {"messages": [OLD, USER]}, {"messages": [NEW, USER]}),
    "chat without": ("openai-chat", {"messages": [USER]}, {"messages": [NEW, USER]}),
    "developer": (
        "openai-chat",
        {"messages": [DEVELOPER, USER]},
        {"messages": [{**DEVELOPER, "content": "Be brief."}, USER]},
    ),
    "responses": ("openai-responses", {"input": "hi"}, {"input": "hi", "instructions": "Be brief."}),
    "responses with a message": ("openai-responses", {"input": [OLD, USER]}, {"input": [NEW, USER]}),
    "anthropic": (
        "anthropic-messages",
        {"system": [{"type": "text"}], "messages": []},
        {"system": "Be brief.", "messages": []},
    ),
    "google": (
        "google-generate",
        {"contents": []},
        {"contents": [], "systemInstruction": {"parts": [{"text": "Be brief."}]}},
    ),
    "google in snakes": (
        "google-generate",
        {"system_instruction": {}},
        {"system_instruction": {"parts": [{"text": "Be brief."}]}},
    ),
    "interactions": ("google-interactions", {"input": "hi"}, {"input": "hi", "system_instruction": "Be brief."}),
    "ollama": ("ollama-chat", {"messages": [OLD]}, {"messages": [NEW]}),
    "ollama's generate": ("ollama-generate", {"prompt": "hi"}, {"prompt": "hi", "system": "Be brief."}),
    "embeddings": ("embeddings", {"input": "hi"}, {"input": "hi"}),
}


@pytest.mark.parametrize(("api", "before", "after"), PROMPTS.values(), ids=PROMPTS)
def test_the_system_prompt_of_each_dialect_is_replaced(api: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    """The prompt is replaced where the dialect has it. A request of a dialect without a system prompt is unchanged."""
    sent = Changes(system="Be brief.").applied(Endpoint(api, "", None, streams=False), json.dumps(before).encode())

    assert json.loads(sent.body) == after


def test_the_recorded_model_is_replaced() -> None:
    """The model is replaced in the body or in the URL. A different model is kept."""
    changes = Changes(model="new")
    changes.replace_model_of(Endpoint("google-generate", "", "old", streams=False), {})
    in_body, in_address = (Endpoint("", "", name, streams=False) for name in (None, "old"))

    assert json.loads(changes.applied(in_body, b'{"model": "old"}').body) == {"model": "new"}
    assert changes.applied(in_body, b'{"model":  "other"}') == Outgoing(b'{"model":  "other"}')
    assert changes.applied(in_address, b"no JSON") == Outgoing(b"no JSON", "new")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("/v1beta/models/old:generateContent?alt=sse", "/v1beta/models/a%2Fb:generateContent?alt=sse"),
        ("/openai/deployments/old/chat/completions", "/openai/deployments/a%2Fb/chat/completions"),
        ("/v1/chat/completions?x=/models/", "/v1/chat/completions?x=/models/"),
    ],
)
def test_a_model_in_a_url_is_replaced(before: str, after: str) -> None:
    """The URLs of Gemini and Azure name the model. Any other URL is unchanged."""
    assert with_model(before, "a/b") == after
