"""The SDK's own reading: its objects, as plain dicts in the words of our readers.

It is written from the SDKs' types without our code, so that it can check our readers. A stream is read through the
SDK's own accumulator or final message if it has one, and otherwise chunk by chunk. The answer to a raw call is read
through the SDK's types. `read` returns None if there is no answer to read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from google.genai.types import GenerateContentResponse
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.wire.corpus import Exchange, Payload

Reading = dict[str, Payload]
ASPECTS = ("content", "reasoning", "tool_calls", "finish_reason", "usage")


def read(exchange: Exchange, objects: list[Any]) -> Reading | None:
    """Return the result of a caller for an exchange: an object, or the objects of a stream in order."""
    if exchange.status >= 400 or not exchange.response_text:
        return None
    return _READINGS[exchange.dialect](objects) if hasattr(objects[0], "model_dump") else _read_raw(exchange)


def _read_raw(exchange: Exchange) -> Reading:
    if exchange.dialect != "google-generate":
        return _chat([ChatCompletion.model_validate_json(exchange.response_text)])
    body = json.loads(exchange.response_text, object_hook=_enums_by_name)
    return _google(
        [GenerateContentResponse.model_validate(part) for part in (body if isinstance(body, list) else [body])]
    )


def _enums_by_name(members: dict[str, Payload]) -> dict[str, Payload]:
    """Replace the numbers of enums, which the SDK's types do not accept, by their names.

    Leave out those that no reading needs.
    """
    known = {name: value for name, value in members.items() if name not in ("modality", "trafficType")}
    if "finishReason" in known:
        known["finishReason"] = {1: "STOP", 2: "MAX_TOKENS"}[known["finishReason"]]
    return known


def _reading(
    content: str | None = None,
    reasoning: str | None = None,
    tool_calls: Iterable[Payload] = (),
    finish_reason: str | None = None,
    usage: Payload = None,
) -> Reading:
    return {
        "content": content,
        "reasoning": reasoning,
        "tool_calls": list(tool_calls),
        "finish_reason": finish_reason,
        "usage": usage or None,
    }


def _call(call_id: str | None, name: str, arguments: Payload) -> Payload:
    if isinstance(arguments, str) or arguments is None:
        try:
            parsed = json.loads(arguments or "{}")
        except json.JSONDecodeError:
            parsed = None
        arguments = parsed if isinstance(parsed, dict) else arguments
    return {"id": call_id, "name": name, "arguments": arguments}


def _counts(source: Any, **names: str) -> Payload:
    """Return the token counts of the SDK: {our name: its attribute, dotted if it is a detail of another count}."""
    counts = {}
    for ours, theirs in names.items():
        value = source
        for name in theirs.split("."):
            value = getattr(value, name, None)
        if value is not None:
            counts[ours] = value
    return counts


def _joined(texts: Iterable[str | None]) -> str | None:
    """Join texts. Returns None if there is no text at all, so that an empty answer differs from a missing one."""
    given = [text for text in texts if text is not None]
    return "".join(given) if given else None


def _openai_usage(usage: Any) -> Payload:
    return _counts(
        usage,
        input_tokens="prompt_tokens",
        output_tokens="completion_tokens",
        cache_read_input_tokens="prompt_tokens_details.cached_tokens",
        reasoning_tokens="completion_tokens_details.reasoning_tokens",
        cost="cost",
    )


def _chat(objects: list[Any]) -> Reading:
    completion = _accumulated(objects) if isinstance(objects[0], ChatCompletionChunk) else objects[0]
    usage = _openai_usage(completion.usage)
    if not completion.choices:
        return _reading(usage=usage)
    choice = completion.choices[0]
    if choice.message is None:
        return _reading(finish_reason=choice.finish_reason, usage=usage)
    message = choice.message
    tool_calls = [_call(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
    if message.function_call:
        tool_calls.append(_call(None, message.function_call.name, message.function_call.arguments))
    reasoning = getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)
    return _reading(message.content, reasoning, tool_calls, choice.finish_reason, usage)


def _accumulated(chunks: list[Any]) -> Any:
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for chunk in chunks:
        state.handle_chunk(_indexed(chunk))
    return state.current_completion_snapshot


def _indexed(chunk: Any) -> Any:
    """Add an index to whole tool calls without one, as Mistral sends them, because the SDK's accumulator needs it."""
    if all(call.index is not None for call in _calls_of(chunk)):
        return chunk
    copy = chunk.model_copy(deep=True)
    for number, call in enumerate(_calls_of(copy)):
        call.index = number
    return copy


def _calls_of(chunk: Any) -> list[Any]:
    return [call for choice in chunk.choices for call in choice.delta.tool_calls or ()]


def _completion(objects: list[Any]) -> Reading:
    choices = [choice for item in objects for choice in item.choices or () if not choice.index]
    reasons = [choice.finish_reason for choice in choices if choice.finish_reason]
    usages = [item.usage for item in objects if item.usage]
    return _reading(
        content=_joined(choice.text for choice in choices),
        finish_reason=reasons[-1] if reasons else None,
        usage=_openai_usage(usages[-1]) if usages else None,
    )


