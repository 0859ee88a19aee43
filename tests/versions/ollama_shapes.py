"""The shapes of ollama: both clients, and every way to call a client."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from tests.provider import OLLAMA, plain
from tests.versions.answers import (
    OLLAMA_EMBEDDED,
    OLLAMA_EMBEDDING,
    OLLAMA_GENERATE_STREAM,
    OLLAMA_GENERATED,
    OLLAMA_SHOWN,
    OLLAMA_STREAM,
)
from tests.versions.shapes import Call, Make, NotInThisVersionError, iterated, own_transport, shapes

Payload = Any


def _client(name: str, url: str, **options: Payload) -> Payload:
    return getattr(import_module("ollama"), name)(host=url, **options)


def _with_own_transport(name: str, url: str) -> Payload:
    return _client(name, url, transport=own_transport("httpx", asynchronous=name.startswith("Async")))


def weather(city: str) -> str:
    """Return the weather."""
    return f"fine in {city}"


def _chat_with_objects(client: Payload) -> Payload:
    if not hasattr(import_module("ollama._types"), "JsonSchemaValue"):
        raise NotInThisVersionError("schemas as a format")
    message = import_module("ollama").Message(role="user", content="hello")
    return partial(client.chat, messages=[message], tools=[weather], format=FORMAT)


FORMAT = {"type": "object", "properties": {"word": {"type": "string"}}}
sync = partial(_client, "Client")

SYNC: dict[str, Make] = {
    "Client": sync,
    "Client with the user's transport": partial(_with_own_transport, "Client"),
}
ASYNC: dict[str, Make] = {
    "AsyncClient": partial(_client, "AsyncClient"),
    "AsyncClient with the user's transport": partial(_with_own_transport, "AsyncClient"),
}

ASK = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
PROMPT = {"model": "m", "prompt": "hello"}
chat = partial(Call, lambda client: client.chat, apis=("ollama-chat",))
generate = partial(Call, lambda client: client.generate, apis=("ollama-generate",))

CALLS: dict[str, Call] = {
    "chat": chat(ASK, (plain(OLLAMA),)),
    "chat, streamed": chat({**ASK, "stream": True}, (OLLAMA_STREAM,), take=iterated),
    "chat, with a message object, a function and a schema": Call(
        _chat_with_objects, {"model": "m"}, (plain(OLLAMA),), ("ollama-chat",)
    ),
    "generate": generate(PROMPT, (plain(OLLAMA_GENERATED),)),
    "generate, streamed": generate({**PROMPT, "stream": True}, (OLLAMA_GENERATE_STREAM,), take=iterated),
    "embed": Call(
        lambda client: client.embed, {"model": "m", "input": "hello"}, (plain(OLLAMA_EMBEDDED),), ("embeddings",)
    ),
    "embeddings": Call(lambda client: client.embeddings, PROMPT, (plain(OLLAMA_EMBEDDING),), ("embeddings",)),
    "show": Call(lambda client: client.show, {"model": "m"}, (plain(OLLAMA_SHOWN),), ()),
}

SHAPES = shapes(SYNC, CALLS, basic=2) | shapes(ASYNC, CALLS, basic=2)
