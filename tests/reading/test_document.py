"""The document: the keys and the order of the format that it follows, and what a document without its journal
states.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chat_calls import Answer, asked, call, rich_run, said, streamed
from tests.journals import folded, line, records_of
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.reading.document import from_document
from trace_recorder.values.history_deltas import MessageDeltas
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Message, Payload, RequestReading, ToolCall, ToolResult
from trace_recorder.values.trajectory import Trajectory

ROOT = (
    *("task", "start_time", "end_time", "provider", "model", "max_steps", "llm_interactions", "agent_steps", "success"),
    *("final_result", "execution_time"),
)
ROOT_ADDED = (
    *("schema_version", "trajectory_id", "status", "error", "metadata", "annotations", "metrics", "rewards", "gaps"),
    "history",
    "journal_records",
)
INTERACTION = ("timestamp", "provider", "model", "input_messages", "response", "tools_available")
INTERACTION_ADDED = (
    *("interaction_id", "step_number", "agent", "api", "request", "attempts", "duration_seconds"),
    *("time_to_first_token_seconds", "stream", "complete", "ended_by", "error"),
)
RESPONSE = ("content", "model", "finish_reason", "usage", "tool_calls")
USAGE = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "reasoning_tokens")
STEP = (
    *("step_number", "timestamp", "state", "llm_messages", "llm_response", "tool_calls", "tool_results", "reflection"),
    "error",
)
CALL = ("call_id", "name", "arguments")
RESULT = ("call_id", "success", "result", "error")


def keys(value: Payload) -> tuple[str, ...]:
    return tuple(value)


def in_order(value: Payload, wanted: tuple[str, ...]) -> bool:
    """Return whether a value begins with the wanted keys in their order. Some keys may be missing."""
    there = tuple(key for key in wanted if key in value)
    return keys(value)[: len(there)] == there


def captured(tmp_path: Path) -> Payload:
    """Return the document of a captured run of two calls."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", task="t", strict=True)
    call(recorder, asked("go", tools=[{"name": "bash"}]), said("I will", calls=[("c1", "bash", '{"a": 1}')]))
    history = [{"role": "assistant", "content": "I will"}, {"role": "tool", "tool_call_id": "c1", "content": "made"}]
    call(recorder, asked("go", *history), said("done", identity="chat-2"))
    recorder.finalize(success=True, final_result="done")
    return json.loads(recorder.trajectory_path.read_text())


def test_the_keys_of_a_captured_run(tmp_path: Path) -> None:
    """At every level, the format's keys come first, in the format's order, and ours after them."""
    document = captured(tmp_path)

    first, step = document["llm_interactions"][0], document["agent_steps"][0]
    assert keys(document) == ROOT + ROOT_ADDED
    assert keys(first) == INTERACTION + INTERACTION_ADDED
    assert keys(first["response"])[:5] == RESPONSE
    assert in_order(first["response"]["usage"], USAGE)
    assert [keys(message)[:2] for message in first["input_messages"]] == [("role", "content")]
    assert keys(first["response"]["tool_calls"][0]) == CALL
    assert keys(step)[:9] == STEP
    assert keys(step["tool_results"][0])[:4] == RESULT


def test_the_values_of_a_captured_run(tmp_path: Path) -> None:
    """The values that the format's own readers use describe the run."""
    document = captured(tmp_path)

    first, last = document["llm_interactions"]
    made = {"call_id": "c1", "name": "bash", "arguments": {"a": 1}}
    assert {name: document[name] for name in ("task", "provider", "model", "success", "final_result", "status")} == {
        "task": "t",
        "provider": "openai",
        "model": "m",
        "success": True,
        "final_result": "done",
        "status": "completed",
    }
    assert [message["content"] for message in last["input_messages"]] == ["go", "I will", "made"]
    assert (first["response"]["content"], first["response"]["model"], first["response"]["tool_calls"]) == (
        *("I will", "m-1", [made]),
    )
    assert (first["model"], first["tools_available"], first["response"]["finish_reason"]) == (
        "m",
        ["bash"],
        "tool_calls",
    )
    assert document["agent_steps"][0]["tool_results"] == [
        {"call_id": "c1", "success": None, "result": "made", "error": None, "name": "bash"}
    ]


