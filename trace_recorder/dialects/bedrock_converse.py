"""Bedrock's Converse dialect (https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html).

A message is a list of blocks. Each block is an object with one member, which names the block. Text becomes content,
`toolUse` becomes a tool call, `reasoningContent` becomes reasoning, and `toolResult` becomes a separate tool message. A
block of any other kind becomes a content part, unchanged. Blocks of an answer that `Message` and `LLMResponse` cannot
express without loss (signed reasoning, citations, media) are kept in `extra["content"]`. `inputTokens` does not include
cached tokens. In a stream, `contentBlockStart` and `contentBlockDelta` build the blocks. `messageStop` has the finish
reason. `metadata` comes last and has the usage.
"""

from __future__ import annotations

from collections.abc import Sequence

from trace_recorder.dialects.blocks import Blocks
from trace_recorder.dialects.call_ids import number_calls, number_messages
from trace_recorder.dialects.deltas import comes_in_pieces, finish_texts, merge
from trace_recorder.dialects.dialect import Dialect, History
from trace_recorder.dialects.json_access import (
    Members,
    arguments_of,
    as_dict,
    as_int,
    as_list,
    as_text,
    json_value,
    role_of,
    text_part,
)
from trace_recorder.dialects.openai_chat import not_found
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


def read_request(body: Payload) -> RequestReading:
    """Read a request's JSON. The model is in the URL. `system` becomes the first message."""
    members = Members(body)
    system = [_part(block) for block in members.array("system")]
    messages = []
    if system:
        messages.append(_message("system", system, {}))
    for element in members.array("messages"):
        messages += read_message(element)
    config = members.nested("toolConfig")
    tools = [read_tool(declaration) for declaration in config.array("tools")]
    return RequestReading(number_messages(messages), tools, members.all(), None)


def read_message(element: Payload) -> list[Message]:
    """Read one element of `messages`: a tool message for each tool result, then a message with the other blocks."""
    if element is None:
        return []
    members = Members(element)
    role, blocks = role_of(members.text("role")), members.array("content")
    results = [_tool_message(block["toolResult"]) for block in blocks if "toolResult" in as_dict(block)]
    rest = [block for block in blocks if "toolResult" not in as_dict(block)]
    if results and not rest:
        return results
    return [*results, _message(role, rest, members.rest())]


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:
    """Read a response's JSON: an answer, or an error, which is kept in `extra`."""
    members = Members(body)
    message = members.nested("output").nested("message")
    role = message.text("role")
    blocks = message.array("content")
    gathered, calls = _blocks(blocks), number_calls(_tool_calls(blocks), made_up_ids)
    choice = Choice(
        index=0,
        content=gathered.all_text(),
        reasoning=gathered.all_reasoning(),
        tool_calls=calls,
        finish_reason=members.nonempty_text("stopReason"),
        interleaved=gathered.interleaved(calls),
    )
    usage = _usage(members.object("usage"))
    extra = members.rest()
    kept = [block for block in blocks if not _is_lossless(as_dict(block))]
    if kept:
        extra["content"] = kept
    return LLMResponse(
        content=choice.content,
        reasoning=choice.reasoning,
        tool_calls=choice.tool_calls,
        finish_reason=choice.finish_reason,
        usage=usage,
        choices=(choice,) if blocks or role else (),
        extra=extra,
        interleaved=choice.interleaved,
    )


def join_stream(text: str) -> JoinedStream:
    """Join the events of a stream into the body that the same answer has without streaming."""
    typed_events = [(name or "", json_value(data)) for name, data in events(text)]
    if not typed_events:
        return unstreamed(text)
    return join_events(typed_events)


def join_events(typed_events: Sequence[tuple[str, Payload]]) -> JoinedStream:
    """Join events to one body. Each event is a pair of its type and its data."""
    joined = _JoinedAnswer()
    for name, event in typed_events:
        joined.add(name, as_dict(event))
    return joined.stream(len(typed_events))


