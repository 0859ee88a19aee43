"""Websockets of the OpenAI SDK: programs get what they get unrecorded, and every message is on file once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.capture.websocket_programs import (
    KEY,
    WAYS,
    frames_on_file,
    kinds,
    received_on_file,
)
from tests.waiting import wait_until
from tests.websocket_provider import serving_scripts
from tests.websocket_scenarios import SCENARIOS, SPEECH
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.storage.websocket_frames import media_note
from trace_recorder.values.messages import Payload

pytestmark = pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager:DeprecationWarning")
"""The SDK does not, and version 17 of the library warns of it."""


def without_speech(messages: list[bytes]) -> list[bytes]:
    """Return messages as they are on file: with notes in the place of the speech."""
    for speech in (SPEECH, SPEECH[:64]):
        note = f'"{media_note(speech)}"'.encode()
        messages = [message.replace(f'"{speech}"'.encode(), note) for message in messages]
    return messages


def sent_on_file(path: Path) -> list[Payload]:
    """Return the events on file that the client sent, in the order of the file."""
    requests = iter(call.raw_request for call in load(path).llm_interactions)
    frames = iter([json.loads(frame) for frame in frames_on_file(path, "sent")])
    return [*filter(None, requests), *frames]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_program_gets_what_it_gets_unrecorded(name: str, way: str, tmp_path: Path) -> None:
    """Events, their classes, exceptions and closing codes are the same. What the server sent and got is on file."""
    scenario, path = SCENARIOS[name], tmp_path / "run.json"
    with serving_scripts(scenario.script) as server:
        unrecorded = WAYS[way](scenario, server.url, lambda client: client)
        with TrajectoryRecorder(path, strict=True) as recorder:
            recorded = WAYS[way](scenario, server.url, recorder.wrap)
        wait_until(lambda: len(server.sessions) == 2)  # a client may leave before the server has begun its session
        plain, session = server.sessions

    assert recorded == unrecorded
    assert session.got == plain.got
    assert received_on_file(path) == sorted(without_speech(session.sent))
    got = [json.loads(message) for message in without_speech(session.got)]
    assert sorted(map(json.dumps, sent_on_file(path))) == sorted(map(json.dumps, got))
    assert KEY.encode() not in path.with_suffix(".jsonl").read_bytes()


ORDERS = {
    "text": ["llm_request", "llm_response"],
    "tools": ["llm_request", "llm_response"] * 2,
    "steering": ["llm_request", "llm_response"] * 2,
    "realtime": ["llm_request", "llm_response"],
    "interruption": ["llm_request", "llm_response"],
    "cut": ["llm_request", "llm_response"],
    "unanswered": ["llm_request", "llm_error"],
}


@pytest.mark.parametrize("name", ORDERS)
def test_the_order_on_file_is_that_of_cause_and_effect(name: str, tmp_path: Path) -> None:
    """A websocket begins before its responses and ends after them."""
    scenario, path = SCENARIOS[name], tmp_path / "run.json"
    with serving_scripts(scenario.script) as server, TrajectoryRecorder(path, strict=True) as recorder:
        WAYS["sync"](scenario, server.url, recorder.wrap)

    parts = {"llm_stream", "websocket_frames"}  # a thread may write them at any time
    order = [kind for kind in kinds(path) if kind not in parts]
    assert order == ["websocket_start", *ORDERS[name], "websocket_end"]


def test_messages_that_wait_are_written_before_a_request(tmp_path: Path) -> None:
    """What the client sent before it asked for a response is on file before the request."""
    scenario, path = SCENARIOS["realtime"], tmp_path / "run.json"
    with serving_scripts(scenario.script) as server, TrajectoryRecorder(path, strict=True) as recorder:
        WAYS["sync"](scenario, server.url, recorder.wrap)

    journal = path.with_suffix(".jsonl")
    before, _, _ = journal.read_bytes().partition(b'"kind":"llm_request"')
    journal.write_bytes(before[: before.rindex(b"\n") + 1])
    types = [json.loads(message)["type"] for message in frames_on_file(path, "sent")]
    assert types == ["session.update", "conversation.item.create"]
