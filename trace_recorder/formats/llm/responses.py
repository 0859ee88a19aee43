"""Reads llm's responses: the output of `llm logs --json`, and the tables of llm before 0.36.

The rows of the tables become entries in the form of that output.

Each response states only the new part of its prompt. The whole prompt is the conversation's earlier prompts and
answers, and then the new part.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping

from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_number, as_text
from trace_recorder.formats.foreign_runs.run import Call, Event, ForeignConversation, ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.sqlite_file import Database
from trace_recorder.formats.foreign_runs.stated_values import first_known, stated_object, stated_time
from trace_recorder.values.messages import Payload, without_none


def run_of_entries(identity: str, entries: Iterable[Members]) -> ForeignRun:
    """Return the run of a conversation, with its entries in the order of their times."""
    ordered = sorted(
        entries, key=lambda entry: (as_text(entry.get("datetime_utc")) or "", as_text(entry.get("id")) or "")
    )
    name = as_text(next(iter(ordered), {}).get("conversation_name"))
    task = next((text for text in (as_text(entry.get("prompt")) for entry in ordered) if text), None)
    return conversation_run(identity, [*_events(ordered)], task, without_none(conversation_name=name))


def conversation_run(identity: str, events: list[Event], task: str | None, source: Members) -> ForeignRun:
    """Return the run of a conversation. llm does not say how a conversation ended."""
    calls = [event for event in events if isinstance(event, Call)]
    model = next((call.model for call in calls), None)
    return ForeignRun(identity=identity, events=events, task=task, model=model, source=source)


def call_of_entry(entry: Members, conversation: ForeignConversation, response: Members, tools: list[Payload]) -> Call:
    """Return the call of a response or a turn: a row with `model`, `options_json`, tokens, a duration and a time."""
    facts = without_none(
        model=as_text(entry.get("resolved_model")), id=as_text(entry.get("id")), usage=usage_of_entry(entry) or None
    )
    schema = stated_object(entry.get("schema_json")) or None
    call = Call(
        time=stated_time(entry.get("datetime_utc")),
        conversation=conversation,
        length=len(conversation),
        response=response | facts,
        model=as_text(entry.get("model")),
        tools=tools,
        parameters=stated_object(entry.get("options_json")) | without_none(schema=schema),
    )
    if (duration := as_number(entry.get("duration_ms"))) is not None:
        call.duration_seconds = duration / 1000
    return call


def usage_of_entry(entry: Mapping[str, Payload]) -> Members:
    """Return the token counts of a row."""
    details = stated_object(entry.get("token_details"))
    completion = as_dict(details.get("completion_tokens_details"))
    cached = as_int(as_dict(details.get("prompt_tokens_details")).get("cached_tokens"))
    return without_none(
        input_tokens=as_int(entry.get("input_tokens")),
        output_tokens=as_int(entry.get("output_tokens")),
        cache_read_input_tokens=first_known(cached, as_int(details.get("cache_read_input_tokens"))),
        cache_creation_input_tokens=as_int(details.get("cache_creation_input_tokens")),
        reasoning_tokens=as_int(completion.get("reasoning_tokens")),
        extra=details or None,
    )


def offered_tool(row: Mapping[str, Payload]) -> Members:
    """Return a tool as it was offered to the model."""
    return {
        "name": as_text(row.get("name")) or "",
        "description": as_text(row.get("description")),
        "input_schema": stated_object(row.get("input_schema")),
    }


def attachment_part(attachment: Members) -> Members:
    """Return an attachment as a part of a message. An image gets OpenAI's form."""
    url = as_text(attachment.get("url")) or as_text(attachment.get("data_url"))
    if url is not None and (as_text(attachment.get("type")) or "").startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "attachment", "attachment": attachment}


def _events(entries: list[Members]) -> Iterator[Event]:
    conversation = ForeignConversation()
    system: str | None = None
    for entry in entries:
        earlier, system = system, _joined(entry, "system_fragments", "system", "\n\n")
        if system and system != earlier:
            conversation.add({"role": "system", "content": system})
        for result in map(as_dict, as_list(entry.get("tool_results"))):
            conversation.add(result_message(result, _attachments(result)))
        content = _prompt(entry)
        if content:
            conversation.add({"role": "user", "content": content})
        response = _response(entry)
        yield call_of_entry(
            entry, conversation, response, [offered_tool(as_dict(tool)) for tool in as_list(entry.get("tools"))]
        )
        conversation.answer(response)
        for name in ("prompt_json", "response_json"):
            if entry.get(name):
                yield TimedFact.unread(what=name, value=entry[name], time=stated_time(entry.get("datetime_utc")))


def _joined(entry: Members, fragments: str, member: str, between: str) -> str:
    """Return the text of a prompt with its fragments, joined as llm does."""
    parts = [as_text(as_dict(fragment).get("content")) for fragment in as_list(entry.get(fragments))]
    return between.join(part for part in (*parts, as_text(entry.get(member))) if part)


def _prompt(entry: Members) -> Payload:
    text = _joined(entry, "prompt_fragments", "prompt", "\n")
    attachments = _attachments(entry)
    if not attachments:
        return text
    if not text:
        return attachments
    return [{"type": "text", "text": text}, *attachments]