def test_the_keys_of_a_run_recorded_as_trae_agent_does(tmp_path: Path) -> None:
    """Objects with attributes, as Trae Agent passes them, become the format's keys in the format's order."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    recorder.start_recording(task="t", provider="anthropic", model="claude", max_steps=3)
    made = SimpleNamespace(name="bash", call_id="c1", arguments={"a": 1}, id=None)
    result = SimpleNamespace(call_id="c1", name="bash", success=True, result="made", error=None, id=None)
    usage = SimpleNamespace(
        input_tokens=5, output_tokens=2, cache_creation_input_tokens=0, cache_read_input_tokens=0, reasoning_tokens=None
    )
    response = SimpleNamespace(content="x", usage=usage, model="claude-1", finish_reason="end_turn", tool_calls=[made])
    message = SimpleNamespace(role="user", content="go", tool_call=None, tool_result=None)
    recorder.record_llm_interaction([message], response, "anthropic", "claude", [SimpleNamespace(name="bash")])
    recorder.record_agent_step(
        step_number=1, state="calling_tool", llm_messages=[message], llm_response=response, tool_calls=[made],
        tool_results=[result], reflection="r", error=None,
    )  # fmt: skip
    recorder.finalize_recording(success=True, final_result="done")

    document = json.loads(recorder.trajectory_path.read_text())
    [interaction], [step] = document["llm_interactions"], document["agent_steps"]
    assert (keys(document), keys(interaction), keys(step)[:9]) == (
        ROOT + ROOT_ADDED,
        INTERACTION + INTERACTION_ADDED,
        STEP,
    )
    assert (keys(interaction["response"])[:5], keys(step["llm_response"])[:5]) == (RESPONSE, RESPONSE)
    assert (keys(interaction["response"]["usage"]), keys(step["tool_calls"][0])[:3]) == (USAGE[:4], CALL)
    assert (keys(step["tool_results"][0])[:4], interaction["tools_available"]) == (RESULT, ["bash"])
    assert [(m["role"], m["content"]) for m in interaction["input_messages"]] == [("user", "go")]


def test_the_document_has_no_null_that_readers_cannot_handle(tmp_path: Path) -> None:
    """No response is null, no count is null, ids and names are strings, and times have an offset."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    call(recorder, asked("x"), Answer(b'{"error":{"message":"no"}}', status=400))
    call(
        recorder,
        asked("y"),
        Answer(b'{"choices":[{"message":{"content":null,"tool_calls":[{"function":{}}]}}],"usage":{}}'),
    )
    recorder.record_llm_interaction([], None, "p", "m")
    recorder.record_llm_interaction([], {"usage": None, "tool_calls": [{"name": None}]}, "p", "m")
    recorder.finalize()

    document = json.loads(recorder.trajectory_path.read_text())
    responses = [call["response"] for call in document["llm_interactions"]]
    calls = [made for response in responses for made in response.get("tool_calls") or ()]
    assert responses[0] == {}
    assert [value for response in responses for value in (response.get("usage") or {}).values() if value is None] == []
    assert {type(made[name]) for made in calls for name in ("call_id", "name")} == {str}
    times = [
        document["start_time"],
        document["end_time"],
        *(call["timestamp"] for call in document["llm_interactions"]),
    ]
    assert {time[-6:] for time in times} == {"+00:00"}


def test_a_history_as_deltas_loads_to_the_same_messages(tmp_path: Path) -> None:
    """A document without its journal has the complete list of messages for each call, inline or as deltas."""
    rich_run(tmp_path / "run.json")
    trajectory = load(tmp_path / "run.json")

    inline, delta = trajectory.to_document(), trajectory.to_document("delta")

    lists = [
        [call.input_messages for call in from_document(json.loads(json.dumps(document)), "it").llm_interactions]
        for document in (inline, delta)
    ]
    whole = [[message.to_document() for message in call.input_messages] for call in trajectory.llm_interactions]
    assert [[[message.to_document() for message in one] for one in each] for each in lists] == [whole, whole]
    assert lists[0] == lists[1]
    assert (inline["history"], delta["history"]) == ("inline", "delta")
    assert {"input_messages" in call for call in delta["llm_interactions"] if call["api"]} == {False}


@dataclass(frozen=True)
class Source:
    """A request that has only messages."""

    messages: list[Message]
    new_tool_results: list[ToolResult] = field(default_factory=list)

    def request(self) -> RequestReading:
        return RequestReading(self.messages)

    request_without_messages = request

    def has_request(self) -> bool:
        return True

    def raw_request(self) -> Payload:
        return None

    raw_response = raw_stream = raw_request


def interaction(number: int, messages: list[Message]) -> LLMInteraction:
    return LLMInteraction(
        interaction_id=f"llm_{number}",
        timestamp="2025-06-12T22:05:46+00:00",
        provider="p",
        model="m",
        source=Source(messages),
        api="openai-chat",
    )


