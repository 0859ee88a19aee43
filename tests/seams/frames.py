"""Encodes frames of AWS's event stream without the package, and streams of Bedrock in them."""

from __future__ import annotations

import base64
import binascii
import json
import struct
from typing import Any

from tests.provider import Answer

Payload = Any
TYPE = {"content-type": "application/vnd.amazon.eventstream"}


def frame(name: str, payload: Payload, kind: str = "event", more: dict[str, str] | None = None) -> bytes:
    """Return a frame, with additional headers if given."""
    headers = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind, **(more or {})}
    packed = b"".join(
        struct.pack(">B", len(key)) + key + b"\x07" + struct.pack(">H", len(value)) + value
        for key, value in ((key.encode(), value.encode()) for key, value in headers.items())
    )
    body = json.dumps(payload, separators=(",", ":")).encode()
    lengths = struct.pack(">II", 16 + len(packed) + len(body), len(packed))
    start = lengths + struct.pack(">I", binascii.crc32(lengths)) + packed + body
    return start + struct.pack(">I", binascii.crc32(start))


def wrapped(event: Payload) -> bytes:
    """Return the frame in which InvokeModel sends an event of the model's own format."""
    inner = base64.b64encode(json.dumps(event).encode()).decode()
    return frame("chunk", {"bytes": inner, "p": "abcd"})


def cut(frames: list[bytes], size: int) -> Answer:
    """Return the answer with these frames, in chunks of `size` bytes."""
    data = b"".join(frames)
    return Answer([data[at : at + size] for at in range(0, len(data), size)], 200, TYPE)


def delta(index: int, **members: Payload) -> bytes:
    """Return the frame of a delta of Converse."""
    return frame("contentBlockDelta", {"contentBlockIndex": index, "delta": members})


CONVERSE = [
    frame("messageStart", {"role": "assistant"}),
    delta(0, reasoningContent={"text": "I gr"}),
    delta(0, reasoningContent={"text": "eet."}),
    delta(0, reasoningContent={"signature": "c2ln"}),
    frame("contentBlockStop", {"contentBlockIndex": 0}),
    delta(1, text="Grü"),
    delta(1, text="ße"),
    frame("contentBlockStart", {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "t1", "name": "bash"}}}),
    delta(2, toolUse={"input": '{"command":'}),
    delta(2, toolUse={"input": ' "ls"}'}),
    frame("messageStop", {"stopReason": "tool_use"}),
    frame("metadata", {"usage": {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5, "cacheReadInputTokens": 7}}),
]
BEGUN = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-2025",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 1},
}
CLAUDE = [
    wrapped({"type": "message_start", "message": BEGUN}),
    wrapped({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
    wrapped({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Grü"}}),
    wrapped({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ße"}}),
    wrapped({"type": "content_block_stop", "index": 0}),
    wrapped({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
    wrapped({"type": "message_stop", "amazon-bedrock-invocationMetrics": {"inputTokenCount": 3}}),
]
WHOLE = {
    "output": {"message": {"role": "assistant", "content": [{"text": "hi"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5},
}
"""An answer of Converse without streaming."""
