"""goose's sessions: its database `sessions.db`, the output of `goose session export`, and the older files of lines.

The database and the export are those of goose 1.52. The files of lines are known from public descriptions. A
compaction hides messages from later calls (`agentVisible` is false). The first visible message after hidden messages
begins a new conversation. The table `usage_ledger` has a row for each call.

A sub-agent is a session of its own in the database (`parent_session_id`). The result of the tool call that started it
names this session (`_meta.subagent_session_id`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trace_recorder.dialects import anthropic_messages
from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_number, as_text, json_value
from trace_recorder.formats.foreign_runs.agent_history import AgentHistory, add_answer, last_answer
from trace_recorder.formats.foreign_runs.run import Call, ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.session_tree import ReadSession, SessionRow, SessionRows
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source, line_values
from trace_recorder.formats.foreign_runs.sqlite_file import Database, is_database, open_database
from trace_recorder.formats.foreign_runs.stated_values import (
    stated_call,
    stated_flag,
    stated_members,
    stated_object,
    stated_time,
)
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.token_counts import WHOLE

_SHOWN_ONLY = {"systemNotification", "toolConfirmationRequest", "actionRequired", "frontendToolRequest"}
"""The types of parts that only the user saw."""


def in_blocks(content: Payload) -> tuple[list[Payload], list[Payload]]:
    """Return the blocks of a message, and the parts that the model does not see."""
    blocks: list[Payload] = []
    others: list[Payload] = []
    for part in as_list(content):
        kind = as_text(as_dict(part).get("type"))
        if kind in _SHOWN_ONLY or not isinstance(part, dict):
            others.append(part)
        else:
            blocks.append(_block(kind, part))
    return blocks, others


def _block(kind: str | None, part: Members) -> Payload:
    if kind == "toolRequest":
        return _tool_use(part)
    if kind == "toolResponse":
        return _tool_result(part)
    if kind == "redactedThinking":
        return {"type": "redacted_thinking", "data": part.get("data")}
    if kind == "image" and isinstance(part.get("data"), str):
        source = {"type": "base64", "media_type": part.get("mimeType"), "data": part["data"]}
        return {"type": "image", "source": source}
    return {name: value for name, value in part.items() if name not in {"annotations", "_meta"}}


def _tool_use(part: Members) -> Members:
    """Return a tool call. If goose could not read the call, goose's error becomes the arguments."""
    outcome = as_dict(part.get("toolCall"))
    members = as_dict(outcome.get("value")) or outcome
    arguments = members.get("arguments")
    if (error := as_text(outcome.get("error"))) is not None:
        arguments = {"error": error}
    call = stated_call("", members.get("name"), arguments)
    return {"type": "tool_use", "id": part.get("id"), "name": call.name, "input": call.arguments}


def _tool_result(part: Members) -> Members:
    members = as_dict(part.get("toolResult"))
    value, status = members.get("value"), members.get("status")
    outcome = as_dict(value)
    parts = [as_dict(element) for element in as_list(value) or as_list(outcome.get("content"))]
    content: Payload = [_block(as_text(block.get("type")), block) for block in parts]
    if status == "error":
        content = as_text(members.get("error"))
    elif len(parts) == 1 and (text := as_text(parts[0].get("text"))) is not None:
        content = text
    failed: bool | None = None
    if status == "error":
        failed = True
    elif "isError" in outcome:
        failed = stated_flag(outcome["isError"])
    elif status == "success":
        failed = False
    result: Members = {"type": "tool_result", "tool_use_id": part.get("id"), "content": content}
    return result | without_none(is_error=failed)


_SOURCE_MEMBERS = ("working_dir", "description", "name", "session_type", "parent_session_id", "recipe_json")
_COUNTS = ("input_tokens", "output_tokens", "total_tokens", "cache_read_tokens", "cache_write_tokens", "cost")
_HEAD = Signs(members=("working_dir", "message_count"))
_EXPORT = Signs(members=("working_dir",), lists=("conversation",))


