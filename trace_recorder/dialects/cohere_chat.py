"""Cohere's chat dialect, /v2/chat (https://docs.cohere.com/reference/chat).

Messages, tools and tool calls have OpenAI's form, so `openai_chat.py` reads them. `tool_plan`, the plan that a model
states before its tool calls, is read as reasoning. An answer has one `message`. Citations are kept in `extra`. `usage`
has counts of all tokens, and smaller counts of the billed tokens. The counts of all tokens are read.

In a stream, the `type` of an event tells whether something begins, continues or ends. `index` is the position of a
content block or of a tool call. `message-end` comes last and has the finish reason and the usage. Events of an unknown
type add to the members of the message that they name.
"""

from __future__ import annotations

from trace_recorder.dialects import openai_chat
from trace_recorder.dialects.call_ids import number_messages
from trace_recorder.dialects.deltas import finish_texts, merge
from trace_recorder.dialects.dialect import Dialect, History
from trace_recorder.dialects.json_access import Members, as_dict, as_int, as_list, as_text, json_value
from trace_recorder.dialects.stream_framing import events, unstreamed
from trace_recorder.values.messages import (
    JoinedStream,
    LLMResponse,
    Message,
    Payload,
    RequestReading,
    Usage,
    without_none,
)
from trace_recorder.values.structs import replace
from trace_recorder.values.token_counts import WHOLE

_LAST = "message-end"


def read_request(body: Payload) -> RequestReading:
    """Read a request's JSON."""
    members = Members(body)
    messages = [message for element in members.array("messages") for message in read_message(element)]
    tools = [openai_chat.read_tool(tool) for tool in members.array("tools")]
    return RequestReading(number_messages(messages), tools, members.all(), as_text(as_dict(body).get("model")))


def read_message(element: Payload) -> list[Message]:
    """Read one element of `messages`. Missing ids stay empty."""
    return openai_chat.read_message(_with_reasoning(element))


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:
    """Read a response's JSON: an answer, or an error, which is kept in `extra`."""
    members = Members(body)
    message, reason, usage = members.take("message"), members.take("finish_reason"), members.object("usage")
    if isinstance(message, dict):
        choice = {"index": 0, "message": _with_reasoning(message), "finish_reason": reason}
        answer = openai_chat.read_response({"choices": [choice], **members.rest()}, made_up_ids)
    else:  # the message of an error is a text, not an object
        answer = LLMResponse(extra=without_none(message=message) | members.rest())
    return replace(answer, usage=_usage(usage))


def join_stream(text: str) -> JoinedStream:
    """Join the events of a stream into the body that the same answer has without streaming."""
    parts = [as_dict(json_value(data)) for _, data in events(text)]
    if not parts:
        return unstreamed(text)
    answer = _Answer()
    for part in parts:
        answer.add(part)
    ended = any(part.get("type") == _LAST for part in parts)
    return JoinedStream(answer.body(), ended=ended, events=len(parts))


def _with_reasoning(message: Payload) -> Payload:
    """Return a message with its plan in the member `reasoning_content`, as in OpenAI's dialect."""
    plan = as_dict(message).get("tool_plan")
    if not isinstance(plan, str):
        return message
    others = {name: value for name, value in message.items() if name != "tool_plan"}
    if plan:
        others["reasoning_content"] = plan
    return others


def _usage(usage: dict[str, Payload]) -> Usage:
    """Read the counts of all tokens. If a count is missing, read the count of the billed tokens instead."""
    members = Members(usage)
    tokens, billed = members.nested("tokens"), Members(usage.get("billed_units"))
    sent, answered = tokens.integer("input_tokens"), tokens.integer("output_tokens")
    if sent is None:
        sent = billed.integer("input_tokens")
    if answered is None:
        answered = billed.integer("output_tokens")
    return Usage(
        sent,
        answered,
        cache_read_input_tokens=members.integer("cached_tokens"),
        extra=members.rest(),
    )


class _Answer:
    """An answer that grows by the events of a stream."""

    def __init__(self) -> None:
        self._members: dict[str, Payload] = {}
        self._plan: list[str] = []
        self._blocks: dict[int, dict[str, Payload]] = {}
        self._calls: dict[int, dict[str, Payload]] = {}
        self._citations: list[Payload] = []
        self._others: dict[str, Payload] = {}

    def add(self, event: dict[str, Payload]) -> None:
        """Add an event. Events that only end a block or a call add nothing."""
        delta, index = as_dict(event.get("delta")), as_int(event.get("index"))
        message = as_dict(delta.get("message"))
        match as_text(event.get("type")):
            case "message-start":
                if "id" in event:
                    self._members["id"] = event["id"]
            case "content-start" | "content-delta":
                merge(self._blocks.setdefault(index or 0, {}), as_dict(message.get("content")))
            case "tool-plan-delta":
                self._plan.append(as_text(message.get("tool_plan")) or "")
            case "tool-call-start":
                number = len(self._calls) if index is None else index  # older servers send no index of calls
                _add_call(self._calls.setdefault(number, {}), message.get("tool_calls"))
            case "tool-call-delta":
                number = max(self._calls, default=0) if index is None else index
                _add_call(self._calls.setdefault(number, {}), message.get("tool_calls"))
            case "citation-start":
                self._citations.append(message.get("citations"))
            case "message-end":
                self._members |= delta
            case _:
                merge(self._others, message)

    def body(self) -> dict[str, Payload]:
        """Return the answer as it would be without streaming."""
        message = {
            **self._others,
            "role": "assistant",
            "content": [*self._blocks.values()],
            "tool_plan": "".join(self._plan),
            "tool_calls": [*self._calls.values()],
            "citations": self._citations,
        }
        present = {name: finish_texts(value) for name, value in message.items() if value}
        return {**self._members, "message": present}


def _add_call(call: dict[str, Payload], delta: Payload) -> None:
    """Add a piece to a tool call: arguments are concatenated, and every other member is set."""
    members = as_dict(delta[0] if as_list(delta) else delta)
    function = as_dict(members.get("function"))
    before = as_dict(call.get("function"))
    pieces = [as_text(source.get("arguments")) for source in (before, function)]
    call |= {name: value for name, value in members.items() if name != "function"}
    call["function"] = before | function | {"arguments": "".join(filter(None, pieces))}


DIALECT = Dialect(
    name="cohere-chat",
    addresses={r"/v2/chat/?$": "cohere"},
    sdks=("cohere",),
    headers={},
    operation="chat",
    read_request=read_request,
    read_response=read_response,
    join_stream=join_stream,
    not_found=openai_chat.not_found,
    history=History("messages", read_message),
    numbers_calls=True,
    instructions_apart=False,
    with_system=openai_chat.with_system_message,
    counting=WHOLE,
    usage_on_request=False,
    background=None,
    websockets=None,
)
