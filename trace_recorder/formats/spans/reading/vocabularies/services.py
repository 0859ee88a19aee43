"""The attributes of services: Langfuse, LangSmith, MLflow, and the scopes of NeMo Relay (ATOF).

In files that Langfuse, LangSmith and NeMo Relay export, facts are members of objects and not attributes. The modules of
these formats (`langfuse/`, `langsmith/`, `spans/atof.py`) make attributes of spans from these facts. Sources:

- https://langfuse.com/integrations/native/opentelemetry and `LangfuseOtelSpanAttributes` of Langfuse's SDK. If
  there are counts named `input_…` and `output_…`, `input` leaves out cached tokens, and `output` leaves out tokens of
  reasoning. The older `prompt_details.…` are parts of `input`, and stay in the usage's `extra`.
- https://docs.smith.langchain.com/reference/data_formats/run_data_format. LangSmith's counts are
  LangChain's `usage_metadata`, where `input_tokens` includes cached tokens.
- https://mlflow.org/docs/latest/genai/concepts/span/ and `mlflow.tracing.constant`. All values are JSON texts, even
  strings.
- ATOF: `atof.input` and `atof.output` of a call are the provider's own request (`{"headers", "content"}`) and response.
  A codec may have added `annotated_request` and `annotated_response`, which repeat the two.
"""

from __future__ import annotations

import json

from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_number, as_text
from trace_recorder.dialects.openai_chat import read_usage
from trace_recorder.formats.foreign_runs.stated_values import counts_at, other_counts, stated_time
from trace_recorder.formats.spans.attribute_names import genai, langfuse
from trace_recorder.formats.spans.reading.payloads import read_exchange
from trace_recorder.formats.spans.reading.span import ForeignSpan, Kind, SpanReading, if_known, parsed
from trace_recorder.formats.spans.reading.vocabularies.openinference import FIRST_TOKEN, first_token
from trace_recorder.values.messages import Payload, Usage, without_none

API = "langfuse"
_LANGSMITH = "langsmith.span.kind"
"""An attribute of LangSmith's integrations, which put the arguments of a tool into an object `{"input": …}`."""
_LANGFUSE_KINDS: dict[str, Kind] = {"generation": "call", "tool": "tool", "agent": "agent"}
_LANGFUSE_COUNTS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_input_tokens": "input_cache_read input_cached_tokens cache_read_input_tokens input_cache_read_tokens",
    "cache_creation_input_tokens": "input_cache_creation cache_creation_input_tokens",
    "reasoning_tokens": "output_reasoning output_reasoning_tokens",
}


def read_langfuse(span: ForeignSpan) -> SpanReading | None:
    """Read an observation of Langfuse."""
    if not any(name.startswith(langfuse.PREFIX) for name in span.attributes):
        return None
    kind = _LANGFUSE_KINDS.get((as_text(span.attributes.get(langfuse.TYPE)) or "").lower())
    if kind is not None:
        span.take(langfuse.TYPE)
    request, answer = span.take_json(langfuse.INPUT), span.take_json(langfuse.OUTPUT)
    level, why = span.take_text(langfuse.PREFIX + "level"), span.take_text(langfuse.PREFIX + "status_message")
    if kind == "call":
        reading = read_exchange(request, answer)
        reading.model = span.take_text(langfuse.MODEL) or reading.model
        parameters = as_dict(span.take_json(langfuse.PARAMETERS))
        reading.parameters |= {name: value for name, value in parameters.items() if value is not None}
        reading.usage = _usage_of_langfuse(span)
        reading.api = API
        reading.first_token = stated_time(span.take(langfuse.FIRST_TOKEN_TIME)) or None
        if level == "ERROR":
            reading.error = why
    else:
        if kind == "tool" and _LANGSMITH in span.attributes and as_dict(request).keys() == {"input"}:
            request = request["input"]
        reading = SpanReading(kind=kind, input=request, output=answer, error=why)
    if level == "ERROR":
        reading.failed = True
    return reading


def _usage_of_langfuse(span: ForeignSpan) -> Usage | None:
    details = as_dict(span.take_json(langfuse.USAGE))
    cost = _total(as_dict(span.take_json(langfuse.COST)))
    if not details and cost is None:
        return None
    if "prompt_tokens" in details or "completion_tokens" in details:
        return read_usage(details | without_none(cost=cost))
    known = {"total", *" ".join(_LANGFUSE_COUNTS.values()).split(" ")}
    extra = {name: count for name, count in details.items() if name not in known and count}
    return if_known(Usage(**counts_at(details, _LANGFUSE_COUNTS), cost=cost, extra=extra))


def _total(costs: dict[str, Payload]) -> float | None:
    total = as_number(costs.get("total"))
    if total is not None:
        return total
    parts = [cost for cost in map(as_number, costs.values()) if cost is not None]
    if not parts:
        return None
    return sum(parts)


_LANGSMITH_KINDS: dict[str, Kind] = {"llm": "call", "tool": "tool"}
_INPUTS = ("langsmith.inputs", "gen_ai.prompt")
_OUTPUTS = ("langsmith.outputs", "gen_ai.completion")


