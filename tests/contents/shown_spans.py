"""Reads a run's spans, in the conventions of OpenTelemetry and of OpenInference, as a conversation for each call."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.contents.script import Tokens
from tests.contents.shown import Conversation, Message, decoded, text_of

Json = Any


def spans_of(lines: list[Json]) -> Iterator[tuple[Json, dict[str, Json]]]:
    """Yield the spans in lines of OTLP JSON, each with its attributes."""
    for line in lines:
        for resource in line["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    yield span, {one["key"]: _value(one["value"]) for one in span["attributes"]}


def _value(value: Mapping[str, Json]) -> Json:
    [(kind, held)] = value.items()
    return int(held) if kind == "intValue" else [*map(_value, held["values"])] if kind == "arrayValue" else held


def genai(lines: list[Json], base: Path, dialect: str) -> list[Conversation]:
    """Read spans by the conventions of OpenTelemetry."""
    calls = [(span, said) for span, said in spans_of(lines) if span["kind"] == 3]
    return [_call(span, said, base) for span, said in calls]


def _call(span: Json, attributes: Mapping[str, Json], base: Path) -> Conversation:
    talk = Conversation()
    instructions = json.loads(attributes.get("gen_ai.system_instructions", "[]"))
    if instructions:
        talk.say("system", [{"text": part["content"]} for part in instructions], base)
    for one in json.loads(attributes["gen_ai.input.messages"]):
        _message(talk, one, base)
    if span["status"].get("code") == 2:
        talk.failures += 1
        return talk
    names = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.usage.cache_read.input_tokens")
    for answer in json.loads(attributes.get("gen_ai.output.messages", "[]")):
        _message(talk, answer, base).tokens = _tokens(attributes, *names)
    return talk


def _tokens(said: Mapping[str, Json], prompt: str, output: str, cached: str) -> Tokens | None:
    """Return the tokens of a call, or None if the provider stated no tokens."""
    return Tokens(said.get(prompt, 0), said.get(output, 0), said.get(cached, 0)) if prompt in said else None


def _message(talk: Conversation, raw: Json, base: Path) -> Message:
    if raw["role"] == "tool":
        for part in raw["parts"]:
            response = part["response"]
            text = (
                response if isinstance(response, str) else text_of([{"text": inner["content"]} for inner in response])
            )
            talk.result(part["id"], text, base)
        return talk.messages[-1]
    parts: dict[str, list[Json]] = {}
    for part in raw["parts"]:
        parts.setdefault(part["type"], []).append(part)
    thought = "".join(part["content"] for part in parts.get("reasoning", ()))
    message = talk.say(
        raw["role"], [{"text": part["content"]} for part in parts.get("text", ())], base, thought=thought
    )
    message.images = [decoded(part["content"]) for part in parts.get("blob", ())]
    for part in parts.get("tool_call", ()):
        talk.call(message, part["id"], part["name"], part["arguments"])
    return message


def openinference(lines: list[Json], base: Path, dialect: str) -> list[Conversation]:
    """Read spans by the conventions of OpenInference."""
    calls = [(span, said) for span, said in spans_of(lines) if said["openinference.span.kind"] == "LLM"]
    return [_flat_call(span, said, base) for span, said in calls]


def _flat_call(span: Json, attributes: Mapping[str, Json], base: Path) -> Conversation:
    talk = Conversation()
    for one in _nested(attributes, "llm.input_messages"):
        _flat_message(talk, one["message"], base)
    if span["status"].get("code") == 2:
        talk.failures += 1
        return talk
    names = ("llm.token_count.prompt", "llm.token_count.completion", "llm.token_count.prompt_details.cache_read")
    for answer in _nested(attributes, "llm.output_messages"):
        _flat_message(talk, answer["message"], base).tokens = _tokens(attributes, *names)
    return talk


def _flat_message(talk: Conversation, raw: Json, base: Path) -> Message:
    contents = [part["message_content"] for part in _listed(raw.get("contents", {}))]
    texts = [{"text": part["text"]} for part in contents if part["type"] == "text"]
    if raw["role"] == "tool":
        talk.result(raw["tool_call_id"], raw.get("content", texts), base)
        return talk.messages[-1]
    thought = "".join(part["text"] for part in contents if part["type"] == "reasoning")
    message = talk.say(raw["role"], raw.get("content", texts), base, thought=thought)
    message.images = [decoded(part["image"]["image"]["url"]) for part in contents if part["type"] == "image"]
    for call in _listed(raw.get("tool_calls", {})):
        function = call["tool_call"]["function"]
        talk.call(message, call["tool_call"]["id"], function["name"], function["arguments"])
    return message


def _nested(attributes: Mapping[str, Json], prefix: str) -> list[Json]:
    """Return the values of flat attributes as a list of objects."""
    root: dict[str, Json] = {}
    for name, value in attributes.items():
        if name.startswith(f"{prefix}."):
            *path, last = name.removeprefix(f"{prefix}.").split(".")
            at = root
            for step in path:
                at = at.setdefault(step, {})
            at[last] = value
    return _listed(root)


def _listed(numbered: Mapping[str, Json]) -> list[Json]:
    return [numbered[key] for key in sorted(numbered, key=int)]
