"""Kiro CLI: sessions as lines with their facts, and conversations in a database or saved."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.formats.files import PRODUCED, results_in, runs_of
from trace_recorder import load, load_all
from trace_recorder.formats.foreign_runs.journal_writer import journal_lines
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import format_of

Record = dict[str, Any]
SESSION, CONVERSATION = "2f6c1b9e-0000-4000-8000-000000000001", "2f6c1b9e-0000-4000-8000-000000000002"
BEGAN = 1767325106000
"""The time of the first request, in milliseconds."""
KEY = "sk-proj-" + "Zk3vQ9rT7wX1" * 4
OUTPUT = {"exit_status": "exit status: 0", "stdout": "sunny\n", "stderr": ""}
IMAGE = {"format": "png", "source": {"kind": "bytes", "data": [137, 80, 78, 71]}}


def block(kind: str, data: Any) -> Record:
    return {"kind": kind, "data": data}


def use(call_id: str, **arguments: Any) -> Record:
    return block("toolUse", {"toolUseId": call_id, "name": "shell", "input": arguments})


def result(call_id: str, status: str, *content: Record) -> Record:
    return block("toolResult", {"toolUseId": call_id, "content": [*content], "status": status})


def line(kind: str, identity: str, *content: Record, **members: Any) -> Record:
    return {"version": "v1", "kind": kind, "data": {"message_id": identity, "content": [*content], **members}}


THOUGHT = block("thinking", {"text": "I look.", "signature": "c2ln", "modelId": "claude-haiku-4.5"})
REDACTED = block("thinking", {"text": "", "redactedContent": [46, 75], "modelId": "auto"})
LINES = [
    line("Prompt", "m1", block("text", "Weather?"), meta={"timestamp": 1767325106}),
    line("AssistantMessage", "m2", THOUGHT, block("text", ""), use("c1", command="w"), use("c2", command="x")),
    line(
        "ToolResults",
        "m3",
        result("c1", "success", block("json", OUTPUT)),
        result("c2", "error", block("text", "denied"), block("image", IMAGE)),
        results={"c1": {"tool": {}}},
    ),
    line("AssistantMessage", "m4", REDACTED, block("text", "It is sunny.")),
    {"version": "v1", "kind": "Compaction", "data": {"summary": "The weather is sunny.", "messages_snapshot": []}},
    line("Prompt", "m5", block("text", "And in Paris?"), meta={"timestamp": 1767325116}),
    line("AssistantMessage", "m6", block("text", "It rains.")),
    {"version": "v1", "kind": "Clear", "data": {}},
    line("Prompt", "m7", block("text", "Thanks."), meta={"timestamp": 1767325126}),
    line("AssistantMessage", "m8", block("text", "Bye.")),
]
FACTS = {
    "session_id": SESSION,
    "parent_session_id": CONVERSATION,
    "cwd": "/work",
    "created_at": "2026-01-02T03:38:25.000001Z",
    "updated_at": "2026-01-02T03:38:50.000001Z",
    "session_state": {
        "conversation_metadata": {
            "user_turn_metadatas": [
                {"message_ids": ["m1", "m2", "m3", "m4"], "end_reason": "Cancelled"},
                {
                    "message_ids": ["m7", "m8"],
                    "end_reason": "UserTurnEnd",
                    "end_timestamp": "2026-01-02T03:38:50Z",
                    "input_token_count": 0,
                },
            ]
        },
        "rts_model_state": {"model_info": {"model_id": "auto"}},
    },
}


def write_lines(path: Path, lines: Iterable[Record]) -> Path:
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    return path


def turn(second: int, content: Record, answer: Record, **user: Any) -> Record:
    """Return a turn of a conversation. Its request begins at this second, and takes a second and a half."""
    began = BEGAN + 1000 * second
    facts = {
        "request_start_timestamp_ms": began,
        "stream_end_timestamp_ms": began + 1500,
        "model_id": "claude-sonnet-4",
    }
    facts["time_to_first_chunk"] = {"secs": 0, "nanos": 250000000}
    message = {"additional_context": "", "content": content, "timestamp": None, "images": None, **user}
    return {"user": message, "assistant": answer, "request_metadata": facts}


def asks(identity: str, *call_ids: str) -> Record:
    uses = [{"id": call_id, "name": "execute_bash", "args": {"command": call_id}} for call_id in call_ids]
    return {"ToolUse": {"message_id": identity, "content": "I look.", "tool_uses": uses}}


def says(identity: str, text: str) -> Record:
    return {"Response": {"message_id": identity, "content": text}}


CITIES = [
    {"tool_use_id": "c1", "content": [{"Json": OUTPUT}], "status": "Success"},
    {"tool_use_id": "c2", "content": [{"Text": "no such city"}], "status": "Error"},
]
CANCELLED = {"tool_use_id": "c3", "content": [{"Text": "Tool use was cancelled by the user"}], "status": "Error"}
ENVIRONMENT = {"env_state": {"operating_system": "linux", "current_working_directory": "/work"}}
STATE = {
    "conversation_id": CONVERSATION,
    "next_message": {"content": {"Prompt": {"prompt": "And in Rome?"}}},
    "history": [
        turn(0, {"Prompt": {"prompt": "Weather?"}}, asks("m1", "c1", "c2"), env_context=ENVIRONMENT),
        turn(2, {"ToolUseResults": {"tool_use_results": CITIES}}, asks("m2", "c3")),
        turn(
            4,
            {"CancelledToolUses": {"prompt": "Stop.", "tool_use_results": [CANCELLED]}},
            says("m3", "I stop."),
            additional_context="It is late.",
        ),
    ],
    "valid_history_range": [0, 3],
    "transcript": ["> Weather?"],
    "tools": {
        "native___": [
            {"ToolSpecification": {"name": "execute_bash", "description": "Runs.", "input_schema": {"json": {}}}}
        ]
    },
    "latest_summary": ["They said hello.", {"stream_end_timestamp_ms": BEGAN - 1000, "model_id": "claude-sonnet-4"}],
    "model_info": {"model_id": "claude-sonnet-4"},
}
COMPACTED = {**STATE, "conversation_id": SESSION, "history": STATE["history"][:1], "next_message": None}


def write_database(path: Path, *states: Record | str) -> Path:
    """Write a database. The first conversation is the newest one, and its older version is in another row."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("create table auth_kv (key text primary key, value text)")
        database.execute("insert into auth_kv values ('kirocli:odic:token', ?)", (KEY,))
        database.execute(
            "create table conversations_v2 (key text, conversation_id text, value text, created_at integer,"
            " updated_at integer, primary key (key, conversation_id))"
        )
        for number, state in enumerate([*states, states[0]]):
            text = state if isinstance(state, str) else json.dumps(state)
            identity = f"damaged-{number}" if isinstance(state, str) else state["conversation_id"]
            row = (f"/work/{number}", identity, text, BEGAN, BEGAN + 9000 - number)
            database.execute("insert into conversations_v2 values (?, ?, ?, ?, ?)", row)
    return path


