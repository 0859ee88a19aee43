"""Reads the messages of MCP servers: which server a connection leads to, and the tool calls that went over it.

A `tools/call` and its answer become the facts of a tool execution, `ToolCallFact` and `ToolResultFact`, which are
matched to the model's calls as those of any other tool (`tool_executions.py`). All other messages are only counted, or
passed over. The specification of the messages: https://modelcontextprotocol.io/specification.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trace_recorder.clocks import seconds_between
from trace_recorder.dialects.json_access import json_value
from trace_recorder.facts import (
    TOOL_USE_IDS,
    MCPEndFact,
    MCPMessageFact,
    ToolCallFact,
    ToolResultFact,
    execution_of_call,
)
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.reading.call_facts import CallFacts
from trace_recorder.storage.journal_reader import Record
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import LLMResponse, MCPCall, MCPServer, Payload
from trace_recorder.values.structs import replace

_NOT_IN_NAMES = lazy_pattern(r"[^a-zA-Z0-9_-]")
"""The characters in whose place clients write an underscore, because the names of tools may not have them."""
_FRAME = lazy_pattern(r"\AWall time: [0-9.]+ seconds\nOutput:(?:\n|\Z)")
_SAMPLING = "sampling/createMessage"
MOST_CALLS_WHILE_ASKED = 100
"""If so many calls end before a client answers a server's request, the request is forgotten."""
_SERVER_INFO = "io.modelcontextprotocol/serverInfo"
"""The member of `_meta` of a result in which a server without a handshake states its name (2026-07-28)."""
_PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
"""The member of `_meta` of a request in which a client without a handshake states the version of the protocol."""


def name_for_models(server: str, tool: str) -> str:
    """Return the name that clients give models for a server's tool."""
    return _NOT_IN_NAMES.sub("_", f"mcp__{server}__{tool}")


@dataclass(slots=True)
class ServerConnection:
    """A connection to a server: the server's name and version, and its calls that have no answer yet."""

    connection_id: str
    configured: str | None = None
    """The name that the client's configuration gives the server."""
    own_name: str | None = None
    version: str | None = None
    transport: str | None = None
    protocol_version: str | None = None
    tools: dict[str, None] = field(default_factory=dict)
    """The names of the tools that the server listed."""
    open: dict[str, ServerCall] = field(default_factory=dict)
    """The calls by their request ids, as JSON texts: 1 and "1" are two ids."""
    initialize: Payload = None
    """The id of the request that asks the server for its name."""
    lists: set[str] = field(default_factory=set)
    """The ids of the requests for the server's tools that have no answer yet, as JSON texts."""

    @property
    def server(self) -> str | None:
        """The name in the client's configuration, or else the server's own."""
        return self.configured or self.own_name

    def learn(self, information: Payload) -> None:
        """Take the name and the version that a server states of itself."""
        if isinstance(information, Mapping):
            self.own_name = _text(information.get("name")) or self.own_name
            self.version = _text(information.get("version")) or self.version

    def value(self) -> MCPServer:
        """Return the connection as a value."""
        return MCPServer(
            self.connection_id, self.server, self.version, self.transport, self.protocol_version, tuple(self.tools)
        )


