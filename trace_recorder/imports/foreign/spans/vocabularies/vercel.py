"""Vercel's AI SDK: `ai.generateText` and `ai.streamText`, the calls in them, and tools.

Source: https://ai-sdk.dev/docs/ai-sdk-core/telemetry.
"""

from __future__ import annotations

from trace_recorder.dialects.json_access import as_int, as_list, as_text
from trace_recorder.imports.foreign.spans.messages import read_messages
from trace_recorder.imports.foreign.spans.payloads import read_input, read_output
from trace_recorder.imports.foreign.spans.reading import Reading, if_known
from trace_recorder.imports.foreign.spans.span import Span, parsed
from trace_recorder.values.messages import LLMResponse, Payload, Usage
from trace_recorder.values.structs import replace

_CALLS = ("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject")


def read(span: Span) -> Reading | None:
    """Read a span of the AI SDK. The outer span of a call is one too, if it has no inner one."""
    operation = as_text(span.attributes.get("ai.operationId")) or ""
    if operation == "ai.toolCall":
        span.take("ai.operationId")
        return Reading(
            kind="tool",
            name=span.take_text("ai.toolCall.name"),
            call_id=span.take_text("ai.toolCall.id"),
            input=span.take_json("ai.toolCall.args"),
            output=span.take_json("ai.toolCall.result"),
        )
    return _call(span, operation) if operation.startswith(_CALLS) else None


def _call(span: Span, operation: str) -> Reading:
    span.take("ai.operationId")
    reading = read_input(span.take("ai.prompt"))
    messages = read_messages(span.take("ai.prompt.messages"))
    spent = span.take_number("ai.response.msToFirstChunk", "ai.stream.msToFirstChunk")
    return Reading(
        kind="call",
        messages=messages or reading.messages,
        response=_response(span),
        usage=_usage(span),
        finish_reason=span.take_text("ai.response.finishReason", "ai.finishReason"),
        response_id=span.take_text("ai.response.id"),
        response_model=span.take_text("ai.response.model"),
        model=span.take_text("ai.model.id"),
        provider=span.take_text("ai.model.provider"),
        tools=[parsed(tool) for tool in as_list(span.take_json("ai.prompt.tools"))] or None,
        stream=True if "stream" in operation else None,
        first_token_seconds=None if spent is None else spent / 1000,
    )


def _response(span: Span) -> LLMResponse | None:
    text = span.take_text("ai.response.text", "ai.result.text", "ai.response.object")
    asked = read_output(span.take("ai.response.toolCalls", "ai.result.toolCalls"))
    reasoning = span.take_text("ai.response.reasoning")
    if text is None and asked is None and reasoning is None:
        return None
    return replace(asked or LLMResponse(), content=text, reasoning=reasoning)


_COUNTS = {
    "input_tokens": ("ai.usage.promptTokens", "ai.usage.inputTokens"),
    "output_tokens": ("ai.usage.completionTokens", "ai.usage.outputTokens"),
    "cache_read_input_tokens": ("ai.usage.cachedInputTokens",),
    "reasoning_tokens": ("ai.usage.reasoningTokens",),
}


def _usage(span: Span) -> Usage | None:
    counts: dict[str, Payload] = {name: as_int(span.take_number(*names)) for name, names in _COUNTS.items()}
    return if_known(Usage(**counts))
