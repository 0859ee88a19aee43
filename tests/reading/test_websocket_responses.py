"""The Responses API over websockets: warm-ups, references to calls on file, steering, and the websockets themselves."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.chat_calls import Answer, Wire
from tests.journals import records_of
from tests.websocket_sessions import RESPONSES, Event, Session, called, prompts, typed
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.reading.fold import Fold
from trace_recorder.reading.relations.prompt_relations import relations_of
from trace_recorder.storage.journal_reader import read_records
from trace_recorder.values.trajectory import Trajectory

TOOL = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
SYSTEM = ("system", "Help.")
ASK: Event = {"type": "response.create", "model": "gpt-5", "instructions": "Help.", "tools": [TOOL]}


class Responses(Session):
    """A websocket of the Responses API."""

    names = count(1)

    def __init__(self, path: Path, recorder: TrajectoryRecorder | None = None) -> None:
        super().__init__(path, RESPONSES, recorder)

    def ask(self, *items: Event, **members: Any) -> None:
        """Ask for a response."""
        self.send({**ASK, "input": [*items], **members})

    def get(self, identity: str, *output: Event, **members: Any) -> str:
        """Get a response."""
        response = {"id": identity, "model": "gpt-5", "output": [], **members}
        self.receive({"type": "response.created", "response": {**response, "status": "in_progress"}})
        done = {"status": "completed", **response, "output": [*output]}
        self.receive({"type": "response.completed", "response": done})
        return identity


@pytest.fixture
def session(tmp_path: Path) -> Responses:
    return Responses(tmp_path / "run.json")


def relations(run: Trajectory) -> list[tuple[str, str | None]]:
    turns = [relations_of(run).of(call).turn for call in run.llm_interactions]
    return [(turn.relation, turn.previous and turn.previous.interaction.interaction_id) for turn in turns if turn]


@pytest.mark.parametrize("mark", [{"generate": False}, {"prompt_cache_options": {"prewarm": True}}])
def test_a_warm_up_is_no_call_and_gives_its_prompt_to_the_call_that_names_it(session: Responses, mark: Event) -> None:
    """The call has its messages, and its instructions and tools if it states none."""
    session.ask(typed("user", "Hi"), typed("user", "Are you there?"), **mark)
    warm = session.get("resp_w")
    named = {"previous_response_id": warm}
    session.send({"type": "response.create", "model": "gpt-5", "input": [typed("user", "Hello?")], **named})
    first = session.get("resp_1", typed("assistant", "Yes."))
    session.ask(typed("user", "Bye"), previous_response_id=first)
    session.get("resp_2", typed("assistant", "Bye!"))

    run = session.end()

    whole = [SYSTEM, ("user", "Hi"), ("user", "Are you there?"), ("user", "Hello?")]
    assert prompts(run) == [whole, [SYSTEM, ("user", "Bye")]]
    assert [[tool.name for tool in call.tools] for call in run.llm_interactions] == [["weather"], ["weather"]]
    assert relations(run) == [("begins", None), ("refers", run.llm_interactions[0].interaction_id)]
    assert (len(run.llm_interactions), len(run.agent_steps), run.metrics["llm_calls"]) == (2, 2, 2)
    assert run.websockets[0].warm_ups == 1
    raw = run.llm_interactions[0].raw_request
    assert raw["input"] == [typed("user", "Hello?")]


def test_a_warm_up_that_continues_a_call_is_skipped_in_the_chain(session: Responses) -> None:
    """The call that names the warm-up continues the call that the warm-up names."""
    session.ask(typed("user", "Hi"))
    first = session.get("resp_1", typed("assistant", "Hello."))
    session.ask(typed("user", "Wait."), previous_response_id=first, generate=False)
    session.ask(typed("user", "Go."), previous_response_id=session.get("resp_w"))
    session.get("resp_2", typed("assistant", "Gone."))

    run = session.end()

    assert prompts(run)[1] == [SYSTEM, ("user", "Wait."), ("user", "Go.")]
    assert relations(run)[1] == ("refers", run.llm_interactions[0].interaction_id)


def test_a_call_refers_to_a_response_of_another_connection(tmp_path: Path) -> None:
    """After a reconnection, and after a fallback to HTTP, the conversation is one."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    session = Responses(tmp_path / "run.json", recorder)
    session.ask(typed("user", "one"))
    session.get("resp_1", typed("assistant", "1"))
    session.connection.ended("the server closed it", 1012, "restart")
    again = Responses(tmp_path / "run.json", recorder)
    again.ask(typed("user", "two"), previous_response_id="resp_1")
    again.get("resp_2", typed("assistant", "2"))
    body = {"id": "resp_3", "status": "completed", "output": [typed("assistant", "3")]}
    wire = Wire(Answer(json.dumps(body).encode(), media="application/json"))
    with httpx.Client(transport=wire, trust_env=False) as client:
        recorder.wrap(client).post(
            "https://api.openai.com/v1/responses",
            json={"model": "gpt-5", "input": [typed("user", "three")], "previous_response_id": "resp_2"},
        )

    run = again.end()

    first, second, _ = (call.interaction_id for call in run.llm_interactions)
    assert relations(run) == [("begins", None), ("refers", first), ("refers", second)]
    newest = relations_of(run).of(run.llm_interactions[2]).turn
    assert newest is not None
    said = [(message.role, message.content) for message in newest.messages()]
    assert said == [*zip(["user", "assistant"] * 3, ["one", "1", "two", "2", "three"], strict=False)]
    assert [(each.code, each.ended_by) for each in run.websockets] == [
        (1012, "the server closed it"),
        (1000, "the program closed it"),
    ]


