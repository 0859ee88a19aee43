"""The conversations of Kiro CLI and of Amazon Q's command line, in a database or saved by `/save`.

A conversation has a `history` of turns: the message of the user or the results of tools, the answer, and the facts of
the request. Each request has the times of its beginning and its end. Tokens are not stated. The database also has the
user's logins, which are not read.

    kiro-cli/data.sqlite3, amazon-q/data.sqlite3    a row of `conversations_v2` or `conversations` for each conversation
    <file>.json                                     a conversation that `/save` wrote

Source: conversations in public repositories, and `chat/conversation.rs` and `chat/message.rs` in the repository
aws/amazon-q-developer-cli.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_list, as_number, as_text, json_value
from trace_recorder.formats.foreign_runs.agent_history import add_answer, add_message
from trace_recorder.formats.foreign_runs.run import Call, ForeignAgent, ForeignRun, Members
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.sqlite_file import Database, is_database, open_database
from trace_recorder.formats.foreign_runs.stated_values import stated_seconds, stated_time
from trace_recorder.formats.kiro.sessions import tool_result
from trace_recorder.values.messages import Message, Payload, without_none

_SAVED = Signs(members=("conversation_id", "valid_history_range"), lists=("history", "transcript"))
_TABLES = {"conversations_v2": "order by updated_at desc", "conversations": ""}
"""The tables of conversations, newest first. A conversation may be in several rows."""
_READ = ("conversation_id", "history", "tools", "model", "model_info", "latest_summary", "next_message")
_BEGIN, _END = "request_start_timestamp_ms", "stream_end_timestamp_ms"
_READ_FACTS = (_BEGIN, _END, "model_id", "message_id", "time_to_first_chunk", "time_between_chunks")
"""Facts of a request that are read, or that are not worth their length."""
_COMPACTION = ForeignAgent(name="compaction")


def recognizes(source: Source) -> bool:
    """Return whether the file is a database with conversations, or a saved conversation."""
    if not is_database(source):
        return _SAVED.in_document(source)
    with open_database(source) as database:
        return database.has("auth_kv", "key", "value") and any(database.has(name, "key", "value") for name in _TABLES)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each conversation."""
    if is_database(source):
        with open_database(source) as database:
            yield from _in_tables(database)
    else:
        yield _read_conversation(as_dict(source.document), ForeignRun(identity=source.path.stem))


def _in_tables(database: Database) -> Iterator[ForeignRun]:
    known: set[str] = set()
    for table, order in _TABLES.items():
        for row in database.rows(table, order):
            state = as_dict(json_value(as_text(row.get("value")) or ""))
            identity = as_text(row.get("conversation_id")) or as_text(state.get("conversation_id"))
            identity = identity or as_text(row.get("key")) or ""
            if identity not in known:
                known.add(identity)
                run = ForeignRun(identity=identity, source=without_none(cwd=row.get("key")))
                run.start_time, run.end_time = (stated_time(row.get(name)) for name in ("created_at", "updated_at"))
                yield _read_conversation(state, run)


def _read_conversation(state: Members, run: ForeignRun) -> ForeignRun:
    reader = _KiroConversationReader(run)
    reader.note_identity(state.get("conversation_id"))
    reader.note_model(as_text(as_dict(state.get("model_info")).get("model_id")) or as_text(state.get("model")))
    reader.read_tools(as_dict(state.get("tools")))
    reader.read_summary(as_list(state.get("latest_summary")))
    if not isinstance(state.get("history"), list):
        reader.add_gap("the conversation", "it has no history")
    for _, turn in reader.objects(state.get("history"), "turn"):
        reader.read_user(as_dict(turn.get("user")))
        reader.read_answer(as_dict(turn.get("assistant")), as_dict(turn.get("request_metadata")))
    reader.read_user(as_dict(state.get("next_message")))
    reader.keep_rest("conversation", state, *_READ)
    return reader.finish()


class _KiroConversationReader(SessionReader):
    """Reads one conversation."""

    def __init__(self, run: ForeignRun) -> None:
        super().__init__(run)
        self._tools: list[Payload] = []

    def read_tools(self, servers: Members) -> None:
        """Read the tools of each server."""
        for tool in (tool for tools in servers.values() for tool in as_list(tools)):
            members = as_dict(as_dict(tool).get("ToolSpecification"))
            schema = as_dict(members.get("input_schema")).get("json")
            names = {name: members.get(name) for name in ("name", "description")}
            self._tools.append(without_none(**names, input_schema=schema))

    def read_summary(self, summary: list[Payload]) -> None:
        """Read the summary of a compaction, which precedes the history, and the facts of the request that wrote it."""
        if not summary:
            return
        text, facts = as_text(summary[0]), as_dict(summary[-1])
        call = Call(time=_time_of(facts), conversation=None, response={"content": text}, agent=_COMPACTION)
        self._set_facts(call, facts)
        self.history.events.append(call)
        self.history.add(Message("user", text, extra={"type": "compaction"}), call.time)

    def read_user(self, message: Members) -> None:
        """Read what the user or the tools said before an answer."""
        content, time = as_dict(message.get("content")), stated_time(message.get("timestamp"))
        environment = as_dict(as_dict(message.get("env_context")).get("env_state"))
        if cwd := as_text(environment.get("current_working_directory")):
            self.run.source.setdefault("cwd", cwd)
        for kind, members in ((kind, as_dict(value)) for kind, value in content.items()):
            blocks: list[Payload] = []
            for result in map(as_dict, as_list(members.get("tool_use_results"))):
                parts = (part for value in as_list(result.get("content")) for part in as_dict(value).items())
                named: list[Payload] = [{"kind": name.lower(), "data": value} for name, value in parts]
                blocks.append(tool_result(result.get("tool_use_id"), named, result.get("status")))
            if prompt := as_text(members.get("prompt")):
                self.note_task(prompt)
                blocks.append({"type": "text", "text": prompt})
            extra = {name: message[name] for name in ("additional_context", "images") if message.get(name)}
            if blocks:
                add_message(self.history, blocks, time, extra)
            else:
                self.keep(kind, message, time)

    def read_answer(self, message: Members, facts: Members) -> None:
        """Read an answer, and the facts of its request."""
        for value in map(as_dict, message.values()):
            blocks: list[Payload] = []
            if text := as_text(value.get("content")):
                blocks.append({"type": "text", "text": text})
            uses = map(as_dict, as_list(value.get("tool_uses")))
            blocks += [
                {"type": "tool_use", "id": use.get("id"), "name": use.get("name"), "input": use.get("args")}
                for use in uses
            ]
            answer = without_none(id=value.get("message_id"), content=blocks)
            self._set_facts(add_answer(self.history, answer, _time_of(facts)), facts)
            self.keep_rest("answer", value, "message_id", "content", "tool_uses")

    def _set_facts(self, call: Call, facts: Members) -> None:
        call.tools = self._tools
        call.model = as_text(facts.get("model_id")) or self.run.model
        self.note_model(call.model)
        first = as_dict(facts.get("time_to_first_chunk"))
        seconds = as_number(first.get("secs"))
        if seconds is not None:
            call.time_to_first_token_seconds = seconds + (as_number(first.get("nanos")) or 0) / 1e9
        call.duration_seconds = stated_seconds(stated_time(facts.get(_BEGIN)), stated_time(facts.get(_END)))
        self.keep_rest("request", facts, *_READ_FACTS)


def _time_of(facts: Members) -> str:
    """Return the time of a request, or of the end of its answer."""
    return stated_time(facts.get(_BEGIN)) or stated_time(facts.get(_END))
