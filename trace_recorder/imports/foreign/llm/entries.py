"""Responses as `llm logs --json` states them, each with what was new in its prompt: conversations, one after another.

The tables of llm before 0.36 are read into the same form (`tables.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_number, as_text
from trace_recorder.imports.foreign.clocks import stated_time
from trace_recorder.imports.foreign.run import Call, Conversation, Event, ForeignRun, Kept, Members
from trace_recorder.imports.foreign.sqlite_file import json_of
from trace_recorder.values.messages import Payload, without_none


def run_of(identity: str, entries: Iterable[Members]) -> ForeignRun:
    """Return the run of a conversation. Its entries are put in the order of their times."""
    ordered = sorted(
        entries, key=lambda entry: (as_text(entry.get("datetime_utc")) or "", as_text(entry.get("id")) or "")
    )
    first = ordered[0] if ordered else {}
    name = as_text(first.get("conversation_name"))
    task = next((text for text in (as_text(entry.get("prompt")) for entry in ordered) if text), None)
    return described(identity, [*_events(ordered)], task, without_none(conversation_name=name))


def described(identity: str, events: list[Event], task: str | None, source: Members) -> ForeignRun:
    """Return the run of a conversation; llm does not say how one ended."""
    calls = [event for event in events if isinstance(event, Call)]
    model = next((call.model for call in calls), None)
    return ForeignRun(identity=identity, events=events, task=task, model=model, source=source)


def call_of(entry: Members, conversation: Conversation, response: Members, tools: list[Payload]) -> Call:
    """Return the call of a row that has `model`, `options_json`, tokens, a duration and a time."""
    duration = as_number(entry.get("duration_ms"))
    schema = json_of(entry.get("schema_json")) or None
    return Call(
        time=stated_time(entry.get("datetime_utc")),
        conversation=conversation,
        length=len(conversation),
        response=response
        | without_none(
            model=as_text(entry.get("resolved_model")), id=as_text(entry.get("id")), usage=usage_of(entry) or None
        ),
        model=as_text(entry.get("model")),
        tools=tools,
        parameters=json_of(entry.get("options_json")) | without_none(schema=schema),
        duration_seconds=None if duration is None else duration / 1000,
    )


def usage_of(entry: Mapping[str, Payload]) -> Members:
    """Return the tokens of a row, in the names of all formats."""
    details = json_of(entry.get("token_details"))
    prompt, completion = (
        as_dict(details.get("prompt_tokens_details")),
        as_dict(details.get("completion_tokens_details")),
    )
    cached = as_int(prompt.get("cached_tokens"))
    return without_none(
        input_tokens=as_int(entry.get("input_tokens")),
        output_tokens=as_int(entry.get("output_tokens")),
        cache_read_input_tokens=as_int(details.get("cache_read_input_tokens")) if cached is None else cached,
        cache_creation_input_tokens=as_int(details.get("cache_creation_input_tokens")),
        reasoning_tokens=as_int(completion.get("reasoning_tokens")),
        extra=details or None,
    )


def tool_of(row: Mapping[str, Payload]) -> Members:
    """Return a tool as it was offered."""
    return {
        "name": as_text(row.get("name")) or "",
        "description": as_text(row.get("description")),
        "input_schema": json_of(row.get("input_schema")),
    }


def attachment_part(attachment: Members) -> Members:
    """Return an attachment as a part of a message: an image by its address, anything else as the log has it."""
    url = as_text(attachment.get("url")) or as_text(attachment.get("data_url"))
    if url is not None and (as_text(attachment.get("type")) or "").startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "attachment", "attachment": attachment}


def _events(entries: list[Members]) -> Iterator[Event]:
    conversation = Conversation()
    system: str | None = None
    for entry in entries:
        said_before, system = system, _joined(entry, "system_fragments", "system", "\n\n")
        if system and system != said_before:
            conversation.add({"role": "system", "content": system})
        for result in map(as_dict, as_list(entry.get("tool_results"))):
            conversation.add(_result(result))
        content = _prompt(entry)
        if content:
            conversation.add({"role": "user", "content": content})
        said = _said(entry)
        yield call_of(entry, conversation, said, [tool_of(as_dict(tool)) for tool in as_list(entry.get("tools"))])
        conversation.answer(said)
        for name in ("prompt_json", "response_json"):
            if entry.get(name):
                yield Kept(what=name, value=entry[name], time=stated_time(entry.get("datetime_utc")))


def _joined(entry: Members, fragments: str, own: str, between: str) -> str:
    """Return the text of a prompt with the fragments that it uses, as llm joins them."""
    parts = [as_text(as_dict(one).get("content")) for one in as_list(entry.get(fragments))]
    return between.join(part for part in (*parts, as_text(entry.get(own))) if part)


def _prompt(entry: Members) -> Payload:
    text = _joined(entry, "prompt_fragments", "prompt", "\n")
    attachments = [attachment_part(as_dict(one)) for one in as_list(entry.get("attachments"))]
    return [*([{"type": "text", "text": text}] if text else []), *attachments] if attachments else text


def _said(entry: Members) -> Members:
    calls = [
        {"call_id": as_text(call.get("tool_call_id")) or "", "name": call.get("name"), "arguments": _arguments(call)}
        for call in map(as_dict, as_list(entry.get("tool_calls")))
    ]
    reasoning = as_text(entry.get("reasoning")) or None
    return {"content": entry.get("response")} | without_none(tool_calls=calls or None, reasoning=reasoning)


def _arguments(call: Members) -> Payload:
    arguments = call.get("arguments")
    return (json_of(arguments) or arguments) if isinstance(arguments, str) else arguments


def _result(result: Members) -> Members:
    exception = as_text(result.get("exception"))
    failed = without_none(exception=exception, is_error=None if exception is None else True)
    attachments = [attachment_part(as_dict(one)) for one in as_list(result.get("attachments"))]
    output = result.get("output")
    return {
        "role": "tool",
        "content": [{"type": "text", "text": output}, *attachments] if attachments else output,
        "call_id": as_text(result.get("tool_call_id")),
        "name": as_text(result.get("name")),
    } | without_none(extra=failed or None)
