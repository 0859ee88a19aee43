"""Calls of the real SDKs that are no turns of a conversation, each with an answer and what must be on file."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.provider import DROP, Answer, plain, stream
from trace_recorder import LLMResponse, Message, Usage

Payload = Any
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40
MP3 = b"ID3\x04\x00" + bytes(range(256)) * 300
PCM = bytes(5000)
"""A silent sound, whose bytes are also UTF-8."""


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def image(data: bytes, **more: Payload) -> Payload:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded(data)}"}, **more}


def sent_file(kind: str, media_type: str, data: bytes, name: str) -> Payload:
    source = {"type": "base64", "media_type": media_type, "data": encoded(data)}
    return {"type": kind, "source": source, "filename": name}


def events(*events: Payload) -> Answer:
    return stream(*(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events))


def sound(data: bytes, kind: str = "audio/mpeg") -> Answer:
    return Answer([data[:700], data[700:]], headers={"content-type": kind})


IMAGE_USAGE = {
    "input_tokens": 50,
    "input_tokens_details": {"image_tokens": 40, "text_tokens": 10},
    "output_tokens": 1000,
    "total_tokens": 1050,
}
READ_IMAGE_USAGE = Usage(
    50, 1000, extra={"input_tokens_details": IMAGE_USAGE["input_tokens_details"], "total_tokens": 1050}
)
MADE = {
    "created": 1,
    "data": [{"b64_json": encoded(PNG), "revised_prompt": "a cat, please"}],
    "output_format": "png",
    "usage": IMAGE_USAGE,
}
PARTIAL = {
    "type": "image_generation.partial_image",
    "b64_json": encoded(PNG[:99]),
    "partial_image_index": 0,
    "created_at": 1,
    "output_format": "png",
    "size": "1024x1024",
    "quality": "low",
    "background": "opaque",
}
COMPLETED = {
    **{name: value for name, value in PARTIAL.items() if name != "partial_image_index"},
    "type": "image_generation.completed",
    "b64_json": encoded(PNG),
    "usage": IMAGE_USAGE,
}
TOKENS = {
    "type": "tokens",
    "input_tokens": 14,
    "input_token_details": {"text_tokens": 4, "audio_tokens": 10},
    "output_tokens": 5,
    "total_tokens": 19,
}
READ_TOKENS = Usage(
    14, 5, extra={"type": "tokens", "input_token_details": TOKENS["input_token_details"], "total_tokens": 19}
)
ASKED_TWICE = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]
KEPT = {
    "id": "m1",
    "type": "message",
    "status": "completed",
    "role": "user",
    "content": [{"type": "input_text", "text": "hi"}],
}
COMPACTED = {
    "id": "resp_1",
    "object": "response.compaction",
    "created_at": 1,
    "output": [KEPT, {"id": "c1", "type": "compaction", "encrypted_content": "gAAAA"}],
    "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
}
VERDICT = {"id": "modr-1", "model": "omni", "results": [{"flagged": False}]}


@dataclass(frozen=True)
class Operation:
    """A call of an SDK, the server's answer, and what must be on file."""

    method: Callable[[Payload], Callable[..., Payload]]
    arguments: dict[str, Payload]
    answer: Answer
    api: str
    messages: list[Message]
    response: LLMResponse
    raw: Payload = None
    sdk: str = "openai"
    error: str | None = None
    ended_by: str | None = None
    provider: str = field(default="openai")


