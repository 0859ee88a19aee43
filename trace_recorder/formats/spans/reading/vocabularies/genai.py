"""The GenAI semantic conventions of OpenTelemetry, as attributes and as events, and pydantic-ai's older names.

Attributes: https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/ and gen-ai-agent-spans; pydantic_ai's
`InstrumentationSettings`, versions 2 to 6. An agent's span repeats the messages of the agent's calls, and adds up their
token counts (`gen_ai.aggregated_usage`, `gen_ai.usage`, `pydantic_ai.all_messages`). These attributes are not read,
because the calls state the same facts.

Events belong to a span, or are log records that name a span. Up to version 1.36 of the conventions, the events are
named `gen_ai.user.message`, `gen_ai.choice` and so on. In the first versions, an event is named
`gen_ai.content.prompt`. Newer versions have the event `gen_ai.client.inference.operation.details`, with the same
attributes as spans. pydantic-ai up to version 1 has the events as JSON in the attribute `events`.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_text
from trace_recorder.formats.foreign_runs.run import Members
from trace_recorder.formats.foreign_runs.stated_values import counts_at
from trace_recorder.formats.spans.attribute_names import genai
from trace_recorder.formats.spans.reading.messages import (
    blocks_of,
    has_parts,
    joined_outputs,
    parts_in,
    read_messages,
    read_span_message,
)
from trace_recorder.formats.spans.reading.payloads import read_exchange, read_output, response_of_messages
from trace_recorder.formats.spans.reading.span import (
    ForeignSpan,
    ForeignSpanEvent,
    Kind,
    SpanReading,
    if_known,
    merged,
    parsed,
)
from trace_recorder.values.messages import LLMResponse, Message, Payload, Usage
from trace_recorder.values.structs import replace

_KINDS: dict[str, Kind] = {
    "chat": "call",
    "text_completion": "call",
    "completion": "call",
    "generate_content": "call",
    "execute_tool": "tool",
    "invoke_agent": "agent",
}
_MERGED = "(merged tools)"
"""The tool's name in a span in which Google's ADK joins the results of parallel calls. No tool ran in this span."""
_REQUESTS = ("gen_ai.prompt", "gcp.vertex.agent.llm_request")
_RESPONSES = ("gen_ai.completion", "gcp.vertex.agent.llm_response")
_KINDS_ELSEWHERE = ("langsmith.span.kind", "traceloop.span.kind", "openinference.span.kind")
"""Attributes with the kind of a span in other vocabularies."""
_REPEATED = (
    *("gen_ai.aggregated_usage.", genai.USAGE, "pydantic_ai.all_messages", "gen_ai.response."),
    "logfire.json_schema",
)


def read_genai(span: ForeignSpan) -> SpanReading | None:
    """Read a span with attributes of `gen_ai`."""
    if not any(name.startswith("gen_ai.") for name in span.attributes):
        return None
    kind = _kind(span)
    if kind == "tool":
        return _tool(span)
    if kind == "agent":
        return _agent(span)
    if kind == "call":
        return _with_whole_exchange(span, read_call(span))
    return None


def _with_whole_exchange(span: ForeignSpan, reading: SpanReading) -> SpanReading:
    """Add a request and a response that are each the JSON of one attribute, as LangSmith and Google's ADK write them.

    ADK's newer releases repeat in them what the messages of the conventions say.
    """
    if reading.messages is None and reading.response is None:
        return merged([reading, _whole_exchange(span)])
    return reading


def _whole_exchange(span: ForeignSpan) -> SpanReading:
    request, answer = span.take_json(*_REQUESTS), span.take_json(*_RESPONSES)
    if request in (None, {}) and answer in (None, {}):
        return SpanReading(kind="call")
    reading = read_exchange(request, answer)
    if reading.response is not None:
        reading.usage = if_known(reading.response.usage)
    return reading


def _kind(span: ForeignSpan) -> Kind | None:
    operation = as_text(span.attributes.get(genai.OPERATION))
    if operation is not None:
        return _kind_of_operation(span, operation)
    if genai.TOOL_NAME in span.attributes:
        return "tool"
    if "agent_name" in span.attributes:
        return "agent"
    if any(name in span.attributes for name in _KINDS_ELSEWHERE):
        return None
    names = (genai.INPUT_MESSAGES, genai.OUTPUT_MESSAGES, genai.RESPONSE_MODEL, *_REQUESTS, *_RESPONSES)
    if any(name in span.attributes for name in names):
        return "call"
    return None


def _kind_of_operation(span: ForeignSpan, operation: str) -> Kind | None:
    if span.attributes.get(genai.TOOL_NAME) == _MERGED or operation not in _KINDS:
        return None
    span.take(genai.OPERATION)
    return _KINDS[operation]


def _tool(span: ForeignSpan) -> SpanReading:
    return SpanReading(
        kind="tool",
        name=span.take_text(genai.TOOL_NAME),
        call_id=span.take_text(genai.TOOL_CALL_ID),
        input=span.take_json(genai.TOOL_ARGUMENTS, "tool_arguments"),
        output=span.take_json(genai.TOOL_RESULT, "tool_response"),
        error_type=span.take_text(genai.ERROR_TYPE),
    )


def _agent(span: ForeignSpan) -> SpanReading:
    result = span.take_json("final_result")
    answers = read_messages(span.take(genai.OUTPUT_MESSAGES))
    if result is None and answers:
        result = response_of_messages(answers[-1:]).content
    span.mark_read(*_REPEATED)
    return SpanReading(
        kind="agent",
        name=span.take_text(genai.AGENT_NAME, "agent_name"),
        output=result,
        error_type=span.take_text(genai.ERROR_TYPE),
    )


def read_call(span: ForeignSpan) -> SpanReading:
    """Read a span that is a call."""
    outputs = _outputs(span)
    stream = span.take(genai.REQUEST_STREAM, "gen_ai.is_streaming", "llm.is_streaming")
    if not isinstance(stream, bool):
        stream = None
    return SpanReading(
        kind="call",
        messages=_messages(span),
        response=_response(outputs),
        usage=_usage(span),
        finish_reason=_finish_reason(span, outputs),
        response_id=span.take_text(genai.RESPONSE_ID),
        response_model=span.take_text(genai.RESPONSE_MODEL),
        model=span.take_text(genai.REQUEST_MODEL),
        provider=span.take_text(genai.PROVIDER, "gen_ai.system"),
        tools=_tools(span),
        stream=stream,
        first_token_seconds=span.take_number(genai.FIRST_CHUNK_SECONDS),
        parameters={name.removeprefix(genai.REQUEST): value for name, value in _take_unread(span, genai.REQUEST)},
        error_type=span.take_text(genai.ERROR_TYPE),
    )


def _tools(span: ForeignSpan) -> list[Payload] | None:
    """Return the tools that the model was offered.

    Older releases of pydantic-ai write the tools into the request's parameters.
    """
    tools = as_list(span.take_json(genai.TOOL_DEFINITIONS))
    parameters = as_dict(span.take_json("model_request_parameters"))
    older = [tool for name in ("function_tools", "output_tools") for tool in as_list(parameters.get(name))]
    return tools or older or None


def _messages(span: ForeignSpan) -> list[Message] | None:
    """Return the messages that the model saw, beginning with the instructions, or None if the span has no messages."""
    messages = read_messages(span.take(genai.INPUT_MESSAGES))
    instructions = parts_in(span.take(genai.SYSTEM_INSTRUCTIONS))
    if not instructions:
        return messages
    return [*read_span_message({"role": "system", "parts": instructions}), *(messages or [])]


def _finish_reason(span: ForeignSpan, outputs: list[Payload]) -> str | None:
    """Return the finish reason. If the span has several reasons, return the reason in the answer itself."""
    reasons = as_list(span.take_json(genai.FINISH_REASONS))
    if len(reasons) != 1 and outputs:
        answer_reason = as_text(as_dict(outputs[0]).get("finish_reason"))
        if answer_reason:
            return answer_reason
    return as_text(next(iter(reasons), None))


def _outputs(span: ForeignSpan) -> list[Payload]:
    """Return the choices of the model.

    If the request did not ask for several choices, several outputs are the items of one answer (OpenLLMetry), or the
    chunks of a stream (Google's ADK). Such outputs are joined. Only the last chunk has a finish reason.
    """
    outputs = as_list(span.take_json(genai.OUTPUT_MESSAGES))
    count = as_int(span.attributes.get(genai.CHOICE_COUNT))
    if len(outputs) < 2 or (count or 1) > 1 or not all(map(has_parts, outputs)):
        return outputs
    return [joined_outputs([as_dict(output) for output in outputs])]


def _response(outputs: list[Payload]) -> LLMResponse | None:
    """Read the first output as the response.

    The response's `extra` has the other outputs, which are further choices.
    """
    if not outputs:
        return None
    first, *others = outputs
    messages = read_messages(first)
    if not messages:
        return None
    response = response_of_messages([replace(message, role="assistant") for message in messages])
    if has_parts(first):
        response = replace(response, interleaved=blocks_of(map(as_dict, first["parts"]), response.tool_calls))
    if others:
        response = replace(response, extra=response.extra | {"other_outputs": others})
    return response


_COUNTS = {
    "input_tokens": f"{genai.INPUT_TOKENS} prompt_tokens",
    "output_tokens": f"{genai.OUTPUT_TOKENS} completion_tokens",
    "cache_read_input_tokens": f"{genai.CACHE_READ_TOKENS} cache_read_input_tokens details.cache_read_tokens",
    "cache_creation_input_tokens": f"{genai.CACHE_WRITE_TOKENS} {genai.CACHE_CREATION_TOKENS} "
    "cache_creation_input_tokens details.cache_write_tokens",
    "reasoning_tokens": f"{genai.REASONING_TOKENS} reasoning_tokens details.reasoning_tokens details.thoughts_tokens",
}


def _usage(span: ForeignSpan) -> Usage | None:
    stated = {name: as_int(value) for name, value in span.attributes.items() if name.startswith(genai.USAGE)}
    span.read.update(name for name, count in stated.items() if count is not None)
    counts = {name.removeprefix(genai.USAGE): count for name, count in stated.items() if count is not None}
    cost = span.take_number("operation.cost", "gen_ai.usage.cost")
    known = {"total_tokens", *" ".join(_COUNTS.values()).split(" ")}
    extra = {name: count for name, count in counts.items() if name not in known}
    return if_known(Usage(**counts_at({**counts}, _COUNTS), cost=cost, extra=extra))


def _take_unread(span: ForeignSpan, prefix: str) -> Iterator[tuple[str, Payload]]:
    """Yield the attributes with this prefix that were not read yet, and mark them as read."""
    for name, value in span.attributes.items():
        if name.startswith(prefix) and name not in span.read:
            span.read.add(name)
            yield name, value


_ROLES_OF_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_CHOICE = "gen_ai.choice"
_NOT_MESSAGE = ("gen_ai.", "event.name", "logfire.")


def read_events(span: ForeignSpan) -> SpanReading | None:
    """Read the messages in a span's events."""
    events = [*_events_of(span)]
    older = _older(span)
    messages = read_messages([_event_message(name, body) for name, body in events if name in _ROLES_OF_EVENTS])
    choices = [body for name, body in events if name == _CHOICE]
    if messages is None and not choices:
        return older
    if not choices:
        return SpanReading(kind="call", messages=messages)
    reason = as_text(choices[0].get("finish_reason"))
    reading = SpanReading(kind="call", messages=messages, finish_reason=reason)
    body = parsed(choices[0].get("message"))
    if not isinstance(body, dict):
        body = choices[0]
    answer = read_messages(_event_message("gen_ai.assistant.message", {**body, "role": "assistant"}))
    if answer:
        reading.response = response_of_messages(answer)
    return reading


def _events_of(span: ForeignSpan) -> Iterator[tuple[str, Members]]:
    """Yield the names and bodies of the events that are messages, in their order."""
    for position, event in enumerate(span.events):
        if event.name in _ROLES_OF_EVENTS or event.name == _CHOICE:
            yield event.name, _body(span.take_event(position))
    listed = map(as_dict, as_list(parsed(span.attributes.get("events"))))
    named = [event for event in listed if isinstance(event.get("event.name"), str)]
    if named:
        span.take("events")
        yield from ((event["event.name"], event) for event in named)


def _body(event: ForeignSpanEvent) -> Members:
    """Return the content of an event: its body, or the JSON text `gen_ai.event.content`, or its attributes."""
    body = as_dict(parsed(event.body))
    content = as_dict(parsed(event.attributes.get("gen_ai.event.content")))
    attributes = {name: parsed(value) for name, value in event.attributes.items() if not name.startswith(_NOT_MESSAGE)}
    return body or content or attributes


def _event_message(name: str, body: Members) -> Members:
    """Return the body of an event as a message in OpenAI's form.

    If the body has no role, add the role that the event's name implies. In a tool's result, `id` becomes
    `tool_call_id`.
    """
    message = {member: value for member, value in body.items() if not member.startswith(_NOT_MESSAGE)}
    message["role"] = as_text(message.get("role")) or _ROLES_OF_EVENTS[name]
    if message["role"] == "tool" and "id" in message:
        message["tool_call_id"] = message.pop("id")
    message.setdefault("content", None)
    for member in ("index", "finish_reason"):
        message.pop(member, None)
    return message


def _older(span: ForeignSpan) -> SpanReading | None:
    """Read the events `gen_ai.content.prompt` and `gen_ai.content.completion` of the first versions."""
    reading = SpanReading()
    for position, event in enumerate(span.events):
        prompt, completion = event.attributes.get("gen_ai.prompt"), event.attributes.get("gen_ai.completion")
        if event.name == "gen_ai.content.prompt" and prompt is not None:
            reading.messages = read_messages(prompt)
            span.take_event(position)
        elif event.name == "gen_ai.content.completion" and completion is not None:
            reading.response = read_output(completion)
            span.take_event(position)
    if not (reading.messages or reading.response):
        return None
    return reading
