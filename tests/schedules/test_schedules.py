"""Random schedules for a short time, each document compared with its journal. `scripts/schedules` runs for longer."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from tests.chat_calls import CHAT, Answer, Wire, asked, call, said
from tests.journals import folded, journal_of
from tests.schedules.acting import schedule_of
from tests.schedules.judging import WAYS, disagreement, disagreement_so_far, problems, problems_at_every_record
from tests.searching import part_of, seeds
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.reading.live_document.document_thread import DocumentLimits
from trace_recorder.reading.live_document.whole_document import WholeDocument
from trace_recorder.values.messages import Payload

USER = [{"role": "user", "content": "go"}]
FOUND = (24, 42, 120, 131, 172, 181, 268, 299)
"""Schedules whose documents once differed from their journals."""


@pytest.mark.parametrize("seed", [*seeds(1, 8), *FOUND])
def test_a_document_equals_its_journal(tmp_path: Path, seed: int) -> None:
    """After each save, while calls are open, and at the end, the document equals the journal, and `validate` finds
    nothing.
    """
    assert problems(schedule_of(seed), tmp_path) == []


@pytest.mark.parametrize("seed", part_of((1000, 1001, 329, 389)))
def test_a_document_equals_its_journal_if_everything_is_read_twice(tmp_path: Path, seed: int) -> None:
    """The document equals the journal if no records are kept in memory, so that all are read from the file."""
    assert problems(schedule_of(seed), tmp_path, limits=DocumentLimits(kept_bytes=0)) == []


@pytest.mark.parametrize("seed", seeds(2, 12))
def test_each_document_equals_an_earlier_state_of_the_journal(tmp_path: Path, seed: int) -> None:
    """Each written document equals the journal up to a record, and no document covers fewer records than the one
    before.
    """
    assert problems_at_every_record(schedule_of(seed), tmp_path) == []


@pytest.mark.parametrize("way", ["in threads", "interrupted"])
@pytest.mark.parametrize("seed", seeds(1, 3))
def test_a_document_equals_its_journal_if_several_record_at_once(tmp_path: Path, way: str, seed: int) -> None:
    """The document equals the journal if several threads, or a signal handler within other records, record at the same
    time.
    """
    assert problems(schedule_of(seed), tmp_path, WAYS[way]) == []


def _hand(recorder: TrajectoryRecorder, identity: str, *calls: Payload) -> None:
    recorder.record_llm_interaction(USER, {"content": "x", "id": identity, "tool_calls": calls}, "p", "m")


def _open(recorder: TrajectoryRecorder, answer: bytes) -> httpx.Response:
    stream = Answer(answer, media="text/event-stream", size=1_000)
    client = recorder.wrap(httpx.Client(transport=Wire(stream), trust_env=False))
    request = client.build_request("POST", CHAT, content=json.dumps(asked("go", stream=True)).encode())
    return client.send(request, stream=True)


def _chunk(identity: str) -> bytes:
    event = {"id": identity, "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}
    return f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n".encode()


def test_a_call_recorded_twice_during_its_stream_is_shown_once(tmp_path: Path) -> None:
    """A call that is captured as a stream, and recorded by hand during the stream, is in the document once."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    recorder.record_agent_step(1, "thinking")
    response = _open(recorder, _chunk("r1"))
    _hand(recorder, "r1", {"call_id": "c1", "name": "bash", "arguments": {}})
    with recorder.tool_call("bash", {}):
        pass
    _hand(recorder, "r1")
    for number in range(16):
        call(recorder, asked(str(number)), said("fine", identity=f"s{number}"))
    assert disagreement_so_far(recorder) is None
    response.read()
    recorder.finalize()

    assert disagreement(recorder.trajectory_path) is None
    ids = [call.response.id for call in load(recorder.trajectory_path).llm_interactions]
    assert ids == ["r1", *(f"s{number}" for number in range(16))]


def test_a_call_found_at_the_end_of_a_stream_is_shown_in_its_step(tmp_path: Path) -> None:
    """A tool belongs to the call that is left when a stream ends, and is shown in the step of that call."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    response = _open(recorder, _chunk("r1"))
    call(recorder, asked("a"), said(None, identity="r2", calls=[("c1", "bash", "{}"), ("c2", "bash", "{}")]))
    with recorder.step():
        with recorder.tool_call("bash", {"n": 1}):
            pass
        call(recorder, asked("a", {"role": "tool", "tool_call_id": "c1", "content": "b"}), said("fine", identity="r3"))
        recorder.save_trajectory()
        response.read()
        assert disagreement_so_far(recorder) is None
    recorder.finalize()

    assert disagreement(recorder.trajectory_path) is None
    (step,) = load(recorder.trajectory_path).agent_steps
    assert [tool_call.call_id for tool_call in step.tool_calls] == ["c2"]


def test_an_answer_with_a_second_attempt_is_read_in_order(tmp_path: Path) -> None:
    """A tool that ran before the second answer of a retried call belongs to a tool call of the first answer."""
    identity = {"interaction_id": "llm_1", "api": "openai-chat", "provider": "p", "model": "m"}

    def answered(attempt: int) -> tuple[str, Payload]:
        body = json.loads(said(None, calls=[(f"c{attempt}", "bash", "{}")]).body)
        return "llm_response", {"interaction_id": "llm_1", "attempt": attempt, "status": 200, "body": body}

    used = {"execution_id": "tool_1", "name": "bash"}
    data = journal_of(
        ("start", {}),
        ("llm_request", {**identity, "attempt": 0, "body": asked("go")}),
        answered(0),
        ("tool_call", {**used, "arguments": {}}),
        ("tool_result", {**used, "success": True, "result": 1}),
        ("llm_request", {**identity, "attempt": 1, "body": asked("go")}),
        answered(1),
    )
    with (tmp_path / "run.jsonl").open("ab", buffering=0) as file:
        for line in data.splitlines(keepends=True):
            file.write(line)
            WholeDocument(tmp_path / "run.jsonl", "inline").write(tmp_path / "run.json")

    calls = [call.call_id for step in folded(data).agent_steps for call in step.tool_calls]
    written = json.loads((tmp_path / "run.json").read_bytes())
    assert calls == ["c1", "c0"]
    assert [call["call_id"] for step in written["agent_steps"] for call in step["tool_calls"]] == calls
