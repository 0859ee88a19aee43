"""OpenInference, the vocabulary of Arize's instrumentations and of Phoenix.

`take_nested` reads attributes with dotted names, for `frameworks.py` too.

Source: https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md. `input.value` and
`output.value` of a call repeat its messages. These two attributes are read if the span has no messages, and for facts
that the messages lack. Lists and objects are attributes with dotted names: `llm.input_messages.0.message.role`.
"""

from __future__ import annotations

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.formats.foreign_runs.run import Members
from trace_recorder.formats.foreign_runs.stated_values import counts_at, other_counts
from trace_recorder.formats.spans.attribute_names import openinference as names
from trace_recorder.formats.spans.reading.messages import blocks_of, read_span_message
from trace_recorder.formats.spans.reading.payloads import read_input, read_output, response_of_messages
from trace_recorder.formats.spans.reading.span import ForeignSpan, Kind, SpanReading, if_known, merged, parsed
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.messages import LLMResponse, Message, Payload, Usage
from trace_recorder.values.structs import replace

_MAX_NAMES = 24
"""A name is split at most at this many dots. The rest of the name is one level."""


def take_nested(span: ForeignSpan, prefix: str) -> Payload:
    """Return the attributes whose names begin with a prefix and a dot, as one value.

    Return {} if there are no such attributes. An object whose members all have numbers as names becomes a list, in the
    order of the numbers. A name is masked before it is split, because the parts of a secret with a dot would not be
    recognised.
    """
    tree: Members = {}
    for name, value in span.attributes.items():
        if name.startswith(prefix + "."):
            span.read.add(name)
            _put(tree, default_redactor(name[len(prefix) + 1 :]).split(".", _MAX_NAMES), value)
    return _with_lists(tree)


def _put(tree: Members, path: list[str], value: Payload) -> None:
    for step in path[:-1]:
        inner = tree.get(step)
        if not isinstance(inner, _Branch):
            inner = tree[step] = _Branch()
        tree = inner
    if not isinstance(tree.get(path[-1]), _Branch):
        tree[path[-1]] = value


class _Branch(Members):
    """An object that is made from dotted names. An object that is the value of an attribute is an ordinary `dict`."""


def _with_lists(tree: Members) -> Payload:
    members: Members = {}
    for name, value in tree.items():
        if isinstance(value, _Branch):
            members[name] = _with_lists(value)
        else:
            members[name] = value
    if not members or not all(name.isascii() and name.isdigit() and len(name) < 10 for name in members):
        return members
    return [members[name] for name in sorted(members, key=int)]


FIRST_TOKEN = "First Token Stream Event"  # noqa: S105 no secret
"""The name of the event at a stream's first token."""
_KINDS: dict[str, Kind] = {"LLM": "call", "TOOL": "tool", "AGENT": "agent"}
_PREFIXES = tuple(f"{name}." for name in (names.INPUT_MESSAGES, names.OUTPUT_MESSAGES, names.TOKEN_COUNT))
_NO_PARAMETERS = {"model", "messages", "tools", "stream", "input", "contents"}


def read_openinference(span: ForeignSpan) -> SpanReading | None:
    """Read a span that has OpenInference's kind, or OpenInference's attributes of a call."""
    stated_kind = as_text(span.attributes.get(names.KIND))
    if stated_kind is None and not any(name.startswith(_PREFIXES) for name in span.attributes):
        return None
    kind: Kind | None = "call"
    if stated_kind:
        kind = _KINDS.get(stated_kind.upper())
    if kind is not None:
        span.take(names.KIND)
    if kind == "call":
        return _call(span)
    span.mark_read(names.INPUT_MIME_TYPE, names.OUTPUT_MIME_TYPE)
    reading = SpanReading(kind=kind, input=span.take_json(names.INPUT), output=span.take_json(names.OUTPUT))
    if kind == "tool":
        reading.name = span.take_text(names.TOOL_NAME)
        reading.call_id = span.take_text(names.TOOL_CALL_ID, "tool.id")
    elif kind == "agent":
        reading.name = span.take_text(names.AGENT_NAME)
    return reading


def _call(span: ForeignSpan) -> SpanReading:
    parameters = as_dict(span.take_json(names.PARAMETERS))
    response_model = span.take_text("llm.response.model_name", names.MODEL)
    messages = [message for element in _elements(span, names.INPUT_MESSAGES) for message in _message(element)]
    reading = SpanReading(
        kind="call",
        messages=messages or None,
        response=_response(_elements(span, names.OUTPUT_MESSAGES)),
        usage=_usage(span),
        finish_reason=span.take_text(names.FINISH_REASON),
        response_model=response_model,
        model=span.take_text("llm.request.model_name") or as_text(parameters.get("model")),
        provider=span.take_text(names.PROVIDER, "llm.system"),
        tools=_tools(span),
        first_token=first_token(span),
        parameters={name: value for name, value in parameters.items() if name not in _NO_PARAMETERS},
    )
    if isinstance(parameters.get("stream"), bool):
        reading.stream = parameters["stream"]
    span.mark_read(names.INPUT_MIME_TYPE, names.OUTPUT_MIME_TYPE)
    whole = merged([reading, _raw(span, reading)])
    whole.model = whole.model or response_model
    return whole