@dataclass(slots=True, eq=False)
class ServerCall:
    """A call of a tool at a server."""

    connection: ServerConnection
    request: Mapping[str, Payload]
    tool: str | None
    began: str
    made_in: str | None = None
    """The tool execution in which the client sent the request, if the recorder knew it."""
    is_inside: bool = False
    """Whether that execution was running, so that the call is a part of it."""
    progress_token: Payload = None
    progress: int = 0
    ended: str | None = None
    success: bool | None = None
    answer: Mapping[str, Payload] | None = None

    @property
    def request_id(self) -> Payload:
        """The id of the request."""
        return self.request["id"]

    @property
    def execution_id(self) -> str:
        """The id of the tool execution that the call is."""
        return execution_of_call(self.connection.connection_id, self.request_id)

    def is_named(self, name: str) -> bool:
        """Return whether a model's call of the tool `name` may be this call: `TOOL`, or `mcp__SERVER__TOOL`."""
        if self.tool is None or name == self.tool:
            return name == self.tool
        configured = self.connection.configured
        if configured is None:
            return name.startswith("mcp__") and name.endswith(f"__{self.tool}")
        return _NOT_IN_NAMES.sub("_", name) == name_for_models(configured, self.tool)

    def value(self, joined_by: str | None) -> MCPCall:
        """Return the call as a value."""
        answer = _object(self.answer)
        return MCPCall(
            self.connection.connection_id,
            self.request_id,
            self.tool,
            self.connection.server,
            self.connection.version,
            joined_by,
            self.success,
            _object(answer.get("error")).get("code"),
            _object(answer.get("result")).get("structuredContent"),
            self.progress,
            self.began,
            seconds_between(self.began, self.ended),
            (self.request,) if self.answer is None else (self.request, self.answer),
        )


OfExecution = tuple[ToolCallFact | ToolResultFact, ServerCall]
"""A fact of a tool execution, and the call that the execution is."""


class MCPCalls:
    """The connections of a run. Call the methods in the order of the records."""

    def __init__(self) -> None:
        self.connections: dict[str, ServerConnection] = {}

    def read(self, record: Record, fact: MCPMessageFact) -> Iterator[OfExecution]:
        """Read one message. Yield the fact of a tool execution if the message begins or ends one."""
        connection = self._connection(fact.connection_id)
        connection.configured = fact.server or connection.configured
        connection.transport = fact.transport or connection.transport
        if not isinstance(fact.message, Mapping):
            return
        if fact.direction == "sent":
            yield from self._read_sent(record, fact, fact.message, connection)
        else:
            yield from self._read_received(record, fact.message, connection)

    def servers(self) -> tuple[MCPServer, ...]:
        """Return the connections as values, in the order of their first messages."""
        return tuple(connection.value() for connection in self.connections.values())

    def read_end(self, record: Record, fact: MCPEndFact) -> list[OfExecution]:
        """Read the end of a connection. Return the ends of the calls that the server has not answered."""
        connection = self._connection(fact.connection_id)
        unanswered, connection.open = [*connection.open.values()], {}
        error = {"type": "", "message": f"no answer of the server is on file: {fact.ended_by}"}
        return [(_end_of(call, record, success=False, error=error), call) for call in unanswered]

    def _connection(self, identity: str) -> ServerConnection:
        return self.connections.setdefault(identity, ServerConnection(identity))

    @staticmethod
    def _read_sent(
        record: Record, fact: MCPMessageFact, message: Mapping[str, Payload], connection: ServerConnection
    ) -> Iterator[OfExecution]:
        method, parameters = message.get("method"), _object(message.get("params"))
        meta = _object(parameters.get("_meta"))
        connection.protocol_version = _text(meta.get(_PROTOCOL_VERSION)) or connection.protocol_version
        if method == "initialize":
            connection.initialize = message.get("id")
        if method == "tools/list":
            connection.lists.add(_key(message.get("id")))
        if method == "notifications/cancelled":
            key = _key(parameters.get("requestId"))
            if key in connection.open:
                cancelled = connection.open.pop(key)
                yield _end_of(cancelled, record, success=None, ended_by="the client cancelled it"), cancelled
        if method != "tools/call" or "id" not in message:
            return
        tool, token = _text(parameters.get("name")), meta.get("progressToken")
        call = ServerCall(connection, message, tool, record.time, fact.execution_id, progress_token=token)
        connection.open[_key(call.request_id)] = call
        members = {name: getattr(fact, name) for name in ("agent", "agent_id", "parent_agent_id", "step_id")}
        asked = ToolCallFact(
            **members,
            step_number=fact.step_number,
            execution_id=call.execution_id,
            name=call.tool or "unnamed",
            call_id=next(filter(None, (_text(meta.get(name)) for name in TOOL_USE_IDS)), None),
            arguments=parameters.get("arguments") or {},
        )
        yield asked, call

    @staticmethod
    def _read_received(
        record: Record, message: Mapping[str, Payload], connection: ServerConnection
    ) -> Iterator[OfExecution]:
        if message.get("method") == "notifications/progress":
            token = _object(message.get("params")).get("progressToken")
            for call in connection.open.values():
                call.progress += call.progress_token is not None and call.progress_token == token
        if "method" in message or "id" not in message:
            return
        result, key = message.get("result"), _key(message["id"])
        if isinstance(result, Mapping):
            connection.learn(_object(result.get("_meta")).get(_SERVER_INFO))
            if message["id"] == connection.initialize:
                connection.learn(result.get("serverInfo"))
                connection.protocol_version = _text(result.get("protocolVersion")) or connection.protocol_version
        if key in connection.lists:
            connection.lists.remove(key)
            connection.tools |= dict.fromkeys(_names_of_tools(result))
        if key not in connection.open:
            return
        call = connection.open.pop(key)
        call.answer = message
        if "error" in message:
            stated = _object(message["error"])
            error = {"type": f"MCP error {stated.get('code')}", "message": str(stated.get("message"))}
            yield _end_of(call, record, success=False, error=error), call
            return
        content = content_of_result(result)
        if _object(result).get("isError") is True:
            error = {"type": "", "message": _joined(result_texts(result)) or "the tool failed"}
            yield _end_of(call, record, success=False, result=content, error=error), call
        else:
            yield _end_of(call, record, success=True, result=content), call