OPERATIONS: dict[str, Operation] = {
    "images.generate": Operation(
        lambda client: client.images.generate,
        {"model": "gpt-image-1", "prompt": "a cat", "n": 1},
        plain(MADE),
        "images",
        [Message("user", "a cat")],
        LLMResponse(
            usage=READ_IMAGE_USAGE,
            extra={"images": [image(PNG, revised_prompt="a cat, please")], "created": 1, "output_format": "png"},
        ),
    ),
    "images.generate, by address": Operation(
        lambda client: client.images.generate,
        {"model": "dall-e-3", "prompt": "a cat"},
        plain({"created": 1, "data": [{"url": "https://x/1.png"}]}),
        "images",
        [Message("user", "a cat")],
        LLMResponse(extra={"images": [{"type": "image_url", "image_url": {"url": "https://x/1.png"}}], "created": 1}),
    ),
    "images.generate, streamed": Operation(
        lambda client: client.images.generate,
        {"model": "gpt-image-1", "prompt": "a cat", "stream": True, "partial_images": 1},
        events(PARTIAL, COMPLETED),
        "images",
        [Message("user", "a cat")],
        LLMResponse(
            usage=READ_IMAGE_USAGE,
            extra={
                "images": [image(PNG)],
                "created": 1,
                "output_format": "png",
                "size": "1024x1024",
                "quality": "low",
                "background": "opaque",
            },
        ),
    ),
    "images.generate, streamed and cut off": Operation(
        lambda client: client.images.generate,
        {"model": "gpt-image-1", "prompt": "a cat", "stream": True, "partial_images": 1},
        events(PARTIAL),
        "images",
        [Message("user", "a cat")],
        LLMResponse(
            extra={
                "images": [image(PNG[:99])],
                "created": 1,
                "output_format": "png",
                "size": "1024x1024",
                "quality": "low",
                "background": "opaque",
                "partial_image_index": 0,
            },
        ),
        ended_by="the stream ended without its last event",
    ),
    "images.edit": Operation(
        lambda client: client.images.edit,
        {
            "model": "gpt-image-1",
            "prompt": "a hat",
            "image": [("a.png", PNG, "image/png"), ("b.png", PNG, "image/png")],
            "mask": ("m.png", PNG, "image/png"),
        },
        plain(MADE),
        "images",
        [
            Message(
                "user",
                [
                    {"type": "text", "text": "a hat"},
                    *(sent_file("image", "image/png", PNG, name) for name in ("a.png", "b.png", "m.png")),
                ],
            )
        ],
        LLMResponse(
            usage=READ_IMAGE_USAGE,
            extra={"images": [image(PNG, revised_prompt="a cat, please")], "created": 1, "output_format": "png"},
        ),
    ),
    "images.generate, refused": Operation(
        lambda client: client.images.generate,
        {"model": "gpt-image-1", "prompt": "a cat"},
        plain({"error": {"message": "no", "type": "image_generation_user_error", "code": "moderation"}}, status=400),
        "images",
        [Message("user", "a cat")],
        LLMResponse(given={}),
        error="image_generation_user_error",
    ),
    "audio.speech": Operation(
        lambda client: client.audio.speech.create,
        {"model": "gpt-4o-mini-tts", "voice": "alloy", "input": "hi there", "instructions": "slowly"},
        sound(MP3),
        "speech",
        [Message("system", "slowly"), Message("user", "hi there")],
        LLMResponse(extra={"audio": {"content_type": "audio/mpeg", "base64": encoded(MP3)}}),
        {"content_type": "audio/mpeg", "base64": encoded(MP3)},
    ),
    "audio.speech, silent": Operation(
        lambda client: client.audio.speech.create,
        {"model": "tts-1", "voice": "alloy", "input": "…", "response_format": "pcm"},
        sound(PCM, "audio/pcm"),
        "speech",
        [Message("user", "…")],
        LLMResponse(extra={"audio": {"content_type": "audio/pcm", "base64": encoded(PCM)}}),
        {"content_type": "audio/pcm", "base64": encoded(PCM)},
    ),
    "audio.speech, as events": Operation(
        lambda client: client.audio.speech.create,
        {"model": "gpt-4o-mini-tts", "voice": "alloy", "input": "hi", "stream_format": "sse"},
        events(
            {"type": "speech.audio.delta", "audio": encoded(MP3[:10])},
            {"type": "speech.audio.delta", "audio": encoded(MP3[10:])},
            {"type": "speech.audio.done", "usage": {"input_tokens": 4, "output_tokens": 60, "total_tokens": 64}},
        ),
        "speech",
        [Message("user", "hi")],
        LLMResponse(usage=Usage(4, 60, extra={"total_tokens": 64}), extra={"audio": {"base64": encoded(MP3)}}),
    ),
    "audio.speech, cut off": Operation(
        lambda client: client.audio.speech.create,
        {"model": "tts-1", "voice": "alloy", "input": "hi"},
        Answer([MP3[:5000], DROP], headers={"content-type": "audio/mpeg"}),
        "speech",
        [Message("user", "hi")],
        LLMResponse(extra={"audio": {"content_type": "audio/mpeg", "base64": encoded(MP3[:5000])}}),
        error="RemoteProtocolError",
        ended_by="RemoteProtocolError",
    ),
    "audio.transcriptions": Operation(
        lambda client: client.audio.transcriptions.create,
        {"model": "gpt-4o-transcribe", "file": ("a.mp3", MP3), "prompt": "names: Ada"},
        plain({"text": "hello there", "usage": TOKENS}),
        "transcriptions",
        [
            Message(
                "user",
                [sent_file("audio", "audio/mpeg", MP3, "a.mp3"), {"type": "text", "text": "names: Ada"}],
            )
        ],
        LLMResponse("hello there", usage=READ_TOKENS),
    ),
    "audio.transcriptions, as a text": Operation(
        lambda client: client.audio.transcriptions.create,
        {"model": "whisper-1", "file": ("a.mp3", MP3), "response_format": "text"},
        Answer([b"12\n"], headers={"content-type": "text/plain; charset=utf-8"}),
        "transcriptions",
        [Message("user", [sent_file("audio", "audio/mpeg", MP3, "a.mp3")])],
        LLMResponse("12"),
    ),
    "audio.transcriptions, streamed": Operation(
        lambda client: client.audio.transcriptions.create,
        {"model": "gpt-4o-transcribe", "file": ("a.mp3", MP3), "stream": True},
        events(
            {"type": "transcript.text.delta", "delta": "hello "},
            {"type": "transcript.text.delta", "delta": "there"},
            {"type": "transcript.text.done", "text": "hello there", "usage": TOKENS},
        ),
        "transcriptions",
        [Message("user", [sent_file("audio", "audio/mpeg", MP3, "a.mp3")])],
        LLMResponse("hello there", usage=READ_TOKENS),
    ),
    "audio.translations": Operation(
        lambda client: client.audio.translations.create,
        {"model": "whisper-1", "file": ("a.mp3", MP3)},
        plain({"text": "hello"}),
        "transcriptions",
        [Message("user", [sent_file("audio", "audio/mpeg", MP3, "a.mp3")])],
        LLMResponse("hello"),
    ),
    "responses.compact": Operation(
        lambda client: client.responses.compact,
        {"model": "gpt-5", "input": ASKED_TWICE, "instructions": "Be brief"},
        plain(COMPACTED),
        "openai-compaction",
        [Message("system", "Be brief"), Message("user", "hi"), Message("assistant", "yo")],
        LLMResponse(
            id="resp_1",
            usage=Usage(10, 5, extra={"total_tokens": 15}),
            extra={"object": "response.compaction", "created_at": 1, "output": COMPACTED["output"]},
        ),
    ),
    "moderations": Operation(
        lambda client: client.moderations.create,
        {"model": "omni-moderation-latest", "input": ["one", "two"]},
        plain(VERDICT),
        "moderations",
        [Message("user", [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}])],
        LLMResponse(id="modr-1", model="omni", extra={"results": [{"flagged": False}]}),
    ),
    "embed_content": Operation(
        lambda client: client.models.embed_content,
        {"model": "gemini-embedding-001", "contents": ["tea", "cups"]},
        plain({"embeddings": [{"values": [0.5]}, {"values": [0.25]}], "usageMetadata": {"promptTokenCount": 4}}),
        "embeddings",
        [],
        LLMResponse(usage=Usage(4)),
        sdk="google",
        provider="google",
    ),
}
