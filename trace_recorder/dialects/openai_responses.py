"""The OpenAI Responses dialect (/responses), in which requests and responses are lists of items.

An assistant's turn consists of several items: reasoning, text and calls. `read_request` merges adjacent items to one
message if their order stays clear. An item of a server's own tool becomes a part of the assistant's content. Calls are
read without loss. All other items of a response are kept in `extra["output"]`, because they have annotations, encrypted
reasoning, and the work of a server's own tools. `finish_reason` is the reason why a response is incomplete, or else the
response's final status.

The last event of a stream has the whole response, which is the body. If the stream was cut off before this event, the
items are built from the earlier events. The last word of an event's name decides which member grows:
`…function_call_arguments.delta` adds to `arguments`. By this rule, unknown events are read too. An event without
`output_index` adds to the response itself. `deltas.py` merges deltas that are objects.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from functools import reduce

from trace_recorder.dialects.blocks import Blocks
from trace_recorder.dialects.call_ids import number_calls, number_messages
from trace_recorder.dialects.chat_chunks import error_of
from trace_recorder.dialects.deltas import append_text, finish_texts, merge
from trace_recorder.dialects.dialect import NOT_FINAL, Background, Dialect, History, Websockets
from trace_recorder.dialects.event_forms import PIECE, MergedRuns
from trace_recorder.dialects.json_access import (
    Members,
    arguments_of,
    as_dict,
    as_elements,
    as_int,
    as_list,
    as_text,
    content_of,
    is_nonempty,
    join_texts,
    json_value,
    role_of,
    text_part,
)
from trace_recorder.dialects.openai_chat import not_found, read_bare, read_tool, read_usage, with_system_message
from trace_recorder.dialects.split_messages import MergeRule, read_groups
from trace_recorder.dialects.stream_framing import events, unstreamed
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.values.messages import Choice, JoinedStream, LLMResponse, Message, Payload, RequestReading, ToolCall
from trace_recorder.values.structs import replace
from trace_recorder.values.token_counts import WHOLE

_TEXT_PARTS = ("input_text", "output_text", "text")


def read_request(body: Payload) -> RequestReading:
    """Read a request's JSON."""
    members = Members(body)
    instructions = members.take("instructions")
    if isinstance(instructions, str):
        system_messages = [Message("system", instructions)]
    else:
        system_messages = _read_items(instructions)
    messages = number_messages([*system_messages, *_read_items(members.take("input"))])
    tools = [read_tool(tool) for tool in members.array("tools")]
    parameters = members.all()
    return RequestReading(messages, tools, parameters, as_text(parameters.get("model")), len(system_messages))


def read_message(element: Payload) -> list[Message]:
    """Read one item of `input`, or of a response's `output`. Missing ids stay empty."""
    if not isinstance(element, dict):
        return read_bare(element)
    members = Members(element)
    kind = members.text("type") or ""
    if kind == "message" or (not kind and "role" in element):
        role, name = role_of(members.text("role")), members.nonempty_text("name")
        content = _content(members.take("content"))
        return [Message(role, content, name=name, extra=members.rest())]
    if kind == "reasoning":
        return [Message("assistant", reasoning=_thought(element), extra={"reasoning": [element]})]
    if _is_call(element):
        return [Message("assistant", tool_calls=(_read_call(kind, members),))]
    if kind.endswith("_output"):
        content, call_id = _content(members.take("output")), members.text("call_id")
        extra = members.rest()
        if kind != "function_call_output":
            extra = {"type": kind, **extra}
        return [Message("tool", content, call_id=call_id, extra=extra)]
    if kind.endswith("_approval_response"):
        return [Message("user", [element])]
    return [Message("assistant", [element])]


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:
    """Read a response's JSON. `made_up_ids` is how many tool calls of the request have made-up ids."""
    return read_finished(Members(body), "incomplete_details", made_up_ids)


def read_finished(
    members: Members, details: str, made_up_ids: int, readable: Callable[[Payload], Payload] = lambda item: item
) -> LLMResponse:
    """Read the members of a response. `details` is the member that may have the reason why the model stopped.

    `readable` returns an item in the form that `read_message` reads.
    """
    finish_reason = members.nested(details).nonempty_text("reason")
    if finish_reason is None and members.get("status") not in NOT_FINAL:
        finish_reason = members.nonempty_text("status")
    answered = isinstance(members.get("output"), list)
    output = members.array("output")
    choice = replace(_read_output([*map(readable, output)], made_up_ids), finish_reason=finish_reason)
    usage, model, identity = read_usage(members.object("usage")), members.text("model"), members.text("id")
    extra = members.rest()
    kept = [item for item in output if not _is_call(item)]
    if kept:
        extra["output"] = kept
    return LLMResponse(
        choice.content,
        reasoning=choice.reasoning,
        tool_calls=choice.tool_calls,
        finish_reason=finish_reason,
        usage=usage,
        model=model,
        id=identity,
        choices=(choice,) if answered else (),
        extra=extra,
        interleaved=choice.interleaved,
    )