def _responses(objects: list[Any]) -> Reading:
    response = getattr(objects[-1], "response", objects[-1])
    of_type: dict[str, list[Any]] = {}
    for item in response.output:
        of_type.setdefault(item.type, []).append(item)
    texts = [part.text for item in of_type.get("message", ()) for part in item.content if part.type == "output_text"]
    summaries = [part.text for item in of_type.get("reasoning", ()) for part in item.summary]
    return _reading(
        content=_joined(texts),
        reasoning=_joined(summaries),
        tool_calls=[_call(item.call_id, item.name, item.arguments) for item in of_type.get("function_call", ())],
        finish_reason=getattr(response.incomplete_details, "reason", None) or response.status,
        usage=_counts(
            response.usage,
            input_tokens="input_tokens",
            output_tokens="output_tokens",
            cache_read_input_tokens="input_tokens_details.cached_tokens",
            reasoning_tokens="output_tokens_details.reasoning_tokens",
        ),
    )


def _embeddings(objects: list[Any]) -> Reading:
    return _reading(usage=_openai_usage(getattr(objects[0], "usage", None)))


def _anthropic(objects: list[Any]) -> Reading:
    message = objects[-1]
    return _reading(
        content=_joined(block.text for block in message.content if block.type == "text"),
        reasoning=_joined(block.thinking for block in message.content if block.type == "thinking"),
        tool_calls=[_call(block.id, block.name, block.input) for block in message.content if block.type == "tool_use"],
        finish_reason=message.stop_reason,
        usage=_counts(
            message.usage,
            input_tokens="input_tokens",
            output_tokens="output_tokens",
            cache_creation_input_tokens="cache_creation_input_tokens",
            cache_read_input_tokens="cache_read_input_tokens",
            reasoning_tokens="output_tokens_details.thinking_tokens",
        ),
    )


def _google(objects: list[Any]) -> Reading:
    firsts = [item.candidates[0] for item in objects if item.candidates]
    parts = [part for first in firsts if first.content for part in first.content.parts or ()]
    calls = [part.function_call for part in parts if part.function_call]
    reasons = [first.finish_reason.value for first in firsts if first.finish_reason]
    return _reading(
        content=_joined(part.text for part in parts if not part.thought),
        reasoning=_joined(part.text for part in parts if part.thought),
        tool_calls=[_call(call.id, call.name, call.args) for call in calls],
        finish_reason=reasons[-1] if reasons else None,
        usage=_counts(
            objects[-1].usage_metadata,
            input_tokens="prompt_token_count",
            output_tokens="candidates_token_count",
            cache_read_input_tokens="cached_content_token_count",
            reasoning_tokens="thoughts_token_count",
        ),
    )


def _interaction(objects: list[Any]) -> Reading:
    interaction = getattr(objects[-1], "interaction", objects[-1])
    texts, thoughts = _step_texts(interaction) if len(objects) == 1 else _delta_texts(objects)
    return _reading(
        content=_joined(texts),
        reasoning=_joined(thoughts),
        finish_reason=None if interaction.status == "in_progress" else interaction.status,
        usage=_counts(
            interaction.usage,
            input_tokens="total_input_tokens",
            output_tokens="total_output_tokens",
            cache_read_input_tokens="total_cached_tokens",
            reasoning_tokens="total_thought_tokens",
        ),
    )


def _step_texts(interaction: Any) -> tuple[list[str], list[str]]:
    steps = interaction.steps or ()
    texts = [part.text for step in steps if step.type == "model_output" for part in step.content or ()]
    return texts, [part.text for step in steps if step.type == "thought" for part in step.summary or ()]


def _delta_texts(events: list[Any]) -> tuple[list[str], list[str]]:
    deltas = [event.delta for event in events if event.event_type == "step.delta"]
    texts = [delta.text for delta in deltas if delta.type == "text"]
    return texts, [delta.content.text for delta in deltas if delta.type == "thought_summary"]


def _ollama(objects: list[Any]) -> Reading:
    messages = [getattr(item, "message", item) for item in objects]
    calls = chain.from_iterable(getattr(message, "tool_calls", None) or () for message in messages)
    last = objects[-1]
    return _reading(
        content=_joined(getattr(message, "content", getattr(message, "response", None)) for message in messages),
        reasoning=_joined(message.thinking for message in messages),
        tool_calls=[_call(None, call.function.name, dict(call.function.arguments)) for call in calls],
        finish_reason=last.done_reason,
        usage=_counts(last, input_tokens="prompt_eval_count", output_tokens="eval_count"),
    )


_READINGS: dict[str, Callable[[list[Any]], Reading]] = {
    "openai-chat": _chat,
    "openai-completions": _completion,
    "openai-responses": _responses,
    "embeddings": _embeddings,
    "anthropic-messages": _anthropic,
    "google-generate": _google,
    "google-interactions": _interaction,
    "ollama-chat": _ollama,
    "ollama-generate": _ollama,
}
