"""The values of a conversation with a model. The readers in `dialects/` make them from a provider's raw JSON.

All values are immutable. An unknown value is None: a token count that the provider did not give is never 0. `extra` has
the members of a provider's JSON that have no field here, under the provider's names. Each value renders itself for the
document with `to_document`, according to the types of its fields (`document_members.py`). If the agent recorded a value
by hand, the document has it as the agent gave it (`given`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from trace_recorder.values.document_members import (
    Always,
    Count,
    Given,
    InDocument,
    Name,
    NotInDocument,
    NullIfEmpty,
    Seconds,
    Unchecked,
    render,
    renderer_of,
)
from trace_recorder.values.short_forms import folded_rows, table
from trace_recorder.values.structs import Struct, equal_but, field

Payload = Any
"""A provider's raw JSON: dict, list, str, int, float, bool or None."""


def without_none(**members: Payload) -> dict[str, Payload]:
    """Return the members that are not None."""
    for name, value in [*members.items()]:  # the fastest form that was measured; this is called for every record
        if value is None:
            del members[name]
    return members


class ToolCall(Struct, frozen=True, gc=False):
    """A tool call: the model's request to run a tool.

    `arguments` is the parsed object, or the raw text if it is not a JSON object. If the provider gives no id, the
    reader makes up a `call_id`, and `call_id_made_up` is True. Inside a reader, the id may still be empty.
    """

    call_id: str
    name: str
    arguments: Payload
    call_id_made_up: Unchecked[bool] = False
    extra: Unchecked[dict[str, Payload]] = field(default_factory=dict)
    given: Given = None

    to_document = render


class MCPCall(Struct, frozen=True, gc=False):
    """A call of a tool at an MCP server, as the messages between client and server state it.

    `connection_id` and `request_id` name the messages. `server` is the name in the client's configuration, or else the
    server's own, and `version` is the server's. `tool` is the name at the server. `joined_by` says how the model's
    call was found: by its "id" in the request, or by its "name" and equal arguments. If the tool ran inside a tool of
    the agent, it is "execution". `success` is false if the server answered with an error or did not answer, and null if
    the call was cancelled. `error_code` is the code of an error of the protocol. `structured_content` is the server's,
    `progress` counts the notifications of progress, `timestamp` is when the request was sent, and `duration_seconds` is
    the time from the request to the answer. `messages` has the request and its answer as they were sent, if the journal
    has them.
    """

    connection_id: str
    request_id: Unchecked[str | int]
    tool: Unchecked[Always[str | None]] = None
    server: Unchecked[Always[str | None]] = None
    version: Unchecked[str | None] = None
    joined_by: str | None = None
    success: bool | None = None
    error_code: Unchecked[int | None] = None
    structured_content: Payload = None
    progress: Count = 0
    timestamp: str | None = None
    duration_seconds: Seconds | None = None
    messages: NotInDocument[tuple[Payload, ...]] = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is MCPCall and equal_but(self, other, "messages")

    __hash__ = None  # type: ignore[assignment]  # its parts are dicts

    to_document = render


class MCPServer(Struct, frozen=True, gc=False):
    """A connection to an MCP server.

    `server` and `version` are those of its calls (`MCPCall`). `transport` is "stdio", "sse" or "streamable_http",
    `protocol_version` is the version of the protocol that client and server agreed on, and `tools` has the names of the
    tools that the server listed. Each is missing if the messages do not state it.
    """

    connection_id: str
    server: str | None = None
    version: str | None = None
    transport: str | None = None
    protocol_version: str | None = None
    tools: tuple[str, ...] = ()

    to_document = render


class ToolResult(Struct, frozen=True, gc=False):
    """The result of a tool.

    Either `result` is the JSON of the tool's result, or `error` is a text. `sent` is the text that the agent passed on
    to the model, if that is known and differs from `result`. If the execution was recorded, `timestamp` is when it
    began, and `duration_seconds` is how long it took. If the tool started a sub-agent, `execution_id` equals the
    `parent_execution_id` of the sub-agent's calls. If `replayed` is True, a recording gave the result, and the tool did
    not run. `mcp` has the calls of MCP servers that the tool consists of, or that it made.
    """

    call_id: str
    success: Unchecked[Always[bool | None]] = None
    result: Always[Payload] = None
    error: Unchecked[Always[str | None]] = None
    name: Unchecked[str | None] = None
    sent: Payload = None
    duration_seconds: Seconds | None = None
    execution_id: str | None = None
    timestamp: str | None = None
    replayed: bool = False
    mcp: tuple[MCPCall, ...] = ()
    extra: Unchecked[dict[str, Payload]] = field(default_factory=dict)
    given: Given = None

    to_document = render


class Message(Struct, frozen=True, gc=False):
    """One message of a conversation, in the same form for all providers.

    `content` is a str if the message is one text. Otherwise `content` is the list of the parts in order: a text is
    {"type": "text", "text": …}, and any other part is as the provider has it. `reasoning` is the model's thinking, if
    the agent sent it back. A tool message has the `call_id` of the tool call that it answers.
    """

    role: str
    content: Always[str | list[Payload] | None] = None
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    name: str | None = None
    reasoning: str | None = None
    extra: dict[str, Payload] = field(default_factory=dict)
    given: Given = None

    def _repr_html_(self) -> str:
        """Show the message in a notebook."""
        calls = [(call.name, call.arguments) for call in self.tool_calls]
        members = {"call_id": self.call_id, "name": self.name, "reasoning": self.reasoning, "content": self.content}
        return table(f"Message: {self.role}", members, details=[folded_rows(f"{len(calls)} tool calls", calls)])

    to_document = render