def _response(entry: Members) -> Members:
    calls = [
        {
            "call_id": as_text(call.get("tool_call_id")) or "",
            "name": call.get("name"),
            "arguments": stated_object(call.get("arguments")) or call.get("arguments"),
        }
        for call in map(as_dict, as_list(entry.get("tool_calls")))
    ]
    reasoning = as_text(entry.get("reasoning")) or None
    return {"content": entry.get("response")} | without_none(tool_calls=calls or None, reasoning=reasoning)


def _attachments(row: Members) -> list[Members]:
    return [attachment_part(as_dict(attachment)) for attachment in as_list(row.get("attachments"))]


def result_message(result: Members, attachments: list[Members]) -> Members:
    """Return the message with the result of a tool."""
    content = result.get("output")
    if attachments:
        content = [{"type": "text", "text": content}, *attachments]
    message: Members = {
        "role": "tool",
        "content": content,
        "call_id": as_text(result.get("tool_call_id")),
        "name": as_text(result.get("name")),
    }
    if (exception := as_text(result.get("exception"))) is not None:
        message["extra"] = {"exception": exception, "is_error": True}
    return message


def by_conversation(entries: Iterable[Members]) -> dict[str, list[Members]]:
    """Return the entries of each conversation. An entry without a conversation is a conversation of its own."""
    grouped: dict[str, list[Members]] = {}
    for entry in entries:
        identity = as_text(entry.get("conversation_id")) or as_text(entry.get("id")) or ""
        grouped.setdefault(identity, []).append(entry)
    return grouped


def stored_conversations(database: Database) -> Iterator[tuple[str, list[Members]]]:
    """Yield the id and the entries of each conversation, in the form of `llm logs --json`."""
    names = {row.get("id"): row.get("name") for row in database.rows("conversations")}
    known = {row.get("id") for row in database.rows("turns")}
    grouped = by_conversation(row for row in database.rows("responses") if row.get("id") not in known)
    schemas = {row.get("id"): row.get("content") for row in database.rows("schemas")}
    related = _ResponseRows(database)
    while grouped:
        identity = next(iter(grouped))
        entries: list[Members] = []
        for row in grouped.pop(identity):
            more = {"conversation_name": names.get(identity), "schema_json": schemas.get(row.get("schema_id"))}
            entries.append(row | related.lists_of(row.get("id")) | more)
        yield identity, entries


class _ResponseRows:
    """The rows that refer to a response: its fragments, tools, calls, results and attachments."""

    def __init__(self, database: Database) -> None:
        self._database = database
        fragments = {row.get("id"): row for row in database.rows("fragments")}
        tools = {row.get("id"): row for row in database.rows("tools")}
        self._lists = {
            "prompt_fragments": self._through("prompt_fragments", "fragment_id", fragments),
            "system_fragments": self._through("system_fragments", "fragment_id", fragments),
            "tools": self._through("tool_responses", "tool_id", tools),
            "tool_calls": self._grouped("tool_calls"),
            "tool_results": self._grouped("tool_results"),
        }
        self._attachments = self._grouped("prompt_attachments")
        self._result_attachments = self._grouped("tool_results_attachments", "tool_result_id")

    def lists_of(self, response_id: Payload) -> Members:
        """Return, by name, the lists of the rows that refer to a response."""
        lists: Members = {name: grouped.get(response_id, []) for name, grouped in self._lists.items()}
        lists["attachments"] = self._contents(self._attachments.get(response_id, []))
        for result in lists["tool_results"]:
            result["attachments"] = self._contents(self._result_attachments.get(result.get("id"), []))
        return lists

    def _grouped(self, table: str, column: str = "response_id") -> dict[Payload, list[Members]]:
        grouped: dict[Payload, list[Members]] = {}
        order = 'order by "order"' if self._database.has(table, "order") else ""
        for row in self._database.rows(table, order):
            grouped.setdefault(row.get(column), []).append(row)
        return grouped

    def _through(self, table: str, column: str, targets: dict[Payload, Members]) -> dict[Payload, list[Members]]:
        grouped = self._grouped(table)
        return {
            response: [targets[row[column]] for row in rows if row.get(column) in targets]
            for response, rows in grouped.items()
        }

    def _contents(self, rows: list[Members]) -> list[Members]:
        contents = (attachment(self._database, row.get("attachment_id")) for row in rows)
        return [content for content in contents if content is not None]


def attachment(database: Database, identity: Payload) -> Members | None:
    """Return an attachment with its content as a data URI, or None if the database does not have the attachment."""
    if not isinstance(identity, str):
        return None
    row = next(database.rows("attachments", "where id = ?", identity, blobs=True), None)
    if row is None:
        return None
    content = row.pop("content", None)
    if isinstance(content, bytes):
        kind = as_text(row.get("type")) or "application/octet-stream"
        row["data_url"] = f"data:{kind};base64,{b64encode(content).decode('ascii')}"
    return {name: value for name, value in row.items() if isinstance(value, str)}
