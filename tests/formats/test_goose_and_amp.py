"""goose's sessions, as goose 1.52 writes them and in older forms, and Amp's threads."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.formats.files import PRODUCED, results_in, runs_of, said_in
from trace_recorder import load, load_all
from trace_recorder.formats.foreign_runs.journal_writer import journal_lines
from trace_recorder.values.token_counts import counts_of

ASKED = [
    ("developer__shell", {"command": "echo sunny"}),
    ("developer__text_editor", {"command": "view", "path": "nothing.txt"}),
]


@pytest.mark.parametrize("name", ["sessions.db", "export.json", "20250513_082528.jsonl"])
def test_a_session_of_goose_is_the_same_run_in_each_form(name: str) -> None:
    run = load(PRODUCED / "goose" / name)
    said = [{key: one.get(key) for key in ("saw", "text", "asked")} for one in said_in(run)][:2]
    assert said == [
        {"saw": 1, "text": "Let me look.", "asked": ASKED},
        {"saw": 4, "text": "It is sunny.", "asked": None},
    ]
    assert [result[1:] for result in results_in(run)] == [
        ("developer__shell", True, "sunny\n"),
        ("developer__text_editor", False, "no such file"),
    ]
    assert run.task == "Weather in Tokyo?"
    assert run.annotations["session_usage"]["accumulated_output_tokens"] > 0


def test_the_database_of_goose_states_usage_and_compactions() -> None:
    """After a compaction the model sees the summary, and not the hidden messages."""
    calls = load(PRODUCED / "goose" / "sessions.db").llm_interactions
    usages = [call.response.usage for call in calls]
    assert [(one.input_tokens, one.output_tokens, one.cost) for one in usages] == [
        *((101, 11, 0.101), (102, 12, pytest.approx(0.102)), (103, 13, pytest.approx(0.103)))
    ]
    assert [message.content for message in calls[2].input_messages] == [
        *("The user asked for the weather; it is sunny.", "And in Paris?")
    ]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _asks(call_id: str, index: int, name: str, **arguments: Any) -> dict[str, Any]:
    call = {"status": "success", "value": {"name": name, "arguments": arguments}}
    return {"type": "toolRequest", "id": call_id, "toolCall": call, "_meta": {"goose.toolCall.providerIndex": index}}


def _gives(call_id: str, text: str, **members: Any) -> dict[str, Any]:
    value = {"content": [_text(text)], "isError": False, **members}
    return {"type": "toolResponse", "id": call_id, "toolResult": {"status": "success", "value": value}}


def _database(path: Path, sessions: Mapping[str, str | None], messages: list[tuple[str, str, str, Any]]) -> Path:
    """Write a database of goose 1.52: sessions with their parents, and messages (session, role, id, part or parts)."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "create table sessions (id text, name text, session_type text, working_dir text, "
            "parent_session_id text, provider_name text, model_config_json text)"
        )
        database.execute(
            "create table messages (id integer primary key, message_id text, session_id text, role text, "
            "content_json text, created_timestamp integer, metadata_json text)"
        )
        database.execute("create table usage_ledger (id integer primary key, session_id text, input_tokens integer)")
        for identity, parent in sessions.items():
            kind = "user" if parent is None else "sub_agent"
            row = (identity, f"name of {identity}", kind, "/w", parent, "openai", '{"model_name": "gpt-4o"}')
            database.execute("insert into sessions values (?, ?, ?, ?, ?, ?, ?)", row)
        for session, role, identity, parts in messages:
            content = json.dumps(parts if isinstance(parts, list) else [parts])
            values = (identity, session, role, content, 1796085750, '{"agentVisible": true}')
            columns = "message_id, session_id, role, content_json, created_timestamp, metadata_json"
            database.execute(f"insert into messages ({columns}) values (?, ?, ?, ?, ?, ?)", values)
    return path


SESSION = [
    ("s1", "user", "m1", _text("Weather?")),
    ("s2", "user", "m2", _text("Subagent ID: s2\n\nWeather in Tokyo?")),
    ("s2", "assistant", "chatcmpl-2", _text("Sunny.")),
    ("s1", "assistant", "chatcmpl-1", [_text("I look."), _asks("c1", 0, "shell", command="ls")]),
    ("s1", "user", "m5", _gives("c1", "a")),
    ("s1", "assistant", "m6", _asks("c2", 1, "delegate", instructions="Weather in Tokyo?")),
    ("s1", "user", "m7", _gives("c2", "Sunny.", _meta={"subagent_session_id": "s2"})),
    ("s1", "assistant", "chatcmpl-3", _text("It is sunny.")),
]


