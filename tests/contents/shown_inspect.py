"""Reads Inspect's logs of a run as a conversation for each model event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.contents.script import Tokens
from tests.contents.shown import Conversation, Message, decoded

Json = Any


def inspect(logs: list[Json], base: Path, dialect: str) -> list[Conversation]:
    """Read a log event by event. Messages are in the event, or in the sample's pool, to which the event refers."""
    return [_exchange(event, sample, base) for sample, event in model_events(logs)]


def model_events(logs: list[Json]) -> Iterator[tuple[Json, Json]]:
    """Yield the model events of logs, each with its sample."""
    for log in logs:
        for sample in log["samples"]:
            yield from ((sample, event) for event in sample["events"] if event["event"] == "model")


def _exchange(event: Json, sample: Json, base: Path) -> Conversation:
    talk = Conversation()
    for one in event["input"] or _referred(event, sample):
        _message(talk, one, base)
    output = event["output"]
    if event.get("error"):
        talk.failures += 1
        return talk
    for choice in output["choices"]:
        _message(talk, choice["message"], base).tokens = tokens(output.get("usage"))
    return talk


def _referred(event: Json, sample: Json) -> list[Json]:
    pool = sample["events_data"]["messages"]
    return [one for begin, end in event["input_refs"] for one in pool[begin:end]]


def _message(talk: Conversation, raw: Json, base: Path) -> Message:
    content = raw["content"]
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    if raw["role"] == "tool":
        talk.result(raw["tool_call_id"], parts, base)
        return talk.messages[-1]
    thought = "".join(part["reasoning"] for part in parts if part["type"] == "reasoning")
    message = talk.say(raw["role"], [part for part in parts if part["type"] == "text"], base, thought=thought)
    message.images = [decoded(part["image"]) for part in parts if part["type"] == "image"]
    for call in raw.get("tool_calls") or ():
        talk.call(message, call["id"], call["function"], call["arguments"])
    return message


def tokens(usage: Mapping[str, Json] | None) -> Tokens | None:
    """Return the tokens. Inspect's input does not include cached tokens."""
    if usage is None:  # the provider stated no usage
        return None
    read, write = usage.get("input_tokens_cache_read") or 0, usage.get("input_tokens_cache_write") or 0
    return Tokens(usage["input_tokens"] + read + write, usage["output_tokens"], read)