def _end_of(
    call: ServerCall,
    record: Record,
    *,
    success: bool | None,
    result: Payload = None,
    error: dict[str, Payload] | None = None,
    ended_by: str | None = None,
) -> ToolResultFact:
    call.ended, call.success = record.time, success
    return ToolResultFact(
        execution_id=call.execution_id,
        name=call.tool or "unnamed",
        success=success,
        duration_seconds=seconds_between(call.began, record.time),
        ended_by=ended_by,
        result=result,
        error=error,
    )


def _names_of_tools(result: Payload) -> Iterator[str]:
    """Yield the names in a list of tools, or in one page of such a list."""
    tools = _object(result).get("tools")
    if isinstance(tools, Sequence) and not isinstance(tools, str):
        for tool in tools:
            name = _text(_object(tool).get("name"))
            if name is not None:
                yield name


# ── calls of models that servers ask for ────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _SamplingRequest:
    """A request of a server that has no answer: the execution of its tool, and the calls since, with their texts."""

    execution_id: str
    seq: int
    calls: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class SampledCalls:
    """Finds the calls of models that MCP servers asked for, where only the messages and the calls are known.

    The recorder in the client's process states the tool in which a server asks for a call of a model. A tap and the
    proxy see two messages and a call, and nothing joins them. So a call is inside the tool only if there is one answer.
    The server asked while it had one open call of a tool. Between its request and the client's answer, one call of no
    sub-agent began, and ended with exactly the text of that answer. `inside` has the executions of these calls.
    """

    inside: dict[str, str] = field(default_factory=dict)
    requests: dict[tuple[str, str], _SamplingRequest] = field(default_factory=dict)

    def read_message(self, record: Record, fact: MCPMessageFact, connection: ServerConnection) -> str | None:
        """Read a message. Return the id of a call that the message shows to be inside a tool, or None."""
        message = fact.message
        if not isinstance(message, Mapping) or "id" not in message:
            return None
        key = fact.connection_id, repr(message["id"])
        if fact.direction == "received" and message.get("method") == _SAMPLING:
            if len(connection.open) == 1:
                [call] = connection.open.values()
                execution = call.made_in if call.is_inside else call.execution_id
                self.requests[key] = _SamplingRequest(str(execution), record.seq)
        elif fact.direction == "sent" and key in self.requests:
            request, result = self.requests.pop(key), message.get("result")
            content = result.get("content") if isinstance(result, Mapping) else None
            said = "".join(result_texts(content)) or None
            same = [identity for identity, text in request.calls if text == said and identity not in self.inside]
            if len(same) == 1:
                self.inside[same[0]] = request.execution_id
                return same[0]
        return None

    def read_response(self, call: CallFacts, response: LLMResponse) -> None:
        """Read the response of a call."""
        sent = call.sent
        if sent is None or sent.agent_id is not None or not isinstance(response.content, str):
            return
        for key, request in [*self.requests.items()]:
            if call.first_seq > request.seq:
                request.calls.append((call.interaction_id, response.content))
            if len(request.calls) > MOST_CALLS_WHILE_ASKED:
                del self.requests[key]

    def placed(self, interaction: LLMInteraction) -> LLMInteraction:
        """Return an interaction inside the tool in which it was found, if any."""
        execution_id = self.inside.get(interaction.interaction_id)
        if execution_id is None:
            return interaction
        return replace(interaction, parent_execution_id=execution_id)

    def end_connection(self, connection_id: str) -> None:
        """Forget the requests of a connection that has ended."""
        for key in [key for key in self.requests if key[0] == connection_id]:
            del self.requests[key]


