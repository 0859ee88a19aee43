"""The logs of simonw/llm: its SQLite file from version 0.5 on, or the output of `llm logs --json`.

Each conversation is a run. `responses.py` reads the tables of older versions. From 0.36 on, the tables have threads,
their turns, and messages. Each message names the message before it. A turn is one call. The call saw the chain of
messages that ends with `parent_message_hash`. The call's answer is the later messages, up to `tip_message_hash`. Each
message is in the file once for all turns and threads.

Source: `llm/migrations.py`, `llm/logs.py` and `llm/cli.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from trace_recorder.dialects.json_access import as_dict, as_list, as_text, content_of, join_texts, json_value
from trace_recorder.formats.foreign_runs.run import Event, ForeignConversation, ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.sqlite_file import Database, is_database, open_database
from trace_recorder.formats.foreign_runs.stated_values import joined_text, stated_object, stated_time
from trace_recorder.formats.llm.responses import (
    attachment,
    attachment_part,
    by_conversation,
    call_of_entry,
    conversation_run,
    offered_tool,
    result_message,
    run_of_entries,
    stored_conversations,
)
from trace_recorder.values.messages import Payload, without_none


def _runs_of_threads(database: Database) -> Iterator[ForeignRun]:
    """Yield a run for each thread, and a run for each turn that is not in a thread."""
    store = _StoredMessages(database)
    threads = {as_text(row.get("id")): row for row in database.rows("threads")}
    grouped: dict[str, list[Members]] = {}
    for turn in database.rows("turns", "order by datetime_utc, id"):
        identity = as_text(turn.get("thread_id")) or as_text(turn.get("id")) or ""
        grouped.setdefault(identity, []).append(turn)
    for identity, turns in grouped.items():
        thread = threads.get(identity, {})
        reader = _ThreadReader(store)
        events = [event for turn in turns for event in reader.events(turn)]
        source = without_none(thread_name=thread.get("name"), forked_from=thread.get("forked_from"))
        run = conversation_run(identity, events, reader.task, source)
        run.parent = as_text(thread.get("forked_from"))
        yield run


@dataclass(slots=True)
class _StoredMessages:
    """The messages of a database by their hashes, in our form.

    The parts of a message are read when the message is needed.
    """

    database: Database
    parents: dict[str, str | None] = field(init=False)
    roles: dict[str, str] = field(init=False)
    parts: dict[Payload, list[Members]] = field(default_factory=dict)
    fragments: dict[Payload, Payload] = field(init=False)
    tools: dict[Payload, list[Payload]] = field(default_factory=dict)
    schemas: dict[Payload, Payload] = field(init=False)

    def __post_init__(self) -> None:
        messages = [row for row in self.database.rows("messages") if isinstance(row.get("hash"), str)]
        self.parents = {row["hash"]: as_text(row.get("parent_hash")) for row in messages}
        self.roles = {row["hash"]: as_text(row.get("role")) or "user" for row in messages}
        for row in self.database.rows("parts", "order by position"):
            self.parts.setdefault(row.get("message_hash"), []).append(row)
        self.fragments = {row.get("id"): row.get("content") for row in self.database.rows("fragments")}
        self.schemas = {row.get("id"): row.get("content") for row in self.database.rows("schemas")}
        tools = {row.get("id"): offered_tool(row) for row in self.database.rows("tools")}
        for row in self.database.rows("turn_tools"):
            if row.get("tool_id") in tools:
                self.tools.setdefault(row.get("turn_id"), []).append(tools[row["tool_id"]])

    def messages(self, identity: str) -> list[Members]:
        """Return a stored message as a message for each of its tool results, and a message with its other parts."""
        parts = [self._part(row) for row in self.parts.get(identity, [])]
        others = [part for part in parts if part.get("type") != "tool_result"]
        results = [result_message(part, self._attachments(part)) for part in parts if part.get("type") == "tool_result"]
        if results and not others:
            return results
        return [*results, self._message(self.roles[identity], others)]

    def _part(self, row: Members) -> Members:
        stated = without_none(type=as_text(row.get("type")), text=as_text(row.get("text")))
        part = stated_object(row.get("payload")) | stated
        pieces = [as_dict(piece) for piece in as_list(part.pop("text_ref", None))]
        if pieces:
            texts = (
                as_text(piece.get("literal")) or as_text(self._fragment(piece.get("fragment"))) for piece in pieces
            )
            part["text"] = "".join(text for text in texts if text)
        return part

    def _fragment(self, identity: Payload) -> Payload:
        if not isinstance(identity, int):
            return None
        return self.fragments.get(identity)

    def _attachments(self, part: Members) -> list[Members]:
        references = [as_dict(value) for value in (part.get("attachment"), *as_list(part.get("attachments"))) if value]
        return [attachment_part(attachment(self.database, named.get("id")) or named) for named in references]

    def _message(self, role: str, parts: list[Members]) -> Members:
        content: list[Payload] = []
        for part in parts:
            if part.get("type") == "text":
                content.append({"type": "text", "text": as_text(part.get("text")) or ""})
            elif part.get("type") == "attachment":
                content += self._attachments(part)
            elif part.get("type") not in {"reasoning", "tool_call"}:
                content.append(part)
        calls = [_call(part) for part in parts if part.get("type") == "tool_call"]
        thoughts = (as_text(part.get("text")) for part in parts if part.get("type") == "reasoning")
        reasoning = join_texts((text for text in thoughts if text), "\n\n")
        metadata = [part["provider_metadata"] for part in parts if part.get("provider_metadata")]
        extra = without_none(provider_metadata=metadata or None)
        return {"role": role, "content": content_of(content)} | without_none(
            tool_calls=calls or None, reasoning=reasoning, extra=extra or None
        )


@dataclass(slots=True)
class _ThreadReader:
    """Reads the turns of a thread.

    `ends` has, for each message, the conversation and its length up to this message.
    """

    store: _StoredMessages
    ends: dict[str, tuple[ForeignConversation, int]] = field(default_factory=dict)
    task: str | None = None

    def events(self, turn: Members) -> Iterator[Event]:
        time = stated_time(turn.get("datetime_utc"))
        parent, tip = as_text(turn.get("parent_message_hash")), as_text(turn.get("tip_message_hash"))
        conversation = self._conversation(parent)
        if parent is not None and conversation is None:
            yield TimedFact.gap(
                what=f"the prompt of turn {turn.get('id')}", why="its messages are not in the file", time=time
            )
        response = _joined_response(self._answers(parent, tip))
        schema = {"schema_json": self.store.schemas.get(turn.get("schema_id"))}
        tools = self.store.tools.get(turn.get("id"), [])
        yield call_of_entry(turn | schema, conversation or ForeignConversation(), response, tools)
        if turn.get("response_json"):
            value = json_value(as_text(turn["response_json"]) or "")
            yield TimedFact.unread(what="response_json", value=value, time=time)

    def _conversation(self, tip: str | None) -> ForeignConversation | None:
        """Return the conversation that ends with a message, or None if one of its messages is missing."""
        missing: list[str] = []
        message = tip
        while message is not None and message not in self.ends:
            if message not in self.store.parents or len(missing) > len(self.store.parents):
                return None
            missing.append(message)
            message = self.store.parents[message]
        conversation = ForeignConversation()
        if message is not None:
            conversation, length = self.ends[message]
            if length < len(conversation):
                conversation = conversation.branch(length)
        for identity in reversed(missing):
            self._add(conversation, identity)
        return conversation

    def _add(self, conversation: ForeignConversation, identity: str) -> None:
        for message in self.store.messages(identity):
            if message["role"] == "user" and isinstance(message["content"], str | list):
                self.task = self.task or joined_text(message["content"])
            conversation.add(message)
        self.ends[identity] = conversation, len(conversation)

    def _answers(self, parent: str | None, tip: str | None) -> list[Members]:
        """Return the messages that a turn added, which are its response."""
        parents = self.store.parents
        answers: list[list[Members]] = []
        while tip is not None and tip != parent and tip in parents and len(answers) <= len(parents):
            answers.append(self.store.messages(tip))
            tip = parents[tip]
        return [message for messages in reversed(answers) for message in messages]


def _joined_response(messages: list[Members]) -> Members:
    """Return messages of a turn as one response: their texts, thoughts and calls."""
    calls = [call for message in messages for call in as_list(message.get("tool_calls"))]
    extra = {name: value for message in messages for name, value in as_dict(message.get("extra")).items()}
    return {
        "content": join_texts((joined_text(message.get("content")) for message in messages), "\n\n")
    } | without_none(
        tool_calls=calls or None,
        reasoning=join_texts((message.get("reasoning") for message in messages), "\n\n"),
        extra=extra or None,
    )


def _call(part: Members) -> Members:
    call: Members = {
        "call_id": as_text(part.get("tool_call_id")) or "",
        "name": as_text(part.get("name")) or "",
        "arguments": part.get("arguments"),
    }
    if part.get("server_executed") is True:
        call["extra"] = {"server_executed": True}
    return call


_ENTRY = Signs(members=("id", "model", "prompt", "response", "conversation_id", "datetime_utc"))


def recognizes(source: Source) -> bool:
    """Return whether the file is llm's database, or the output of `llm logs --json`, which is a list of entries."""
    if is_database(source):
        with open_database(source) as database:
            return _has_threads(database) or _has_responses(database)
    return any(map(_ENTRY.match, as_list(source.document)[:1]))


def _has_threads(database: Database) -> bool:
    chained = database.has("messages", "hash", "parent_hash") and database.has("parts", "message_hash", "payload")
    return chained and database.has("turns", "thread_id", "tip_message_hash")


def _has_responses(database: Database) -> bool:
    return database.has("responses", "id", "model", "prompt", "response", "conversation_id")


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each conversation."""
    if is_database(source):
        with open_database(source) as database:
            if _has_responses(database):
                for identity, entries in stored_conversations(database):
                    yield run_of_entries(identity, entries)
            if _has_threads(database):
                yield from _runs_of_threads(database)
        return
    grouped = by_conversation(map(as_dict, as_list(source.document)))
    for identity, entries in grouped.items():
        yield run_of_entries(identity, entries)