MESSAGES = st.builds(
    Message,
    st.sampled_from(["user", "tool"]),
    st.sampled_from(["a", "b", None, [{"type": "image"}]]),
    st.sampled_from([(), (ToolCall("c", "n", {"a": 1}),)]),
)


@given(st.lists(st.lists(MESSAGES, max_size=6), max_size=12))
def test_deltas_of_any_histories_give_the_complete_lists(lists: list[list[Message]]) -> None:
    """Each list can be restored, however conversations grow, go back, alternate or repeat."""
    trajectory = Trajectory(llm_interactions=[interaction(number, one) for number, one in enumerate(lists)])

    again = from_document(json.loads(json.dumps(trajectory.to_document("delta"))), "it")

    assert [[message.to_document() for message in call.input_messages] for call in again.llm_interactions] == [
        [message.to_document() for message in one] for one in lists
    ]


def test_a_delta_has_only_new_messages() -> None:
    """A growing conversation is written against the call before it, and two alternating conversations each against
    their own.
    """
    one, two = [Message("user", "one")], [Message("user", "two")]
    lists = [one, two, [*one, Message("user", "more")], [*two, Message("user", "more")]]
    deltas = MessageDeltas()

    written = [deltas.delta_of(interaction(number, messages)) for number, messages in enumerate(lists)]

    assert [one and one["input_messages_delta"] for one in written] == [
        {"since": None, "kept": 0, "messages": [{"role": "user", "content": "one"}]},
        {"since": None, "kept": 0, "messages": [{"role": "user", "content": "two"}]},
        {"since": "llm_0", "kept": 1, "messages": [{"role": "user", "content": "more"}]},
        {"since": "llm_1", "kept": 1, "messages": [{"role": "user", "content": "more"}]},
    ]


def test_a_delta_has_only_the_edited_and_the_new_messages() -> None:
    """If an old message was replaced, a delta repeats the messages around it, and places the new one between them."""
    history = [Message("user", str(number)) for number in range(6)]
    edited = [*history[:2], Message("user", "[elided]"), *history[3:], Message("user", "more")]
    deltas = MessageDeltas()
    deltas.delta_of(interaction(0, history))

    assert deltas.delta_of(interaction(1, edited)) == {
        "input_messages_delta": {
            "since": "llm_0",
            "kept": [[0, 1], [3, 5]],
            "places": [2],
            "messages": [{"role": "user", "content": "[elided]"}, {"role": "user", "content": "more"}],
        }
    }


def test_a_loaded_document_is_written_the_same_again(tmp_path: Path) -> None:
    """Loading a document without its journal and rendering it loses and adds nothing."""
    document = json.loads(rich_run(tmp_path / "run.json").read_text())

    assert from_document(document, "it").to_document() == document


def test_a_damaged_request_is_not_shown_as_empty(tmp_path: Path) -> None:
    """The prompt of a call is complete or absent: if a message is lost, there is no list."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    call(recorder, asked("first"), said("x"))
    call(recorder, asked("first", "second"), streamed("y"))
    recorder.finalize()
    records = records_of(recorder.trajectory_path)
    lost = next(record for record in records if record.kind == "item" and record.data["value"]["content"] == "second")

    trajectory = folded(
        b"".join(line(record.seq, record.kind, record.data) for record in records if record is not lost)
    )

    for history in ("inline", "delta"):
        first, second = trajectory.to_document(history)["llm_interactions"]  # type: ignore[arg-type]
        assert ("input_messages" in first or "input_messages_delta" in first) is True
        assert [name for name in second if name.startswith("input_messages")] == [], history
    assert [gap.what for gap in trajectory.gaps] == ["lines of the journal", "the request of llm_2"]


@pytest.mark.parametrize("history", ["inline", "delta"])
def test_a_trajectory_renders_its_document(tmp_path: Path, history: str) -> None:
    """The public method gives the same as the function. The document is inline by default."""
    trajectory = load(rich_run(tmp_path / "run.json"))

    assert trajectory.to_document(history=history) == trajectory.to_document(history)  # type: ignore[arg-type]


@pytest.mark.parametrize("member", ["metadata", "annotations", "gaps", "rewards"])
@pytest.mark.parametrize("empty", [[], {}, "", 0, False], ids=repr)
def test_an_empty_value_of_a_wrong_type_is_an_empty_object_or_list(tmp_path: Path, member: str, empty: object) -> None:
    """Some tools write an empty list for an empty object."""
    path = tmp_path / "run.json"
    with TrajectoryRecorder(path, task="t") as recorder:
        recorder.annotate("k", "v")
    document = json.loads(path.read_text())
    path.with_suffix(".jsonl").unlink()
    path.write_text(json.dumps({**document, member: empty}))

    assert load(path).task == "t"
