"""MLflow's own attributes, whose values are JSON texts, strings among them.

Source: https://mlflow.org/docs/latest/genai/concepts/span/ and `mlflow.tracing.constant`.
"""

from __future__ import annotations

import json

from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_number, as_text
from trace_recorder.imports.foreign.spans.payloads import read_exchange
from trace_recorder.imports.foreign.spans.reading import Kind, Reading, if_known
from trace_recorder.imports.foreign.spans.span import Span, parsed
from trace_recorder.values.messages import Payload, Usage

_TYPE = "mlflow.spanType"
_KINDS: dict[str, Kind] = {"CHAT_MODEL": "call", "LLM": "call", "TOOL": "tool", "AGENT": "agent"}


def read(span: Span) -> Reading | None:
    """Read a span of MLflow."""
    if not any(name.startswith("mlflow.span") for name in span.attributes):
        return None
    kind = _KINDS.get(as_text(_value(span.attributes.get(_TYPE))) or "")
    if kind is not None:
        span.take(_TYPE)
    span.mark_read("mlflow.traceRequestId", "mlflow.spanLogLevel")
    request, answer = _value(span.take("mlflow.spanInputs")), _value(span.take("mlflow.spanOutputs"))
    if kind != "call":
        name = as_text(_value(span.take("mlflow.spanFunctionName")))
        return Reading(kind=kind, name=name if kind == "tool" else None, input=request, output=answer)
    reading = read_exchange(request, answer)
    reading.tools = as_list(_value(span.take("mlflow.chat.tools"))) or reading.tools
    reading.model = reading.model or as_text(_value(span.take("mlflow.llm.model")))
    reading.provider = as_text(_value(span.take("mlflow.llm.provider")))
    span.take("mlflow.message.format")
    reading.usage = _usage(span, Usage() if reading.response is None else reading.response.usage)
    return reading


def _value(value: Payload) -> Payload:
    """Return the value of a JSON text, also of one that is no object or array."""
    read_value = parsed(value)
    if not isinstance(read_value, str):
        return read_value
    try:
        return read_value if read_value[:1] in {"[", "{"} else json.loads(read_value)
    except (ValueError, RecursionError):
        return read_value


def _usage(span: Span, answered: Usage) -> Usage | None:
    """Return the counts that MLflow states; what it leaves open is that of the response."""
    counted = as_dict(_value(span.take("mlflow.chat.tokenUsage")))
    cost = as_number(as_dict(_value(span.take("mlflow.llm.cost"))).get("total_cost"))
    names = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    stated: dict[str, Payload] = {name: as_int(counted.get(name)) for name in names}
    known = {name: getattr(answered, name) if count is None else count for name, count in stated.items()}
    extra = {name: value for name, value in answered.extra.items() if name != "total_tokens"}
    return if_known(Usage(**known, reasoning_tokens=answered.reasoning_tokens, cost=cost or answered.cost, extra=extra))
