"""Differences between today's SDKs' requests and the recorded ones, each kind with its reason.

Requests without such a difference are sent as they were recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.wire.corpus import Exchange, Payload

_SNAKE = "google-genai writes the members of files and blobs in snake case"
_NULL = "ollama leaves out a member that is null or empty"
SDK_CHANGES: Mapping[tuple[str, str], str] = {
    ("embeddings", "encoding_format"): "openai asks for base64 where the caller does not say, and decodes it",
    ("embeddings", "keep_alive"): _NULL,
    ("google-generate", "contents.parts.fileData.fileUri"): _SNAKE,
    ("google-generate", "contents.parts.fileData.file_uri"): _SNAKE,
    ("google-generate", "contents.parts.fileData.mimeType"): _SNAKE,
    ("google-generate", "contents.parts.fileData.mime_type"): _SNAKE,
    ("google-generate", "contents.parts.inlineData.mimeType"): _SNAKE,
    ("google-generate", "contents.parts.inlineData.mime_type"): _SNAKE,
    ("google-generate", "generationConfig"): "google-genai always sends one, if it is empty",
    ("google-interactions", "input"): "google-genai makes a step of bare content",
    ("ollama-chat", "keep_alive"): _NULL,
    ("ollama-chat", "messages.content"): _NULL,
    ("ollama-chat", "tools"): "ollama always sends tools, if there are none",
    ("ollama-generate", "images"): _NULL,
    ("ollama-generate", "keep_alive"): _NULL,
}


def changes(exchange: Exchange, sent: Payload) -> set[tuple[str, str]]:
    """Return where the sent request differs from the recorded one: the dialect, and the path of the place."""
    return {(exchange.dialect, ".".join(path)) for path in _paths(exchange.request, sent)}


def _paths(recorded: Payload, sent: Payload) -> Iterator[tuple[str, ...]]:
    if isinstance(recorded, list) and isinstance(sent, list) and len(recorded) == len(sent):
        for one, other in zip(recorded, sent, strict=True):
            yield from _paths(one, other)
    elif isinstance(recorded, dict) and isinstance(sent, dict):
        for name in recorded.keys() | sent.keys():
            if (name in recorded) != (name in sent):
                yield (name,)
            else:
                yield from ((name, *path) for path in _paths(recorded.get(name), sent.get(name)))
    elif recorded != sent or type(recorded) is not type(sent):
        yield ()
