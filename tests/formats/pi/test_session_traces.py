"""Session traces in the simple form of the Hugging Face Hub, and as runs that are read again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.formats.files import results_in, said_in
from tests.formats.made import assistant, call, gave, run, system, use
from tests.formats.runs import RUNS
from trace_recorder import Trajectory, load
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.pi.session_traces import to_session_traces
from trace_recorder.formats.recognition import format_of

LS = use("c1", command="ls")


def test_a_conversation_is_a_header_and_a_line_for_each_message() -> None:
    first = call([system("s"), "q"], None, LS, response={"reasoning": "so"})
    second = call([system("s"), "q", assistant(None, LS), gave("c1", "a.py")], "done")
    [[header, *lines]] = to_session_traces(run(first, second))

    assert {name: header[name] for name in ("type", "harness", "name")} == {
        "type": "session",
        "harness": "trace-recorder",
        "name": "try",
    }
    arguments = json.dumps({"command": "ls"})
    asked = {"id": "c1", "function": {"name": "bash", "arguments": arguments}}
    time, later = 1749758401000, 1749758402000
    assert [line["message"] for line in lines] == [
        {"role": "system", "content": "s", "timestamp": time},
        {"role": "user", "content": "q", "timestamp": time},
        {
            "role": "assistant",
            "content": "",
            "reasoningContent": "so",
            "toolCalls": [asked],
            "timestamp": time,
            "model": "m-1",
            "interactionId": "llm_1",
        },
        {"role": "tool", "content": "a.py", "toolCallId": "c1", "timestamp": later},
        {"role": "assistant", "content": "done", "timestamp": later, "model": "m-1", "interactionId": "llm_2"},
    ]


def test_omitted_content_is_counted() -> None:
    """Contents are texts only, and a failed call is no message. Images and failed calls are counted."""
    shown = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]}
    failed = call(["q"], None, error={"type": "RateLimit", "message": "429"}, response={"finish_reason": None})
    sessions, left_out = to_session_traces.with_report(run(call([shown], "a"), failed))

    assert [line["message"]["content"] for line in sessions[0][1:]] == ["", "a"]
    assert left_out == {
        "images by address in questions": 1,
        "calls that failed, are in flight, or whose prompt is damaged": 1,
    }


@pytest.mark.parametrize("name", RUNS)
def test_a_written_session_is_read_again(trajectories: Mapping[str, Trajectory], name: str, tmp_path: Path) -> None:
    """Each session is recognised, and has its answers, its calls and their results."""
    for number, session in enumerate(to_session_traces(trajectories[name])):
        path = tmp_path / f"{number}.jsonl"
        path.write_text("\n".join(map(json.dumps, session)), encoding="utf-8")
        messages = [line["message"] for line in session[1:]]
        answers = [message for message in messages if "interactionId" in message]

        assert format_of(Source(path)) == "session-traces"
        again = load(path)
        assert [said["text"] or "" for said in said_in(again)] == [answer["content"] for answer in answers]
        asked = [[one["function"]["name"] for one in answer.get("toolCalls", ())] for answer in answers]
        assert [[tool for tool, _ in said.get("asked", ())] for said in said_in(again)] == asked
        called = {one["id"] for answer in answers for one in answer.get("toolCalls", ())}
        results = {message["toolCallId"] for message in messages if message["role"] == "tool"} & called
        assert {result[0] for result in results_in(again)} == results
