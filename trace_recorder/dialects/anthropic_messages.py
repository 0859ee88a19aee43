"""The Anthropic Messages dialect (https://docs.anthropic.com/en/api/messages), which Vertex and Bedrock serve too.

A message is a list of blocks. Text becomes content, `tool_use` becomes a tool call, `thinking` becomes reasoning, and
`tool_result` becomes a separate tool message. Blocks that `Message` and `LLMResponse` cannot express without loss
(signed thinking, cited text, work of the server's tools) are kept unchanged in `extra["content"]`. `input_tokens` does
not include cached tokens. The counts of a usage are the sums over its `iterations`. A stream begins with
`message_start`, which has the members of the message. Blocks grow by deltas. `message_delta` ends the message and has
the usage.
"""

from __future__ import annotations

from trace_recorder.dialects.blocks import Blocks
from trace_recorder.dialects.call_ids import number_calls, number_messages
from trace_recorder.dialects.deltas import comes_in_pieces, finish_texts, merge
from trace_recorder.dialects.dialect import Dialect, History
from trace_recorder.dialects.event_forms import PIECE, MergedRuns
from trace_recorder.dialects.json_access import (
    Members,
    arguments_of,
    as_dict,
    as_int,
    as_list,
    as_text,
    content_of,
    is_plain_text,
    json_value,
    role_of,
)
from trace_recorder.dialects.stated_usage import take_cost, with_iterations
from trace_recorder.dialects.stream_framing import events, unstreamed
from trace_recorder.values.messages import (
    Choice,
    JoinedStream,
    LLMResponse,
    Message,
    Payload,
    RequestReading,
    Tool,
    ToolCall,
    Usage,
)
from trace_recorder.values.token_counts import CACHE_APART

