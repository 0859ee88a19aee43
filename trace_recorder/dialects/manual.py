"""Reads the values that an agent records by hand with `record_llm_interaction` and `record_agent_step`.

Callers pass values in three forms: as in the document, as the request and response objects of any SDK, or as in Trae
Agent. A message of Trae Agent has `tool_call` or `tool_result`, and its response has `content` and `usage`. The passed
values are kept in `given`, which the document shows. The values that this reader returns have the common form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from trace_recorder.dialects import (
    anthropic_messages,
    bedrock_converse,
    google_generate,
    ollama_chat,
    openai_chat,
    openai_responses,
)
from trace_recorder.dialects.blocks import read_blocks
from trace_recorder.dialects.chat_chunks import function_key
from trace_recorder.dialects.dialect import MANUAL, Dialect, History
from trace_recorder.dialects.json_access import (
    Members,
    arguments_of,
    as_dict,
    as_int,
    as_list,
    as_text,
    content_of,
    is_nonempty,
    role_of,
)
from trace_recorder.dialects.stated_usage import take_cost, with_iterations
from trace_recorder.facts import AgentStepFact
from trace_recorder.values.checked_types import text_of_member
from trace_recorder.values.messages import (
    Choice,
    JoinedStream,
    LLMResponse,
    Message,
    Payload,
    RequestReading,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
)
from trace_recorder.values.token_counts import WHOLE
from trace_recorder.values.trajectory import AgentStep

_RESPONSE_READERS: tuple[tuple[str, Callable[[Payload, int], LLMResponse]], ...] = (
    ("choices", openai_chat.read_response),
    ("output", openai_responses.read_response),
    ("candidates", google_generate.read_response),
    ("done", ollama_chat.read_response),
    ("stop_reason", anthropic_messages.read_response),
)
"""The readers of SDK responses. The name before each reader is a member that only responses of its dialect have."""

_SCHEMAS = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema", "parameters_json_schema")
"""The members in which providers, and MCP, have the schema of a tool's arguments."""


def read_request(body: Payload) -> RequestReading:
    """Read messages and tools as the agent passed them."""
    members = as_dict(body)
    return RequestReading(
        [message_of_agent(message) for message in as_list(members.get("messages"))],
        [read_tool(tool) for tool in as_list(members.get("tools"))],
        as_dict(members.get("parameters")),
    )


def read_message(element: Payload) -> list[Message]:
    """Read one element of `messages`, which is one message. Missing ids stay empty."""
    return [message_of_agent(element)]


def message_of_agent(value: Payload) -> Message:
    """Read one message as the agent passed it."""
    if not isinstance(value, dict):
        return Message("user", content_of(value), given={"role": "user", "content": value})
    if value.keys() == _PLAIN:
        return Message(role_of(value["role"]), content_of(value["content"]), given=value)
    if value.keys() <= _USUAL_OF_MESSAGE:
        made = [read_tool_call(call) for call in as_list(value.get("tool_calls")) if is_nonempty(call)]
        call_id, name = as_text(value.get("tool_call_id")), as_text(value.get("name")) or None
        role = role_of(value.get("role"))
        return Message(role, content_of(value.get("content")), tuple(made), call_id, name, given=value)
    calls = [call for call in (value.get("tool_call"), *as_list(value.get("tool_calls"))) if is_nonempty(call)]
    result = as_dict(value.get("tool_result"))
    content: Payload
    if result:
        role, content = "tool", as_text(result.get("result")) or as_text(result.get("error"))
    else:
        role, content = role_of(value.get("role")), content_of(value.get("content"))
    return Message(
        role,
        content,
        tuple(read_tool_call(call) for call in calls),
        as_text(result.get("call_id")) or as_text(value.get("call_id")) or as_text(value.get("tool_call_id")),
        as_text(value.get("name")) or as_text(result.get("name")),
        as_text(value.get("reasoning")) or as_text(value.get("reasoning_content")),
        as_dict(value.get("extra")),
        given=value,
    )


_PLAIN = frozenset({"role", "content"})
"""The members of most messages. `message_of` reads a message with only these members in one step."""
_USUAL_OF_MESSAGE = frozenset({"role", "content", "tool_calls", "tool_call_id", "name"})
"""The members of OpenAI's messages with tool calls or with a result."""