def test_parallel_tool_calls_and_sub_agents_of_goose_belong_to_one_answer(tmp_path: Path) -> None:
    """The calls of an answer are stored as messages of their own. A sub-agent's calls follow the call that asked."""
    run = load(_database(tmp_path / "sessions.db", {"s1": None, "s2": "s1"}, SESSION))
    calls = run.llm_interactions
    assert [(call.agent, call.agent_id, call.parent_execution_id) for call in calls] == [
        (None, None, None),
        ("name of s2", "s2", "execution-of-c2"),
        (None, None, None),
    ]
    assert [[asked.name for asked in call.response.tool_calls] for call in calls] == [["shell", "delegate"], [], []]
    roles = [message.role for message in calls[2].input_messages]
    assert roles == ["user", "assistant", "tool", "assistant", "tool"]
    assert [(result[0], result[-1]) for result in results_in(run)] == [("c1", "a"), ("c2", "Sunny.")]


def test_a_sub_agent_of_goose_whose_parent_is_unclear_is_not_lost(tmp_path: Path) -> None:
    """A missing parent, and sessions that started each other: each session is in one run."""
    sessions = {"s1": "s2", "s2": "s1", "s3": "gone"}
    messages = [(name, role, f"{name}-{role}", _text(name)) for name in sessions for role in ("user", "assistant")]
    runs = [*load_all(_database(tmp_path / "sessions.db", sessions, messages))]
    assert [len(run.llm_interactions) for run in runs] == [1, 2]


def test_a_key_in_the_database_of_goose_is_masked_and_a_damaged_message_is_a_gap(tmp_path: Path) -> None:
    key = "sk-proj-" + "Zk3vQ9rT7wX1" * 4
    messages = [(*message[:3], _text(key)) if message[2] == "m1" else message for message in SESSION]
    path = _database(tmp_path / "sessions.db", {"s1": None, "s2": "s1"}, messages)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("update messages set role = 'x', content_json = '[{\"type\"' where message_id = 'm7'")
    (run,) = runs_of(path)
    journal = b"".join(journal_lines(run))
    assert (key.encode() in journal, b"[REDACTED" in journal) == (False, True)
    assert [(gap.what, gap.why) for gap in load(path).gaps] == [("message 5", "its role is unknown")]


def test_a_thread_of_amp_has_the_usage_of_each_answer() -> None:
    [path] = (PRODUCED / "amp").iterdir()
    run = load(path)
    first, last = run.llm_interactions
    assert (first.response.reasoning, first.response.content, last.response.content) == (
        *("I look.", "Let me look.", "It is sunny."),
    )
    counted = [counts_of(call) for call in (first, last)]
    assert [(one.prompt, one.completion) for one in counted if one] == [(709, 30), (751, 6)]
    assert [call.timestamp for call in (first, last)] == [
        *("2026-11-25T10:25:18.000000+00:00", "2026-11-25T10:25:20.000000+00:00")
    ]
    assert results_in(run) == [
        ("toolu_1", "Bash", True, '{"output":"sunny\\n","exitCode":0}'),
        ("toolu_2", "Read", False, '{"message":"no such file"}'),
    ]


def test_a_stopped_answer_of_amp_is_incomplete(tmp_path: Path) -> None:
    said = {"role": "assistant", "messageId": 1, "content": [{"type": "text", "text": "Let"}]}
    thread = {"v": 1, "id": "T-1", "messages": [{**said, "state": {"type": "cancelled"}}]}
    (tmp_path / "T-1.json").write_text(json.dumps(thread))
    [call] = load(tmp_path / "T-1.json").llm_interactions
    assert (call.complete, call.ended_by) == (False, "its state is cancelled")


def test_a_state_of_amp_that_is_not_a_text_hides_no_answer(tmp_path: Path) -> None:
    answer = {"role": "assistant", "content": [{"type": "text", "text": "a"}], "state": {"type": ["cancelled"]}}
    (tmp_path / "T-1.json").write_text(json.dumps({"v": 1, "id": "T-1", "messages": [answer]}))
    [call] = load(tmp_path / "T-1.json").llm_interactions
    assert (call.response.content, call.complete) == ("a", True)