def test_a_session_has_its_calls_its_results_and_new_conversations(tmp_path: Path) -> None:
    """The produced file has these lines, without the file of facts."""
    path = write_lines(tmp_path / f"{SESSION}.jsonl", LINES)
    produced = PRODUCED / "kiro" / "session.jsonl"
    assert produced.read_text() == path.read_text()
    (tmp_path / f"{SESSION}.json").write_text(json.dumps(FACTS))
    run = load(path)
    calls = run.llm_interactions

    assert [call.response.content for call in calls] == [None, "It is sunny.", "It rains.", "Bye."]
    assert (calls[0].response.reasoning, calls[0].model, calls[1].model) == ("I look.", "claude-haiku-4.5", "auto")
    assert calls[1].response.extra["content"] == [{"type": "redacted_thinking", "data": "Lks="}]
    assert [call.timestamp for call in calls] == ["", "", "", "2026-01-02T03:38:50.000000+00:00"]
    assert [[message.content for message in call.input_messages] for call in calls[2:]] == [
        ["The weather is sunny.", "And in Paris?"],
        ["Thanks."],
    ]
    (first, second), source = results_in(run), run.metadata["imported_from"]
    assert first[1:] == ("shell", True, '{"exit_status":"exit status: 0","stdout":"sunny\\n","stderr":""}')
    assert (second[1:3], "denied" in second[3], "iVBORw==" in second[3]) == (("shell", False), True, True)
    assert (run.task, run.model, run.status, run.gaps) == ("Weather?", "auto", "completed", ())
    assert (source["id"], source["cwd"], run.parent) == (SESSION, "/work", CONVERSATION)
    assert not any(call.response.usage.is_known for call in calls)

    alone = load(produced)
    assert (alone.status, alone.model, len(alone.llm_interactions)) == ("unknown", "claude-haiku-4.5", 4)