def read_tool(value: Payload) -> Tool:
    """Read one tool: the declaration of any dialect, an object with a name, or only the name.

    Google's built-in tools are objects with one member, whose name is the name of the tool.
    """
    if isinstance(value, str):
        return Tool(value, raw=value)
    members = as_dict(value)
    if "toolSpec" in members or "systemTool" in members:
        return bedrock_converse.read_tool(value)
    inner = as_dict(members.get(function_key(members))) or members
    name = as_text(inner.get("name")) or as_text(members.get("type"))
    if not name:
        name = "unnamed"
        if len(members) == 1:
            [name] = members
    parameters = next((inner[key] for key in _SCHEMAS if key in inner), None)
    return Tool(name, as_text(inner.get("description")), parameters, value)


def read_tool_call(tool_call: Payload) -> ToolCall:
    """Read one tool call. Its name and arguments are members of the call or, as at OpenAI, of its `function`."""
    inner = members = as_dict(tool_call)
    if "function" in members or "custom" in members:
        inner = as_dict(members.get(function_key(members))) or members
    identity = as_text(members.get("call_id")) or as_text(members.get("id")) or ""
    arguments = arguments_of(inner.get("arguments", inner.get("input", inner.get("args"))))
    name = as_text(inner.get("name")) or ""
    given = {"call_id": identity, "name": name, "arguments": arguments}
    given |= {member: value for member, value in members.items() if member not in _SHOWN_OF_CALL}
    made_up = members.get("call_id_made_up") is True
    return ToolCall(identity, name, arguments, made_up, as_dict(members.get("extra")), given=given)


_SHOWN_OF_CALL = frozenset({"call_id", "name", "arguments", "function"})
"""The members of a tool call that its document has under our names."""


def read_tool_result(tool_result: Payload) -> ToolResult:
    """Read one tool result. If the value is not an object, the value is the result."""
    if not isinstance(tool_result, dict):
        tool_result = {"call_id": "", "result": tool_result}
    members = Members(tool_result)
    identity = members.text("call_id") or members.text("tool_call_id") or as_text(tool_result.get("id")) or ""
    success = members.take("success")
    error = members.take("error")
    if "result" in tool_result:
        result = members.take("result")
    else:
        result = members.take("content")
    shown = {"call_id": identity, "success": success, "result": result, "error": error}
    return ToolResult(
        identity,
        name=members.text("name"),
        success=success if isinstance(success, bool) else None,
        result=result,
        error=error if isinstance(error, str | None) else str(error),
        sent=tool_result.get("sent"),
        duration_seconds=members.number("duration_seconds"),
        execution_id=members.text("execution_id"),
        timestamp=members.text("timestamp"),
        replayed=tool_result.get("replayed") is True,
        given={**shown, **{name: value for name, value in tool_result.items() if name not in shown}},
    )


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:
    """Read a response: the response of an SDK, or an object with `content`, `tool_calls` and `usage`."""
    if not isinstance(body, dict):
        return LLMResponse(as_text(body), given={"content": body})
    if not _has_document_form(body):
        for sign, read in _RESPONSE_READERS:
            if sign in body:
                return read(body, made_up_ids)
    return read_flat_response(body)


def _has_document_form(body: Mapping[str, Payload]) -> bool:
    """Whether a response has the form of the document.

    Such a response may have `choices` too, which differ from the `choices` of an SDK's response.
    """
    return "content" in body and "stop_reason" not in body and _SDK_ONLY.isdisjoint(body)


_SDK_ONLY = frozenset({"output", "candidates", "done"})
"""Members of SDK responses. A response in the form of the document never has them."""