# ── what a result says ───────────────────────────────────────────────────────────────────────────────────────────────


def content_of_result(result: Payload) -> Payload:
    """Return what a `CallToolResult` says: a str if its content is one text, and otherwise the list of its blocks."""
    content = _object(result).get("content")
    if not isinstance(content, Sequence) or isinstance(content, str):
        return result
    if len(content) == 1 and (text := _text_of_block(content[0])) is not None:
        return text
    return content


def result_texts(value: Payload) -> list[str]:
    """Return the texts in a tool's result, as a server gave it or as a client passed it on to the model.

    Clients pass on the blocks, their texts alone, or the JSON of either.
    """
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        if "content" in value:
            return result_texts(value["content"])
        text = _text_of_block(value)
        return [] if text is None else [text]
    if isinstance(value, Sequence):
        return [text for block in value for text in result_texts(block)]
    return []


def says_the_same(result: Payload, seen: Payload, structured: Payload = None) -> bool:
    """Return whether the model got the result of a server whole, in whatever form.

    `structured` is the structured content of the result, which a client may pass on instead. A result with other blocks
    than texts, such as images, is the same only if the blocks are.
    """
    seen = _without_frame(seen)
    if result is None:
        return seen is None
    parsed = json_value(seen) if isinstance(seen, str) else seen
    if result == seen or parsed in (result, {"content": result}):
        return True
    if structured is not None and parsed == structured:
        return True
    blocks = result if isinstance(result, list) else [result]
    if any(_text_of_block(block) is None and not isinstance(block, str) for block in blocks):
        return False
    said, texts = _joined(result_texts(result)), result_texts(seen)
    return said in {_joined(texts), "".join(texts)} or (isinstance(seen, str) and said == _joined(result_texts(parsed)))


def _without_frame(seen: Payload) -> Payload:
    """Return what the model got without the lines that Codex puts before each result, with the time that it took."""
    if isinstance(seen, str):
        return _FRAME.sub("", seen, count=1)
    if isinstance(seen, list) and seen and _FRAME.fullmatch(str(_object(seen[0]).get("text"))):
        return seen[1:]
    return seen


def _joined(texts: Sequence[str]) -> str:
    return "\n".join(texts)


def _text_of_block(block: Payload) -> str | None:
    return _text(_object(block).get("text")) if _object(block).get("type") == "text" else None


def _object(value: Payload) -> Mapping[str, Payload]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Payload) -> str | None:
    return value if isinstance(value, str) and value else None


def _key(request_id: Payload) -> str:
    return repr(request_id) if isinstance(request_id, str) else str(request_id)