def _part(block: Payload) -> Payload:
    """Return a block as a part of a message's content: text in the common form, any other block unchanged."""
    members = as_dict(block)
    text = members.get("text")
    if isinstance(text, str):
        return text_part(text, {name: value for name, value in members.items() if name != "text"})
    return block


def _message(role: str, blocks: list[Payload], extra: dict[str, Payload]) -> Message:
    thoughts = [block for block in blocks if "reasoningContent" in as_dict(block)]
    kept = [block for block in blocks if not {"reasoningContent", "toolUse"} & as_dict(block).keys()]
    gathered = _blocks(blocks)
    content = gathered.content([_part(block) for block in kept])
    if thoughts:
        extra = {**extra, "content": thoughts}
    return Message(role, content, _tool_calls(blocks), reasoning=gathered.all_reasoning(), extra=extra)


def _blocks(blocks: list[Payload]) -> Blocks:
    """Collect blocks.

    Text, cited text, reasoning and tool calls are added as such. Any other block is in `extra["content"]`, and its
    position there is added.
    """
    gathered, kept = Blocks(), 0
    for members in map(as_dict, blocks):
        if isinstance(members.get("text"), str):
            gathered.add_text(members["text"])
        elif "reasoningContent" in members:
            thought = as_dict(members["reasoningContent"])
            gathered.add_reasoning(as_text(as_dict(thought.get("reasoningText")).get("text")))
        elif "toolUse" in members:
            gathered.add_call()
        elif "citationsContent" in members:
            for cited in as_list(as_dict(members["citationsContent"]).get("content")):
                gathered.add_text(as_text(as_dict(cited).get("text")))
        else:
            gathered.add_other(kept)
        kept += not _is_lossless(members)
    return gathered


def _is_lossless(block: dict[str, Payload]) -> bool:
    """Whether a block is plain text or a tool call, so that `extra` need not keep the block."""
    return block.keys() in ({"text"}, {"toolUse"})


def _tool_calls(blocks: list[Payload]) -> tuple[ToolCall, ...]:
    return tuple(_tool_call(block["toolUse"]) for block in blocks if "toolUse" in as_dict(block))


def _tool_call(use: Payload) -> ToolCall:
    members = Members(use)
    call_id, name = members.text("toolUseId") or "", members.text("name") or ""
    return ToolCall(call_id, name, arguments_of(members.take("input")), extra=members.rest())


def _tool_message(result: Payload) -> Message:
    """Read a tool result. A single text is the message's content. Several blocks, or JSON, are parts of the content."""
    members = Members(result)
    call_id = members.text("toolUseId")
    parts = [_part(block) for block in members.array("content")]
    gathered = _blocks(as_list(as_dict(result).get("content")))
    return Message("tool", gathered.content(parts), call_id=call_id, extra=members.rest())


def read_tool(declaration: Payload) -> Tool:
    """Read the declaration of a tool, which is a `toolSpec`, a `systemTool` or a cache point."""
    members = as_dict(declaration)
    spec = as_dict(members.get("toolSpec") or members.get("systemTool"))
    schema = as_dict(spec.get("inputSchema")).get("json")
    name = as_text(spec.get("name")) or next(iter(members), "")
    return Tool(name, as_text(spec.get("description")), schema, declaration)


def _usage(usage: dict[str, Payload]) -> Usage:
    members = Members(usage)
    return Usage(
        input_tokens=members.integer("inputTokens"),
        output_tokens=members.integer("outputTokens"),
        cache_creation_input_tokens=members.integer("cacheWriteInputTokens"),
        cache_read_input_tokens=members.integer("cacheReadInputTokens"),
        extra=members.rest(),
    )


