"""Responses of urllib3 that end early, break off, or are read in less usual ways."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.provider import CHAT, DROP, Answer, serving
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.values.llm_interaction import LLMInteraction

urllib3 = pytest.importorskip("urllib3", minversion="2")
PATH = "/v1/chat/completions"
BODY = json.dumps(CHAT).encode()
Payload = Any


def call_of(path: Path, answer: Answer, read: Callable[[Payload], object], **options: object) -> LLMInteraction:
    """Call a model, read the response by a function, and return the call on file."""
    with serving(answer) as server, TrajectoryRecorder(path / "run.json") as recorder:
        pool = recorder.wrap(urllib3.PoolManager(retries=False))
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]})
        response = pool.request("POST", server.url + PATH, body=body, preload_content=False, **options)
        read(response)
    [call] = load(path / "run.json").llm_interactions
    return call


def read_to_buffer(response: Payload) -> bytes:
    """Read a response as a program does that fills buffers of its own."""
    buffer, parts = bytearray(16), []
    while size := response.readinto(buffer):
        parts.append(bytes(buffer[:size]))
    return b"".join(parts)


READS: dict[str, Callable[[Payload], bytes]] = {
    "read": lambda response: response.read(),
    "pieces": lambda response: b"".join(iter(lambda: response.read(7), b"")),
    "read1": lambda response: b"".join(iter(lambda: response.read1(7), b"")),
    "readinto": read_to_buffer,
    "stream": lambda response: b"".join(response.stream(7)),
    "data": lambda response: response.data,
    "lines": b"".join,
    "json": lambda response: json.dumps(response.json()).encode(),
}
LENGTH = {"content-type": "application/json", "content-length": str(len(BODY))}
ANSWERS = {"chunks": Answer([BODY[:20], BODY[20:]]), "a stated length": Answer([BODY], headers=LENGTH)}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("read", READS)
def test_every_way_of_reading_is_recorded(tmp_path: Path, read: str, answer: str) -> None:
    """The caller has the whole body, and so has the file."""
    got: list[bytes] = []
    call = call_of(tmp_path, ANSWERS[answer], lambda response: got.append(READS[read](response)))

    assert [json.loads(body) for body in got] == [CHAT]
    assert (call.raw_response, call.complete, call.ended_by) == (CHAT, True, None)


def test_a_connection_that_ended_early_is_said(tmp_path: Path) -> None:
    """If the caller wants no exception for a body that is too short, the call is incomplete with the reason."""
    answer, got = Answer([BODY[:50], DROP], headers=LENGTH), []
    call = call_of(
        tmp_path, answer, lambda response: got.append(READS["pieces"](response)), enforce_content_length=False
    )

    assert (got, call.complete, call.ended_by) == ([BODY[:50]], False, "the connection ended early")


def test_a_stream_that_broke_off_was_not_closed_by_the_caller(tmp_path: Path) -> None:
    """urllib3 closes a broken response before it raises. The call names the error, and not the caller."""
    raised: list[str] = []

    def read(response: Payload) -> None:
        with pytest.raises(urllib3.exceptions.ProtocolError) as error:
            [*response.stream()]
        raised.append(type(error.value).__name__)

    call = call_of(tmp_path, Answer([BODY[:50], DROP]), read)

    assert (call.complete, "closed" in (call.ended_by or "")) == (False, False)
    assert raised == [call.error.type if call.error else None]


@pytest.mark.parametrize("read", ["read", "pieces", "stream"])
def test_bytes_that_others_took_from_the_connection_are_missed(tmp_path: Path, read: str) -> None:
    """If a program reads from the response inside urllib3's, these bytes are not on file, and the call says so."""

    def read_beside(response: Payload) -> None:
        response._fp.read(10)
        READS[read](response)

    call = call_of(tmp_path, ANSWERS["a stated length"], read_beside, enforce_content_length=False)

    assert (call.complete, call.raw_response == CHAT) == (False, False)