def test_a_conversation_of_a_database_is_read_like_a_saved_one(tmp_path: Path) -> None:
    """Each conversation is read once. The produced files have these conversations."""
    path = write_database(tmp_path / "data.sqlite3", STATE, COMPACTED)
    run, compacted = load_all(path)
    (tmp_path / "saved.json").write_text(json.dumps(STATE))
    saved = load(tmp_path / "saved.json")
    summary, *calls = run.llm_interactions

    assert (summary.agent, summary.response.content, summary.input_messages) == ("compaction", "They said hello.", [])
    assert [(call.timestamp, call.duration_seconds, call.time_to_first_token_seconds) for call in calls] == [
        (f"2026-01-02T03:38:{second}.000000+00:00", 1.5, 0.25) for second in (26, 28, 30)
    ]
    assert [message.content for message in calls[0].input_messages] == ["They said hello.", "Weather?"]
    assert calls[2].input_messages[-1].content == "Stop."
    assert calls[2].input_messages[-1].extra["additional_context"] == "It is late."
    assert [result[1:] for result in results_in(run)] == [
        ("execute_bash", True, '{"exit_status":"exit status: 0","stdout":"sunny\\n","stderr":""}'),
        ("execute_bash", False, "no such city"),
        ("execute_bash", False, "Tool use was cancelled by the user"),
    ]
    assert [[tool.name for tool in call.tools] for call in calls] == [["execute_bash"]] * 3
    assert [message["content"] for message in run.annotations["unanswered"]] == ["And in Rome?"]
    assert (run.task, run.model, run.gaps) == ("Weather?", "claude-sonnet-4", ())
    assert saved.llm_interactions == run.llm_interactions
    assert [one.llm_interactions for one in load_all(PRODUCED / "kiro" / "data.db")] == [
        run.llm_interactions,
        compacted.llm_interactions,
    ]
    assert load(PRODUCED / "kiro" / "saved.json").llm_interactions == run.llm_interactions


def test_a_damaged_conversation_is_a_gap_and_logins_are_not_read(tmp_path: Path) -> None:
    keyed = {**STATE, "history": [7, turn(0, {"Prompt": {"prompt": KEY}}, {"Response": "x", "ToolUse": {}})]}
    path = write_database(tmp_path / "data.sqlite3", keyed, '{"history"')
    runs = runs_of(path)
    assert [run.source["cwd"] for run in runs] == ["/work/0", "/work/1"]
    assert [[(gap.what, gap.why) for gap in run.gaps] for run in load_all(path)] == [
        [("turn 1", "it is not an object")],
        [("the conversation", "it has no history")],
    ]
    for journal in (b"".join(journal_lines(run)) for run in runs):
        assert (KEY.encode() in journal, b"odic" in journal) == (False, False)


def test_a_damaged_line_is_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text(json.dumps(LINES[0]) + '\n{"version"\n' + json.dumps({**LINES[3], "data": 3}) + "\n")
    run = load(path)
    assert ([gap.what for gap in run.gaps], len(run.llm_interactions)) == (["line 2"], 1)


def test_a_database_of_another_program_is_not_taken_for_one_of_kiro(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("create table conversations (key text primary key, value text)")
    assert format_of(Source(path)) is None
