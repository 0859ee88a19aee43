"""Langfuse's own attributes, as its SDK sets them; an exported trace is brought to the same form.

Source: https://langfuse.com/integrations/native/opentelemetry and `LangfuseOtelSpanAttributes` of its SDK. Its `input`
is without cached tokens, its `output` without those for reasoning, if these are counted as `input_…` and `output_…`.
The older `prompt_details.…` are parts of `input`, and stay in the usage's `extra`.
"""

from __future__ import annotations

from trace_recorder.dialects.json_access import as_dict, as_number, as_text
from trace_recorder.dialects.openai_chat import read_usage
from trace_recorder.imports.foreign.clocks import stated_time
from trace_recorder.imports.foreign.spans.payloads import read_exchange
from trace_recorder.imports.foreign.spans.reading import Kind, Reading, if_known
from trace_recorder.imports.foreign.spans.span import Span
from trace_recorder.imports.foreign.token_places import counts_at
from trace_recorder.values.messages import Payload, Usage

API = "langfuse"
_PREFIX = "langfuse.observation."
_LANGSMITH = "langsmith.span.kind"
"""LangSmith's integrations put the arguments of a tool into an object."""
_KINDS: dict[str, Kind] = {"generation": "call", "tool": "tool", "agent": "agent"}
_COUNTS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_input_tokens": "input_cache_read input_cached_tokens cache_read_input_tokens input_cache_read_tokens",
    "cache_creation_input_tokens": "input_cache_creation cache_creation_input_tokens",
    "reasoning_tokens": "output_reasoning output_reasoning_tokens",
}


def read(span: Span) -> Reading | None:
    """Read an observation of Langfuse."""
    if not any(name.startswith(_PREFIX) for name in span.attributes):
        return None
    kind = _KINDS.get((as_text(span.attributes.get(_PREFIX + "type")) or "").lower())
    if kind is not None:
        span.take(_PREFIX + "type")
    request, answer = span.take_json(_PREFIX + "input"), span.take_json(_PREFIX + "output")
    level, why = span.take_text(_PREFIX + "level"), span.take_text(_PREFIX + "status_message")
    failed = True if level == "ERROR" else None
    if kind != "call":
        is_wrapped = kind == "tool" and _LANGSMITH in span.attributes and as_dict(request).keys() == {"input"}
        return Reading(
            kind=kind,
            input=as_dict(request)["input"] if is_wrapped else request,
            output=answer,
            failed=failed,
            error=why,
        )
    reading = read_exchange(request, answer)
    reading.failed, reading.error = failed, why if failed else None
    reading.model = span.take_text(_PREFIX + "model.name") or reading.model
    parameters = as_dict(span.take_json(_PREFIX + "model.parameters"))
    reading.parameters |= {name: value for name, value in parameters.items() if value is not None}
    reading.usage = _usage(span)
    reading.api = API
    began = stated_time(span.take(_PREFIX + "completion_start_time"))
    reading.first_token = began or None
    return reading


def _usage(span: Span) -> Usage | None:
    details = as_dict(span.take_json(_PREFIX + "usage_details"))
    cost = _total(as_dict(span.take_json(_PREFIX + "cost_details")))
    if not details and cost is None:
        return None
    if "prompt_tokens" in details or "completion_tokens" in details:
        return read_usage({**details, **({} if cost is None else {"cost": cost})})
    read = {"total", *" ".join(_COUNTS.values()).split(" ")}
    extra = {name: one for name, one in details.items() if name not in read and one}
    return if_known(Usage(**counts_at(details, _COUNTS), cost=cost, extra=extra))


def _total(costs: dict[str, Payload]) -> float | None:
    stated = as_number(costs.get("total"))
    parts = [cost for cost in map(as_number, costs.values()) if cost is not None]
    return stated if stated is not None else sum(parts) if parts else None
