"""The attributes of frameworks: OpenLLMetry, Logfire, and Vercel's AI SDK.

- OpenLLMetry: the older `gen_ai.prompt.N`, and `traceloop.*` for workflows, agents and tools. Newer releases follow the
  GenAI conventions. `genai.py` reads the newer attributes, and also the model and the token counts of an older call.
  Source: https://github.com/traceloop/openllmetry (opentelemetry-semantic-conventions-ai).
- Logfire: `request_data`, `response_data`. A streamed call is two spans. The first span ends when the request is
  answered. The second is a log record with the text of the stream. Newer releases also have the GenAI attributes.
  Source: https://github.com/pydantic/logfire (`integrations/llm_providers`).
- Vercel: spans of `ai.generateText` and `ai.streamText`, of the calls in them, and of tools. Source:
  https://ai-sdk.dev/docs/ai-sdk-core/telemetry.
"""

from __future__ import annotations

from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_text
from trace_recorder.dialects.openai_chat import read_usage
from trace_recorder.formats.foreign_runs.run import Members
from trace_recorder.formats.spans.reading.messages import read_messages
from trace_recorder.formats.spans.reading.payloads import read_input, read_output, response_of_messages
from trace_recorder.formats.spans.reading.span import ForeignSpan, Kind, SpanReading, if_known, merged, parsed
from trace_recorder.formats.spans.reading.vocabularies.genai import read_call
from trace_recorder.formats.spans.reading.vocabularies.openinference import take_nested
from trace_recorder.values.messages import LLMResponse, Payload, Usage
from trace_recorder.values.structs import replace

_KINDS: dict[str, Kind] = {"tool": "tool", "agent": "agent"}
_ENTITY = "traceloop.entity."


def read_openllmetry(span: ForeignSpan) -> SpanReading | None:
    """Read a span of OpenLLMetry."""
    kind = as_text(span.attributes.get("traceloop.span.kind"))
    if kind is not None:
        return _entity(span, kind)
    prompts, answers = take_nested(span, "gen_ai.prompt"), take_nested(span, "gen_ai.completion")
    if not prompts and not answers:
        return None
    span.take("llm.request.type")
    tools = as_list(take_nested(span, "llm.request.functions"))
    reading = SpanReading(
        kind="call",
        messages=read_messages([_message(prompt) for prompt in as_list(prompts)]),
        tools=[{name: parsed(value) for name, value in tool.items()} for tool in map(as_dict, tools)] or None,
    )
    for answer in map(as_dict, as_list(answers)[:1]):
        reading.finish_reason = as_text(answer.get("finish_reason"))
        completion = read_messages([_message({"role": "assistant", **answer})])
        if completion:
            reading.response = response_of_messages(completion)
    return merged([reading, read_call(span)])


def _entity(span: ForeignSpan, kind: str) -> SpanReading:
    """Read the span of a workflow, a task, an agent or a tool.

    If the input has a member `inputs` or `kwargs`, as for a Python function, return that member as the input.
    """
    if kind in _KINDS:
        span.take("traceloop.span.kind")
    value = span.take_json(_ENTITY + "input")
    inputs = as_dict(value).get("inputs", as_dict(value).get("kwargs")) or value
    output = span.take_json(_ENTITY + "output")
    return SpanReading(kind=_KINDS.get(kind), name=span.take_text(_ENTITY + "name"), input=inputs, output=output)


def _message(element: Payload) -> Members:
    """Return a prompt as a message in OpenAI's form.

    If the content is the JSON text of a list, the text is parsed.
    """
    members = as_dict(element)
    message: Members = {"role": members.get("role") or "user", "content": parsed(members.get("content"))}
    if not isinstance(message["content"], str | list | None):
        message["content"] = members.get("content")
    if calls := as_list(members.get("tool_calls")):
        message["tool_calls"] = calls
    if isinstance(members.get("tool_call_id"), str):
        message["tool_call_id"] = members["tool_call_id"]
    if isinstance(members.get("reasoning"), str):
        message["reasoning_content"] = members["reasoning"]
    return message


