"""The logs of simonw/llm: tables of both generations, `llm logs --json`, forks, fragments, and damaged databases."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.formats.damage import check_damaged
from tests.formats.files import check_run, facts_in, loaded, real_files, runs_of
from trace_recorder import load
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.facts import GapFact
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import format_of
from trace_recorder.values.trajectory import Trajectory

_OLD = {
    "conversations": ["id", "name", "model"],
    "responses": [
        "id",
        "model",
        "prompt",
        "system",
        "prompt_json",
        "options_json",
        "response",
        "response_json",
        "conversation_id",
        "duration_ms",
        "datetime_utc",
        "input_tokens",
        "output_tokens",
        "token_details",
        "schema_id",
        "resolved_model",
        "reasoning",
    ],
    "attachments": ["id", "type", "path", "url", "content"],
    "prompt_attachments": ["response_id", "attachment_id", "order"],
    "fragments": ["id", "hash", "content"],
    "prompt_fragments": ["response_id", "fragment_id", "order"],
    "tools": ["id", "hash", "name", "description", "input_schema"],
    "tool_responses": ["tool_id", "response_id"],
    "tool_calls": ["id", "response_id", "tool_id", "name", "arguments", "tool_call_id"],
    "tool_results": ["id", "response_id", "tool_id", "name", "output", "tool_call_id", "exception"],
}
_NEW = {
    "threads": ["id", "name", "tip_message_hash", "forked_from"],
    "turns": [
        "id",
        "thread_id",
        "parent_message_hash",
        "tip_message_hash",
        "model",
        "resolved_model",
        "options_json",
        "schema_id",
        "input_tokens",
        "output_tokens",
        "token_details",
        "duration_ms",
        "datetime_utc",
        "response_json",
    ],
    "messages": ["hash", "parent_hash", "role", "provider_metadata"],
    "parts": ["id", "message_hash", "position", "type", "tool_name", "text", "payload"],
    "turn_tools": ["turn_id", "tool_id"],
}


def _database(directory: Path, tables: dict[str, list[str]], rows: dict[str, list[dict[str, Any]]]) -> Path:
    path = directory / "logs.db"
    with closing(sqlite3.connect(path)) as connection:
        for table, columns in tables.items():
            connection.execute(f'CREATE TABLE "{table}" ({", ".join(f"""[{column}]""" for column in columns)})')
        for table, inserted in rows.items():
            for row in inserted:
                names, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
                connection.execute(f'INSERT INTO "{table}" ({names}) VALUES ({marks})', [*row.values()])
        connection.commit()
    return path


def _response(identity: str, **members: Any) -> dict[str, Any]:
    time = f"2025-01-01T00:00:0{identity[-1]}+00:00"
    return {"id": identity, "model": "gpt", "conversation_id": "c", "datetime_utc": time, "duration_ms": 500, **members}


def _turn(identity: str, thread: str, parent: str, tip: str, **members: Any) -> dict[str, Any]:
    row = _response(identity, thread_id=thread, parent_message_hash=parent, tip_message_hash=tip, **members)
    return {name: value for name, value in row.items() if name != "conversation_id"}


_OLD_ROWS: dict[str, list[dict[str, Any]]] = {
    "conversations": [{"id": "c", "name": "Weather", "model": "gpt"}],
    "responses": [
        _response("r2", prompt="", system="Help.", response="18C.", reasoning="Hm.", input_tokens=9),
        _response(
            "r1",
            prompt="Weather?",
            system="Help.",
            response="I look.",
            options_json='{"temperature": 0}',
            token_details='{"prompt_tokens_details": {"cached_tokens": 4}}',
            resolved_model="gpt-2025",
            input_tokens=7,
            output_tokens=2,
        ),
        {"id": "r9", "model": "gpt", "prompt": "Alone", "response": "Yes", "conversation_id": None},
    ],
    "attachments": [{"id": "a1", "type": "image/png", "content": b"\x00"}],
    "prompt_attachments": [{"response_id": "r1", "attachment_id": "a1", "order": 0}],
    "fragments": [{"id": 1, "content": "A fragment."}],
    "prompt_fragments": [{"response_id": "r1", "fragment_id": 1, "order": 0}],
    "tools": [{"id": 1, "name": "look", "description": "Looks.", "input_schema": '{"type": "object"}'}],
    "tool_responses": [{"tool_id": 1, "response_id": "r1"}],
    "tool_calls": [
        {"id": 1, "response_id": "r1", "name": "look", "arguments": '{"city": "Paris"}', "tool_call_id": "t1"},
        {"id": 2, "response_id": "r1", "name": "look", "arguments": "{}", "tool_call_id": "t2"},
    ],
    "tool_results": [
        {"id": 1, "response_id": "r2", "name": "look", "output": "18C", "tool_call_id": "t1"},
        {
            "id": 2,
            "response_id": "r2",
            "name": "look",
            "output": "Error",
            "tool_call_id": "t2",
            "exception": "ValueError: x",
        },
    ],
}
_PARTS = [
    ("m0", "text", "Help.", {}),
    ("m1", "text", None, {"text_ref": [{"fragment": 1}, {"literal": "\nWeather?"}]}),
    ("m1", "attachment", None, {"attachment": {"id": "a1"}}),
    ("m2", "reasoning", "Hm.", {"provider_metadata": {"x": 1}}),
    ("m2", "text", "I look.", {}),
    ("m2", "tool_call", None, {"name": "look", "arguments": {"city": "Paris"}, "tool_call_id": "t1"}),
    ("m3", "tool_result", None, {"name": "look", "output": "18C", "tool_call_id": "t1", "exception": "ValueError: x"}),
    ("m4", "text", "18C.", {}),
    ("m5", "text", "Other?", {}),
    ("m6", "text", "No.", {}),
]
_CHAIN = {"m0": None, "m1": "m0", "m2": "m1", "m3": "m2", "m4": "m3", "m5": "m2", "m6": "m5"}
_ROLES = ("system", "user", "assistant", "tool", "assistant", "user", "assistant")
_NEW_ROWS: dict[str, list[dict[str, Any]]] = {
    "threads": [{"id": "c", "name": "Weather"}, {"id": "d", "forked_from": "c"}],
    "turns": [
        _turn("r1", "c", "m1", "m2", input_tokens=7),
        _turn("r2", "c", "m3", "m4"),
        _turn("r3", "d", "m5", "m6"),
    ],
    "messages": [
        {"hash": name, "parent_hash": parent, "role": role}
        for (name, parent), role in zip(_CHAIN.items(), _ROLES, strict=True)
    ],
    "parts": [
        {
            "id": number,
            "message_hash": name,
            "position": number,
            "type": kind,
            "text": text,
            "payload": json.dumps(payload),
        }
        for number, (name, kind, text, payload) in enumerate(_PARTS)
    ],
    "turn_tools": [{"turn_id": "r1", "tool_id": 1}],
    **{table: _OLD_ROWS[table] for table in ("attachments", "fragments", "tools")},
}


def _check(run: Trajectory) -> None:
    first, second = run.llm_interactions
    assert (run.trajectory_id, run.status, run.model) == ("c", "unknown", "gpt")
    assert [message.content for message in first.input_messages] == [
        "Help.",
        [
            {"type": "text", "text": "A fragment.\nWeather?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
        ],
    ]
    assert (first.response.content, first.response.usage.input_tokens, first.duration_seconds) == ("I look.", 7, 0.5)
    assert [(tool.name, tool.parameters) for tool in first.tools] == [("look", {"type": "object"})]
    assert first.response.tool_calls[0].arguments == {"city": "Paris"}
    assert [message.role for message in second.input_messages][:4] == ["system", "user", "assistant", "tool"]
    assert second.response.content == "18C."
    assert run.start_time == "2025-01-01T00:00:01.000000+00:00"


def test_the_older_tables_are_read(tmp_path: Path) -> None:
    run, alone = loaded(_database(tmp_path, _OLD, _OLD_ROWS))
    _check(run)
    first, second = run.llm_interactions
    assert (first.response.model, first.response.usage.cache_read_input_tokens) == ("gpt-2025", 4)
    assert (first.parameters, second.response.reasoning) == ({"temperature": 0}, "Hm.")
    assert [result.success for result in run.agent_steps[0].tool_results] == [None, False]
    assert (alone.trajectory_id, alone.task) == ("r9", "Alone")


def test_the_newer_tables_have_threads_that_share_messages(tmp_path: Path) -> None:
    run, fork = loaded(_database(tmp_path, {**_OLD, **_NEW}, _NEW_ROWS))
    _check(run)
    first, second = run.llm_interactions
    assert (first.response.reasoning, first.response.extra) == ("Hm.", {"provider_metadata": [{"x": 1}]})
    assert run.agent_steps[0].tool_results[0].success is False
    assert (run.task, run.metadata["imported_from"]["thread_name"]) == ("A fragment.\nWeather?", "Weather")
    assert [message.content for message in second.input_messages][2:] == ["I look.", "18C"]
    assert (fork.trajectory_id, fork.parent, fork.metadata["imported_from"]["forked_from"]) == ("d", "c", "c")
    assert [message.content for message in fork.llm_interactions[0].input_messages][2:] == ["I look.", "Other?"]


def test_a_row_in_tables_of_both_generations_is_read_once(tmp_path: Path) -> None:
    rows = {**_OLD_ROWS, **_NEW_ROWS, "responses": _OLD_ROWS["responses"][:2]}
    assert [run.trajectory_id for run in loaded(_database(tmp_path, {**_OLD, **_NEW}, rows))] == ["c", "d"]


def test_a_broken_or_circular_chain_is_a_gap(tmp_path: Path) -> None:
    ring = [{**row, "parent_hash": "m1"} if row["hash"] == "m0" else row for row in _NEW_ROWS["messages"]]
    path = _database(tmp_path, {**_OLD, **_NEW}, {**_NEW_ROWS, "messages": ring[:3]})
    missing = [event.what for run in runs_of(path) for event in facts_in(run, GapFact)]
    assert missing == ["the prompt of turn r1", "the prompt of turn r2", "the prompt of turn r3"]


def test_a_database_is_not_changed_and_no_file_is_added_beside_it(tmp_path: Path) -> None:
    path = _database(tmp_path, _OLD, _OLD_ROWS)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = wal")
    before = path.read_bytes()
    assert len(runs_of(path)) == 2
    assert (path.read_bytes(), [one.name for one in tmp_path.iterdir()]) == (before, ["logs.db"])


def test_rows_in_the_write_ahead_log_are_read(tmp_path: Path) -> None:
    path = _database(tmp_path, _OLD, {})
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("INSERT INTO responses (id, model, prompt, response) VALUES ('r1', 'gpt', 'Hi', 'Yes')")
        connection.commit()
        assert [run.task for run in runs_of(path)] == ["Hi"]


def test_a_view_in_place_of_a_table_is_not_queried(tmp_path: Path) -> None:
    path = tmp_path / "logs.db"
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS id FROM n"
    columns = ", ".join(f"id AS {name}" for name in ("model", "prompt", "response", "conversation_id"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE VIEW responses AS SELECT id, {columns} FROM ({endless})")
    assert format_of(Source(path)) is None


def test_a_truncated_database_is_an_error(tmp_path: Path) -> None:
    path = _database(tmp_path, _OLD, _OLD_ROWS)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(TrajectoryFormatError):
        load(path)


def test_entries_of_llm_logs_json_are_read(tmp_path: Path) -> None:
    entry = _response("r1", prompt="Hi", response="Yes", system=None) | {"tools": [], "tool_calls": [{"arguments": []}]}
    data = json.dumps([entry, entry | {"id": "r2", "tool_results": [{"output": "x", "tool_call_id": "t"}]}]).encode()
    path = tmp_path / "logs.json"
    path.write_bytes(data)
    assert [len(call.input_messages) for call in load(path).llm_interactions] == [1, 4]
    check_damaged(path, data)


def test_real_files_equal_a_second_reading(tmp_path: Path) -> None:
    (printed,) = real_files("llm/*.json")
    entries = json.loads(printed.read_bytes())
    read = []
    for path in real_files("llm/*"):
        (run,) = runs_of(path)
        assert run.format == "llm"
        trajectory = check_run(run, tmp_path)
        calls = trajectory.llm_interactions
        assert [call.response.id for call in calls] == [entry["id"] for entry in entries]
        assert [call.response.content for call in calls] == [entry["response"] for entry in entries]
        assert trajectory.metrics["input_tokens"] == sum(entry["input_tokens"] for entry in entries)
        names = [[call["tool_call_id"] for call in entry["tool_calls"]] for entry in entries]
        assert [[call.call_id for call in one.response.tool_calls] for one in calls] == names
        results = [result["output"] for entry in entries for result in entry["tool_results"]]
        stated = [message.content for message in calls[-1].input_messages if message.role == "tool"]
        assert stated == results
        assert [tool.name for tool in calls[0].tools] == [tool["name"] for tool in entries[0]["tools"]]
        read.append([[(message.role, message.call_id) for message in call.input_messages] for call in calls])
    assert read[0] == read[1]
