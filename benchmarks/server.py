"""The server with the same answers for every contender, as a process: `python -m benchmarks.server` prints its URL.

It parses no JSON: the path alone selects the answer, and every answer is bytes made before the first connection, so
that its own cost is small and the same for all. It ends when its standard input ends. `/stream/…` answers with a stream
of 500 events, each in a separate write. `/paced/…` answers with a stream of 40 events, one every 5 ms. The text of an
event is the time of `time.monotonic` at which it was written. `/slow/…` gives a chat completion after 50 ms, and any
other path gives one at once. `/sink/…` accepts the peers' uploads.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.real_texts import prose

ROOT = Path(__file__).resolve().parent.parent
EVENTS = 500
PACED_EVENTS = 40
PACE_SECONDS = 0.005
SLOW_SECONDS = 0.05
SAID = prose(6000)[-460:]
COMPLETION = {
    "id": "chatcmpl-BcQ2Vq7mJm0P5o4LkU1yXh3Tz8Wd9",
    "object": "chat.completion",
    "created": 1749766000,
    "model": "gpt-4.1-2025-04-14",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": SAID, "refusal": None, "annotations": []},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {
        "prompt_tokens": 1117,
        "completion_tokens": 92,
        "total_tokens": 1209,
        "prompt_tokens_details": {"cached_tokens": 1024, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    },
    "service_tier": "default",
    "system_fingerprint": "fp_51e1070cf2",
}
HEADERS = {
    "date": "Thu, 12 Jun 2025 22:05:46 GMT",
    "access-control-expose-headers": "X-Request-ID",
    "openai-organization": "org-bench",
    "openai-processing-ms": "731",
    "openai-version": "2020-10-01",
    "x-envoy-upstream-service-time": "740",
    "x-ratelimit-limit-requests": "10000",
    "x-ratelimit-limit-tokens": "30000000",
    "x-ratelimit-remaining-requests": "9999",
    "x-ratelimit-remaining-tokens": "29998881",
    "x-ratelimit-reset-requests": "6ms",
    "x-ratelimit-reset-tokens": "2ms",
    "x-request-id": "req_7f4ad6a1c0be4d0b8a53c8d5c1a2e6f0",
    "strict-transport-security": "max-age=31536000; includeSubDomains; preload",
    "cf-cache-status": "DYNAMIC",
    "x-content-type-options": "nosniff",
    "server": "cloudflare",
    "cf-ray": "94ec0f0c1e0a9b3d-FRA",
}


def _event(delta: dict[str, str], finish: str | None = None) -> bytes:
    body = {
        "id": COMPLETION["id"],
        "object": "chat.completion.chunk",
        "created": COMPLETION["created"],
        "model": COMPLETION["model"],
        "service_tier": "default",
        "system_fingerprint": COMPLETION["system_fingerprint"],
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
    }
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


def _head(media: str, *more: str) -> bytes:
    lines = [
        "HTTP/1.1 200 OK",
        f"content-type: {media}",
        *(f"{name}: {value}" for name, value in HEADERS.items()),
        *more,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def _whole(media: str, body: bytes) -> bytes:
    return _head(media, f"content-length: {len(body)}") + body


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


COMPLETION_BYTES = json.dumps(COMPLETION).encode()
PLAIN = _whole("application/json", COMPLETION_BYTES)
SINK = _whole("application/json", b"{}")
LANGSMITH_INFO = {
    "version": "0.12.0",
    "instance_flags": {"zstd_compression_enabled": True},
    "batch_ingest_config": {
        "use_multipart_endpoint": True,
        "scale_up_qsize_trigger": 1000,
        "scale_up_nthreads_limit": 16,
        "scale_down_nempty_trigger": 4,
        "size_limit": 100,
        "size_limit_bytes": 20_971_520,
    },
}
"""Settings with which langsmith's client uploads to the local server as it does to the public one."""
INFO = _whole("application/json", json.dumps(LANGSMITH_INFO).encode())
STREAM_HEAD = _head("text/event-stream; charset=utf-8", "transfer-encoding: chunked")
STREAM_END = [_chunk(_event({}, "stop")), _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"]
STREAM = [
    _chunk(_event({"role": "assistant", "content": ""})),
    *(_chunk(_event({"content": f"{word} "})) for word in prose(8 * EVENTS).split(" ")[: EVENTS - 2]),
    *STREAM_END,
]


class _Connection(asyncio.Protocol):
    """A connection, whose requests are counted and not parsed."""

    received = 0
    """Bytes of all connections."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._left: int | None = 0
        self._tail = b""
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport for answers."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Count the bytes of a request, and answer when all have arrived."""
        _Connection.received += len(data)
        if self._left == 0:
            self._head += data
            head, found, body = self._head.partition(b"\r\n\r\n")
            if not found:
                return
            length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
            chunked = re.search(rb"\r\ntransfer-encoding: *chunked", head, re.IGNORECASE)
            self._left = None if chunked else int(length[1]) if length else 0
            self._path = bytes(head.split(b" ", 2)[1])
            if b"100-continue" in head.lower():
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._head, data, self._tail = bytearray(), bytes(body), b""
        if self._left is None:
            self._tail = (self._tail + data)[-5:]
            if self._tail != b"0\r\n\r\n":
                return
            self._left = 0
        else:
            self._left -= len(data)
        if self._left <= 0:
            self._left = 0
            self._answer()

    def _answer(self) -> None:
        if self._path.startswith((b"/stream/", b"/paced/")):
            stream = self._stream() if self._path.startswith(b"/stream/") else self._paced()
            task = asyncio.get_running_loop().create_task(stream)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif self._path.startswith(b"/slow/"):
            asyncio.get_running_loop().call_later(SLOW_SECONDS, self._transport.write, PLAIN)
        else:
            self._transport.write(self._plain())

    def _plain(self) -> bytes:
        if self._path == b"/sink/received":
            return _whole("text/plain", str(_Connection.received).encode())
        if self._path == b"/sink/info":
            return INFO
        return SINK if self._path.startswith(b"/sink") else PLAIN

    async def _stream(self) -> None:
        self._transport.write(STREAM_HEAD)
        for event in STREAM:
            self._transport.write(event)
            await asyncio.sleep(0)

    async def _paced(self) -> None:
        self._transport.write(STREAM_HEAD)
        for _ in range(PACED_EVENTS):
            await asyncio.sleep(PACE_SECONDS)
            self._transport.write(_chunk(_event({"content": f"{time.monotonic():.9f}"})))
        self._transport.write(b"".join(STREAM_END))


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Connection, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


@contextmanager
def serving() -> Iterator[str]:
    """Run a server during a `with` block, and yield its URL."""
    command = [sys.executable, "-m", "benchmarks.server"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.stdin.close()


if __name__ == "__main__":
    asyncio.run(_serve())
