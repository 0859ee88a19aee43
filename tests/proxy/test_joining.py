"""`--join`: the facts about tools in a program's session file become records of the proxy's run."""

from __future__ import annotations

import json
import shutil
from asyncio import _get_running_loop
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.provider import MESSAGE, Server, plain
from tests.proxy.running import proxying
from trace_recorder import load, validate
from trace_recorder.clocks import now
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.format import Format
from trace_recorder.formats.recognition import IMPORT_FORMATS
from trace_recorder.registry import register_format, unregister_format
from trace_recorder.values.messages import ToolResult
from trace_recorder.values.trajectory import Trajectory

SESSION = "5e55-10"
ARGUMENTS = {"command": "make"}
ASKED = {**MESSAGE, "id": "msg_1", "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": ARGUMENTS}]}
DONE = {**MESSAGE, "id": "msg_2", "content": [{"type": "text", "text": "It is made."}]}
SENT = [{"type": "tool_result", "tool_use_id": "t1", "content": "made", "is_error": False}]
RETURNED = {"stdout": "made", "stderr": "", "interrupted": False}
KEY = "mykey-verysecret-of-no-known-form"


def recorded(server: Server, directory: Path, asked: dict[str, Any] = ASKED, /, **headers: str) -> Trajectory:
    """Let a program send two requests, with a tool between them, and end its session."""
    server.answers[:] = [plain(asked), plain(DONE)]
    question = {"role": "user", "content": "Make it."}
    answer = {"role": "assistant", "content": asked["content"]}
    headers |= {"x-api-key": KEY}
    with proxying(directory, {"anthropic": server.url}, join=True) as proxy:
        for messages in ([question], [question, answer, {"role": "user", "content": SENT}]):
            body = {"model": "m", "max_tokens": 9, "messages": messages}
            httpx.post(f"{proxy.url}/anthropic/v1/messages", json=body, headers=headers)
    (path,) = proxy.sessions.documents
    assert [finding for finding in validate(path).findings if finding.severity != "note"] == []
    return load(path)


def claude_code(home: Path, *lines: dict[str, Any]) -> None:
    """Write the file of a session of Claude Code whose lines are two seconds apart."""
    path = home / "projects" / "-work" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    before = None
    with path.open("w") as file:
        for number, line in enumerate(lines):
            about = {"sessionId": SESSION, "version": "2.1.197", "uuid": f"u{number}", "parentUuid": before}
            file.write(json.dumps({**about, "timestamp": f"2100-01-01T00:00:{2 * number:02}.500Z", **line}) + "\n")
            before = f"u{number}"


def said(message: dict[str, Any]) -> dict[str, Any]:
    return {"type": "assistant", "message": message}


def returned(value: object) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": SENT}, "toolUseResult": value}


