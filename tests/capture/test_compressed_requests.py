"""Compressed requests are recorded as text, and a replay answers them."""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path

import httpx
import pytest

from tests.capture.compressing import compressed
from tests.provider import CHAT, plain, serving
from trace_recorder import TrajectoryRecorder, load, replay

BODY = b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'


def ask(client: httpx.Client, url: str, body: bytes, encoding: str) -> object:
    """Send a request; return the answer."""
    return client.post(f"{url}/v1/chat/completions", content=body, headers={"content-encoding": encoding}).json()


@pytest.mark.parametrize(
    ("encoding", "applied"),
    [
        *[(name, [name]) for name in ("gzip", "deflate", "br", "zstd")],
        *[("GZIP", ["gzip"]), ("x-gzip", ["gzip"]), ("identity", []), ("identity,,gzip,", ["gzip"])],
        *[("gzip, br", ["gzip", "br"]), ("br,\tidentity,zstd", ["br", "zstd"])],
    ],
)
def test_a_compressed_request_is_on_file_as_text_and_is_replayed(
    encoding: str, applied: list[str], tmp_path: Path
) -> None:
    """The header may name several encodings, in the order in which they were applied."""
    body = reduce(compressed, applied, BODY)
    with serving(plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "run.json") as recorder:
        with recorder.wrap(httpx.Client()) as client:
            ask(client, server.url, body, encoding)
    (call,) = load(tmp_path / "run.json").llm_interactions
    with replay(tmp_path / "run.json") as run, run.wrap(httpx.Client()) as client:
        answer = ask(client, "http://nowhere", body, encoding)
    assert (call.raw_request, answer) == (json.loads(BODY), CHAT)
    assert [sent for _, _, sent in server.requests] == [body]


@pytest.mark.parametrize(("encoding", "body"), [("gzip", b"no gzip"), ("unheard-of", b"\x01\x02"), ("gzip", b"")])
def test_what_cannot_be_decoded_is_sent_all_the_same(encoding: str, body: bytes, tmp_path: Path) -> None:
    with serving(plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "run.json") as recorder:
        with recorder.wrap(httpx.Client()) as client:
            assert ask(client, server.url, body, encoding) == CHAT
    assert [sent for _, _, sent in server.requests] == [body]
    assert [call.raw_response for call in load(tmp_path / "run.json").llm_interactions] == [CHAT]