def _read_items(items: Payload) -> list[Message]:
    """Read a list of items and merge the items of one turn. A single text is a message of the user."""
    groups = read_groups(as_elements(items), read_message, MERGE_RULE)
    return [message for group in groups for message in group.messages]


def _continues(before: Message, message: Message) -> bool:
    """Whether an item can be merged with the item before it. The order must be: reasoning, then content, then calls."""
    if before.role != "assistant" or message.role != "assistant":
        return False
    return bool(message.tool_calls) or (before.content is None and not before.tool_calls)


def _merge(_: Sequence[Payload], messages: Sequence[Message]) -> Message:
    """Make one message from the items of one turn."""
    return reduce(_merge_two, messages)


MERGE_RULE = MergeRule(_continues, _merge)


def _merge_two(before: Message, message: Message) -> Message:
    extra = before.extra | message.extra
    thinking = as_list(before.extra.get("reasoning")) + as_list(message.extra.get("reasoning"))
    if thinking:
        extra["reasoning"] = thinking
    return Message(
        "assistant",
        before.content if message.content is None else message.content,
        before.tool_calls + message.tool_calls,
        name=message.name or before.name,
        reasoning=join_texts((before.reasoning, message.reasoning)),
        extra=extra,
    )


def _read_output(output: list[Payload], made_up_ids: int) -> Choice:
    messages = [message for item in output for message in read_message(item)]
    parts = [as_dict(part) for message in messages for part in _parts(message.content)]
    logprobs = [token for part in parts for token in as_list(part.get("logprobs"))]
    extra: dict[str, Payload] = {}
    if logprobs:
        extra["logprobs"] = logprobs
    calls = number_calls((call for message in messages for call in message.tool_calls), made_up_ids)
    gathered = _blocks(output)
    return Choice(
        0,
        gathered.all_text(),
        gathered.all_reasoning(),
        calls,
        extra=extra,
        interleaved=gathered.interleaved(calls),
    )


def _blocks(output: list[Payload]) -> Blocks:
    """Collect the blocks of items.

    For a block that is not text, reasoning or a call, the position of its item in `extra["output"]` is added.
    """
    gathered, kept = Blocks(), 0
    for item in output:
        for message in read_message(item):
            if as_dict(item).get("role") == "user":  # a compaction repeats the user's messages
                continue
            if message.tool_calls:
                gathered.add_call()
            elif as_dict(item).get("type") == "reasoning":
                gathered.add_reasoning(message.reasoning)
            for part in map(as_dict, _parts(message.content)):
                text = as_text(part.get("text"))
                if text is not None and part.get("type") == "text":
                    gathered.add_text(text)
                else:
                    gathered.add_other(kept)
        kept += not _is_call(item)
    return gathered


def _parts(content: str | list[Payload] | None) -> list[Payload]:
    if isinstance(content, str):
        return [text_part(content)]
    return content or []


def _content(parts: Payload) -> str | list[Payload] | None:
    """Read an item's content. Empty members of a text part, such as `annotations`, are left out."""
    if isinstance(parts, list):
        return content_of([_part(part) for part in parts])
    return content_of(parts)


def _part(part: Payload) -> Payload:
    if isinstance(part, str):
        return text_part(part)
    members = Members(part)
    text = members.text("text")
    if text is None or members.text("type") not in _TEXT_PARTS:
        return part
    return text_part(text, {key: value for key, value in members.rest().items() if is_nonempty(value)})


def _thought(item: dict[str, Payload]) -> str | None:
    """Return the texts of a reasoning item: its summary, or the full texts that open models send."""
    parts = as_list(item.get("summary")) or as_list(item.get("content"))
    return join_texts(as_text(as_dict(part).get("text")) for part in parts)


def _is_call(item: Payload) -> bool:
    """Whether an item is a tool call for the caller. A tool that the server ran itself has no call id."""
    kind = as_text(as_dict(item).get("type")) or ""
    return kind in {"function_call", "custom_tool_call"} or (kind.endswith("_call") and bool(item.get("call_id")))


def _read_call(kind: str, members: Members) -> ToolCall:
    """Read a call of a function, of a tool with free text, or of a built-in tool.

    The members of a built-in tool's call are its arguments.
    """
    call_id, name = members.text("call_id") or "", members.text("name") or ""
    if kind == "function_call":
        return ToolCall(call_id, name, arguments_of(members.take("arguments")), extra=members.rest())
    if (free_text := members.text("input")) is not None:
        return ToolCall(call_id, name, free_text, extra={"type": kind} | members.rest())
    item = {"type": kind, "id": members.take("id"), "status": members.take("status")}
    return ToolCall(call_id, name or kind, members.rest(), extra=Members(item).rest())


def _with_instructions(body: dict[str, Payload], text: str) -> dict[str, Payload]:
    items = as_list(body.get("input"))
    has_system = bool(items) and as_dict(items[0]).get("role") in {"system", "developer"}
    if has_system and not body.get("instructions"):
        return with_system_message(body, text, "input")
    return {**body, "instructions": text}