def recognizes(source: Source) -> bool:
    """Return whether the file is goose's database, an export, or a session as lines."""
    if is_database(source):
        with open_database(source) as database:
            return database.has("sessions", "id", "working_dir") and database.has(
                "messages", "session_id", "content_json", "created_timestamp"
            )
    if len(source.first_lines) > 1 and _HEAD.in_first_line(source):
        return True
    return _EXPORT.in_document(source)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each session."""
    if is_database(source):
        with open_database(source) as database:
            yield from _in_tables(database)
        return
    document = as_dict(source.document)
    name = source.path.name.partition(".")[0]
    if document:
        yield _read_session(document, as_list(document.get("conversation")), [], ForeignRun(identity=name)).run
        return
    missing: list[TimedFact] = []
    head: Members = {}
    lines = [*line_values(source.lines(), missing.append)]
    if lines and "role" not in as_dict(lines[0]):
        head, lines = as_dict(lines[0]), lines[1:]
    run = _read_session(head, lines, [], ForeignRun(identity=name)).run
    run.events += missing
    yield run


def _in_tables(database: Database) -> Iterator[ForeignRun]:
    def read_session(session: SessionRow, run: ForeignRun, history: AgentHistory | None) -> ReadSession:
        rows = database.rows("messages", "where session_id = ? order by id", session.identity)
        ledger = [*database.rows("usage_ledger", "where session_id = ? order by id", session.identity)]
        reader = _read_session(session.row, map(_message, rows), ledger, run, history)
        return ReadSession(reader, reader.started_by)

    sessions: list[SessionRow] = []
    for row in database.rows("sessions", "order by id"):
        parent = None
        if row.get("session_type") == "sub_agent":
            parent = as_text(row.get("parent_session_id"))
        sessions.append(SessionRow(as_text(row.get("id")) or "", row, parent, as_text(row.get("name"))))
    yield from SessionRows(sessions, read_session).runs()


def _message(row: Members) -> Members:
    """Return a message of the database in the form of an export."""
    return {
        "id": row.get("message_id"),
        "role": row.get("role"),
        "created": row.get("created_timestamp"),
        "content": json_value(as_text(row.get("content_json")) or ""),
        "metadata": stated_object(row.get("metadata_json")),
    }


def _read_session(
    session: Members,
    messages: Iterable[Payload],
    ledger: list[Members],
    run: ForeignRun,
    history: AgentHistory | None = None,
) -> _GooseReader:
    """Read a session into a run. `history` is that of a sub-agent, or None for the main agent."""
    config = stated_object(session.get("model_config_json")) or as_dict(session.get("model_config"))
    run.identity = as_text(session.get("id")) or run.identity
    run.provider = as_text(session.get("provider_name"))
    run.model = as_text(config.get("model_name"))
    run.start_time, run.end_time = stated_time(session.get("created_at")), stated_time(session.get("updated_at"))
    run.source = stated_members(session, _SOURCE_MEMBERS)
    reader = _GooseReader(run, history)
    for number, message in enumerate(messages, start=1):
        reader.read_message(as_dict(message), number)
    reader.close()
    reader.finish()
    reader.set_usage(ledger)
    totals = {key: session[key] for count in _COUNTS if session.get(key := f"accumulated_{count}") is not None}
    if totals and history is None:
        reader.annotate("session_usage", totals)
    reader.keep_rest("session", session, *_SOURCE_MEMBERS, "conversation")
    return reader


class _GooseReader(SessionReader):
    """Reads one session. Consecutive messages of the assistant with the same id are parts of one answer.

    Of several tool calls in one answer, goose 1.52 stores and sends each in a message of its own, followed by its
    result.
    """

    def __init__(self, run: ForeignRun, history: AgentHistory | None = None) -> None:
        super().__init__(run, history)
        self.started_by: dict[str, str] = {}
        """The ids of the tool calls that started sub-agents, by the sessions of the sub-agents."""
        self._answer: Members | None = None
        self._call: Call | None = None
        self._after_hidden = False

    def read_message(self, message: Members, number: int) -> None:
        blocks, others = in_blocks(message.get("content"))
        time, role = stated_time(message.get("created")), as_text(message.get("role"))
        for other in others:
            self.keep(as_text(as_dict(other).get("type")) or "part", other, time)
        if as_dict(message.get("metadata")).get("agentVisible") is False:
            self._after_hidden = self._after_hidden or bool(blocks)
        elif self._after_hidden:
            self.close()
            self.history.restart()
            self._after_hidden = False
        if role == "assistant":
            self._add_part(message, blocks, time)
        elif role == "user":
            self.close()
            self.add_prompt(blocks, time)
            for part in map(as_dict, as_list(message.get("content"))):
                result = as_dict(as_dict(part.get("toolResult")).get("value"))
                session = as_text(as_dict(result.get("_meta")).get("subagent_session_id"))
                if session is not None:
                    self.started_by[session] = as_text(part.get("id")) or ""
        else:
            self.add_gap(f"message {number}", "its role is unknown")

    def _add_part(self, message: Members, blocks: list[Payload], time: str) -> None:
        identity, content = message.get("id"), message.get("content")
        if not blocks:
            return
        if self._answer is not None and identity is not None and self._answer["id"] == identity:
            self._answer["content"] += blocks
            return
        self.close()
        requests = [as_dict(part) for part in as_list(content) if as_dict(part).get("type") == "toolRequest"]
        meta = as_dict(next(iter(requests), {}).get("_meta"))
        is_later_call = (as_int(meta.get("goose.toolCall.providerIndex")) or 0) > 0
        if self._call is not None and is_later_call:
            messages = anthropic_messages.read_message({"role": "assistant", "content": blocks})
            self.history.add_calls(self._call, last_answer(messages), time)
            return
        self._answer = {"id": identity, "content": blocks, "time": time}

    def close(self) -> None:
        """Add the call that gave the open answer, if an answer is open."""
        answer, self._answer = self._answer, None
        if answer is not None:
            call = add_answer(self.history, {"content": answer["content"], "id": answer["id"]}, answer["time"])
            call.provider, call.model = self.run.provider, self.run.model
            self._call = call

    def set_usage(self, ledger: list[Members]) -> None:
        """Set the models and the token counts of calls from the rows of the usage ledger.

        If there are more or fewer rows than calls, the ledger becomes an annotation of the run.
        """
        calls = [event for event in self.history.events if isinstance(event, Call)]
        rows = [row for row in ledger if not row.get("is_compaction")]
        if len(rows) != len(calls):
            if ledger:
                self.annotate("usage_ledger", ledger)
            return
        for call, row in zip(calls, rows, strict=True):
            call.model = as_text(row.get("model")) or call.model
            usage = without_none(
                input_tokens=as_int(row.get("input_tokens")),
                output_tokens=as_int(row.get("output_tokens")),
                cache_read_input_tokens=as_int(row.get("cache_read_tokens")),
                cache_creation_input_tokens=as_int(row.get("cache_write_tokens")),
                cost=as_number(row.get("cost")),
            )
            call.set_usage(usage)
        for row in ledger:
            if row.get("is_compaction"):
                self.keep("usage of a compaction", row)


FORMAT = Format(
    name="goose",
    reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE),
    home=(
        HomePlace(
            program="goose",
            directory=".local/share/goose",
            files=(
                "sessions/sessions.db",
                "sessions/*.jsonl",
            ),
            variable="XDG_DATA_HOME",
            below="goose",
            session="sessions/sessions.db",
        ),
    ),
)
