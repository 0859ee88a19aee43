"""The input of a replay: refused and damaged journals, and the search for the most similar request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.chat_calls import CHAT
from tests.rerun.runs import ask, client, record, said
from trace_recorder import TrajectoryFormatError, TrajectoryRecorder, replay
from trace_recorder.dialects.endpoints import Endpoint
from trace_recorder.facts import ABSENT
from trace_recorder.rerun.differences import nearest
from trace_recorder.rerun.matching import LiveRequest, UnusedCalls
from trace_recorder.rerun.recorded import RecordedExchange, Recording
from trace_recorder.values.json_text import MAX_DEPTH


def test_invalid_recordings_are_refused(tmp_path: Path) -> None:
    """Refused are a document without its journal, a journal of a newer version, and a file that is not a journal."""
    path = tmp_path / "run.json"
    record(path, [said("one")], ask)
    journal = path.with_suffix(".jsonl")
    newer = tmp_path / "newer.jsonl"
    newer.write_bytes(_of_version(99))
    (tmp_path / "none.jsonl").write_text("hello\n")
    (tmp_path / "alone.json").write_bytes(path.read_bytes())
    with TrajectoryRecorder(tmp_path / "deltas.json", history="delta"):
        pass
    (tmp_path / "deltas.jsonl").unlink()

    assert journal.exists()
    refused = {
        "newer.jsonl": "version 99",
        "none.jsonl": "not a journal",
        "alone.json": "without its journal",
        "deltas.json": "without its journal",
    }
    for wrong, why in refused.items():
        with pytest.raises(TrajectoryFormatError, match=why):
            replay(tmp_path / wrong)


def test_an_answer_of_the_greatest_depth_can_be_replayed(tmp_path: Path) -> None:
    """Its record is nested deeper than the answer itself."""
    path = tmp_path / "run.json"
    body = b'{"deep": ' + b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1) + b"}"
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=body))
    with TrajectoryRecorder(path) as recorder:
        recorder.wrap(httpx.Client(transport=transport)).post(CHAT, json={"model": "m", "messages": []})

    recording = Recording(path)
    [exchange] = recording.exchanges

    assert exchange.facts.response is not None
    assert (exchange.facts.response.body is not ABSENT, recording.body(exchange)) == (True, body)


def test_a_damaged_line_affects_only_the_call_that_needs_it(tmp_path: Path) -> None:
    """The other calls are answered. The error for that call says that lines are damaged."""
    path = tmp_path / "run.json"
    record(path, [said("one"), said("two")], lambda made: (ask(made, "first"), ask(made, "second")))
    journal = path.with_suffix(".jsonl")
    journal.write_bytes(journal.read_bytes().replace(b'"first"', b'"fi\xffst"', 1))

    with replay(path, strict=False) as run:
        made = run.wrap(client(max_retries=0))
        assert ask(made, "second") == "two"
        with pytest.raises(openai.APIConnectionError) as raised:
            ask(made, "first")

    assert "1 lines of the journal are damaged" in str(raised.value.__cause__)


def _of_version(version: int) -> bytes:
    from zlib import crc32

    line = json.dumps(
        {"seq": 1, "time": "t", "kind": "start", "data": {"schema": "trace-recorder/journal", "version": version}},
        separators=(",", ":"),
    )[:-1].encode()
    return line + b',"crc":"%08x"}\n' % crc32(line)


class CountingRecording(Recording):
    """A recording that counts the requests which it builds from their items."""

    expanded = 0

    def request(self, exchange: RecordedExchange) -> Any:
        self.expanded += 1
        return super().request(exchange)


def test_the_most_similar_request_is_found_without_building_all(tmp_path: Path) -> None:
    """A history that is repeated with each call is read once. Only the most similar request is built."""
    path = tmp_path / "run.json"
    history: list[Any] = []

    def act(made: openai.OpenAI) -> None:
        for number in range(30):
            history.append({"role": "user", "content": f"message {number}"})
            made.chat.completions.create(model="m", messages=history)

    record(path, [said("fine")], act)
    recording = CountingRecording(path)
    body = {"model": "m", "messages": [*history[:19], {"role": "user", "content": "another"}]}
    live = LiveRequest(Endpoint("openai-chat", "openai", None, streams=False), body)

    found = nearest(live, recording, recording.exchanges)

    assert (found and found.interaction_id, recording.expanded) == ("llm_19", 0)


def test_a_request_with_members_of_objects_in_items_is_found(tmp_path: Path) -> None:
    """A recorded request is found by an equal request if the elements of a list in one of its objects are items."""
    path = tmp_path / "run.json"
    instruction = {"parts": [{"text": "Be brief. " * 40}], "role": "user"}
    body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "systemInstruction": instruction}
    wire = httpx.MockTransport(lambda _: httpx.Response(200, json={"candidates": []}))
    with TrajectoryRecorder(path) as recorder:
        client = recorder.wrap(httpx.Client(transport=wire, trust_env=False))
        client.post("https://generativelanguage.googleapis.com/v1beta/models/gemini:generateContent", json=body)
    recording = Recording(path)
    [exchange] = recording.exchanges

    assert "/systemInstruction/parts" in exchange.call.request_in_items()[1]
    unused = UnusedCalls(recording)
    changed = {**body, "systemInstruction": {**instruction, "role": "model"}}
    assert not unused.knows(LiveRequest(exchange.endpoint, changed))
    assert unused.take(LiveRequest(exchange.endpoint, body)) is exchange