def test_a_successor_has_the_input_of_the_steering(session: Responses) -> None:
    """The server begins it by itself. Its response states which response it continues, and its settings."""
    session.ask(typed("user", "Write."))
    session.receive({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}})
    for text in ("Shorter.", "refused", "In German."):
        session.send({"type": "response.steer", "previous_response_id": "resp_1", "input": text})
    for number in range(3):
        steer = {"id": f"steer_{number}", "previous_response_id": "resp_1"}
        session.receive({"type": "response.steer.accepted", "steer": steer})
    refused = {"id": "steer_1", "previous_response_id": "resp_1", "input": "refused"}
    session.receive({"type": "response.steer.failed", "steer": refused, "error": {"code": "invalid_input"}})
    details = {"reason": "steered"}
    cut = {"id": "resp_1", "status": "incomplete", "incomplete_details": details, "output": [typed("assistant", "I")]}
    session.receive({"type": "response.incomplete", "response": cut})
    settings = {"previous_response_id": "resp_1", "instructions": "Help.", "tools": [TOOL]}
    session.get("resp_2", typed("assistant", "Kurz."), **settings)

    run = session.end()

    first, second = run.llm_interactions
    assert prompts(run)[1] == [SYSTEM, ("user", "Shorter."), ("user", "In German.")]
    assert relations(run)[1] == ("refers", first.interaction_id)
    assert (second.raw_request, second.model, [tool.name for tool in second.tools]) == ({}, "gpt-5", ["weather"])
    assert first.response.finish_reason == "steered"


def test_steering_that_waits_for_a_tool_is_in_front_of_the_results(session: Responses) -> None:
    """The client sends the result by a request of its own, and the server adds the steering to it."""
    session.ask(typed("user", "Weather?"))
    session.receive({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}})
    steer = {"type": "response.steer", "previous_response_id": "resp_1", "input": [typed("user", "In Celsius.")]}
    session.send(steer)
    done = {"id": "resp_1", "status": "completed", "output": [called("fc_1", "call_1")]}
    session.receive({"type": "response.completed", "response": done})
    session.receive({"type": "response.steer.pending", "steer": {"id": "s", "previous_response_id": "resp_1"}})
    result = {"type": "function_call_output", "call_id": "call_1", "output": "70 F"}
    session.ask(result, previous_response_id="resp_1")
    session.get("resp_2", typed("assistant", "21 C"))

    run = session.end()

    assert prompts(run)[1] == [SYSTEM, ("user", "In Celsius."), ("tool", "70 F")]
    assert [result.result for result in run.agent_steps[0].tool_results] == ["70 F"]


def test_a_refused_websocket_is_stated(tmp_path: Path) -> None:
    """There is no call, and the websocket has the error."""
    from trace_recorder.attach.lifecycle import RecorderTarget
    from trace_recorder.capture.seam import Binding
    from trace_recorder.capture.websocket_connection import begin_websocket

    path = tmp_path / "run.json"
    with TrajectoryRecorder(path, strict=True) as recorder:
        connection = begin_websocket(Binding(RecorderTarget(recorder), None), RESPONSES, ())
        assert connection is not None
        connection.refused(ConnectionError("server rejected WebSocket connection: HTTP 426"), 426)

    run = load(path)

    [websocket] = run.websockets
    assert websocket.error is not None
    assert (websocket.status, websocket.error.type, run.llm_interactions) == (426, "ConnectionError", [])


def test_every_prefix_of_a_journal_folds(session: Responses) -> None:
    """A warm-up whose end is not on file is no call either."""
    session.ask(typed("user", "Hi"), generate=False)
    session.ask(typed("user", "Hello?"), previous_response_id=session.get("resp_w"))
    session.get("resp_1", typed("assistant", "Yes."))
    session.send({"type": "response.steer", "previous_response_id": "resp_1", "input": "More."})
    session.get("resp_2", typed("assistant", "OK."), previous_response_id="resp_1")
    run = session.end()
    data = session.path.with_suffix(".jsonl").read_bytes()
    assert {one.kind for one in records_of(session.path)} >= {"websocket_start", "websocket_frames", "websocket_end"}

    counts = []
    for end in range(0, len(data), 31):
        fold = Fold()
        fold.add(read_records(data[:end]))
        counts.append(len(fold.trajectory("unknown").llm_interactions))

    assert sorted(counts) == counts
    assert (counts[0], counts[-1], len(run.llm_interactions)) == (0, 2, 2)
