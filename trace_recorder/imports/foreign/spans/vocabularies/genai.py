"""The GenAI semantic conventions of OpenTelemetry, in the form of attributes; pydantic-ai's older names among them.

Source: https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/ and gen-ai-agent-spans; pydantic_ai's
`InstrumentationSettings`, versions 2 to 6. What an agent's span sums up of its calls (`gen_ai.aggregated_usage`, its
`gen_ai.usage`, `pydantic_ai.all_messages`) repeats what they say, and is not read.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_text
from trace_recorder.imports.foreign.spans import parts
from trace_recorder.imports.foreign.spans.messages import read_messages
from trace_recorder.imports.foreign.spans.payloads import of_messages
from trace_recorder.imports.foreign.spans.reading import Kind, Reading, if_known
from trace_recorder.imports.foreign.spans.span import Span, parsed
from trace_recorder.imports.foreign.token_places import counts_at
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
"""The tool's name of a span in which ADK puts the results of parallel calls together: no tool ran in it."""
_USAGE = "gen_ai.usage."
_REQUEST = "gen_ai.request."
_REPEATED = ("gen_ai.aggregated_usage.", _USAGE, "pydantic_ai.all_messages", "gen_ai.response.", "logfire.json_schema")


def read(span: Span) -> Reading | None:
    """Read a span with attributes of `gen_ai`."""
    if not any(name.startswith("gen_ai.") for name in span.attributes):
        return None
    kind = _kind(span)
    if kind == "tool":
        return _tool(span)
    if kind == "agent":
        return _agent(span)
    return read_call(span) if kind == "call" else None


def _kind(span: Span) -> Kind | None:
    operation = as_text(span.attributes.get("gen_ai.operation.name"))
    if operation is not None:
        kind = None if span.attributes.get("gen_ai.tool.name") == _MERGED else _KINDS.get(operation)
        if kind is not None:
            span.take("gen_ai.operation.name")
        return kind
    if "gen_ai.tool.name" in span.attributes:
        return "tool"
    if "agent_name" in span.attributes:
        return "agent"
    told = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.response.model")
    return "call" if any(name in span.attributes for name in told) else None


def _tool(span: Span) -> Reading:
    return Reading(
        kind="tool",
        name=span.take_text("gen_ai.tool.name"),
        call_id=span.take_text("gen_ai.tool.call.id"),
        input=span.take_json("gen_ai.tool.call.arguments", "tool_arguments"),
        output=span.take_json("gen_ai.tool.call.result", "tool_response"),
        error_type=span.take_text("error.type"),
    )


def _agent(span: Span) -> Reading:
    result = span.take_json("final_result")
    answers = read_messages(span.take("gen_ai.output.messages"))
    if result is None and answers:
        result = of_messages(answers[-1:]).content
    span.mark_read(*_REPEATED)
    return Reading(
        kind="agent",
        name=span.take_text("gen_ai.agent.name", "agent_name"),
        output=result,
        error_type=span.take_text("error.type"),
    )


def read_call(span: Span) -> Reading:
    """Read a span that is a call."""
    outputs = _outputs(span)
    return Reading(
        kind="call",
        messages=_messages(span),
        response=_response(outputs),
        usage=_usage(span),
        finish_reason=_finish_reason(span, outputs),
        response_id=span.take_text("gen_ai.response.id"),
        response_model=span.take_text("gen_ai.response.model"),
        model=span.take_text("gen_ai.request.model"),
        provider=span.take_text("gen_ai.provider.name", "gen_ai.system"),
        tools=_tools(span),
        stream=_as_bool(span.take("gen_ai.request.stream", "gen_ai.is_streaming", "llm.is_streaming")),
        first_token_seconds=span.take_number("gen_ai.response.time_to_first_chunk"),
        parameters={name.removeprefix(_REQUEST): value for name, value in _others(span, _REQUEST)},
        error_type=span.take_text("error.type"),
    )