def read_flat_response(body: dict[str, Payload]) -> LLMResponse:
    """Read a response whose members have the names of the document."""
    calls = tuple([read_tool_call(call) for call in as_list(body.get("tool_calls"))])
    content = as_text(body.get("content"))
    reasoning = as_text(body.get("reasoning")) or as_text(body.get("reasoning_content"))
    return LLMResponse(
        content,
        reasoning=reasoning,
        tool_calls=calls,
        finish_reason=as_text(body.get("finish_reason")) or as_text(body.get("stop_reason")),
        usage=read_usage(as_dict(body.get("usage"))),
        model=as_text(body.get("model")),
        id=as_text(body.get("id")),
        choices=tuple([_read_choice(choice) for choice in as_list(body.get("choices")) if isinstance(choice, dict)]),
        extra=as_dict(body.get("extra")),
        given=_shown_response(body, calls),
        interleaved=read_blocks(body.get("blocks"), content, reasoning),
    )


def _read_choice(value: Mapping[str, Payload]) -> Choice:
    """Read one of several answers, in the form of the document."""
    content, reasoning = as_text(value.get("content")), as_text(value.get("reasoning"))
    return Choice(
        as_int(value.get("index")) or 0,
        content,
        reasoning,
        tuple(map(read_tool_call, as_list(value.get("tool_calls")))),
        as_text(value.get("finish_reason")),
        extra=as_dict(value.get("extra")),
        interleaved=read_blocks(value.get("blocks"), content, reasoning),
    )


def _shown_response(body: dict[str, Payload], calls: Sequence[ToolCall]) -> dict[str, Payload]:
    """Return a response as the document shows it: the usual members first, without token counts that are null."""
    shown = {name: body.get(name) for name in ("content", "model", "finish_reason")}
    counted = {name: value for name, value in as_dict(body.get("usage")).items() if value is not None}
    if counted:
        shown["usage"] = counted
    shown["tool_calls"] = [call.to_document() for call in calls] or None
    return shown | {name: value for name, value in body.items() if name not in _USUAL}


_USUAL = frozenset({"content", "model", "finish_reason", "usage", "tool_calls"})
"""The members that come first when the document shows a response."""


def read_usage(value: Mapping[str, Payload]) -> Usage:
    """Read token counts under the document's names, or OpenAI's. A 0 is a count. An absent count is unknown."""
    if not value:
        return Usage()
    if value.keys() <= _PLAIN_USAGE and set(map(type, value.values())) == _INTEGER:
        return Usage(value.get("input_tokens"), value.get("output_tokens"))
    members = Members(with_iterations(value))
    return Usage(
        members.first_integer("input_tokens", "prompt_tokens"),
        members.first_integer("output_tokens", "completion_tokens"),
        members.integer("cache_creation_input_tokens"),
        members.integer("cache_read_input_tokens"),
        members.integer("reasoning_tokens"),
        take_cost(members),
        members.object("extra") | members.rest(),
    )


_PLAIN_USAGE = frozenset({"input_tokens", "output_tokens"})
_INTEGER = {int}


def join_stream(text: str) -> JoinedStream:
    """Return the text unchanged, because a call that is recorded by hand has no stream."""
    return JoinedStream(text, ended=True, events=0)


def read_step(messages: Sequence[Message] | None, fact: AgentStepFact, time: str) -> AgentStep:
    """Return the step that the agent recorded. `messages` are the messages of the step's prompt."""
    llm_response = None
    if fact.llm_response is not None:
        llm_response = read_response(fact.llm_response)
    return AgentStep(
        step_number=fact.step_number,
        timestamp=time,
        state=fact.state,  # type: ignore[arg-type]  # an agent may leave it out until its step ends
        messages=messages,
        llm_response=llm_response,
        tool_calls=tuple(read_tool_call(call) for call in fact.tool_calls or ()),
        tool_results=tuple(read_tool_result(result) for result in fact.tool_results or ()),
        reflection=fact.reflection,
        error=text_of_member(fact.error),
        agent=fact.agent,
        agent_id=fact.agent_id,
        parent_agent_id=fact.parent_agent_id,
        duration_seconds=fact.duration_seconds,
    )


DIALECT = Dialect(
    name=MANUAL,
    addresses={},
    sdks=(),
    headers={},
    operation="chat",
    read_request=read_request,
    read_response=read_response,
    join_stream=join_stream,
    not_found=openai_chat.not_found,
    history=History("messages", read_message),
    numbers_calls=False,
    instructions_apart=False,
    with_system=None,
    counting=WHOLE,
    usage_on_request=False,
    background=None,
    websockets=None,
)
