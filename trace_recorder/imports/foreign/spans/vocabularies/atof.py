"""The scopes of NeMo Relay, brought to attributes by `atof.py` above.

`atof.input` and `atof.output` of a call are the provider's own request (`{"headers", "content"}`) and response; a codec
may have added `annotated_request` and `annotated_response`, which repeat the same.
"""

from __future__ import annotations

from trace_recorder.dialects.json_access import as_dict, as_number, as_text
from trace_recorder.imports.foreign.spans.payloads import read_exchange
from trace_recorder.imports.foreign.spans.reading import Kind, Reading, if_known
from trace_recorder.imports.foreign.spans.span import Span

_KINDS: dict[str, Kind] = {"llm": "call", "tool": "tool", "agent": "agent"}
_APIS = {
    "openai_chat": "openai-chat",
    "openai_responses": "openai-responses",
    "anthropic_messages": "anthropic-messages",
}
"""The dialects that codecs name."""
_REPEATED = {"annotated_request", "annotated_response", "model_name", "time_to_first_chunk", "tool_call_id"}


def read(span: Span) -> Reading | None:
    """Read a scope."""
    category = as_text(span.attributes.get("atof.category"))
    if category is None:
        return None
    kind = _KINDS.get(category)
    profile = as_dict(span.take("atof.category_profile"))
    if rest := {name: value for name, value in profile.items() if name not in _REPEATED}:
        span.more["category_profile"] = rest
    scope_input, scope_output = span.take("atof.input"), span.take("atof.output")
    if kind is not None:
        span.take("atof.category")
    error_type = span.take_text("error.type")
    if kind != "call":
        call_id = as_text(profile.get("tool_call_id"))
        return Reading(
            kind=kind, name=span.name, input=scope_input, output=scope_output, call_id=call_id, error_type=error_type
        )
    reading = read_exchange(as_dict(scope_input).get("content", scope_input), scope_output)
    if reading.messages is None:
        reading.input = scope_input
    reading.error_type = error_type
    if reading.response is not None:
        reading.usage = if_known(reading.response.usage)
    codec = as_text(as_dict(as_dict(profile.get("annotated_response")).get("api_specific")).get("api"))
    reading.api = _APIS.get(codec or "")
    reading.model = reading.model or as_text(profile.get("model_name"))
    reading.provider = span.name or None
    reading.first_token_seconds = as_number(profile.get("time_to_first_chunk"))
    return reading