class _JoinedAnswer:
    """An answer that grows by events."""

    def __init__(self) -> None:
        self._body: dict[str, Payload] = {}
        self._role: Payload = None
        self._blocks: dict[int, dict[str, Payload]] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}
        self._ended = False
        self._error: Payload = None

    def add(self, name: str, event: dict[str, Payload]) -> None:
        """Add one event. An event of an unknown type changes nothing, unless it has the delta of a block."""
        index = as_int(event.get("contentBlockIndex")) or 0
        if name == "messageStart":
            self._role = event.get("role")
        elif name == "contentBlockStart":
            self._blocks.setdefault(index, {}).update(as_dict(event.get("start")))
        elif name.endswith("BlockDelta"):
            self._grow(index, as_dict(event.get("delta")))
        elif name in ("messageStop", "metadata"):
            self._ended |= name == "messageStop"
            self._body.update({key: value for key, value in event.items() if key != "p"})  # "p" is random filler
        elif name == "error":
            self._error = self._body["error"] = event.get("error")

    def _grow(self, index: int, delta: dict[str, Payload]) -> None:
        """Add a delta: texts are concatenated, and citations are collected. `deltas.py` merges all other members."""
        block = self._blocks.setdefault(index, {})
        for name, value in delta.items():
            if isinstance(value, str) and comes_in_pieces(name):
                self._add_piece(index, name, value)
            elif name in ("toolUse", "reasoningContent") and isinstance(value, dict):
                block.setdefault(name, {})
                for inner, piece in value.items():
                    if isinstance(piece, str):
                        self._add_piece(index, f"{name}.{inner}", piece)
            elif name == "citation":
                block.setdefault("citations", []).append(value)
            else:
                merge(block, {name: value})

    def _add_piece(self, index: int, path: str, piece: str) -> None:
        self._pieces.setdefault((index, path), []).append(piece)

    def _assembled(self) -> list[Payload]:
        """Return the blocks as an unstreamed answer has them. Arguments that were cut off stay a text."""
        for (index, path), pieces in self._pieces.items():
            block, joined = self._blocks[index], "".join(pieces)
            name, _, inner = path.partition(".")
            if not inner:
                block[name] = joined
            elif (name, inner) == ("toolUse", "input"):
                block[name] = {**as_dict(block.get(name)), inner: arguments_of(joined)}
            elif name != "toolUse" and inner in ("text", "signature"):
                thought = as_dict(block.get(name))
                block[name] = {**thought, "reasoningText": {**as_dict(thought.get("reasoningText")), inner: joined}}
            else:
                block[name] = {**as_dict(block.get(name)), inner: joined}
        for block in self._blocks.values():
            if "citations" in block:  # a text with citations is a block of its own kind
                text = block.pop("text", None)
                texts = [] if text is None else [{"text": text}]
                block["citationsContent"] = {"content": texts, "citations": block.pop("citations")}
            if isinstance(block.get("toolUse"), dict):
                block["toolUse"].setdefault("input", {})
        return [finish_texts(self._blocks[index]) for index in sorted(self._blocks)]

    def stream(self, number: int) -> JoinedStream:
        """Return the joined body.

        `number` is how many events the stream had. The body has no `output` if no message had begun.
        """
        if self._role is not None or self._blocks:
            message = {"role": self._role or "assistant", "content": self._assembled()}
            self._body = {"output": {"message": message}, **self._body}
        return JoinedStream(self._body, self._ended, number, self._error)


DIALECT = Dialect(
    name="bedrock-converse",
    addresses={r"/model/.+/converse(?:-stream)?$": "bedrock"},
    sdks=("bedrock",),
    headers={},
    operation="chat",
    read_request=read_request,
    read_response=read_response,
    join_stream=join_stream,
    not_found=not_found,
    history=History("messages", read_message),
    numbers_calls=True,
    instructions_apart=True,
    with_system=lambda body, text: {**body, "system": [{"text": text}]},
    counting=CACHE_APART,
    usage_on_request=False,
    background=None,
    websockets=None,
)
