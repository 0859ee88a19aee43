"""Cursor's database: composers with bubbles in rows of their own, and older composers with their bubbles inside."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.formats.files import PRODUCED, results_in, runs_of
from trace_recorder import load_all
from trace_recorder.formats.foreign_runs.journal_writer import journal_lines
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import format_of

Record = dict[str, Any]
BEGAN = 1767325106000
"""The time of the first bubble, in milliseconds. Each bubble is one second later than the bubble before it."""
KEY = "sk-proj-" + "Zk3vQ9rT7wX1" * 4


def prompt(text: str) -> Record:
    return {"type": 1, "text": text, "modelInfo": {"modelName": "gpt-5"}}


def says(text: str, **members: Any) -> Record:
    return {"type": 2, "text": text, "tokenCount": {"inputTokens": 0, "outputTokens": 0}, **members}


def thinks(text: str) -> Record:
    return says("", thinking={"text": text, "signature": "c2ln"}, capabilityType=30)


def calls(identity: str, model_call: str, status: str, **members: Any) -> Record:
    """Return the call of a tool. `params` is what the program made of the model's arguments."""
    arguments = {"rawArgs": '{"path":"a"}', "params": '{"path":"/work/a","more":1}'}
    tool = {"tool": 40, "name": "read_file", "toolCallId": identity, "modelCallId": model_call, "status": status}
    return says("", toolFormerData={**tool, **arguments, **members}, capabilityType=15)


BUBBLES = [
    prompt("Weather?"),
    thinks("I look."),
    says("I read two files."),
    calls("c1", "call-1", "completed", result='{"contents":"sunny"}'),
    calls("c2", "call-1", "error", result='{"error":"no file"}'),
    calls("c3", "call-2", "completed", result="{}"),
    thinks(""),
    says("It is sunny.", tokenCount={"inputTokens": 220, "outputTokens": 15}),
    prompt("And in Paris?"),
    says("It"),
]
OLDER = [{"type": 1, "bubbleId": "o1", "text": "Hi"}, {"type": 2, "bubbleId": "o2", "text": "Hello"}]
COMPOSER = {
    "composerId": "k1",
    "name": "Weather",
    "status": "aborted",
    "createdAt": BEGAN,
    "lastUpdatedAt": BEGAN + 20000,
    "modelConfig": {"modelName": "default"},
    "blobEncryptionKey": KEY,
}
LISTED = json.dumps({"allComposers": [{"composerId": "k1"}]})


def write_database(path: Path, bubbles: list[Record], *, missing: str = "") -> Path:
    """Write a database with a composer, an empty composer, and an older composer with its bubbles inside."""
    heads = [{"bubbleId": f"b{number}", "type": bubble["type"]} for number, bubble in enumerate(bubbles)]
    rows: list[tuple[str, str | None]] = [
        ("composerData:k0", json.dumps({"composerId": "k0", "fullConversationHeadersOnly": []})),
        ("composerData:k1", json.dumps(COMPOSER | {"fullConversationHeadersOnly": heads})),
        ("composerData:k2", None),
        ("composerDataX", "{}"),
    ]
    for number, bubble in enumerate(bubbles):
        created = f"2026-01-02T03:38:{26 + number}.000Z"
        text = json.dumps({"_v": 3, "bubbleId": f"b{number}", "createdAt": created, "context": {}, **bubble})
        rows.append((f"bubbleId:k1:b{number}", None if f"b{number}" == missing else text))
    composers = [{"composerId": "k1"}, {"composerId": "o", "conversation": OLDER, "status": "completed"}]
    with closing(sqlite3.connect(path)) as database, database:
        for table in ("ItemTable", "cursorDiskKV"):
            database.execute(f"create table {table} (key text unique on conflict replace, value blob)")
        database.executemany("insert into cursorDiskKV values (?, ?)", rows)
        text = json.dumps({"allComposers": composers})
        database.execute("insert into ItemTable values ('composer.composerData', ?)", (text.encode(),))
        database.execute("insert into ItemTable values ('cursorAuth/accessToken', ?)", (KEY,))
    return path


