"""Amp's threads, `~/.local/share/amp/threads/T-….json`: messages of blocks, each answer with its usage.

A `tool_result` block has the result and its status in `run`.

Source: threads of Amp of February 2026. The ledger of usage and other states are known from programs that read them.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import Members as Remaining
from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.formats.foreign_runs.agent_history import add_answer
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.token_counts import CACHE_APART

_FAILED = {"error": True, "cancelled": True, "rejected-by-user": True, "done": False}
_UNFINISHED = {"cancelled", "error", "streaming"}
"""An answer whose `state` has one of these types is incomplete."""
_THREAD = Signs(members=("id", "v"), lists=("messages",))


def recognizes(source: Source) -> bool:
    """Return whether the document is a thread."""
    return _THREAD.in_document(source) and (as_text(as_dict(source.document)["id"]) or "").startswith("T-")


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of a thread."""
    document = as_dict(source.document)
    reader = SessionReader(
        ForeignRun(
            identity=as_text(document.get("id")) or source.path.stem,
            start_time=stated_time(document.get("created")),
            source=without_none(title=as_text(document.get("title"))),
        )
    )
    times = _times(document)
    for number, message in enumerate(map(as_dict, as_list(document.get("messages"))), start=1):
        if message.get("role") == "assistant":
            _add_answer(reader, message, times)
        elif message.get("role") == "user":
            content = [_block(block) for block in as_list(message.get("content"))]
            reader.add_prompt(content, stated_time(as_dict(message.get("meta")).get("sentAt")))
        else:
            reader.add_gap(f"message {number}", "its role is unknown")
    run = reader.finish()
    reader.keep_rest("thread", document, "messages", "id", "created", "title")
    yield run


def _times(document: Members) -> dict[int, str]:
    """Return the time of each answer, by the id of its message, from the thread's list of usage (`usageLedger`)."""
    events = map(as_dict, as_list(as_dict(document.get("usageLedger")).get("events")))
    return {
        number: stated_time(event.get("timestamp"))
        for event in events
        if type(number := event.get("toMessageId")) is int
    }


def _add_answer(reader: SessionReader, message: Members, times: dict[int, str]) -> None:
    usage, state = Remaining(as_dict(message.get("usage"))), as_dict(message.get("state"))
    number = message.get("messageId")
    model, time = usage.text("model"), stated_time(usage.take("timestamp"))
    if not time and type(number) is int:
        time = times.get(number, "")
    content = [_block(block) for block in as_list(message.get("content"))]
    answer = without_none(content=content, model=model, stop_reason=state.get("stopReason"))
    call = add_answer(reader.history, answer, time)
    reader.note_model(model)
    counts = without_none(
        input_tokens=usage.integer("inputTokens"),
        output_tokens=usage.integer("outputTokens"),
        cache_creation_input_tokens=usage.integer("cacheCreationInputTokens"),
        cache_read_input_tokens=usage.integer("cacheReadInputTokens"),
        extra=usage.rest() or None,
    )
    call.set_usage(counts)
    if (kind := as_text(state.get("type"))) in _UNFINISHED:
        call.complete, call.ended_by = False, f"its state is {kind}"


def _block(block: Payload) -> Payload:
    """Return a block in Anthropic's form. Only Amp's tool results have another form."""
    members = as_dict(block)
    if members.get("type") != "tool_result" or "toolUseID" not in members:
        return block
    result = as_dict(members.get("run"))
    content = result.get("result", result.get("error"))
    if content is not None and not isinstance(content, str):
        content = to_json(content)
    failed = _FAILED.get(as_text(result.get("status")) or "")
    block_of_result: Members = {"type": "tool_result", "tool_use_id": members["toolUseID"], "content": content}
    return block_of_result | without_none(is_error=failed)


FORMAT = Format(
    name="amp",
    reader=FormatReader(recognizes=recognizes, read=read, counting=CACHE_APART),
    home=(HomePlace(program="Amp", directory=".local/share/amp", files=("threads/T-*.json",)),),
)
