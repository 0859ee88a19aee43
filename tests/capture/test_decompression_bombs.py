"""Bodies that decompress to far more than was received: the agent's bytes are untouched, and the file has a gap."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from functools import lru_cache, reduce
from pathlib import Path

import httpx
import pytest

from tests.capture.compressing import compressed
from tests.counting import arguments_of
from tests.provider import CHAT, Answer, plain, serving
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.capture.decoding import EncodedBody, plain_request
from trace_recorder.decompression import FREE_BYTES, max_size
from trace_recorder.reading.validate import validate
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.trajectory import Trajectory

KEY = "sk-ant-api03-" + "aB3xY9kQ7m" * 4
BOMB = b'{"model": "m", "user": "%s", "messages": "%s"}' % (KEY.encode(), b"a" * (2 * FREE_BYTES))
PATH = "/v1/chat/completions"
HEADERS = {"content-type": "application/json"}


@lru_cache
def bomb(*encodings: str) -> bytes:
    """Return a text of 67 MB in these encodings."""
    return reduce(compressed, encodings, BOMB)


def why_too_large(data: bytes) -> str:
    return (
        f"it decompresses to more than {max_size(len(data))} bytes; "
        f"the {len(data)} compressed bytes have the SHA-256 digest {hashlib.sha256(data).hexdigest()}"
    )


def gaps(run: Trajectory) -> list[tuple[str, str]]:
    return [(gap.what, gap.why) for gap in run.gaps]


def send_by_httpx(recorder: TrajectoryRecorder, url: str, body: bytes, headers: dict[str, str]) -> bytes:
    with recorder.wrap(httpx.Client()) as client, client.stream("POST", url, content=body, headers=headers) as response:
        return b"".join(response.iter_raw())


def send_by_httpx_in_a_loop(recorder: TrajectoryRecorder, url: str, body: bytes, headers: dict[str, str]) -> bytes:
    async def send() -> bytes:
        async with recorder.wrap(httpx.AsyncClient()) as client:
            async with client.stream("POST", url, content=body, headers=headers) as response:
                return b"".join([chunk async for chunk in response.aiter_raw()])

    return asyncio.run(send())


WAYS = [send_by_httpx, send_by_httpx_in_a_loop]
Way = Callable[[TrajectoryRecorder, str, bytes, dict[str, str]], bytes]


def recorded(path: Path, way: Way, answer: Answer, body: bytes, headers: dict[str, str]) -> tuple[bytes, list[bytes]]:
    """Return what the client received, and what the server received."""
    with serving(answer) as server, TrajectoryRecorder(path) as recorder:
        received = way(recorder, server.url + PATH, body, headers)
    return received, [sent for _, _, sent in server.requests]


@pytest.mark.parametrize(
    ("way", "encoding"),
    [*zip(WAYS * 2, ("gzip", "zstd", "br", "deflate"), strict=True), (send_by_httpx_in_a_loop, "gzip, gzip")],
)
def test_a_request_that_becomes_too_large_is_a_gap(way: Way, encoding: str, tmp_path: Path) -> None:
    """The server gets the request unchanged. The file has its length and digest, and not the bytes."""
    body = bomb(*encoding.split(", "))
    path = tmp_path / "run.json"
    received = recorded(path, way, plain(CHAT), body, HEADERS | {"content-encoding": encoding})
    run = load(path)
    (call,) = run.llm_interactions
    assert received == (json.dumps(CHAT).encode(), [body])
    assert (call.raw_request, call.raw_response, call.complete) == (None, CHAT, True)
    assert gaps(run) == [("record the body of a request", why_too_large(body))]
    assert (sum(file.stat().st_size for file in tmp_path.iterdir()) < 20_000, validate(path).ok) == (True, True)


def parts_of(call: LLMInteraction) -> tuple[object, object, bool]:
    return call.raw_response, call.ended_by, call.complete


@pytest.mark.parametrize(("way", "encoding"), [*zip(WAYS * 2, ("gzip", "zstd", "br", "deflate"), strict=True)])
def test_an_answer_that_becomes_too_large_is_a_gap(way: Way, encoding: str, tmp_path: Path) -> None:
    """The client gets the answer unchanged. The file says its length and digest, and why it is not complete."""
    data = bomb(encoding)
    path = tmp_path / "run.json"
    answer = Answer([data[:500], data[500:]], 200, HEADERS | {"content-encoding": encoding})
    received = recorded(path, way, answer, b'{"model": "m", "messages": []}', HEADERS)
    run = load(path)
    (call,) = run.llm_interactions
    assert received == (data, [b'{"model": "m", "messages": []}'])
    assert parts_of(call) == (None, why_too_large(data), False)
    assert gaps(run) == [("record a whole response", why_too_large(data))]
    assert validate(path).ok


def test_a_stream_that_becomes_too_large_is_a_gap(tmp_path: Path) -> None:
    """The client gets the stream unchanged. The file has the beginning of the stream at most."""
    data = compressed(b'data: {"choices": []}\n\n' * (FREE_BYTES // 10), "gzip")
    path = tmp_path / "run.json"
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    received = recorded(
        path, send_by_httpx_in_a_loop, Answer([data[:500], data[500:]], 200, headers), b'{"stream": true}', HEADERS
    )
    run = load(path)
    (call,) = run.llm_interactions
    assert (received[0] == data, call.ended_by, call.complete) == (True, why_too_large(data), False)
    assert gaps(run) == [("record a whole response", why_too_large(data))]
    assert validate(path).ok


def test_a_request_that_is_repeated_after_a_failure_is_the_next_attempt(tmp_path: Path) -> None:
    """A body that is too large to be decoded is compared as it was sent."""
    body, other = bomb("gzip"), compressed(BOMB + b" ", "gzip")
    headers = HEADERS | {"content-encoding": "gzip"}
    busy = plain({"error": {"message": "busy"}}, 500)
    with serving(busy, plain(CHAT), busy, plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "run.json") as recorder:
        with recorder.wrap(httpx.Client()) as client:
            for sent in (body, body, body, other):
                client.post(server.url + PATH, content=sent, headers=headers)
    statuses = [[one.status for one in call.attempts] for call in load(tmp_path / "run.json").llm_interactions]
    assert statuses == [[500, 200], [500], [200]]


class _OneChunk(httpx.AsyncBaseTransport):
    """A transport with an answer of one chunk."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def handle_async_request(self, _: httpx.Request) -> httpx.Response:
        async def chunks() -> AsyncIterator[bytes]:
            yield self._data

        return httpx.Response(200, headers=HEADERS | {"content-encoding": "gzip"}, content=chunks())


def test_an_event_loop_decodes_only_the_beginning_of_a_long_chunk(tmp_path: Path) -> None:
    """A thread decodes a compressed request, and all of a long chunk of an answer but its first piece."""
    answer = json.dumps(CHAT | {"filler": [*range(1_000_000)]}).encode()
    request = json.dumps({"model": "m", "messages": [], "filler": [*range(1_000)]}).encode()
    headers = HEADERS | {"content-encoding": "gzip"}

    def ask() -> None:
        with TrajectoryRecorder(tmp_path / f"{len([*tmp_path.iterdir()])}.json") as recorder:
            transport = recorder.wrap(httpx.AsyncClient(transport=_OneChunk(compressed(answer, "gzip"))))
            asyncio.run(transport.post("http://here" + PATH, content=compressed(request, "gzip"), headers=headers))

    counts = [len(arguments_of(ask, act, lambda _: 1)) for act in (EncodedBody.next_piece, plain_request)]
    assert counts == [1, 0]
    calls = [load(path).llm_interactions[0] for path in sorted(tmp_path.glob("*.json"))]
    assert [(call.raw_request, call.raw_response) for call in calls] == [(json.loads(request), json.loads(answer))] * 2
