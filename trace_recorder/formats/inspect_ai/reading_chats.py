"""Converts chat messages and outputs of Inspect (`inspect_ai/model/_chat_message.py`, `_model_output.py`)."""

from __future__ import annotations

from trace_recorder.dialects.json_access import (
    as_dict,
    as_list,
    as_number,
    as_text,
    content_of,
    join_texts,
    role_of,
)
from trace_recorder.formats.foreign_runs.run import Members
from trace_recorder.formats.foreign_runs.stated_values import counts_at, joined_text
from trace_recorder.values.messages import Payload, without_none

_READ = {"role", "content", "tool_calls", "tool_call_id", "function", "error", "model", "parse_error"}


def read_log_message(value: Payload) -> Members:
    """Return a log's message in our form.

    The thoughts among the parts of the content become the message's reasoning.
    """
    message = as_dict(value)
    parts = message.get("content")
    error = as_dict(message.get("error"))
    rest = {name: value for name, value in message.items() if name not in _READ and value is not None}
    content = content_of(_visible_parts(parts))
    if error and not content:
        content = as_text(error.get("message"))
    extra = {**rest}
    if error:
        extra |= {"is_error": True, "error": error}
    thoughts = [part for part in _thoughts(parts) if part.get("signature") or part.get("redacted") is True]
    if thoughts:
        extra["reasoning_parts"] = thoughts
    return {"role": role_of(message.get("role")), "content": content} | without_none(
        tool_calls=[read_log_call(call) for call in as_list(message.get("tool_calls"))] or None,
        call_id=as_text(message.get("tool_call_id")),
        name=as_text(message.get("function")),
        reasoning=_reasoning(parts),
        extra=extra or None,
    )


def read_log_call(value: Payload) -> Members:
    """Return a tool call."""
    call = as_dict(value)
    rest = {name: call[name] for name in ("parse_error", "view") if call.get(name) is not None}
    return {
        "call_id": as_text(call.get("id")) or "",
        "name": as_text(call.get("function")) or "",
        "arguments": call.get("arguments"),
    } | without_none(extra=rest or None)


def response_of(output: Members) -> Members | None:
    """Return the response in a model's output, or None if the output has neither an answer nor token counts."""
    choice = as_dict(next(iter(as_list(output.get("choices"))), None))
    message = read_log_message(choice.get("message"))
    stated_usage = as_dict(output.get("usage"))
    usage = counts_at(stated_usage, _COUNTS) | without_none(cost=as_number(stated_usage.get("total_cost")))
    if not choice and not usage:
        return None
    content = message.get("content")
    if isinstance(content, list):
        content = joined_text(content, "\n")
    more = {name: value for name, value in output.items() if name in {"metadata", "stop_reason"} and value}
    extra = {**as_dict(message.get("extra")), **more, **without_none(logprobs=choice.get("logprobs"))}
    return {"content": content} | without_none(
        reasoning=message.get("reasoning"),
        tool_calls=message.get("tool_calls"),
        finish_reason=as_text(choice.get("stop_reason")),
        model=as_text(output.get("model")),
        usage=usage or None,
        extra=extra or None,
    )


_COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_creation_input_tokens": "input_tokens_cache_write",
    "cache_read_input_tokens": "input_tokens_cache_read",
    "reasoning_tokens": "reasoning_tokens",
}


def _visible_parts(content: Payload) -> Payload:
    """Return the parts of a content without its thoughts, and with images in OpenAI's form."""
    if not isinstance(content, list):
        return as_text(content)
    return [_image(part) for part in map(as_dict, content) if part.get("type") != "reasoning"]


def _image(part: Members) -> Members:
    url = as_text(part.get("image"))
    if part.get("type") != "image" or url is None:
        return part
    return {"type": "image_url", "image_url": {"url": url} | without_none(detail=part.get("detail"))}


def _thoughts(content: Payload) -> list[Members]:
    return [part for part in map(as_dict, as_list(content)) if part.get("type") == "reasoning"]


def _reasoning(content: Payload) -> str | None:
    """Return the texts of the thoughts. If the provider redacted a thought, its summary takes the place of its text."""
    return join_texts(filter(None, map(_text_of_thought, _thoughts(content))), "\n\n")


def _text_of_thought(thought: Members) -> str | None:
    if thought.get("redacted") is True:
        return as_text(thought.get("summary"))
    return as_text(thought.get("reasoning"))
