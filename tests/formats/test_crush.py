"""Crush's database: answers, failures, sub-agents and summaries. The database has the tables of Crush's migrations."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.formats.files import PRODUCED, results_in, runs_of
from trace_recorder import load, load_all
from trace_recorder.formats.foreign_runs.journal_writer import journal_lines

Row = tuple[str, str, str, list[tuple[str, dict[str, Any]]]]
_TABLES = """
create table sessions (id text primary key, parent_session_id text, title text not null, message_count integer,
    prompt_tokens integer, completion_tokens integer, cost real, updated_at integer, created_at integer,
    summary_message_id text);
create table messages (id text primary key, session_id text, role text, parts text, model text, created_at integer,
    updated_at integer, finished_at integer, provider text, is_summary_message integer default 0);
"""


def _text(text: str) -> tuple[str, dict[str, Any]]:
    return "text", {"text": text}


def _asks(call_id: str, name: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return "tool_call", {"id": call_id, "name": name, "input": json.dumps(arguments), "finished": True}


def _gives(call_id: str, content: str, **members: Any) -> tuple[str, dict[str, Any]]:
    return "tool_result", {"tool_call_id": call_id, "name": "", "content": content, "is_error": False, **members}


def _ends(reason: str, **members: Any) -> tuple[str, dict[str, Any]]:
    return "finish", {"reason": reason, "time": 1767325130, **members}


SESSION: list[Row] = [
    ("m1", "s1", "user", [_text("Weather?"), _ends("stop")]),
    ("m2", "s1", "assistant", [_ends("error", message="Provider Error", details="later")]),
    (
        "m3",
        "s1",
        "assistant",
        [
            ("reasoning", {"thinking": "I think.", "signature": ""}),
            _text("I look."),
            _asks("c1", "bash", command="ls"),
            _asks("c2", "agent", prompt="In Tokyo?"),
            _ends("tool_use"),
        ],
    ),
    ("m4", "m3$$c2", "user", [_text("In Tokyo?"), _ends("stop")]),
    ("m5", "m3$$c2", "assistant", [_text("Sunny."), _ends("end_turn")]),
    ("m6", "s1", "tool", [_gives("c1", "a", is_error=True), _gives("c2", "Sunny."), _ends("stop")]),
    ("m7", "s1", "assistant", [_text("It is sunny."), _ends("end_turn")]),
    ("m8", "s1", "assistant", [_text("A question about the weather."), _ends("end_turn")]),
    ("m9", "s1", "user", [_text("And in Paris?"), _ends("stop")]),
    ("m10", "s1", "assistant", [_text("It"), _ends("canceled")]),
]
SESSIONS = {"s1": None, "m3$$c2": "s1"}


def write_database(path: Path, sessions: Mapping[str, str | None], rows: list[Row], summary: str = "m8") -> Path:
    """Write a database. `sessions` has the parent of each session. Each second, there is one more message."""
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(_TABLES)
        for identity, parent in sessions.items():
            row = (identity, parent, "Weather", 220, 15, 0.5, 1767325971, 1767325106)
            columns = "id, parent_session_id, title, prompt_tokens, completion_tokens, cost, updated_at, created_at"
            database.execute(f"insert into sessions ({columns}) values (?, ?, ?, ?, ?, ?, ?, ?)", row)
        for second, (identity, session, role, parts) in enumerate(rows, start=1767325106):
            model, provider = ("gpt-4o", "openai") if role == "assistant" else ("", None)
            text = json.dumps([{"type": kind, "data": data} for kind, data in parts])
            values = (identity, session, role, text, model, second, second, second, provider, identity == summary)
            database.execute("insert into messages values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
    return path


def test_a_session_of_crush_has_its_calls_its_sub_agent_and_its_summary(tmp_path: Path) -> None:
    """The produced file is this session."""
    path = write_database(tmp_path / "crush.db", SESSIONS, SESSION)
    run, produced = load(path), load(PRODUCED / "crush" / "crush.db")
    calls = run.llm_interactions
    assert [call.response.content for call in calls] == [
        *(None, "I look.", "Sunny.", "It is sunny.", "A question about the weather.", "It"),
    ]
    assert [(call.agent_id, call.parent_execution_id) for call in calls] == [
        *((None, None), (None, None), ("m3$$c2", "execution-of-c2"), (None, None), (None, None), (None, None)),
    ]
    assert [message.content for message in calls[-1].input_messages] == [
        "A question about the weather.",
        "And in Paris?",
    ]
    assert [result[1:] for result in results_in(run)] == [("bash", False, "a"), ("agent", True, "Sunny.")]
    assert (calls[0].error.type, calls[0].error.message) == ("Provider Error", "later")  # type: ignore[union-attr]
    assert (calls[1].response.reasoning, calls[1].response.finish_reason) == ("I think.", "tool_use")
    assert (calls[-1].complete, calls[-1].ended_by) == (False, "the user stopped it")
    assert (run.task, run.model, run.provider, run.gaps) == ("Weather?", "gpt-4o", "openai", ())
    assert run.annotations["session_usage"] == {"prompt_tokens": 220, "completion_tokens": 15, "cost": 0.5}
    assert produced.llm_interactions == calls


def test_a_sub_agent_of_an_older_version_has_the_id_of_its_tool_call(tmp_path: Path) -> None:
    rows = [(identity, session.removeprefix("m3$$"), *others) for identity, session, *others in SESSION]
    run = load(write_database(tmp_path / "crush.db", {"s1": None, "c2": "s1"}, rows))  # type: ignore[arg-type]
    assert [call.parent_execution_id for call in run.llm_interactions if call.agent_id] == ["execution-of-c2"]


def test_sessions_whose_parents_are_unclear_are_not_lost(tmp_path: Path) -> None:
    """A missing parent, and sessions that started each other: each session is in one run."""
    sessions = {"s1": "s2", "s2": "s1", "s3": "gone", "s4": "s4"}
    rows: list[Row] = [
        (f"{name}-{role}", name, role, [_text(name)]) for name in sessions for role in ("user", "assistant")
    ]
    runs = [*load_all(write_database(tmp_path / "crush.db", sessions, rows))]
    assert sorted(len(run.llm_interactions) for run in runs) == [1, 1, 2]


def test_a_key_is_masked_and_a_damaged_row_is_a_gap(tmp_path: Path) -> None:
    key = "sk-proj-" + "Zk3vQ9rT7wX1" * 4
    rows: list[Row] = [("m0", "s1", "user", [_text(key)]), *SESSION]
    path = write_database(tmp_path / "crush.db", SESSIONS, rows)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("update messages set parts = '[{\"type\"' where id = 'm7'")
        database.execute("update messages set role = 'x' where id = 'm9'")
        database.execute("update messages set parts = '[7, {\"type\": [], \"data\": 3}]' where id = 'm1'")
    (run,) = runs_of(path)
    journal = b"".join(journal_lines(run))
    assert (key.encode() in journal, b"[REDACTED" in journal) == (False, True)
    assert [(gap.what, gap.why) for gap in load(path).gaps] == [
        ("the message m7", "its parts are not a list"),
        ("the message m9", "its role is unknown"),
    ]