def test_bubbles_are_the_calls_that_the_model_made(tmp_path: Path) -> None:
    """The tools of one `modelCallId` are one answer. The produced file is this database."""
    run, older = load_all(write_database(tmp_path / "state.vscdb", BUBBLES))
    first, second, third, last = run.llm_interactions

    assert (first.response.reasoning, first.response.content) == ("I look.", "I read two files.")
    assert [(call.call_id, call.arguments) for call in first.response.tool_calls] == [
        ("c1", {"path": "a"}),
        ("c2", {"path": "a"}),
    ]
    assert [call.call_id for call in second.response.tool_calls] == ["c3"]
    assert [call.response.content for call in (second, third, last)] == [None, "It is sunny.", "It"]
    assert [len(call.input_messages) for call in run.llm_interactions] == [1, 4, 6, 8]
    assert [call.timestamp[17:19] for call in run.llm_interactions] == ["27", "31", "32", "35"]
    assert [(result[2], result[3]) for result in results_in(run)] == [
        (True, '{"contents":"sunny"}'),
        (False, '{"error":"no file"}'),
        (True, "{}"),
    ]
    assert {call.model for call in run.llm_interactions} == {"gpt-5"}
    assert run.annotations["usage_of_turn_1"] == {"input_tokens": 220, "output_tokens": 15}
    assert not any(call.response.usage.is_known for call in run.llm_interactions)
    assert (run.task, run.status, run.gaps, run.start_time) == (
        *("Weather?", "interrupted", ()),
        "2026-01-02T03:38:26.000000+00:00",
    )
    (hello,) = older.llm_interactions
    assert (hello.response.content, older.status, hello.model) == ("Hello", "completed", None)
    produced = load_all(PRODUCED / "cursor-database" / "state.db")
    assert [one.llm_interactions for one in produced] == [run.llm_interactions, older.llm_interactions]


def test_keys_are_masked_and_logins_are_not_read(tmp_path: Path) -> None:
    """A bubble that is missing or has an unknown type is a gap."""
    path = write_database(tmp_path / "state.vscdb", [*BUBBLES[:2], prompt(KEY), {"type": 7}], missing="b1")
    run, _ = runs_of(path)
    journal = b"".join(journal_lines(run))
    assert (KEY.encode() in journal, b"cursorAuth" in journal, b"[REDACTED" in journal) == (False, False, True)
    assert [(gap.what, gap.why) for gap in next(iter(load_all(path))).gaps] == [
        ("the bubble bubbleId:k1:b1", "it is not in the database, or is damaged"),
        ("the bubble b3", "its type is unknown"),
    ]


def test_a_damaged_conversation_is_a_run_with_a_gap(tmp_path: Path) -> None:
    """It is not passed over as an empty composer is, and the other conversations are read."""
    path = write_database(tmp_path / "state.vscdb", BUBBLES)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("insert into cursorDiskKV values ('composerData:k3', ?)", (json.dumps(COMPOSER)[:-9],))
    run, damaged, _ = load_all(path)
    assert (len(run.llm_interactions), run.gaps) == (4, ())
    assert (damaged.metrics["llm_calls"], [gap.what for gap in damaged.gaps]) == (0, ["the composer"])


def test_a_database_of_another_editor_is_not_taken_for_one_of_cursor(tmp_path: Path) -> None:
    """A workspace that only lists composers has no conversation either."""
    path = tmp_path / "state.vscdb"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("create table ItemTable (key text, value blob)")
        database.execute("insert into ItemTable values ('memento/notebookEditors', '{}')")
        database.execute("insert into ItemTable values ('composer.composerData', ?)", (LISTED,))
    assert format_of(Source(path)) is None