_DESCRIBED = ("logfire.json_schema", "logfire.msg", "logfire.span_type", "logfire.level_num", "logfire.tags", "async")


def read_logfire(span: ForeignSpan) -> SpanReading | None:
    """Read a call that Logfire's integrations recorded."""
    if not isinstance(span.attributes.get("request_data"), str | dict):
        return None
    request = as_dict(span.take_json("request_data"))
    response = as_dict(span.take_json("response_data"))
    raw_usage = as_dict(span.take_json("gen_ai.usage.raw") or response.get("usage"))
    span.mark_read(*_DESCRIBED)
    reading = SpanReading()
    if len(request) > 1:
        reading = read_input(request)
    reading.kind = "call"
    reading.model = as_text(request.get("model"))
    text = as_text(response.get("combined_chunk_content"))
    if text is not None:
        reading.response = LLMResponse(content=text)
    else:
        reading.response = read_output(response.get("message", response.get("text")))
    reading.usage = if_known(read_usage(raw_usage))
    if span.attributes.get("logfire.span_type") == "log":
        span.mark_read("duration")
        reading.continues = reading.stream = True
    return reading


_CALLS = ("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject")


def read_vercel(span: ForeignSpan) -> SpanReading | None:
    """Read a span of the AI SDK.

    The outer span of a call is read as a call, too, because the inner span may be missing.
    """
    operation = as_text(span.attributes.get("ai.operationId")) or ""
    if operation == "ai.toolCall":
        span.take("ai.operationId")
        return SpanReading(
            kind="tool",
            name=span.take_text("ai.toolCall.name"),
            call_id=span.take_text("ai.toolCall.id"),
            input=span.take_json("ai.toolCall.args"),
            output=span.take_json("ai.toolCall.result"),
        )
    if operation.startswith(_CALLS):
        return _call(span, operation)
    return None


def _call(span: ForeignSpan, operation: str) -> SpanReading:
    span.take("ai.operationId")
    reading = read_input(span.take("ai.prompt"))
    messages = read_messages(span.take("ai.prompt.messages"))
    counts: dict[str, Payload] = {name: as_int(span.take_number(*names)) for name, names in _COUNTS.items()}
    call = SpanReading(
        kind="call",
        messages=messages or reading.messages,
        response=_response(span),
        usage=if_known(Usage(**counts)),
        finish_reason=span.take_text("ai.response.finishReason", "ai.finishReason"),
        response_id=span.take_text("ai.response.id"),
        response_model=span.take_text("ai.response.model"),
        model=span.take_text("ai.model.id"),
        provider=span.take_text("ai.model.provider"),
        tools=[parsed(tool) for tool in as_list(span.take_json("ai.prompt.tools"))] or None,
    )
    milliseconds = span.take_number("ai.response.msToFirstChunk", "ai.stream.msToFirstChunk")
    if milliseconds is not None:
        call.first_token_seconds = milliseconds / 1000
    if "stream" in operation:
        call.stream = True
    return call


def _response(span: ForeignSpan) -> LLMResponse | None:
    text = span.take_text("ai.response.text", "ai.result.text", "ai.response.object")
    tool_calls = read_output(span.take("ai.response.toolCalls", "ai.result.toolCalls"))
    reasoning = span.take_text("ai.response.reasoning")
    if text is None and tool_calls is None and reasoning is None:
        return None
    return replace(tool_calls or LLMResponse(), content=text, reasoning=reasoning)


_COUNTS = {
    "input_tokens": ("ai.usage.promptTokens", "ai.usage.inputTokens"),
    "output_tokens": ("ai.usage.completionTokens", "ai.usage.outputTokens"),
    "cache_read_input_tokens": ("ai.usage.cachedInputTokens",),
    "reasoning_tokens": ("ai.usage.reasoningTokens",),
}
