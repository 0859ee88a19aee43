"""Compressed requests are recorded as text, and a replay answers them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import httpx
import pytest

from tests.capture.compressing import compressed
from tests.provider import CHAT, plain, serving
from trace_recorder import TrajectoryRecorder, load, replay

BODY = b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'


def ask(client: httpx.Client, url: str, body: bytes, encoding: str) -> object:
    """Send a request, and return the answer."""
    return client.post(f"{url}/v1/chat/completions", content=body, headers={"content-encoding": encoding}).json()


@pytest.mark.parametrize(
    ("encoding", "applied"),
    [
        *[(name, [name]) for name in ("gzip", "deflate", "br", "zstd")],
        *[("GZIP", ["gzip"]), ("x-gzip", ["gzip"]), ("identity", []), ("identity,,gzip,", ["gzip"])],
        *[("gzip, br", ["gzip", "br"]), ("br,\tidentity,zstd", ["br", "zstd"])],
    ],
)
def test_a_compressed_request_is_recorded_as_text_and_replayed(
    encoding: str, applied: list[str], tmp_path: Path
) -> None:
    """A request in one or several encodings is recorded as text, and a replay answers it."""
    body = reduce(compressed, applied, BODY)
    with serving(plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "run.json") as recorder:
        with recorder.wrap(httpx.Client()) as client:
            ask(client, server.url, body, encoding)
    (call,) = load(tmp_path / "run.json").llm_interactions
    with replay(tmp_path / "run.json") as run, run.wrap(httpx.Client()) as client:
        answer = ask(client, "http://nowhere", body, encoding)
    assert (call.raw_request, answer) == (json.loads(BODY), CHAT)
    assert [sent for _, _, sent in server.requests] == [body]


def test_deflate_without_its_zlib_header_is_on_file_as_text(tmp_path: Path) -> None:
    """A body in raw deflate, which some programs send although the RFC does not allow it, is recorded as text."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    body = packer.compress(BODY) + packer.flush()
    with serving(plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "run.json") as recorder:
        with recorder.wrap(httpx.Client()) as client:
            ask(client, server.url, body, "deflate")
    (call,) = load(tmp_path / "run.json").llm_interactions
    assert call.raw_request == json.loads(BODY)


class _Chunks(httpx.BaseTransport):
    """A user's transport whose response has these chunks."""

    def __init__(self, *chunks: bytes) -> None:
        self._chunks = chunks

    def handle_request(self, _: httpx.Request) -> httpx.Response:
        headers = {"content-type": "application/json", "content-encoding": "deflate"}
        return httpx.Response(200, headers=headers, stream=_Stream(self._chunks))


class _Stream(httpx.SyncByteStream):
    def __init__(self, chunks: tuple[bytes, ...]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        yield from self._chunks


@pytest.mark.parametrize(("wbits", "before"), [(zlib.MAX_WBITS, b""), (-zlib.MAX_WBITS, None)])
def test_a_deflated_response_may_come_in_chunks(wbits: int, before: bytes | None, tmp_path: Path) -> None:
    """A deflated response is recorded as text, even if its chunks are small or empty."""
    packer = zlib.compressobj(wbits=wbits)
    body = packer.compress(json.dumps(CHAT).encode()) + packer.flush()
    chunks = [chunk for chunk in (before, body[:9], b"", body[9:]) if chunk is not None]
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        with recorder.wrap(httpx.Client(transport=_Chunks(*chunks))) as client:
            assert ask(client, "http://here", BODY, "identity") == CHAT
    (call,) = load(tmp_path / "run.json").llm_interactions
    assert (call.raw_response, call.complete) == (CHAT, True)


@pytest.mark.parametrize(("encoding", "body"), [("gzip", b"no gzip"), ("unheard-of", b"\x01\x02"), ("gzip", b"")])
def test_a_body_that_cannot_be_decoded_is_sent_unchanged(encoding: str, body: bytes, tmp_path: Path) -> None:
    with serving(plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "run.json") as recorder:
        with recorder.wrap(httpx.Client()) as client:
            assert ask(client, server.url, body, encoding) == CHAT
    assert [sent for _, _, sent in server.requests] == [body]
    assert [call.raw_response for call in load(tmp_path / "run.json").llm_interactions] == [CHAT]
