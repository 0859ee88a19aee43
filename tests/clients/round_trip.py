"""Recorded conversations, converted to the to_messages form and back into requests: the rebuilt requests differ only in
named kinds.

A request of the corpus is read by its dialect's reader, its messages are written in the document's form, and the
builder makes a request of them. `python -m tests.clients.round_trip` prints the table of `results/clients.md`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.wire.corpus import Exchange, load
from trace_recorder.clients.wire_formats import (
    anthropic_messages,
    google_generate,
    ollama_chat,
    openai_chat,
    openai_responses,
)
from trace_recorder.clients.wire_formats.inputs import to_messages
from trace_recorder.dialects.dialect import dialect_of
from trace_recorder.errors import MessageFormatError

Payload = Any
DIALECTS = {
    module.WIRE_FORMAT.api: module.WIRE_FORMAT
    for module in (openai_chat, openai_responses, anthropic_messages, google_generate, ollama_chat)
}
ABSENT = "(absent)"


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between a rebuilt request and the recorded one."""

    api: str
    path: str
    recorded: Payload
    built: Payload


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of difference, with the reason why it loses nothing, or with what it loses."""

    name: str
    applies: Callable[[Difference], bool]


KINDS = (
    Kind(
        "a null or an empty list is omitted or added, which makes no difference to the provider",
        lambda d: ABSENT in (d.recorded, d.built) and (d.recorded in (None, [])) | (d.built in (None, [])),
    ),
    Kind(
        "a list of one message, or of one part, becomes a plain text",
        lambda d: _text_alone(d.recorded) == _text_alone(d.built) is not None,
    ),
    Kind(
        "Responses: the first system message is `instructions`",
        lambda d: d.api == "openai-responses" and (d.path == "/instructions" or _without_first(d)),
    ),
    Kind(
        "the JSON text of a call's arguments has different white space",
        lambda d: d.path.endswith("/function/arguments") and json.loads(d.recorded) == json.loads(d.built),
    ),
    Kind(
        "OpenAI: the older `functions`, and results by a function's name, become tools",
        lambda d: d.path == "/functions" or (d.path == "/tools" and d.recorded == ABSENT),
    ),
    Kind("OpenAI: the `name` of a tool message", lambda d: d.path == "/messages/*/name"),
    Kind("Responses: `type`, `id` and `status` of a message", lambda d: d.path in _OF_A_MESSAGE),
    Kind("Responses: `strict` is added", lambda d: d.path == "/tools/*/strict" and d.recorded == ABSENT),
    Kind("Google: the role of a system instruction", lambda d: d.path == "/systemInstruction/role"),
    Kind(
        "Google: consecutive texts in a content become one text",
        lambda d: d.path == "/contents/*/parts" and [{"text": "".join(map(_text_of, d.recorded))}] == d.built,
    ),
    Kind(
        "Google: a first call without a signature gets the value that passes Gemini 3's check",
        lambda d: d.path.endswith("/thoughtSignature") and d.recorded == ABSENT,
    ),
    Kind("Ollama: a result names its tool", lambda d: d.path == "/messages/*/tool_name" and d.recorded == ABSENT),
)
_OF_A_MESSAGE = ("/input/*/type", "/input/*/id", "/input/*/status")


def _without_first(difference: Difference) -> bool:
    """Return whether the recorded input and the rebuilt input differ only in a first message."""
    if not (difference.path == "/input" and isinstance(difference.recorded, list)):
        return False
    texts = [_text_alone([one]) for one in difference.recorded[1:]]
    return texts == [_text_alone([one]) for one in difference.built] and None not in texts


def _text_alone(value: Payload) -> str | None:
    """Return the text that a value is, or that is its only content."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        [only] = value
        return _text_alone(only.get("content", only.get("text")))
    return value if isinstance(value, str) else None


def _text_of(part: Payload) -> str:
    return part["text"] if isinstance(part, dict) and part.keys() == {"text"} else "\0"


def differences(exchange: Exchange) -> list[Difference]:
    """Return the differences between a recorded request and the request that is built from it.

    Raises MessageFormatError.
    """
    dialect, reader = DIALECTS[exchange.dialect], dialect_of(exchange.dialect)
    assert reader is not None
    reading = reader.read_request(_copy(exchange.request))
    messages = to_messages(_copy([message.to_document() for message in reading.messages]))
    built = _copy(dialect.build_request(messages, reading.tools, reading.parameters))
    recorded = exchange.request
    if exchange.dialect == "google-generate":
        recorded = _camel(
            {name: value for name, value in recorded.items() if name not in ("generationConfig", "model")}
        )
        config = built.get("config", {})
        told = {"tools": config.get("tools", ABSENT), "systemInstruction": config.get("system_instruction", ABSENT)}
        built = {"contents": built["contents"], **{name: value for name, value in told.items() if value != ABSENT}}
    return [Difference(exchange.dialect, *found) for found in _compared(recorded, built, "")]


def kinds(exchange: Exchange) -> set[str]:
    """Return the names of the kinds in which a request differs. A difference of no kind is its own name."""
    return {
        next((kind.name for kind in KINDS if kind.applies(difference)), str(difference))
        for difference in differences(exchange)
    }


def count() -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Count for each dialect the requests and the equal requests, and for each kind the requests with such a
    difference.
    """
    asked, same, differing = Counter[str](), Counter[str](), Counter[str]()
    for exchange in load():
        if exchange.dialect not in DIALECTS:
            continue
        asked[exchange.dialect] += 1
        try:
            found = kinds(exchange)
        except MessageFormatError:
            found = {"a role that no provider has is refused"}
        same[exchange.dialect] += not found
        differing.update(found)
    return asked, same, differing


def markdown() -> str:
    """Return both tables as the docs have them."""
    asked, same, differing = count()
    lines = ["| dialect | requests | requests that were built again without a difference |", "| --- | --- | --- |"]
    lines += [f"| {api} | {asked[api]} | {same[api]} |" for api in DIALECTS]
    lines += ["", "| difference | requests |", "| --- | --- |"]
    lines += [f"| {name} | {number} |" for name, number in differing.most_common()]
    return "\n".join(lines)


def _compared(recorded: Payload, built: Payload, path: str) -> Iterator[tuple[str, Payload, Payload]]:
    if isinstance(recorded, dict) and isinstance(built, dict):
        for name in sorted(recorded.keys() | built.keys()):
            yield from _compared(recorded.get(name, ABSENT), built.get(name, ABSENT), f"{path}/{name}")
    elif isinstance(recorded, list) and isinstance(built, list) and len(recorded) == len(built):
        for one, other in zip(recorded, built, strict=True):
            yield from _compared(one, other, f"{path}/*")
    elif json.dumps(recorded) != json.dumps(built):
        yield path, recorded, built


def _camel(request: Payload) -> Payload:
    """Rename a member that Google's SDK writes in snake case. The server accepts both."""
    return json.loads(json.dumps(request).replace('"parameters_json_schema"', '"parametersJsonSchema"'))


def _copy(value: Payload) -> Payload:
    return json.loads(json.dumps(value))


if __name__ == "__main__":
    print(markdown())