def _tools(span: Span) -> list[Payload] | None:
    """Return the tools that were offered. Older releases of pydantic-ai have them among the request's parameters."""
    stated = as_list(span.take_json("gen_ai.tool.definitions"))
    asked = as_dict(span.take_json("model_request_parameters"))
    older = [tool for name in ("function_tools", "output_tools") for tool in as_list(asked.get(name))]
    return stated or older or None


def _as_bool(value: Payload) -> bool | None:
    return value if isinstance(value, bool) else None


def _messages(span: Span) -> list[Message] | None:
    """Return what the model saw: its instructions, then the messages."""
    stated = read_messages(span.take("gen_ai.input.messages"))
    given = parts.parts_in(span.take("gen_ai.system_instructions"))
    if not given:
        return stated
    return [*parts.read_message({"role": "system", "parts": given}), *(stated or [])]


def _finish_reason(span: Span, outputs: list[Payload]) -> str | None:
    """Return why the answer ended. Of several reasons, the one that the answer itself states is its own."""
    reasons = as_list(span.take_json("gen_ai.response.finish_reasons"))
    stated = as_text(as_dict(outputs[0]).get("finish_reason")) if outputs else None
    first = as_text(reasons[0]) if reasons else None
    return stated or first if len(reasons) != 1 else first


def _outputs(span: Span) -> list[Payload]:
    """Return the answer, and the other choices if several were asked for.

    Otherwise several outputs are the items of one answer (OpenLLMetry), or the chunks of a stream (Google's ADK). Of
    these chunks, only the last has a finish reason.
    """
    outputs = as_list(span.take_json("gen_ai.output.messages"))
    count = as_int(span.attributes.get("gen_ai.request.choice.count"))
    if len(outputs) < 2 or (count or 1) > 1 or not all(map(parts.has_parts, outputs)):
        return outputs
    return [parts.joined([as_dict(output) for output in outputs])]


def _response(outputs: list[Payload]) -> LLMResponse | None:
    """Read the first output; the others are choices of their own, which a response keeps in `extra`."""
    messages = read_messages(outputs[0]) if outputs else None
    if not messages:
        return None
    said = of_messages([replace(message, role="assistant") for message in messages])
    if parts.has_parts(outputs[0]):
        said = replace(said, interleaved=parts.blocks_of(map(as_dict, outputs[0]["parts"]), said.tool_calls))
    return replace(said, extra=said.extra | {"other_outputs": outputs[1:]}) if outputs[1:] else said


_COUNTS = {
    "input_tokens": "input_tokens prompt_tokens",
    "output_tokens": "output_tokens completion_tokens",
    "cache_read_input_tokens": "cache_read.input_tokens cache_read_input_tokens details.cache_read_tokens",
    "cache_creation_input_tokens": "cache_write.input_tokens cache_creation.input_tokens cache_creation_input_tokens "
    "details.cache_write_tokens",
    "reasoning_tokens": "reasoning.output_tokens reasoning_tokens details.reasoning_tokens details.thoughts_tokens",
}


def _usage(span: Span) -> Usage | None:
    names = {name: span.take(_USAGE + name) for name in _names_of_counts(span)}
    counts = {name: as_int(parsed(value) if not isinstance(value, str) else value) for name, value in names.items()}
    cost = span.take_number("operation.cost", "gen_ai.usage.cost")
    read = {"total_tokens", *" ".join(_COUNTS.values()).split(" ")}
    extra = {name: count for name, count in counts.items() if count is not None and name not in read}
    return if_known(Usage(**counts_at({**counts}, _COUNTS), cost=cost, extra=extra))


def _names_of_counts(span: Span) -> list[str]:
    return [
        name.removeprefix(_USAGE)
        for name, value in span.attributes.items()
        if name.startswith(_USAGE) and as_int(value) is not None
    ]


def _others(span: Span, prefix: str) -> Iterator[tuple[str, Payload]]:
    """Yield the attributes with a prefix that were not read yet, and count them as read."""
    for name, value in span.attributes.items():
        if name.startswith(prefix) and name not in span.read:
            span.read.add(name)
            yield name, value
