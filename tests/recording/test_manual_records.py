"""Manual records: each is a copy made at once, of objects of any class with the right attributes."""

from __future__ import annotations

import dataclasses
import enum
from pathlib import Path
from types import SimpleNamespace

from openai.types.chat import ChatCompletion

from tests.agreement import document
from tests.provider import CHAT
from trace_recorder import TrajectoryRecorder, load

ASK = [{"role": "user", "content": "hello"}]


def test_recorded_objects_are_copied(tmp_path: Path) -> None:
    """A later change of a recorded object does not change the file."""
    messages = [{"role": "user", "content": "hello"}]
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        recorder.record_llm_interaction(messages, {"content": "x"}, "p", "m")
        messages[0]["content"] = "changed"
        messages.append({"role": "user", "content": "more"})

    assert document(recorder)["llm_interactions"][0]["input_messages"] == ASK


class State(enum.Enum):
    """A state as agents define it."""

    THINKING = "thinking"


@dataclasses.dataclass
class TraeToolCall:
    """A tool call in the form of Trae Agent."""

    name: str
    call_id: str
    arguments: dict[str, object]
    id: str | None = None


@dataclasses.dataclass
class TraeResponse:
    """A response in the form of Trae Agent."""

    content: str
    usage: object
    model: str
    finish_reason: str
    tool_calls: list[TraeToolCall]


def test_objects_with_attributes_are_accepted(tmp_path: Path) -> None:
    """Messages, responses, tools, calls and results can be plain objects, dataclasses or enums."""
    call = TraeToolCall("bash", "call_1", {"command": "ls"})
    usage = SimpleNamespace(input_tokens=1, output_tokens=2, cache_read_input_tokens=None)
    result = SimpleNamespace(call_id="call_1", name="bash", success=True, result="a.py", error=None, id=None)
    with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        recorder.record_llm_interaction(
            [SimpleNamespace(role="user", content="hello", tool_call=None, tool_result=None)],
            TraeResponse("", usage, "m-1", "tool_calls", [call]),
            "anthropic",
            "m",
            [SimpleNamespace(name="bash", run=print)],
        )
        recorder.record_agent_step(1, State.THINKING, tool_calls=[call], tool_results=[result], error=ValueError("no"))

    [one], [step] = document(recorder)["llm_interactions"], document(recorder)["agent_steps"]  # type: ignore[misc]
    shown = {"call_id": "call_1", "name": "bash", "arguments": {"command": "ls"}, "id": None}
    assert one["response"]["tool_calls"] == step["tool_calls"] == [shown]
    assert one["response"]["usage"] == {"input_tokens": 1, "output_tokens": 2}
    assert one["tools_available"] == ["bash"]
    assert (step["state"], step["error"]) == ("thinking", "ValueError: no")
    assert step["tool_results"] == [
        {"call_id": "call_1", "success": True, "result": "a.py", "error": None, "name": "bash", "id": None}
    ]


def test_a_response_object_of_an_sdk_is_accepted(tmp_path: Path) -> None:
    """A response object of an SDK is read with its dialect."""
    with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        recorder.record_llm_interaction(ASK, ChatCompletion.model_validate(CHAT), "openai", "m")

    [one] = load(recorder.trajectory_path).llm_interactions
    assert (one.response.content, one.response.id, one.response.usage.input_tokens) == ("hi", "chatcmpl-1", 3)


def test_an_exception_as_the_response_is_a_failed_call(tmp_path: Path) -> None:
    """A failed call is recorded with its error and an empty response."""
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        recorder.record_llm_interaction(ASK, TimeoutError("too late"), "p", "m")

    [one] = document(recorder)["llm_interactions"]  # type: ignore[misc]
    assert (one["response"], one["error"]) == ({}, {"type": "TimeoutError", "message": "too late"})


def test_rewards_annotations_and_summaries_are_in_the_document(tmp_path: Path) -> None:
    """Rewards and annotations are members of the document's root, and a summary is a member of its step."""
    with TrajectoryRecorder(tmp_path / "run.json", metadata={"suite": "s"}, strict=True) as recorder:
        recorder.record_agent_step(7, "completed")
        recorder.update_lakeview(7, "it listed files")
        recorder.reward("tests", 1.0, weight=0.5, explanation="all pass")
        recorder.annotate("label", "good")

    written = document(recorder)
    assert (written["metadata"], written["annotations"]) == ({"suite": "s"}, {"label": "good"})
    [reward] = written["rewards"]  # type: ignore[misc]
    assert (reward["name"], reward["value"], reward["weight"], reward["explanation"]) == ("tests", 1.0, 0.5, "all pass")
    assert written["agent_steps"][0]["lakeview_summary"] == "it listed files"
