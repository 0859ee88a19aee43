"""Ollama's chat dialect, /api/chat (https://docs.ollama.com/api/chat).

A message is flat: content, thinking, tool calls with objects as arguments, and images, which are kept in
`extra["images"]`. Older servers send no id of a call, and a tool message may have only the name of its tool. In both
cases, this package makes up the id. There is no usage object: two token counts are members of the answer. The durations
in an answer go to `extra`.

A stream has one JSON object in each line. Texts come in pieces. Any line may have complete tool calls. The last line
has the token counts. `ollama_generate.py` reads its answers and streams with the functions of this module.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.call_ids import number_calls, number_messages
from trace_recorder.dialects.deltas import finish_texts, merge
from trace_recorder.dialects.dialect import Dialect, History
from trace_recorder.dialects.json_access import Members, arguments_of, as_dict, as_text, content_of, json_value, role_of
from trace_recorder.dialects.openai_chat import read_bare, read_tool, with_system_message
from trace_recorder.dialects.stream_framing import json_lines
from trace_recorder.values.messages import (
    Choice,
    JoinedStream,
    LLMResponse,
    Message,
    Payload,
    RequestReading,
    ToolCall,
    Usage,
)
from trace_recorder.values.token_counts import WHOLE

_PIECEWISE = frozenset({"response", "thinking"})
"""The members of a line beside its message whose strings come in pieces."""


def read_request(body: Payload) -> RequestReading:
    """Read a request's JSON."""
    members = Members(body)
    messages = [message for element in members.array("messages") for message in read_message(element)]
    tools = [read_tool(declaration) for declaration in members.array("tools")]
    return RequestReading(number_messages(messages), tools, members.all(), as_text(as_dict(body).get("model")))


def read_message(element: Payload) -> list[Message]:
    """Read one element of `messages`. Missing ids stay empty."""
    if not isinstance(element, dict):
        return read_bare(element)
    members = Members(element)
    message = Message(
        role_of(members.text("role")),
        content_of(members.take("content")),
        _tool_calls(members),
        call_id=members.text("tool_call_id"),
        name=members.text("tool_name") or members.text("name"),
        reasoning=members.text("thinking") or None,
        extra=members.rest(),
    )
    return [message]


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:
    """Read a response's JSON: an answer with its `message`, or an error, which is kept in `extra`."""
    members = Members(body)
    message, logprobs = members.nested("message"), members.array("logprobs")
    message.text("role")
    extra: dict[str, Payload] = {}
    if logprobs:
        extra["logprobs"] = logprobs
    choice = Choice(
        index=0,
        content=message.text("content"),
        reasoning=message.text("thinking") or None,
        tool_calls=number_calls(_tool_calls(message), made_up_ids),
        finish_reason=members.nonempty_text("done_reason"),
        extra=extra,
    )
    # A prompt that was cached completely has no count.
    usage = Usage(input_tokens=members.integer("prompt_eval_count"), output_tokens=members.integer("eval_count"))
    return LLMResponse(
        content=choice.content,
        reasoning=choice.reasoning,
        tool_calls=choice.tool_calls,
        finish_reason=choice.finish_reason,
        usage=usage,
        model=members.text("model"),
        choices=(choice,) if "message" in as_dict(body) else (),
        extra=members.rest(),
    )


def join_stream(text: str) -> JoinedStream:
    """Join the lines of a stream into the body that the same answer has without streaming."""
    joined: dict[str, Payload] = {}
    message: dict[str, Payload] = {}
    number = 0
    for number, chunk in enumerate(map(as_dict, _chunks(text)), start=1):  # noqa: B007 read after the loop
        merge(message, as_dict(chunk.get("message")))
        beside = {name: value for name, value in chunk.items() if name != "message" or not isinstance(value, dict)}
        merge(joined, beside, _PIECEWISE.__contains__)
    if message:
        joined["message"] = message
    body = as_dict(finish_texts(joined))
    return JoinedStream(body, ended=body.get("done") is True, events=number, error=body.get("error"))


def _chunks(text: str) -> Iterator[Payload]:
    """Return the JSON of the whole text if the text is one JSON value, such as an error over several lines.

    Otherwise return the JSON of each line.
    """
    whole = json_value(text)
    if whole is not None:
        return iter([whole])
    return map(json_value, json_lines(text))


def _tool_calls(members: Members) -> tuple[ToolCall, ...]:
    return tuple(_tool_call(call) for call in members.array("tool_calls"))


def _tool_call(call: Payload) -> ToolCall:
    """Read a call. Drop `index`, which only repeats the call's position, and `type`, which is always "function"."""
    members = Members(call)
    function = members.nested("function")
    function.integer("index")
    members.text("type")
    call_id, name = members.text("id") or "", function.text("name") or ""
    return ToolCall(call_id, name, arguments_of(function.take("arguments")), extra=members.rest())


def not_found(message: str) -> Payload:
    """Return the body of a "not found" error with this message, as Ollama's dialects write it."""
    return {"error": message}


DIALECT = Dialect(
    name="ollama-chat",
    addresses={r"/api/chat/?$": "ollama"},
    sdks=("ollama",),
    headers={},
    operation="chat",
    read_request=read_request,
    read_response=read_response,
    join_stream=join_stream,
    not_found=not_found,
    history=History("messages", read_message),
    numbers_calls=True,
    instructions_apart=False,
    with_system=with_system_message,
    counting=WHOLE,
    usage_on_request=False,
    background=None,
    websockets=None,
)
