"""Seven providers on 127.0.0.1, at seven URLs of one server, with the same small model.

The dialects are the demo's. This file adds the members that two OpenAI-compatible providers add to its dialect. The
model counts the lines of text files, with the tools of `examples/clients/one_agent.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from examples.demo.dialects import openai_chat
from examples.demo.dialects.exchange import Exchange
from examples.demo.policy import Action, Call, Conversation
from tests.provider import Answer, Request, Server
from tests.scripted_model import Model
from trace_recorder.clients import Client, create_client

Payload = Any
LISTED = re.compile(r"\w+\.txt")
THINKING: dict[str, Payload] = {
    "anthropic": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    "google": {"thinking_config": {"include_thoughts": True}},
    "ollama": {"think": True},
    "openai-responses": {
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "store": False,
    },
}
"""The parameters with which each provider returns reasoning."""


def decide(conversation: Conversation) -> Action:
    """List the files, count the lines of each side by side, add the counts, and state the sum."""
    seen = {each.call.name: each.result for each in conversation.seen}
    counts = [int(each.result) for each in conversation.seen if each.call.name == "count_lines"]
    if "list_files" not in seen:
        return Action("First the files.", "I look at the files.", (Call("list_files", {"directory": "."}),))
    if not counts:
        calls = (Call("count_lines", {"path": path}) for path in LISTED.findall(seen["list_files"]))
        return Action("Both at once.", "Now their lines.", tuple(calls))
    if "add" not in seen:
        numbers: Payload = {"numbers": counts}
        return Action("A sum is left.", "I add them.", (Call("add", numbers),))
    return Action("That is all.", f"They have {seen['add']} lines together.")


def providers() -> Callable[[Request], Answer]:
    """Return a function that answers each request in the dialect of the provider whose name begins the path."""
    model = Model(lambda turn: decide(turn.conversation()))
    models = {name: Model(model.decide, extra) for name, extra in (("doubao", _doubao), ("openrouter", _openrouter))}

    def answer(request: Request) -> Answer:
        provider, _, path = request.path.removeprefix("/").partition("/")
        path = openai_chat.PATH if "/chat/completions" in path else f"/{path}"
        return models.get(provider, model)(request._replace(path=path))

    return answer


def client_at(server: Server, kind: str, **options: Any) -> Client:
    """Return a client whose provider is the server.

    `kind` is a provider's name, and may end with a hyphen and an API.
    """
    provider, _, api = kind.partition("-")
    address = f"{server.url}/{provider}"
    own: dict[str, dict[str, Any]] = {
        "openai": {"api_key": "k", "base_url": f"{address}/v1"},
        "azure": {"api_key": "k", "azure_endpoint": address, "api_version": "2024-10-21"},
        "doubao": {"api_key": "k", "base_url": f"{address}/api/v3"},
        "openrouter": {"api_key": "k", "base_url": f"{address}/api/v1"},
        "anthropic": {"api_key": "k", "base_url": address},
        "google": {"api_key": "k", "http_options": {"base_url": address}},
        "ollama": {"host": address},
    }
    return create_client(provider, "m", **{**own[provider], **({"api": api} if api else {}), **options})


def _doubao(exchange: Exchange) -> Payload:
    return {"reasoning_content": exchange.action.reasoning}


def _openrouter(exchange: Exchange) -> Payload:
    text = exchange.action.reasoning
    detail = {"type": "reasoning.text", "text": text, "signature": "sig", "format": "anthropic-claude-v1", "index": 0}
    return {"reasoning": text, "reasoning_details": [detail]}