class Tool(Struct, frozen=True, gc=False):
    """A tool that was offered to the model. `raw` is its declaration as it was sent."""

    name: str
    description: str | None = None
    parameters: Payload = None
    raw: Payload = None


class Usage(Struct, frozen=True, gc=False):
    """The token counts of a call, as the provider counts them.

    None means unknown. `input_tokens` is the provider's own number: OpenAI and Google include cached tokens, Anthropic
    does not. `cost` is the price in US dollars that the provider stated, never an estimate. `extra` has all other
    members of the provider's usage object.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None
    extra: dict[str, Payload] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        """Whether the provider gave any count."""
        return (
            self.input_tokens is not None
            or self.output_tokens is not None
            or self.cache_creation_input_tokens is not None
            or self.cache_read_input_tokens is not None
            or self.reasoning_tokens is not None
            or self.cost is not None
            or bool(self.extra)
        )

    to_document = render


BlockType = Literal["reasoning", "text", "tool_call", "other"]


class Block(Struct, frozen=True, gc=False):
    """One block of an answer: reasoning, a text, a tool call, or a block of another type.

    `text` is the reasoning or the text. The `text` of reasoning that the provider hides is empty. `call_id` is the id
    of a tool call. A block of another type, such as a search that the provider ran, is at `position` in the list of
    blocks in `extra`.
    """

    type: BlockType
    text: Annotated[str | None, Name("characters"), InDocument(Count)] = None
    call_id: str | None = None
    position: Count | None = None

    def to_document(self) -> dict[str, Payload]:
        """Render for the document.

        The document has the text elsewhere, so it has only the length of the text here, in code points.
        """
        document = renderer_of(Block)(self)
        if self.text is not None:
            document["characters"] = len(self.text)
        return document


def _default_blocks(answer: LLMResponse | Choice) -> tuple[Block, ...]:
    """Return the blocks of an answer in the usual order: reasoning, text, tool calls."""
    blocks = []
    if answer.reasoning:
        blocks.append(Block("reasoning", answer.reasoning))
    if answer.content:
        blocks.append(Block("text", answer.content))
    blocks += [Block("tool_call", call_id=call.call_id) for call in answer.tool_calls]
    return tuple(blocks)


class Choice(Struct, frozen=True, gc=False):
    """One of the answers of a response.

    `extra` has all members that have no field here, such as `logprobs` and `token_ids`.
    """

    index: int
    content: Always[str | None] = None
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    interleaved: Annotated[tuple[Block, ...], Name("blocks")] = ()
    extra: dict[str, Payload] = field(default_factory=dict)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The reasoning, the text and the tool calls of the answer, in their order."""
        return self.interleaved or _default_blocks(self)

    to_document = render


class LLMResponse(Struct, frozen=True, gc=False):
    """The answer of the model.

    `content`, `reasoning`, `tool_calls` and `finish_reason` come from the first choice, and `choices` has all choices.

    `blocks` are the parts of the answer in their order. `interleaved` has the blocks only if their order is not
    reasoning, content, tool calls. `finish_reason` is the provider's own word. A response without usage has a `Usage`
    without any counts. `extra` holds every member of the answer that has no field here (`system_fingerprint`,
    `service_tier`, …). If the user interrupted an answer that the model spoke, the user heard the first
    `audio_end_ms` milliseconds of it. The other members have all that the model said.
    """

    content: Always[str | None] = None
    model: Always[str | None] = None
    finish_reason: Always[str | None] = None
    usage: Usage = field(default_factory=Usage)
    tool_calls: NullIfEmpty[tuple[ToolCall, ...]] = ()
    reasoning: str | None = None
    interleaved: Annotated[tuple[Block, ...], Name("blocks")] = ()
    id: str | None = None
    choices: tuple[Choice, ...] = ()
    audio_end_ms: Count | None = None
    extra: dict[str, Payload] = field(default_factory=dict)
    given: Given = None

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The reasoning, the text and the tool calls of the answer, in their order."""
        return self.interleaved or _default_blocks(self)

    def to_document(self) -> dict[str, Payload]:
        """Render for the document.

        The member `choices` is left out if there is only one choice, and this choice has no `extra`.
        """
        shows_choices = len(self.choices) != 1 or self.choices[0].extra
        return renderer_of(LLMResponse, without="" if shows_choices else "choices")(self)


NO_RESPONSE = LLMResponse(given={})
"""The placeholder for the response of a call that has no response. In the document it is `{}`."""


class RequestReading(Struct, frozen=True, gc=False):
    """A request as a reader understands it.

    `parameters` has every member except messages and tools. `instructions` is how many messages at the beginning are
    the request's own instructions. They are not part of the conversation. A request that continues the conversation may
    have other instructions.
    """

    messages: Sequence[Message] = field(default_factory=list)
    tools: Sequence[Tool] = field(default_factory=list)
    parameters: dict[str, Payload] = field(default_factory=dict)
    model: str | None = None
    instructions: int = 0

    def to_document(self) -> dict[str, Payload]:
        """Render the request for the document, without its messages."""
        document: dict[str, Payload] = {"parameters": self.parameters} if self.parameters else {}
        if tools := [tool.raw for tool in self.tools]:
            document["tools"] = tools
        if self.instructions:
            document["instructions"] = self.instructions
        return document


class JoinedStream(Struct, frozen=True, gc=False):
    """An assembled stream.

    `body` has the shape of the provider's answer without streaming. `ended` is True if the protocol's own last event
    was seen ([DONE], message_stop, done: true, a finish reason). `ended` is None if the protocol has no such event, so
    that the stream ends with the HTTP body. `events` is how many events the stream has. `error` is the provider's error
    object, if the stream had one.
    """

    body: Payload
    ended: bool | None
    events: int
    error: Payload = None
