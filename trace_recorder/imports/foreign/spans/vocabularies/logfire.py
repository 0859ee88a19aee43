"""Logfire's own attributes: `request_data`, `response_data`, and the second span of a streamed call.

Source: https://github.com/pydantic/logfire (`integrations/llm_providers`). A streamed call is two spans: one that ends
when the request is answered, and a log record with what the stream said. Newer releases have the GenAI attributes too.
"""

from __future__ import annotations

from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.dialects.openai_chat import read_usage
from trace_recorder.imports.foreign.spans.payloads import read_input, read_output
from trace_recorder.imports.foreign.spans.reading import Reading, if_known
from trace_recorder.imports.foreign.spans.span import Span
from trace_recorder.values.messages import LLMResponse, Payload

_DESCRIBED = ("logfire.json_schema", "logfire.msg", "logfire.span_type", "logfire.level_num", "logfire.tags", "async")


def read(span: Span) -> Reading | None:
    """Read a call that Logfire's integrations recorded."""
    if not isinstance(span.attributes.get("request_data"), str | dict):
        return None
    request = as_dict(span.take_json("request_data"))
    answered = as_dict(span.take_json("response_data"))
    raw = as_dict(span.take_json("gen_ai.usage.raw") or answered.get("usage"))
    is_log = span.attributes.get("logfire.span_type") == "log"
    span.mark_read(*_DESCRIBED)
    if is_log:
        span.mark_read("duration")
    reading = read_input(request) if len(request) > 1 else Reading()
    reading.kind = "call"
    reading.model = as_text(request.get("model"))
    reading.response = _response(answered)
    reading.usage = if_known(read_usage(raw))
    reading.continues = is_log
    reading.stream = True if is_log else reading.stream
    return reading


def _response(answered: dict[str, Payload]) -> LLMResponse | None:
    joined = as_text(answered.get("combined_chunk_content"))
    if joined is not None:
        return LLMResponse(content=joined)
    return read_output(answered.get("message", answered.get("text")))
