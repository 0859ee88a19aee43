"""The readers by dialect: a provider's raw JSON → values.

`reader_of(api)` returns a dialect's reader, a module with `read_request`, `read_response` and `join_stream`. Readers
never raise for what a provider sends; a body that a reader does not understand is still on file, raw.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import import_module
from typing import Protocol, cast

from trace_recorder.background_work import yield_to_others
from trace_recorder.dialects.split_messages import MergeRule
from trace_recorder.signal_handlers import ours
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.messages import JoinedStream, LLMResponse, Message, Payload, RequestReading
from trace_recorder.values.structs import replace

MANUAL = "manual"
"""The dialect of what the agent records by hand. It has no name on file: there, `api` is null."""

_MODULE_OF_API = {
    MANUAL: "manual",
    "openai-chat": "openai_chat",
    "openai-responses": "openai_responses",
    "openai-completions": "openai_completions",
    "embeddings": "embeddings",
    "anthropic-messages": "anthropic_messages",
    "google-generate": "google_generate",
    "google-interactions": "google_interactions",
    "ollama-chat": "ollama_chat",
    "ollama-generate": "ollama_generate",
    "cohere-chat": "cohere_chat",
    "bedrock-converse": "bedrock_converse",
    "bedrock-invoke": "bedrock_invoke",
}

_HISTORY_MEMBER = {
    MANUAL: "messages",
    "openai-chat": "messages",
    "openai-responses": "input",
    "anthropic-messages": "messages",
    "google-generate": "contents",
    "ollama-chat": "messages",
    "bedrock-converse": "messages",
    "cohere-chat": "messages",
}
"""The dialects with requests that can be read element by element, and the list that holds the history."""


class Reader(Protocol):
    """The functions of a dialect's module."""

    def read_request(self, body: Payload) -> RequestReading:
        """Read the JSON that was sent."""

    def read_response(self, body: Payload, made_up_ids: int = 0) -> LLMResponse:
        """Read the JSON that came. `made_up_ids` is how many tool calls of the request have made-up ids."""

    def join_stream(self, text: str) -> JoinedStream:
        """Join the text of a stream, wherever it was cut off."""


class ElementReader(Reader, Protocol):
    """The functions of a dialect's module with requests that can be read element by element."""

    def read_message(self, element: Payload) -> list[Message]:
        """Read one element of the history. Missing ids stay empty."""


def join_stream(api: str | None, data: bytes) -> JoinedStream | None:
    """Join the bytes of a stream; None for an unknown dialect.

    A stream that was cut off may end in half a character, or half a surrogate pair: it becomes U+FFFD.
    """
    reader = reader_of(api)
    if reader is None:
        return None
    yield_to_others()
    text = data.decode("utf-8", "replace")
    yield_to_others()
    joined = reader.join_stream(text)
    text = _dump([joined.body, joined.error])
    try:
        text.encode()
    except ours(UnicodeEncodeError):
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        body, error = json.loads(whole)
        return replace(joined, body=body, error=error)
    return joined


_dump = make_json_writer(",", ":", yields=True)
_NO_LAST_EVENT = "the stream ended without its last event"
_CARRIED_ERROR = "the stream carried an error"
ENDED_BY_SERVER = frozenset({_NO_LAST_EVENT, _CARRIED_ERROR})
"""What `why_incomplete` returns: nothing came after the part that is on file."""


def why_incomplete(joined: JoinedStream | None) -> str | None:
    """Return why a stream is incomplete although HTTP ended cleanly; None if it is complete, or if that is unknown."""
    if joined is None or joined.ended is not False:
        return None
    return _NO_LAST_EVENT if joined.error is None else _CARRIED_ERROR


@cache
def reader_of(api: str | None) -> Reader | None:
    """Return the reader of a wire dialect; None for an unknown one."""
    name = _MODULE_OF_API.get(api or "")
    return cast(Reader, import_module(f"trace_recorder.dialects.{name}")) if name else None


@cache
def element_reader_of(api: str | None) -> tuple[ElementReader, str] | None:
    """Return a reader and the name of the history that it reads element by element; None for other dialects."""
    history = _HISTORY_MEMBER.get(api or "")
    return (cast(ElementReader, reader_of(api)), history) if history else None


@cache
def merge_rule_of(api: str | None) -> MergeRule | None:
    """Return the rule by which a dialect merges neighbours; None if each element is a message of its own."""
    return getattr(reader_of(api), "MERGE_RULE", None)


def numbers_calls(api: str) -> bool:
    """Whether tool calls without an id get one, counted over the request (`call_ids.py`)."""
    return api != MANUAL
