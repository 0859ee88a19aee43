"""OpenLLMetry's own attributes: the older `gen_ai.prompt.N`, and `traceloop.*` for workflows, agents and tools.

Source: https://github.com/traceloop/openllmetry (opentelemetry-semantic-conventions-ai). Its newer releases follow the
GenAI conventions (`genai.py`), which also read the rest of such a call: its model, its counts of tokens.
"""

from __future__ import annotations

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.imports.foreign.run import Members
from trace_recorder.imports.foreign.spans.messages import read_messages
from trace_recorder.imports.foreign.spans.payloads import of_messages
from trace_recorder.imports.foreign.spans.reading import Kind, Reading, merged
from trace_recorder.imports.foreign.spans.span import Span, parsed
from trace_recorder.imports.foreign.spans.vocabularies import genai
from trace_recorder.imports.foreign.spans.vocabularies.flat_names import take_nested
from trace_recorder.values.messages import Payload

_KINDS: dict[str, Kind] = {"tool": "tool", "agent": "agent"}
_ENTITY = "traceloop.entity."


def read(span: Span) -> Reading | None:
    """Read a span of OpenLLMetry."""
    kind = as_text(span.attributes.get("traceloop.span.kind"))
    if kind is not None:
        return _entity(span, kind)
    prompts, answers = take_nested(span, "gen_ai.prompt"), take_nested(span, "gen_ai.completion")
    if not prompts and not answers:
        return None
    span.take("llm.request.type")
    messages = read_messages([_message(one) for one in as_list(prompts)])
    listed = [_message({"role": "assistant", **as_dict(one)}) for one in as_list(answers)]
    completion = read_messages(listed[:1]) if listed else None
    reason = as_text(as_dict(as_list(answers)[0]).get("finish_reason")) if listed else None
    reading = Reading(
        kind="call",
        messages=messages,
        response=of_messages(completion) if completion else None,
        finish_reason=reason,
        tools=[*map(_tool, as_list(take_nested(span, "llm.request.functions")))] or None,
    )
    return merged([reading, genai.read_call(span)])


def _entity(span: Span, kind: str) -> Reading:
    """Read a workflow, a task, an agent or a tool. Its input may be the arguments of a Python function."""
    if kind in _KINDS:
        span.take("traceloop.span.kind")
    given = span.take_json(_ENTITY + "input")
    inputs = as_dict(given).get("inputs", as_dict(given).get("kwargs")) or given
    said = span.take_json(_ENTITY + "output")
    return Reading(kind=_KINDS.get(kind), name=span.take_text(_ENTITY + "name"), input=inputs, output=said)


def _message(element: Payload) -> Members:
    """Return a prompt as OpenAI's message. Contents that are lists are JSON texts."""
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


def _tool(declared: Payload) -> Payload:
    members = as_dict(declared)
    return {name: parsed(value) for name, value in members.items()}
