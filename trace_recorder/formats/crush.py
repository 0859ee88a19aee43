"""Crush's sessions: the database `.crush/crush.db` of a project.

A row of `messages` has parts, `[{"type": …, "data": {…}}]`. A part `finish` ends an answer. A sub-agent is a session of
its own, whose id is "<id of the message>$$<id of the tool call>". In older versions it is the id of the tool call.
After a summary (`is_summary_message`), prompts begin with the summary as a message of the user. Times are in seconds.

Source: the migrations, `message/content.go`, `agent/agent.go` and `session/session.go` in the repository
charmbracelet/crush.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects import anthropic_messages
from trace_recorder.dialects.json_access import as_dict, as_text, json_value
from trace_recorder.formats.foreign_runs.agent_history import AgentHistory, add_answer
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.session_tree import ReadSession, SessionRow, SessionRows
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.sqlite_file import is_database, open_database
from trace_recorder.formats.foreign_runs.stated_values import stated_call, stated_flag, stated_members, stated_time
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.token_counts import WHOLE

_SEPARATOR = "$$"
_SOURCE_MEMBERS = ("title", "parent_session_id")
_TOTALS = ("prompt_tokens", "completion_tokens", "cost")
_STOPPED = {"canceled": "the user stopped it", "error": "it failed", "": "it has no end"}
"""The reasons for which an answer is incomplete."""


def recognizes(source: Source) -> bool:
    """Return whether the file is a database of Crush."""
    if not is_database(source):
        return False
    with open_database(source) as database:
        return database.has("sessions", "id", "parent_session_id", "title", "prompt_tokens") and database.has(
            "messages", "session_id", "role", "parts", "finished_at"
        )


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each session, with its sub-agents."""
    with open_database(source) as database:

        def read_session(session: SessionRow, run: ForeignRun, history: AgentHistory | None) -> ReadSession:
            reader = _CrushReader(run, history)
            reader.read_session(session.row)
            for row in database.rows("messages", "where session_id = ? order by created_at, rowid", session.identity):
                reader.read_message(row)
            reader.finish()
            reader.keep_rest("session", session.row, *_SOURCE_MEMBERS, "id")
            return ReadSession(reader, reader.started_by)

        # Crush names none of its sub-agents, so they have the name of the tool that started them.
        sessions = (
            SessionRow(as_text(row.get("id")) or "", row, as_text(row.get("parent_session_id")), "agent")
            for row in database.rows("sessions", "order by created_at, id")
        )
        yield from SessionRows(sessions, read_session).runs()


class _CrushReader(SessionReader):
    """Reads one session."""

    def __init__(self, run: ForeignRun, history: AgentHistory | None) -> None:
        super().__init__(run, history)
        self.started_by: dict[str, str] = {}
        """The ids of the tool calls of the session, by the sessions that they may have started."""

    def read_session(self, row: Members) -> None:
        """Read the facts of the session."""
        self.run.start_time, self.run.end_time = stated_time(row.get("created_at")), stated_time(row.get("updated_at"))
        self.run.source = stated_members(row, _SOURCE_MEMBERS)
        totals = {name: row[name] for name in _TOTALS if row.get(name)}
        if totals:
            self.annotate("session_usage", totals)

    def read_message(self, row: Members) -> None:
        """Read one message."""
        time, role = stated_time(row.get("created_at")), as_text(row.get("role"))
        parts = json_value(as_text(row.get("parts")) or "")
        if not isinstance(parts, list):
            self.add_gap(f"the message {as_text(row.get('id'))}", "its parts are not a list", time)
            return
        blocks, finish = [], {}
        for part in map(as_dict, parts):
            data = as_dict(part.get("data"))
            if part.get("type") == "finish":
                finish = data
            else:
                blocks.append(_block(as_text(part.get("type")), data))
        if role == "assistant":
            self._read_answer(row, blocks, finish, time)
        elif role in {"user", "tool"}:
            self.add_prompt(blocks, time)
        else:
            self.add_gap(f"the message {as_text(row.get('id'))}", "its role is unknown", time)

    def _read_answer(self, row: Members, blocks: list[Payload], finish: Members, time: str) -> None:
        reason = as_text(finish.get("reason")) or ""
        model, provider = as_text(row.get("model")) or None, as_text(row.get("provider"))
        error = without_none(type=as_text(finish.get("message")), message=as_text(finish.get("details")))
        if reason == "error" and not blocks:
            call = self.history.failed_call(time, error or None)
        else:
            answer = without_none(id=row.get("id"), content=blocks, model=model, stop_reason=reason or None)
            call = add_answer(self.history, answer, time)
            if reason in _STOPPED:
                call.complete, call.ended_by = False, as_text(error.get("message")) or _STOPPED[reason]
        call.model, call.provider = model, provider
        self.note_model(model)
        self.run.provider = self.run.provider or provider
        for block in map(as_dict, blocks):
            if block.get("type") == "tool_use":
                call_id = as_text(block.get("id")) or ""
                self.started_by |= {f"{as_text(row.get('id'))}{_SEPARATOR}{call_id}": call_id, call_id: call_id}
        if row.get("is_summary_message"):
            summary = anthropic_messages.read_message({"role": "user", "content": blocks})
            self.history.restart(message.to_document() for message in summary)


def _block(kind: str | None, data: Members) -> Payload:
    """Return a part in Anthropic's form."""
    if kind == "tool_call":
        call = stated_call("", data.get("name"), data.get("input"))
        return {"type": "tool_use", "id": data.get("id"), "name": call.name, "input": call.arguments}
    if kind == "tool_result":
        content: Payload = as_text(data.get("content")) or ""
        if as_text(data.get("data")):
            image = {"type": "image", "source": _base64(data.get("mime_type"), data.get("data"))}
            content = [{"type": "text", "text": content}, image]
        block = {"type": "tool_result", "tool_use_id": data.get("tool_call_id"), "content": content}
        return {**block, "is_error": stated_flag(data.get("is_error"))}
    if kind == "reasoning":
        return without_none(type="thinking", thinking=data.get("thinking"), signature=data.get("signature") or None)
    if kind == "binary":
        return {"type": "image", "source": _base64(data.get("MIMEType"), data.get("Data"))}
    if kind == "image_url":
        return {"type": "image", "source": {"type": "url", "url": data.get("url")}}
    return {**data, "type": kind}


def _base64(media_type: Payload, data: Payload) -> Members:
    return {"type": "base64", "media_type": media_type, "data": data}


FORMAT = Format(name="crush", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))
