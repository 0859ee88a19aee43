"""Reads the bodies of Bedrock's InvokeModel for models other than Anthropic's.

The models of each maker have their own form.

Bodies of Amazon Nova have the form of Converse. Chat bodies of Mistral, AI21 and OpenAI's open models have the form of
OpenAI's chat. Bodies with `anthropic_version` have Anthropic's form; this module gets them if the model's name is an
ARN, which does not show the maker. All other bodies are prompts and completions (Llama, Mistral, Titan, Cohere):
`_PROMPTS` and `_TEXTS` list their members. Source: the pages "Inference request parameters and response fields" of the
Bedrock User Guide, linked from https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters.html

Every member that is not read stays in `parameters` and `extra`.
"""

from __future__ import annotations

import json

from trace_recorder.dialects import anthropic_messages, bedrock_converse, openai_chat
from trace_recorder.dialects.dialect import Dialect
from trace_recorder.dialects.json_access import Members, as_dict, as_list, as_text, join_texts, json_value
from trace_recorder.dialects.stream_framing import events, unstreamed
from trace_recorder.values.messages import (
    Choice,
    JoinedStream,
    LLMResponse,
    Message,
    Payload,
    RequestReading,
    Usage,
    without_none,
)
from trace_recorder.values.token_counts import CACHE_APART

_PROMPTS = ("prompt", "inputText", "message")
"""The member that has the prompt: `prompt` for Llama and Mistral, `inputText` for Titan, `message` for Cohere."""
_LISTS = ("results", "outputs", "generations", "completions")
"""The member that has the list of completions.

Titan calls it `results`, Mistral `outputs`, Cohere `generations`, and AI21 `completions`.
"""
_TEXTS = ("generation", "outputText", "completion", "text")
"""The members that may have the text of a completion, in the body or in an element of the list of completions."""
_REASONS = ("stop_reason", "completionReason", "finish_reason")
_METRICS = "amazon-bedrock-invocationMetrics"
"""The member that Bedrock adds to the last event of a stream."""
_INPUT_TOKENS = ("prompt_token_count", "inputTextTokenCount")
_OUTPUT_TOKENS = ("generation_token_count", "totalOutputTextTokenCount", "tokenCount")


def read_request(body: Payload) -> RequestReading:
    """Read a request's JSON. The model is in the URL."""
    members = as_dict(body)
    if "anthropic_version" in members:
        return anthropic_messages.read_request(body)
    if "messages" in members:
        contents = [as_list(as_dict(element).get("content")) for element in as_list(members["messages"])]
        parts = [as_dict(part) for content in contents for part in content]
        if parts and not any("type" in part for part in parts):
            return bedrock_converse.read_request(body)
        return openai_chat.read_request(body)
    remaining = Members(body)
    texts = [text for name in _PROMPTS if (text := remaining.text(name)) is not None]
    return RequestReading([Message("user", text) for text in texts], [], remaining.all(), None)


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:
    """Read a response's JSON."""
    members = as_dict(body)
    if isinstance(members.get("output"), dict):
        return bedrock_converse.read_response(body, made_up_ids)
    if members.get("type") == "message":
        return anthropic_messages.read_response(body, made_up_ids)
    if "choices" in members:
        return openai_chat.read_response(body, made_up_ids)
    remaining = Members(body)
    name = next((name for name in _LISTS if isinstance(members.get(name), list)), None)
    listed = [remaining]
    if name is not None:
        listed = [Members(element) for element in remaining.array(name)]
    choices = tuple(_choice(number, element) for number, element in enumerate(listed))
    first = choices[0] if choices else Choice(0)
    counts = remaining.nested(_METRICS)
    usage = Usage(
        input_tokens=remaining.first_integer(*_INPUT_TOKENS) or counts.integer("inputTokenCount"),
        output_tokens=remaining.first_integer(*_OUTPUT_TOKENS) or counts.integer("outputTokenCount"),
    )
    return LLMResponse(
        content=first.content,
        finish_reason=first.finish_reason,
        usage=usage,
        choices=() if first.content is None else choices,
        extra=remaining.rest(),
    )


def _choice(number: int, members: Members) -> Choice:
    text = next((text for name in _TEXTS if (text := members.text(name)) is not None), None)
    reason = next((reason for name in _REASONS if (reason := members.nonempty_text(name)) is not None), None)
    return Choice(number, text, finish_reason=reason)


def join_stream(text: str) -> JoinedStream:
    """Join the events of a stream into the body that the same answer has without streaming."""
    bodies = [as_dict(json_value(data)) for _, data in events(text)]
    if not bodies:
        return unstreamed(text)
    if any("messageStart" in body or "contentBlockDelta" in body for body in bodies):
        return _joined_nova(bodies)
    if any("choices" in body for body in bodies):
        return openai_chat.join_stream("".join(f"data: {json.dumps(body)}\n\n" for body in bodies))
    if any(body.get("type") == "message_start" for body in bodies):
        return anthropic_messages.join_stream(text)
    return _joined(bodies)


def _joined_nova(bodies: list[dict[str, Payload]]) -> JoinedStream:
    """Join the events of Nova. The type of an event is the name of its only member."""
    typed_events: list[tuple[str, Payload]] = []
    for body in bodies:
        if "error" in body:
            typed_events.append(("error", body))
        else:
            typed_events.append(next(iter(body.items()), ("", None)))
    return bedrock_converse.join_events(typed_events)


def _joined(bodies: list[dict[str, Payload]]) -> JoinedStream:
    """Join the pieces of a completion. For every other member, the last value is kept."""
    joined: dict[str, Payload] = {}
    pieces: list[str | None] = []
    error: Payload = None
    for event in bodies:
        if event.get("type") == "error":
            error = event.get("error")
            continue
        flat = event
        listed = next((event[key] for key in _LISTS if isinstance(event.get(key), list) and event[key]), None)
        if listed:
            flat = {**event, **as_dict(listed[0])}
        pieces += [as_text(flat.get(key)) for key in _TEXTS]
        beside = {key: value for key, value in flat.items() if key not in (*_LISTS, *_TEXTS)}
        joined |= without_none(**beside)
    ended = any(joined.get(name) for name in _REASONS) or _METRICS in joined
    joined |= without_none(generation=join_texts(pieces), error=error)
    return JoinedStream(joined, ended, len(bodies), error)


DIALECT = Dialect(
    name="bedrock-invoke",
    addresses={r"/model/.+/invoke(?:-with-response-stream)?$": "bedrock"},
    sdks=("bedrock",),
    headers={},
    operation="chat",
    read_request=read_request,
    read_response=read_response,
    join_stream=join_stream,
    not_found=openai_chat.not_found,
    history=None,
    numbers_calls=True,
    instructions_apart=False,
    with_system=None,
    counting=CACHE_APART,
    usage_on_request=False,
    background=None,
    websockets=None,
)