def read_langsmith(span: ForeignSpan) -> SpanReading | None:
    """Read a run of LangSmith."""
    run_type = as_text(span.attributes.get(_LANGSMITH))
    if run_type is None:
        return None
    kind = _LANGSMITH_KINDS.get(run_type.lower())
    if kind is not None:
        span.take(_LANGSMITH)
    request, answer = span.take_json(*_INPUTS), span.take_json(*_OUTPUTS)
    if kind != "call":
        return SpanReading(kind=kind, input=request, output=_function_result(answer))
    metadata = as_dict(span.take("langsmith.metadata"))
    if answer == {"output": None}:
        answer = None
    reading = read_exchange(request, answer)
    usage = as_dict(metadata.pop("usage_metadata", None)) or as_dict(as_dict(answer).get("usage_metadata"))
    reading.usage = _usage_of_langsmith(usage)
    if reading.response is not None:
        reading.response.extra.pop("usage_metadata", None)
        reading.usage = reading.usage or if_known(reading.response.usage)
    reading.model = reading.model or as_text(metadata.get("ls_model_name")) or reading.response_model
    reading.provider = as_text(metadata.get("ls_provider"))
    if any(event.name == FIRST_TOKEN for event in span.events):
        reading.stream, reading.first_token = True, first_token(span)
    return reading


def _function_result(output: Payload) -> Payload:
    """Return the result of a function.

    Take a result out of `{"output": …}`, into which LangSmith puts any result that is not an object.
    """
    if isinstance(output, dict) and output.keys() == {"output"}:
        return output["output"]
    return output


_LANGSMITH_COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "input_token_details/cache_read",
    "cache_creation_input_tokens": "input_token_details/cache_creation",
    "reasoning_tokens": "output_token_details/reasoning",
}


def _usage_of_langsmith(usage: dict[str, Payload]) -> Usage | None:
    extra = other_counts(usage, ("input_token_details", "output_token_details"), _LANGSMITH_COUNTS)
    return if_known(Usage(**counts_at(usage, _LANGSMITH_COUNTS), cost=as_number(usage.get("total_cost")), extra=extra))


_TYPE = "mlflow.spanType"
_MLFLOW_KINDS: dict[str, Kind] = {"CHAT_MODEL": "call", "LLM": "call", "TOOL": "tool", "AGENT": "agent"}


def read_mlflow(span: ForeignSpan) -> SpanReading | None:
    """Read a span of MLflow."""
    if not any(name.startswith("mlflow.span") for name in span.attributes):
        return None
    kind = _MLFLOW_KINDS.get(as_text(_json_value(span.attributes.get(_TYPE))) or "")
    if kind is not None:
        span.take(_TYPE)
    span.mark_read("mlflow.traceRequestId", "mlflow.spanLogLevel")
    request, answer = _json_value(span.take("mlflow.spanInputs")), _json_value(span.take("mlflow.spanOutputs"))
    if kind != "call":
        reading = SpanReading(kind=kind, input=request, output=answer)
        name = as_text(_json_value(span.take("mlflow.spanFunctionName")))
        if kind == "tool":
            reading.name = name
        return reading
    reading = read_exchange(request, answer)
    reading.tools = as_list(_json_value(span.take("mlflow.chat.tools"))) or reading.tools
    reading.model = reading.model or as_text(_json_value(span.take("mlflow.llm.model")))
    reading.provider = as_text(_json_value(span.take("mlflow.llm.provider")))
    span.take("mlflow.message.format")
    usage = Usage()
    if reading.response is not None:
        usage = reading.response.usage
    reading.usage = _usage_of_mlflow(span, usage)
    return reading


def _json_value(value: Payload) -> Payload:
    """Parse a JSON text, even one that is only a string or a number. Return any other value unchanged."""
    value = parsed(value)
    if not isinstance(value, str) or value[:1] in {"[", "{"}:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _usage_of_mlflow(span: ForeignSpan, response_usage: Usage) -> Usage | None:
    """Return MLflow's counts. If MLflow lacks a count, the count is taken from the usage in the response."""
    usage = as_dict(_json_value(span.take("mlflow.chat.tokenUsage")))
    cost = as_number(as_dict(_json_value(span.take("mlflow.llm.cost"))).get("total_cost"))
    names = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    counts: dict[str, Payload] = {name: getattr(response_usage, name) for name in names}
    counts |= without_none(**{name: as_int(usage.get(name)) for name in names})
    counts |= {"reasoning_tokens": response_usage.reasoning_tokens, "cost": cost or response_usage.cost}
    extra = {name: value for name, value in response_usage.extra.items() if name != "total_tokens"}
    return if_known(Usage(**counts, extra=extra))


_ATOF_KINDS: dict[str, Kind] = {"llm": "call", "tool": "tool", "agent": "agent"}
_APIS = {
    "openai_chat": "openai-chat",
    "openai_responses": "openai-responses",
    "anthropic_messages": "anthropic-messages",
}
"""The dialects by the names that the codecs of NeMo Relay give them."""
_REPEATED = {"annotated_request", "annotated_response", "model_name", "time_to_first_chunk", "tool_call_id"}


def read_atof(span: ForeignSpan) -> SpanReading | None:
    """Read a scope of NeMo Relay."""
    category = as_text(span.attributes.get("atof.category"))
    if category is None:
        return None
    kind = _ATOF_KINDS.get(category)
    profile = as_dict(span.take("atof.category_profile"))
    if rest := {name: value for name, value in profile.items() if name not in _REPEATED}:
        span.more["category_profile"] = rest
    scope_input, scope_output = span.take("atof.input"), span.take("atof.output")
    if kind is not None:
        span.take("atof.category")
    error_type = span.take_text(genai.ERROR_TYPE)
    if kind != "call":
        call_id = as_text(profile.get("tool_call_id"))
        return SpanReading(
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