QUESTION = {"type": "user", "message": {"role": "user", "content": "Make it."}}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in IMPORT_FORMATS:
        for place in IMPORT_FORMATS.record(name).home:
            monkeypatch.setenv(place.variable or "HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def results(run: Trajectory) -> Sequence[ToolResult]:
    return [result for step in run.agent_steps for result in step.tool_results]


def test_times_and_results_of_tools_are_those_of_the_session_file(server: Server, tmp_path: Path, home: Path) -> None:
    """Journal and document have the times and results of tools from the session file, and the model's text where it
    differs.
    """
    claude_code(home, QUESTION, said(ASKED), returned(RETURNED), said(DONE))
    run = recorded(server, tmp_path / "runs", **{"x-claude-code-session-id": SESSION})
    expected = ToolResult(
        "t1",
        name="Bash",
        success=True,
        result=RETURNED,
        duration_seconds=2.0,
        sent="made",
        timestamp="2100-01-01T00:00:02.500000+00:00",
    )
    about = {"format": "claude-code", "session_id": SESSION, "calls": 2, "tools": 1, "version": "2.1.197"}
    assert (results(run), run.gaps) == ([expected], ())
    assert run.annotations["joined_from"] == {**about, "file": f"{SESSION}.jsonl"}
    (path,) = (tmp_path / "runs").glob("*.json")
    document = json.loads(path.read_bytes())
    assert [
        result["duration_seconds"] for step in document["agent_steps"] for result in step["tool_results"] or ()
    ] == [2.0]
    assert [len(step.tool_calls) for step in run.agent_steps] == [1, 0]


def test_a_disagreement_is_a_gap(server: Server, tmp_path: Path, home: Path) -> None:
    """A text or a token count that differs between run and session file, or a call that did not pass the proxy, is a
    gap.
    """
    other = {
        **DONE,
        "content": [{"type": "text", "text": "It is not."}],
        "usage": {"input_tokens": 3, "output_tokens": 7},
    }
    claude_code(home, QUESTION, said(ASKED), returned(RETURNED), said(other), QUESTION, said({**DONE, "id": "msg_9"}))
    run = recorded(server, tmp_path / "runs", **{"x-claude-code-session-id": SESSION})
    assert [(gap.what, gap.why) for gap in run.gaps] == [
        (
            "a call of the session at 2100-01-01T00:00:10.500000+00:00",
            "only the session file has this call",
        ),
        ("llm_2 and the session file", "they have different texts"),
        ("llm_2 and the session file", "output_tokens is 7 in the file, and 1 in the run"),
    ]


@pytest.mark.parametrize("change", [{"name": "Read"}, {"input": {"command": "make all"}}])
def test_a_different_tool_call_is_a_gap(server: Server, tmp_path: Path, home: Path, change: dict[str, Any]) -> None:
    """A tool call whose name or arguments differ between run and session file is a gap."""
    other = {**ASKED, "content": [{**ASKED["content"][0], **change}]}
    claude_code(home, QUESTION, said(other), returned(RETURNED), said(DONE))
    run = recorded(server, tmp_path / "runs", **{"x-claude-code-session-id": SESSION})
    assert ("llm_1 and the session file", "they have different tool calls") in [(gap.what, gap.why) for gap in run.gaps]


def test_a_call_outside_of_the_proxy_hides_no_later_call(server: Server, tmp_path: Path, home: Path) -> None:
    """After a call of the session that did not pass the proxy, later calls are still joined."""
    other = said({**DONE, "id": "msg_9"})
    claude_code(home, QUESTION, other, QUESTION, said(ASKED), returned(RETURNED), said(DONE))
    run = recorded(server, tmp_path / "runs", **{"x-claude-code-session-id": SESSION})
    assert [(gap.what, gap.why) for gap in run.gaps] == [
        (
            "a call of the session at 2100-01-01T00:00:02.500000+00:00",
            "only the session file has this call",
        )
    ]
    assert [(result.result, result.duration_seconds) for result in results(run)] == [(RETURNED, 2.0)]


def test_a_session_without_a_file_is_a_gap(server: Server, tmp_path: Path, home: Path) -> None:
    """A run without a session file is a gap, also if the only file is of a session without any call of the run."""
    claude_code(home, QUESTION, said({**ASKED, "id": "msg_7"}))
    run = recorded(server, tmp_path / "runs", **{"session-id": "other"})
    assert [(gap.what, gap.why) for gap in run.gaps] == [
        ("join the session file of the program", "no session file has calls of this run")
    ]
    assert (len(run.llm_interactions), "joined_from" in run.annotations) == (2, False)


def gemini_cli(home: Path, session: str) -> None:
    """Write the session file of a conversation with a tool. The ids in the file are the program's own."""
    path = home / ".gemini" / "tmp" / "p" / "chats" / f"session-{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    result = {"functionResponse": {"id": "b1", "name": "Bash", "response": {"output": "made"}}}
    call = {"id": "b1", "name": "Bash", "args": ARGUMENTS, "status": "success", "result": [result]}
    lines = [
        {"sessionId": session, "projectHash": "p", "startTime": now(), "lastUpdated": now()},
        {"id": "1", "timestamp": "2100-01-01T00:00:01Z", "type": "user", "content": "Make it."},
        {
            "id": "2",
            "timestamp": "2100-01-01T00:00:02Z",
            "type": "gemini",
            "content": "",
            "toolCalls": [{**call, "timestamp": "2100-01-01T00:00:05Z"}],
        },
        {"id": "3", "timestamp": "2100-01-01T00:00:06Z", "type": "gemini", "content": "It is made."},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_without_a_header_a_session_is_found_by_its_calls(server: Server, tmp_path: Path, home: Path) -> None:
    """A session of Gemini CLI, which sends no session id, is found by its calls."""
    gemini_cli(home, "g")
    run = recorded(server, tmp_path / "runs")
    assert [(result.call_id, result.duration_seconds, result.result) for result in results(run)] == [
        ("t1", 3.0, "made")
    ]
    assert (run.gaps, run.annotations["joined_from"]["session_id"]) == ((), "g")


def at(second: int) -> str:
    return f"2100-01-01T00:00:{second:02}Z"


def at_ms(second: int) -> int:
    """Return the same time in milliseconds since 1970."""
    return 4_102_444_800_000 + 1000 * second


def block(kind: str, **members: Any) -> dict[str, Any]:
    return {"type": kind, **members}


PI = [
    {"type": "session", "version": 3, "id": SESSION, "timestamp": at(0), "cwd": "/w"},
    *(
        {"type": "message", "id": str(second), "parentId": str(second - 1), "timestamp": at(second), "message": message}
        for second, message in (
            (1, {"role": "user", "content": [block("text", text="Make it.")]}),
            (2, {"role": "assistant", "content": [block("toolCall", id="t1", name="Bash", arguments=ARGUMENTS)]}),
            (
                5,
                {"role": "toolResult", "toolCallId": "t1", "toolName": "Bash", "content": [block("text", text="made")]},
            ),
            (6, {"role": "assistant", "content": [block("text", text="It is made.")]}),
        )
    ),
]
QWEN = [
    {"uuid": str(second), "parentUuid": before, "sessionId": SESSION, "timestamp": at(second), "type": kind}
    | {"message": {"role": role, "parts": [part]}}
    for second, before, kind, role, part in (
        (1, None, "user", "user", {"text": "Make it."}),
        (2, "1", "assistant", "model", {"functionCall": {"id": "t1", "name": "Bash", "args": ARGUMENTS}}),
        (
            5,
            "2",
            "tool_result",
            "user",
            {"functionResponse": {"id": "t1", "name": "Bash", "response": {"output": "made"}}},
        ),
        (6, "5", "assistant", "model", {"text": "It is made."}),
    )
]
KIMI = [
    {"type": "metadata", "protocol_version": "1.5", "created_at": at_ms(0)},
    {
        "type": "context.append_message",
        "message": {"role": "user", "content": [block("text", text="Make it.")]},
        "time": at_ms(1),
    },
    {"type": "llm.request", "provider": "openai", "model": "m", "time": at_ms(1)},
    *(
        {"type": "context.append_loop_event", "event": event, "time": at_ms(second)}
        for second, event in (
            (2, {"type": "tool.call", "stepUuid": "s1", "toolCallId": "t1", "name": "Bash", "args": ARGUMENTS}),
            (4, {"type": "tool.result", "toolCallId": "t1", "result": {"output": "made"}}),
            (4, {"type": "step.end", "uuid": "s1"}),
        )
    ),
    {"type": "llm.request", "provider": "openai", "model": "m", "time": at_ms(5)},
    *(
        {"type": "context.append_loop_event", "event": event, "time": at_ms(second)}
        for second, event in (
            (6, {"type": "content.part", "stepUuid": "s2", "part": block("text", text="It is made.")}),
            (6, {"type": "step.end", "uuid": "s2"}),
        )
    ),
]
COPILOT = [
    {"type": kind, "data": data, "id": str(second), "timestamp": at(second), "parentId": None}
    for second, kind, data in (
        (0, "session.start", {"sessionId": SESSION, "copilotVersion": "1.0.102"}),
        (1, "user.message", {"content": "Make it."}),
        (
            2,
            "assistant.message",
            {"content": "", "toolRequests": [{"toolCallId": "t1", "name": "Bash", "arguments": ARGUMENTS}]},
        ),
        (2, "tool.execution_start", {"toolCallId": "t1", "toolName": "Bash", "arguments": ARGUMENTS}),
        (5, "tool.execution_complete", {"toolCallId": "t1", "success": True, "result": {"content": "made"}}),
        (6, "assistant.message", {"content": "It is made.", "toolRequests": []}),
    )
]
DROID = [
    {"type": "session_start", "id": SESSION, "version": 2, "cwd": "/w"},
    *(
        {"type": "message", "id": str(second), "timestamp": at(second), "message": {"role": role, "content": [part]}}
        for second, role, part in (
            (1, "user", block("text", text="Make it.")),
            (2, "assistant", block("tool_use", id="t1", name="Bash", input=ARGUMENTS)),
            (5, "user", block("tool_result", tool_use_id="t1", content="made")),
            (6, "assistant", block("text", text="It is made.")),
        )
    ),
]
FILES: dict[str, tuple[str, list[dict[str, Any]], float]] = {
    "pi": (f"sessions/--w--/2100_{SESSION}.jsonl", PI, 3.0),
    "qwen": (f"projects/-w/chats/{SESSION}.jsonl", QWEN, 3.0),
    "kimi": (f"sessions/wd_w/session_{SESSION}/agents/main/wire.jsonl", KIMI, 2.0),
    "copilot": (f"session-state/{SESSION}/events.jsonl", COPILOT, 3.0),
    "droid": (f".factory/sessions/-w/{SESSION}.jsonl", DROID, 3.0),
}
"""For each format: the place of its file, its lines, and how long its tool took."""


@pytest.mark.parametrize("name", FILES)
def test_a_session_of_each_program_is_joined(server: Server, tmp_path: Path, home: Path, name: str) -> None:
    """The time of a tool is the time from the line of its call to the line of its result, unless the file states it."""
    place, lines, seconds = FILES[name]
    (home / place).parent.mkdir(parents=True)
    (home / place).write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = recorded(server, tmp_path / "runs")
    assert [(result.call_id, result.duration_seconds, result.success is False) for result in results(run)] == [
        ("t1", seconds, False)
    ]
    joined = run.annotations["joined_from"]
    assert (run.gaps, joined["format"], joined["calls"], joined["tools"]) == ((), name, 2, 1)


def test_an_earlier_part_of_a_session_is_no_gap(server: Server, tmp_path: Path, home: Path) -> None:
    """A session that was resumed at once has calls from before the run, which the run lacks. Equal texts are told apart
    by their times.
    """
    place, lines, _ = FILES["pi"]
    earlier = datetime.now(UTC) - timedelta(seconds=5)
    for line in (before := json.loads(json.dumps(lines[1:]).replace('"t1"', '"t0"'))):
        line["timestamp"] = earlier.isoformat()
        line["id"], line["parentId"] = f"b{line['id']}", f"b{line['parentId']}"
    later = [{**line, "parentId": "b6"} if line["id"] == "1" else line for line in lines]
    (home / place).parent.mkdir(parents=True)
    (home / place).write_text("".join(json.dumps(line) + "\n" for line in [lines[0], *before, *later[1:]]))
    run = recorded(server, tmp_path / "runs")
    assert (run.gaps, [result.duration_seconds for result in results(run)]) == ((), [3.0])
    assert run.annotations["joined_from"]["calls"] == 2


def test_an_equal_text_with_other_tokens_is_not_the_run(server: Server, tmp_path: Path, home: Path) -> None:
    """Two conversations may have the same answers. Their tokens tell them apart if the program states no session."""
    place, lines, _ = FILES["qwen"]
    lines = deepcopy(lines)
    for line in (lines[1], lines[3]):
        line["usageMetadata"] = {"promptTokenCount": 5000, "candidatesTokenCount": 7}
    (home / place).parent.mkdir(parents=True)
    (home / place).write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = recorded(server, tmp_path / "runs")
    assert [gap.why for gap in run.gaps] == ["no session file has calls of this run"]


@pytest.mark.parametrize(("output_of_file", "recorded_tokens", "gaps"), [(5, 12, 0), (12, 12, 0), (5, 13, 1)])
def test_thoughts_may_be_left_out_of_a_file_s_output(
    server: Server, tmp_path: Path, home: Path, output_of_file: int, recorded_tokens: int, gaps: int
) -> None:
    """Versions of opencode count thoughts in the output or beside it. Qwen Code's files have the same two members."""
    place, lines, _ = FILES["qwen"]
    lines = deepcopy(lines)
    lines[1]["usageMetadata"] = {"promptTokenCount": 3, "candidatesTokenCount": output_of_file, "thoughtsTokenCount": 7}
    (home / place).parent.mkdir(parents=True)
    (home / place).write_text("".join(json.dumps(line) + "\n" for line in lines))
    asked = {**ASKED, "usage": {"input_tokens": 3, "output_tokens": recorded_tokens}}
    assert len(recorded(server, tmp_path / "runs", asked).gaps) == gaps


def test_if_two_sessions_fit_neither_is_joined(server: Server, tmp_path: Path, home: Path) -> None:
    """If the answers of two sessions equal those of the run, neither session is joined."""
    gemini_cli(home, "g")
    gemini_cli(home, "h")
    run = recorded(server, tmp_path / "runs")
    assert [(gap.what, gap.why) for gap in run.gaps] == [
        ("join the session file of the program", "several sessions fit: g, h")
    ]
    assert ([result.duration_seconds for result in results(run)], "joined_from" in run.annotations) == ([None], False)


def test_a_session_with_a_known_id_is_joined_even_if_it_has_two_files(
    server: Server, tmp_path: Path, home: Path
) -> None:
    """If two files have the session id that the program sent, for example after a project was copied, the session is
    joined.
    """
    claude_code(home, QUESTION, said(ASKED), returned(RETURNED), said(DONE))
    (project,) = (home / "projects").iterdir()
    shutil.copytree(project, project.with_name("copy"))
    run = recorded(server, tmp_path / "runs", **{"x-claude-code-session-id": SESSION})
    assert (run.gaps, run.annotations["joined_from"]["tools"]) == ((), 1)


def test_a_key_in_a_session_file_is_masked(server: Server, tmp_path: Path, home: Path) -> None:
    """A key that the program sends is masked in the results that the session file adds."""
    claude_code(home, QUESTION, said(ASKED), returned({"stdout": f"KEY IS {KEY}"}), said(DONE))
    run = recorded(server, tmp_path / "runs", **{"x-claude-code-session-id": SESSION})
    assert [result.result for result in results(run)] == [{"stdout": "KEY IS [REDACTED:known-secret]"}]
    assert [path.name for path in (tmp_path / "runs").iterdir() if KEY.encode() in path.read_bytes()] == []


def test_an_unreadable_session_file_does_not_prevent_the_end_of_the_run(
    server: Server, tmp_path: Path, home: Path
) -> None:
    path = home / "projects" / "-work" / f"{SESSION}.jsonl"
    path.mkdir(parents=True)
    run = recorded(server, tmp_path / "runs", **{"x-claude-code-session-id": SESSION})
    assert (run.status, len(run.llm_interactions)) == ("completed", 2)
    assert [gap.what for gap in run.gaps] == ["join the session file of the program"]


def test_values_that_json_cannot_express_are_described(server: Server, tmp_path: Path, home: Path) -> None:
    """NaN and half of a surrogate pair in a session file prevent neither its tools nor its gaps."""
    odd = {**RETURNED, "stdout": "abc\ud83d", "seconds": float("nan")}
    other = {**ASKED, "id": "msg_\ud83d", "content": [{"type": "text", "text": "\ud83d"}]}
    claude_code(home, QUESTION, said(ASKED), returned(odd), said(DONE), said(other))
    run = recorded(server, tmp_path / "runs", **{"x-claude-code-session-id": SESSION})

    text = {"__type__": "str", "repr": "'abc\\ud83d'"}
    described = {"stdout": text, "seconds": {"__type__": "float", "repr": "nan"}}
    assert [result.result for result in results(run)] == [{**RETURNED, **described}]
    assert [gap.why for gap in run.gaps] == ["only the session file has this call"]


def test_a_masked_key_is_no_disagreement(server: Server, tmp_path: Path, home: Path) -> None:
    """A mask in the run in place of a key in the session file, in a text or in arguments, is not a difference."""
    tool = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": f"echo {KEY}"}}
    asked = {**ASKED, "content": [{"type": "text", "text": f"It is {KEY}."}, tool]}
    claude_code(home, QUESTION, said(asked), returned(RETURNED), said(DONE))
    run = recorded(server, tmp_path / "runs", asked, **{"x-claude-code-session-id": SESSION})
    assert (run.gaps, run.annotations["joined_from"]["tools"]) == ((), 1)


def test_session_files_are_not_read_in_the_event_loop(server: Server, tmp_path: Path, home: Path) -> None:
    """Requests are answered while session files are read, whether a run ends to make room or with the proxy."""
    in_event_loop: list[bool] = []

    def note_thread(_: Source) -> bool:
        in_event_loop.append(_get_running_loop() is not None)
        return False

    claude_code(home, QUESTION, said(DONE))
    server.answers[:] = [plain(DONE), plain(DONE)]
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Make it."}]}
    noting = Format(name="noting", reader=replace(IMPORT_FORMATS["pi"], recognizes=note_thread))
    register_format(noting)
    try:
        with proxying(tmp_path / "runs", {"anthropic": server.url}, join=True, max_open=1) as proxy:
            for session in (SESSION, "another"):
                headers = {"x-claude-code-session-id": session}
                httpx.post(f"{proxy.url}/anthropic/v1/messages", json=body, headers=headers)
    finally:
        unregister_format(noting)
    assert in_event_loop
    assert not any(in_event_loop)
    assert [(run.status, "joined_from" in run.annotations) for run in proxy.runs()] == [
        ("completed", True),
        ("completed", False),
    ]