# ── streams ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_LAST = frozenset(f"response.{state}" for state in ("completed", "incomplete", "failed", "cancelled"))


def join_stream(text: str) -> JoinedStream:
    """Join the events of a stream, which may be cut off anywhere."""
    return join_response_events(text, JoinedResponse(_LAST))


def join_response_events(text: str, joined: JoinedResponse) -> JoinedStream:
    """Join the events of a stream to a response that has no event yet."""
    runs = MergedRuns(_can_join)
    for name, data in events(text, runs):
        joined.events += 1
        joined.ended = joined.ended or data.strip() == "[DONE]"
        event = as_dict(json_value(data))
        kind = as_text(event.get("type")) or name or ""
        joined.error = error_of(kind, event, data) or joined.error
        joined.add(kind, event)
    joined.events += runs.merged
    if joined.events == 0:
        return unstreamed(text)
    return joined.stream()


def _can_join(event: Payload) -> bool:
    """Whether events like `event`, each with its own piece of text, can be joined to one event."""
    members = as_dict(event)
    return members.get("delta") == PIECE and not members.get("annotation") and not members.get("logprobs")


class JoinedResponse:
    """A response that grows by events. `last` are the kinds of the events after which it has ended."""

    __slots__ = ("_beside", "_items", "_last", "_response", "ended", "error", "events")

    def __init__(self, last: Collection[str]) -> None:
        self._last = last
        self._beside: dict[str, Payload] = {}
        self._response: dict[str, Payload] = {}
        self._items: dict[int, dict[str, Payload]] = {}
        self.events = 0
        self.ended = False
        self.error: Payload = None

    def add(self, kind: str, event: dict[str, Payload]) -> None:
        """Add an event of this kind."""
        if response := as_dict(event.get("response")):
            self._response = response
            self.ended = self.ended or kind in self._last
            self.error = response.get("error") or self.error
        elif (index := as_int(event.get("output_index"))) is not None:
            item = as_dict(event.get("item")) or self._items.get(index, {})
            self._items[index] = item
            _build(_target_of(item, kind, event), kind, event)
        elif "delta" in event:
            _build(self._beside, kind, event)

    def stream(self) -> JoinedStream:
        """Return the response so far."""
        body = {**as_dict(finish_texts(self._beside)), **self._response}
        items = [finish_texts(item) for _, item in sorted(self._items.items()) if item]
        if items and not as_list(body.get("output")):
            body["output"] = items
        if self.error and not body.get("error"):
            body["error"] = self.error
        return JoinedStream(body, self.ended, self.events, self.error)


def _target_of(item: dict[str, Payload], kind: str, event: dict[str, Payload]) -> dict[str, Payload]:
    """Return the target of an event: a part of the item, or the item itself. A missing part is created."""
    for key, index in (("content", "content_index"), ("summary", "summary_index")):
        if (position := as_int(event.get(index))) is None:
            continue
        parts = item[key] = as_list(item.get(key))
        if 0 <= position < len(parts) and isinstance(parts[position], dict):
            return as_dict(parts[position])
        parts.append({"type": kind.removeprefix("response.").removesuffix(".delta")})
        return as_dict(parts[-1])
    return item


def _build(target: dict[str, Payload], kind: str, event: dict[str, Payload]) -> None:
    """Add the content of an event: a whole part, a piece of a text, or the complete text after all pieces."""
    target.update(as_dict(event.get("part")))
    word = kind.rpartition(".")[0].rpartition(".")[2].rpartition("_")[2]
    delta = event.get("delta")
    if isinstance(delta, str):
        target[word] = append_text(target.get(word), delta)
        _extend(target, "logprobs", as_list(event.get("logprobs")))
    elif isinstance(delta, dict):
        merge(target, delta)
    elif isinstance(event.get(word), str):
        target[word] = event[word]
    if event.get("annotation"):
        _extend(target, "annotations", [event["annotation"]])


def _extend(target: dict[str, Payload], key: str, more: list[Payload]) -> None:
    if more:
        target[key] = as_list(target.get(key))
        target[key] += more


DIALECT = Dialect(
    name="openai-responses",
    addresses={r"/responses/?$": "openai"},
    sdks=("openai",),
    headers={},
    operation="chat",
    read_request=read_request,
    read_response=read_response,
    join_stream=join_stream,
    not_found=not_found,
    history=History("input", read_message, MERGE_RULE),
    numbers_calls=True,
    instructions_apart=False,
    with_system=_with_instructions,
    counting=WHOLE,
    usage_on_request=False,
    background=Background(lazy_pattern(r"/responses/([^/]+?)(/cancel)?/?$"), resumed_is_whole=True),
    websockets=Websockets(
        {r"/responses/?$": "openai"},
        frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"}),
        names_responses=False,
        media_are_kept=True,
    ),
)

COMPACTION = dataclasses.replace(
    DIALECT,
    name="openai-compaction",
    addresses={r"/responses/compact/?$": "openai"},
    operation="compaction",
    background=None,
    websockets=None,
)
"""The requests that shorten a conversation. The answer has the user's messages, and one item in place of the rest."""
