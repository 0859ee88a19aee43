"""opencode's sessions: both storages, exports, steps, aborted answers, a summary, and names of files elsewhere."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.formats.files import PRODUCED, check_run, facts_in, produced_document, real_files, runs_of
from trace_recorder import load, load_all
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.facts import GapFact, SourceRecordFact
from trace_recorder.formats.foreign_runs.run import Call, ToolRun
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.imported_runs import Imported, read_file, write_run
from trace_recorder.formats.recognition import format_of
from trace_recorder.values.token_counts import counts_of
from trace_recorder.values.trajectory import Trajectory

_EXPORT = produced_document("opencode/export.json")
_SESSION = _EXPORT["info"]


def _message(number: int, role: str, **members: Any) -> dict[str, Any]:
    time = {"created": 1_730_000_000_000 + number * 1000}
    return {"id": f"msg_{number}", "sessionID": "ses_1", "role": role, "time": time, **members}


def _part(number: int, kind: str, **members: Any) -> dict[str, Any]:
    return {"id": f"prt_{number}", "type": kind, **members}


def _tool(number: int, status: str, **state: Any) -> dict[str, Any]:
    clock = {"start": 1_730_000_002_000, "end": 1_730_000_003_500}
    return _part(number, "tool", callID=f"c{number}", tool="bash", state={"status": status, "time": clock, **state})


_IMAGE = "data:image/png;base64,AA"
_SAID = [(message["info"], message["parts"]) for message in _EXPORT["messages"]]


def _storage(root: Path, messages: list[tuple[dict[str, Any], list[dict[str, Any]]]], *, flat: bool = False) -> Path:
    session = root / "session" / "p" / "ses_1.json"
    for message, parts in messages:
        _write(root / "message" / "ses_1" / f"{message['id']}.json", message)
        for part in parts:
            inside = root / "part" if flat else root / "part" / message["id"]
            _write(inside / f"{part['id']}.json", {**part, "messageID": message["id"]})
    _write(session, _SESSION)
    return session


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def _check(run: Trajectory) -> None:
    assert (run.trajectory_id, run.model, run.provider, run.execution_time) == ("ses_1", "m", "openai", 9.0)
    assert run.metadata["imported_from"]["parent_id"] == "ses_0"
    first, second = run.llm_interactions
    assert [message.content for message in first.input_messages] == [
        "You help.",
        [{"type": "text", "text": "Weather?"}, {"type": "image_url", "image_url": {"url": _IMAGE}}],
    ]
    assert (first.response.content, first.response.reasoning, first.response.finish_reason) == (
        "I look.",
        "Hm.",
        "tool-calls",
    )
    assert [(message.role, message.content) for message in second.input_messages][2:] == [
        ("assistant", "I look."),
        ("tool", "a"),
        ("tool", "no"),
    ]
    results = [
        (result.success, result.result, result.error, result.duration_seconds)
        for result in run.agent_steps[0].tool_results
    ]
    assert results == [(True, "a", None, 1.5), (False, None, "no", 1.5)]
    counts = counts_of(first)
    assert counts is not None
    assert (counts.prompt, run.metrics["cost"]) == (74, 0.75)


@pytest.mark.parametrize("flat", [False, True])
def test_a_session_is_read_with_the_files_around_it(tmp_path: Path, flat: bool) -> None:
    path = _storage(tmp_path / "storage", _SAID, flat=flat)
    source = Source(path)
    assert format_of(source) == "opencode"
    _check(load(path))
    (run,) = runs_of(path)
    assert [event.what for event in facts_in(run, SourceRecordFact)] == [
        "part step-finish",
        "part step-finish",
        "part patch",
    ]


def test_an_export_is_the_same_run() -> None:
    _check(load(PRODUCED / "opencode" / "export.json"))


def test_an_aborted_answer_is_incomplete(tmp_path: Path) -> None:
    error = {"name": "MessageAbortedError", "data": {"message": "The operation was aborted."}}
    said = [_SAID[0], (_message(2, "assistant", error=error), [_part(1, "text", text="I l")])]
    (call,) = load(_storage(tmp_path, said)).llm_interactions
    assert (call.response.content, call.complete, call.ended_by) == ("I l", False, "MessageAbortedError")
    (empty,) = load(
        _storage(tmp_path / "other", [_SAID[0], (_message(2, "assistant", error=error), [])])
    ).llm_interactions
    assert (empty.error and empty.error.type, empty.complete) == ("MessageAbortedError", False)


def test_a_summary_begins_a_new_conversation(tmp_path: Path) -> None:
    messages = [
        *_SAID,
        (_message(3, "user"), [_part(1, "compaction", auto=True), _part(2, "text", text="Summarize.")]),
        (_message(4, "assistant", summary=True), [_part(3, "text", text="It was fine.")]),
        (_message(5, "user"), [_part(4, "text", text="And now?")]),
        (_message(6, "assistant"), [_part(5, "text", text="Rain.")]),
    ]
    *_, last = load(_storage(tmp_path, messages)).llm_interactions
    assert [message.content for message in last.input_messages] == [
        "You help.",
        "Summarize.",
        "It was fine.",
        "And now?",
    ]


@pytest.mark.parametrize("name", ["../secret", "..", "", "a/b", "a\\b", "\x00"])
def test_a_session_cannot_name_files_outside_the_storage(tmp_path: Path, name: str) -> None:
    root = tmp_path / "storage"
    path = _storage(root, _SAID)
    _write(root / "secret" / "msg_1.json", _message(1, "user"))
    _write(path, {**_SESSION, "id": name})
    source = Source(path)
    (run,) = runs_of(path)
    assert [event.what for event in facts_in(run, GapFact)] == ["every call and message"]
    assert len(run.events) == 1
    assert source.read_too == set()


def test_a_part_that_is_not_json_hides_no_other(tmp_path: Path) -> None:
    path = _storage(tmp_path, _SAID)
    (tmp_path / "part" / "msg_2" / "prt_11.json").write_text("{")
    run = load(path)
    assert ([gap.what for gap in run.gaps], len(run.llm_interactions)) == (["prt_11.json"], 2)


def _compacted(tail: str | None) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    asked = _part(1, "compaction", auto=True, **({} if tail is None else {"tail_start_id": tail}))
    return [
        (_message(1, "user"), [_part(1, "text", text="One?")]),
        (_message(2, "assistant"), [_part(1, "text", text="One.")]),
        (_message(3, "user"), [_part(1, "text", text="Two?")]),
        (_message(4, "assistant"), [_part(1, "text", text="Two.")]),
        (_message(5, "user"), [asked]),
        (_message(6, "assistant", summary=True, finish="stop"), [_part(1, "text", text="So far.")]),
        (_message(7, "user"), [_part(1, "text", text="Three?")]),
        (_message(8, "assistant"), [_part(1, "text", text="Three.")]),
    ]


def _last_prompt(tmp_path: Path, said: list[tuple[dict[str, Any], list[dict[str, Any]]]]) -> list[Any]:
    return [message.content for message in load(_storage(tmp_path, said)).llm_interactions[-1].input_messages]


def test_a_compaction_keeps_the_messages_that_it_names(tmp_path: Path) -> None:
    assert _last_prompt(tmp_path / "1", _compacted(None)) == [None, "So far.", "Three?"]
    assert _last_prompt(tmp_path / "2", _compacted("msg_3")) == ["Two?", "Two.", None, "So far.", "Three?"]
    assert _last_prompt(tmp_path / "3", _compacted("msg_9")) == [None, "So far.", "Three?"]


def test_later_calls_see_earlier_messages_as_opencode_sends_them(tmp_path: Path) -> None:
    aborted = {"name": "MessageAbortedError", "data": {}}
    broken = {"name": "APIError", "data": {"message": "overloaded", "statusCode": 529}}
    picture = _part(3, "file", mime="image/png", url=_IMAGE)
    interrupted = {"metadata": {"interrupted": True, "output": "half"}, "error": "aborted", "input": {}}
    messages = [
        (
            _message(1, "user"),
            [
                _part(1, "text", text="Read it."),
                _part(2, "text", text="for you only", ignored=True),
                _part(3, "file", mime="text/plain", url="file:///w/a"),
            ],
        ),
        (_message(2, "assistant", error=broken), [_part(1, "text", text="I wi")]),
        (_message(3, "assistant", error=aborted), [_part(1, "reasoning", text="Hm.")]),
        (_message(4, "assistant"), [_tool(1, "completed", input={}, output="text", attachments=[picture])]),
        (_message(5, "assistant", error=aborted), [_part(1, "text", text="It s"), _tool(2, "error", **interrupted)]),
        (_message(6, "assistant"), [_part(1, "text", text="Done.")]),
    ]
    run = load(_storage(tmp_path, messages))
    image = {"type": "image_url", "image_url": {"url": _IMAGE}}
    assert [(message.role, message.content) for message in run.llm_interactions[-1].input_messages] == [
        ("user", "Read it."),
        ("assistant", None),
        ("tool", [{"type": "text", "text": "text"}, image]),
        ("assistant", "It s"),
        ("tool", "half"),
    ]
    assert [call.ended_by for call in run.llm_interactions] == [
        "APIError",
        "MessageAbortedError",
        None,
        "MessageAbortedError",
        None,
    ]


def test_a_retry_follows_a_failed_call(tmp_path: Path) -> None:
    error = {"name": "APIError", "data": {"message": "overloaded", "statusCode": 529}}
    retry = _part(1, "retry", attempt=1, error=error, time={"created": 1_730_000_001_500})
    said = [_SAID[0], (_message(2, "assistant", providerID="p"), [retry, _part(2, "text", text="Hi.")])]
    failed, answered = load(_storage(tmp_path, said)).llm_interactions
    assert failed.error is not None
    assert (failed.error.type, failed.error.message, failed.provider) == ("APIError", "overloaded", "p")
    assert (answered.response.content, answered.error) == ("Hi.", None)
    assert failed.input_messages == answered.input_messages


def _database(
    path: Path, sessions: dict[str, tuple[str | None, list[tuple[dict[str, Any], list[dict[str, Any]]]]]]
) -> Path:
    """Write a database with the columns of opencode's database that the importer reads."""
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(
            "create table session (id text primary key, project_id text, parent_id text, directory text, title text,"
            " version text, agent text, time_created integer, time_updated integer);"
            "create table message (id text primary key, session_id text, time_created integer, data text);"
            "create table part (id text primary key, message_id text, session_id text, data text);"
        )
        for session, (parent, said) in sessions.items():
            created, updated = _SESSION["time"]["created"], _SESSION["time"]["updated"]
            row = (session, "p", parent, "/w", session, "1.2", "explore", created, updated)
            database.execute("insert into session values (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            for message, parts in said:
                key, data = f"{session}-{message['id']}", {name: message[name] for name in message if name != "id"}
                created = message["time"]["created"]
                database.execute("insert into message values (?, ?, ?, ?)", (key, session, created, json.dumps(data)))
                for part in parts:
                    row = (f"{key}-{part['id']}", key, session, json.dumps(part))
                    database.execute("insert into part values (?, ?, ?, ?)", row)
    return path


_TASK = {"input": {"prompt": "Find it.", "subagent_type": "finder"}, "output": "There.", "metadata": {"sessionId": "b"}}


def test_a_database_has_a_run_for_each_session_of_the_user(tmp_path: Path) -> None:
    started = [_SAID[0], (_message(2, "assistant"), [_tool(1, "completed", **_TASK)]), (_message(9, "assistant"), [])]
    inside = [
        (_message(3, "user"), [_part(1, "text", text="Find it.")]),
        (_message(4, "assistant"), [_part(2, "text", text="Here.")]),
    ]
    other = [
        (_message(5, "user"), [_part(1, "text", text="Hello?")]),
        (_message(6, "assistant"), [_part(1, "text", text="Hi.")]),
    ]
    sessions = {"b": ("a", inside), "a": (None, started), "c": ("gone", other), "d": ("b", other), "e": (None, _SAID)}
    path = _database(tmp_path / "opencode.db", sessions)
    assert format_of(Source(path)) == "opencode"
    first, orphan, plain = load_all(path)
    assert [run.trajectory_id for run in (first, orphan, plain)] == ["a", "c", "e"]
    assert orphan.metadata["imported_from"]["parent_id"] == "gone"
    answers = [(call.agent, call.response.content) for call in first.llm_interactions]
    assert answers == [(None, None), ("finder", "Here."), ("explore", "Hi."), (None, None)]
    assert [message.content for message in first.llm_interactions[1].input_messages] == ["Find it."]
    assert [message.role for message in first.llm_interactions[3].input_messages] == ["user", "assistant", "tool"]
    (run,) = [run for run in runs_of(path) if run.identity == "a"]
    (task,) = [event for event in run.events if isinstance(event, ToolRun)]
    agents = {event.agent.agent_id: event.agent for event in run.events if isinstance(event, Call)}
    assert (agents["b"].parent_execution_id, agents["d"].parent_agent_id) == (task.execution_id, "b")
    assert [call.response.content for call in plain.llm_interactions] == ["I look.", "Done."]
    check_run(run, tmp_path)


def test_damage_in_a_database_hides_no_intact_row(tmp_path: Path) -> None:
    path = _database(tmp_path / "opencode.db", {"a": (None, _SAID), "b": ("b", _SAID)})
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("update part set data = '{' where id = 'a-msg_2-prt_11'")
    run, loop = load_all(path)
    assert ([gap.what for gap in run.gaps], len(run.llm_interactions)) == (["part a-msg_2-prt_11"], 2)
    assert (loop.gaps, len(loop.llm_interactions)) == ((), 2)
    data = path.read_bytes()
    for length in range(0, len(data), 997):
        path.write_bytes(data[:length])
        with suppress(TrajectoryFormatError):
            assert [*load_all(path)]


def test_real_files_equal_a_second_reading(tmp_path: Path) -> None:
    for path in real_files("opencode/*/*/session/*/*.json"):
        root = path.parent.parent.parent
        session = json.loads(path.read_bytes())
        (run,) = runs_of(path)
        assert run.format == "opencode"
        trajectory = check_run(run, tmp_path)
        messages = [json.loads(one.read_bytes()) for one in (root / "message" / session["id"]).glob("*.json")]
        answers = {message["id"]: message for message in messages if message["role"] == "assistant"}
        assert len(trajectory.llm_interactions) == len(answers)
        parts = [(one, json.loads(one.read_bytes())) for one in root.glob("part/**/*.json")]
        own = [part for file, part in parts if part.get("messageID", file.parent.name) in answers]
        tools = {part["callID"]: part["state"]["output"] for part in own if part["type"] == "tool"}
        results = {result.call_id: result.result for step in trajectory.agent_steps for result in step.tool_results}
        assert results == tools
        texts = sorted(part["text"] for part in own if part["type"] == "text")
        assert sorted(call.response.content or "" for call in trajectory.llm_interactions) == texts
        tokens = sum(answer.get("tokens", {}).get("input", 0) for answer in answers.values())
        assert trajectory.metrics.get("input_tokens", 0) == tokens


@pytest.mark.parametrize(("total", "output"), [(1026, 12), (1019, 5), (None, 5)])
def test_the_total_says_whether_the_output_includes_the_thoughts(
    tmp_path: Path, total: int | None, output: int
) -> None:
    tokens: dict[str, Any] = {"input": 712, "output": 5, "reasoning": 7, "cache": {"read": 302, "write": 0}}
    if total is not None:
        tokens["total"] = total
    parts = [_part(1, "text", text="Hi."), _part(2, "step-finish", reason="stop", tokens=tokens)]
    [call] = load(_storage(tmp_path, [(_message(1, "assistant"), parts)])).llm_interactions
    assert (call.response.usage.output_tokens, call.response.usage.reasoning_tokens) == (output, 7)


def test_a_database_may_have_indexes_over_members_of_its_json(tmp_path: Path) -> None:
    """Kilo's database has some. The schema of a file can run no function while the file is read."""
    path = tmp_path / "kilo.db"
    path.write_bytes((PRODUCED / "opencode" / "opencode.db").read_bytes())
    before = [len(run.llm_interactions) for run in load_all(path)]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("create index roles on message (id, json_extract(data, '$.role'))")
        connection.execute("create index texts on part (session_id) where json_extract(data, '$.type') = 'text'")
    assert [len(run.llm_interactions) for run in load_all(path)] == before


def test_rows_in_the_log_of_a_database_are_imported_again(tmp_path: Path) -> None:
    """A program that runs writes its newest rows into the log, and the database itself stays the same."""
    path, out = tmp_path / "opencode.db", tmp_path / "out"
    path.write_bytes((PRODUCED / "opencode" / "opencode.db").read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma journal_mode = wal")
        assert [written.done for written in _imported(path, out)] == ["written"] * len([*load_all(path)])
        with connection:
            connection.execute("update session set title = 'Another title'")
        assert {written.done for written in _imported(path, out)} == {"replaced"}
        assert {written.done for written in _imported(path, out)} == {"unchanged"}


def _imported(path: Path, directory: Path) -> list[Imported]:
    directory.mkdir(exist_ok=True)
    return [write_run(run, directory) for run in read_file(Source(path))]