def _raw(span: ForeignSpan, reading: SpanReading) -> SpanReading:
    """Read the SDK's own request and response, for facts that the span's messages lack."""
    request, response = span.take_json(names.INPUT), span.take_json(names.OUTPUT)
    whole = SpanReading()
    if reading.messages is None or isinstance(request, dict):
        whole = read_input(request)
    if reading.messages is None and whole.messages is None:
        whole.input = request
    if reading.parameters:
        whole.parameters = {}
    if reading.response is None or isinstance(response, dict):
        answer = read_output(response, whole.messages or ())
        if answer is not None:
            whole.take_answer(answer)
            whole.usage = if_known(answer.usage)
    return whole


def _elements(span: ForeignSpan, prefix: str) -> list[Members]:
    return [as_dict(as_dict(element).get("message")) for element in as_list(take_nested(span, prefix))]


def _message(message: Members) -> list[Message]:
    role = as_text(message.get("role")) or "user"
    listed = [*_parts(message)]
    if role == "tool":
        result = message.get("content")
        if result is None:
            result = [part for part in listed if part["type"] != "tool_call"]
        response = {"type": "tool_call_response", "id": message.get("tool_call_id"), "response": result}
        listed = [{**response, "name": message.get("name")}]
    return read_span_message({"role": role, "parts": listed})


def _parts(message: Members) -> list[Members]:
    """Return the parts of a message, in the form of the GenAI conventions."""
    parts = [_part(as_dict(element)) for element in as_list(message.get("contents"))]
    content = message.get("content")
    if content is not None and not parts:
        parts.append({"type": "text", "content": str(content)})
    if not any(part["type"] == "tool_call" for part in parts):
        calls = [as_dict(as_dict(element).get("tool_call")) for element in as_list(message.get("tool_calls"))]
        parts += map(_tool_call, calls)
    return parts


def _part(element: Members) -> Members:
    content = as_dict(element.get("message_content"))
    kind = as_text(content.get("type")) or "unknown"
    if kind in {"text", "reasoning"}:
        rest = {name: value for name, value in content.items() if name not in {"type", "text"}}
        return {"type": kind, "content": as_text(content.get("text")) or "", **rest}
    if kind == "tool_use":
        return _tool_call(as_dict(element.get("tool_call")) or as_dict(content.get("tool_call")))
    address = as_text(as_dict(as_dict(content.get("image")).get("image")).get("url"))
    if kind == "image" and address is not None:
        return {"type": "uri", "modality": "image", "uri": address}
    return {**content, "type": kind}


def _tool_call(call: Members) -> Members:
    function = as_dict(call.get("function"))
    return {
        "type": "tool_call",
        "id": call.get("id"),
        "name": function.get("name"),
        "arguments": function.get("arguments"),
    }


def _response(elements: list[Members]) -> LLMResponse | None:
    if not elements:
        return None
    listed = _parts(elements[0])
    response = response_of_messages(
        [message for element in elements for message in _message({**element, "role": "assistant"})]
    )
    if len(elements) > 1:
        return response
    return replace(response, interleaved=blocks_of(listed, response.tool_calls))


def _tools(span: ForeignSpan) -> list[Payload] | None:
    tools = [as_dict(as_dict(element).get("tool")) for element in as_list(take_nested(span, names.TOOLS))]
    return [parsed(tool.get("json_schema", tool)) for tool in tools] or None


_COUNTS = {
    "input_tokens": "prompt",
    "output_tokens": "completion",
    "cache_read_input_tokens": "prompt_details/cache_read",
    "cache_creation_input_tokens": "prompt_details/cache_write",
    "reasoning_tokens": "completion_details/reasoning",
}


def _usage(span: ForeignSpan) -> Usage | None:
    counts = as_dict(take_nested(span, names.TOKEN_COUNT))
    extra = other_counts(counts, ("prompt_details", "completion_details"), _COUNTS)
    return if_known(Usage(**counts_at(counts, _COUNTS), cost=span.take_number(names.COST), extra=extra))


def first_token(span: ForeignSpan) -> str | None:
    """Return the time of a stream's first token, or None if no event states the time."""
    for position, event in enumerate(span.events):
        if event.name == FIRST_TOKEN:
            return span.take_event(position).time or None
    return None