_THINKING_TYPES = ("thinking", "redacted_thinking")
_PIECEWISE = ("text", "thinking", "partial_json")
"""The members of the most frequent deltas. Their strings are concatenated."""
_BLOCK_OF_DELTA = {
    "text_delta": "text",
    "citations_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}


def read_request(body: Payload) -> RequestReading:
    """Read a request's JSON. `system` becomes the first message."""
    members = Members(body)
    system = content_of(members.take("system"))
    messages = []
    if system is not None:
        messages.append(Message("system", system))
    for element in members.array("messages"):
        messages += read_message(element)
    tools = [_tool(declaration) for declaration in members.array("tools")]
    return RequestReading(number_messages(messages), tools, members.all(), as_text(as_dict(body).get("model")))


def read_message(element: Payload) -> list[Message]:
    """Read one element of `messages`: a tool message for each tool result, then a message with the other blocks."""
    if element is None:
        return []
    members = Members(element if isinstance(element, dict) else {"content": element})
    role = role_of(members.text("role"))
    content = members.take("content")
    if not isinstance(content, list):
        return [Message(role, content_of(content), extra=members.rest())]
    return _read_blocks(role, content, members.rest())


def _read_blocks(role: str, blocks: list[Payload], extra: dict[str, Payload]) -> list[Message]:
    results = [_tool_message(block) for block in blocks if _kind(block) == "tool_result"]
    rest = [block for block in blocks if _kind(block) != "tool_result"]
    extra = _with_blocks(extra, [block for block in rest if _kind(block) in _THINKING_TYPES])
    if results and not rest and not extra:
        return results
    kept = [block for block in rest if _kind(block) not in (*_THINKING_TYPES, "tool_use")]
    gathered = _blocks(rest)
    message = Message(role, gathered.content(kept), _tool_calls(rest), reasoning=gathered.all_reasoning(), extra=extra)
    return [*results, message]


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:
    """Read a response's JSON: a message, or an error, which is kept in `extra`."""
    members = Members(body)
    text, blocks = members.text("content"), members.array("content")
    gathered, calls = _blocks(blocks, text), number_calls(_tool_calls(blocks), made_up_ids)
    choice = Choice(
        index=0,
        content=gathered.all_text(),
        reasoning=gathered.all_reasoning(),
        tool_calls=calls,
        finish_reason=members.nonempty_text("stop_reason"),
        interleaved=gathered.interleaved(calls),
    )
    members.text("role")
    if as_dict(body).get("type") == "message":
        members.take("type")
    return LLMResponse(
        content=choice.content,
        reasoning=choice.reasoning,
        tool_calls=choice.tool_calls,
        finish_reason=choice.finish_reason,
        usage=_usage(members.object("usage")),
        model=members.text("model"),
        id=members.text("id"),
        choices=(choice,) if "content" in as_dict(body) else (),
        extra=_with_blocks(members.rest(), [block for block in blocks if not _is_lossless(block)]),
        interleaved=choice.interleaved,
    )


def join_stream(text: str) -> JoinedStream:
    """Join the events of a stream into the body that the same answer has without streaming."""
    joined, runs = _JoinedMessage(), MergedRuns(_can_join)
    number = 0
    for number, (name, data) in enumerate(events(text, runs), start=1):  # noqa: B007 read after the loop
        joined.add(name, data)
    if number == 0:
        return unstreamed(text)
    return joined.stream(number + runs.merged)


def _can_join(event: Payload) -> bool:
    """Whether events like `event`, each with its own piece of text, can be joined to one event."""
    members = as_dict(event)
    delta = as_dict(members.get("delta"))
    texts = [value for name, value in delta.items() if comes_in_pieces(name)]
    return members.get("type") == "content_block_delta" and texts == [PIECE] and not delta.keys().isdisjoint(_PIECEWISE)


def _kind(block: Payload) -> str | None:
    return as_text(as_dict(block).get("type"))


def _is_lossless(block: Payload) -> bool:
    """Whether a block is plain text or a tool call, so that `extra` need not keep the block."""
    return _kind(block) == "tool_use" or is_plain_text(as_dict(block))


def _with_blocks(extra: dict[str, Payload], blocks: list[Payload]) -> dict[str, Payload]:
    if not blocks:
        return extra
    return {**extra, "content": blocks}


def _blocks(blocks: list[Payload], text: str | None = None) -> Blocks:
    """Collect blocks.

    Text, thinking and tool calls are added as such. Any other block is in `extra["content"]`, and its position there is
    added.
    """
    gathered, kept = Blocks(), 0
    gathered.add_text(text)
    for block in blocks:
        kind = _kind(block)
        if kind == "text":
            gathered.add_text(as_text(block.get("text")))
        elif kind in _THINKING_TYPES:
            gathered.add_reasoning(as_text(block.get("thinking")))
        elif kind == "tool_use":
            gathered.add_call()
        else:
            gathered.add_other(kept)
        kept += not _is_lossless(block)
    return gathered


def _tool_calls(blocks: list[Payload]) -> tuple[ToolCall, ...]:
    return tuple(_tool_call(block) for block in blocks if _kind(block) == "tool_use")


def _tool_call(block: Payload) -> ToolCall:
    members = Members(block)
    members.take("type")
    call_id, name = members.text("id") or "", members.text("name") or ""
    return ToolCall(call_id, name, arguments_of(members.take("input")), extra=members.rest())


def _tool_message(block: Payload) -> Message:
    members = Members(block)
    members.take("type")
    call_id = members.text("tool_use_id")
    return Message("tool", content_of(members.take("content")), call_id=call_id, extra=members.rest())


def _tool(declaration: Payload) -> Tool:
    """Read one offered tool. A built-in tool (web_search, bash …) has a name in addition to its type."""
    members = as_dict(declaration)
    name = as_text(members.get("name")) or as_text(members.get("type")) or ""
    return Tool(name, as_text(members.get("description")), members.get("input_schema"), declaration)


def _usage(usage: dict[str, Payload]) -> Usage:
    members = Members(with_iterations(usage))
    return Usage(
        input_tokens=members.integer("input_tokens"),
        output_tokens=members.integer("output_tokens"),
        cache_creation_input_tokens=members.integer("cache_creation_input_tokens"),
        cache_read_input_tokens=members.integer("cache_read_input_tokens"),
        reasoning_tokens=members.nested("output_tokens_details").integer("thinking_tokens"),
        cost=take_cost(members),
        extra=members.rest(),
    )


class _GrowingBlock:
    """One content block that grows by deltas."""

    def __init__(self, start: Payload) -> None:
        self._members = dict(as_dict(start))
        self._pieces: dict[str, list[str]] = {}

    def grow(self, delta: dict[str, Payload]) -> None:
        """Add a delta: texts are concatenated, and citations are collected. `deltas.py` merges all other members."""
        for name, value in delta.items():
            if name in _PIECEWISE and isinstance(value, str):
                self._pieces.setdefault(name, []).append(value)
            elif name == "citation":
                self._members["citations"] = as_list(self._members.get("citations"))
                self._members["citations"].append(value)
            elif name != "type":
                merge(self._members, {name: value})

    def assembled(self) -> dict[str, Payload]:
        """Return the block as an unstreamed answer has it. Arguments that were cut off stay a text."""
        members = as_dict(finish_texts(self._members))
        for name, pieces in self._pieces.items():
            joined = "".join(pieces)
            if name != "partial_json":
                members[name] = (as_text(members.get(name)) or "") + joined
            elif joined:
                members["input"] = arguments_of(joined)
        return members


class _JoinedMessage:
    """A message that grows by events."""

    def __init__(self) -> None:
        self._message: dict[str, Payload] = {}
        self._usage: dict[str, Payload] = {}
        self._blocks: list[_GrowingBlock] = []
        self._growing: dict[int | None, _GrowingBlock] = {}
        self._ended = False
        self._error: Payload = None

    def add(self, name: str | None, data: str) -> None:
        """Add one event. An event that is not a JSON object, or has an unknown type, changes nothing."""
        event = Members(json_value(data))
        kind = event.text("type") or name
        if kind is not None and kind.endswith("_block_delta"):
            self._grow(as_int(event.take("index")), event.object("delta"))
        elif kind == "content_block_start":
            self._start(as_int(event.take("index")), event.take("content_block"))
        elif kind == "error":
            self._error = self._message["error"] = event.take("error") or event.rest() or data
        elif kind in ("message_start", "message_delta", "message_stop"):
            self._ended |= kind == "message_stop"
            self._set_members({**event.object("message"), **event.object("delta"), **event.rest()})

    def _set_members(self, members: dict[str, Payload]) -> None:
        """Set members of the message. Counts are cumulative, and a null never replaces a value."""
        for position, block in enumerate(as_list(members.get("content"))):
            self._start(position, block)
        self._usage.update({name: n for name, n in as_dict(members.get("usage")).items() if n is not None})
        for name, value in members.items():
            if value is not None or name not in self._message:
                self._message[name] = value

    def _start(self, index: int | None, block: Payload) -> None:
        self._growing[index] = _GrowingBlock(block)
        self._blocks.append(self._growing[index])

    def _grow(self, index: int | None, delta: dict[str, Payload]) -> None:
        if delta and index not in self._growing:
            kind = as_text(delta.get("type")) or ""
            self._start(index, {"type": _BLOCK_OF_DELTA.get(kind, kind.removesuffix("_delta"))})
        if delta:
            self._growing[index].grow(delta)

    def stream(self, number: int) -> JoinedStream:
        """Return the joined body.

        `number` is how many events the stream had. The body has no `content` if no message had begun.
        """
        if self._blocks or self._message.keys() - {"error"}:
            self._message["content"] = [block.assembled() for block in self._blocks]
        if self._usage:
            self._message["usage"] = self._usage
        return JoinedStream(self._message, self._ended, number, self._error)


def _not_found(message: str) -> Payload:
    return {"type": "error", "error": {"type": "not_found_error", "message": message}}


DIALECT = Dialect(
    name="anthropic-messages",
    addresses={
        r"/v1/messages/?$|/publishers/anthropic/models/[^/:]+:(?:streamR|r)awPredict$": "anthropic",
        r"/model/[^?]*anthropic[^/]*/invoke(?:-with-response-stream)?$": "bedrock",
    },
    sdks=("anthropic",),
    headers={"anthropic-version": "2023-06-01"},
    operation="chat",
    read_request=read_request,
    read_response=read_response,
    join_stream=join_stream,
    not_found=_not_found,
    history=History("messages", read_message),
    numbers_calls=True,
    instructions_apart=True,
    with_system=lambda body, text: {**body, "system": text},
    counting=CACHE_APART,
    usage_on_request=False,
    background=None,
    websockets=None,
)
