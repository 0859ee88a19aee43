"""A wire dialect: one record with all that the package knows of it, in the module that reads it.

Its functions turn a provider's raw JSON into values. They never raise for what a provider sends; a body that they do
not understand is still on file, raw.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

from trace_recorder import registry
from trace_recorder.background_work import yield_to_others
from trace_recorder.dialects.split_messages import MergeRule
from trace_recorder.signal_handlers import ours
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.messages import JoinedStream, LLMResponse, Message, Payload, RequestReading
from trace_recorder.values.structs import Struct, replace
from trace_recorder.values.token_counts import Counting

MANUAL = "manual"
"""The dialect of what the agent records by hand. It has no name on file: there, `api` is null."""

Operation = Literal["chat", "text_completion", "generate_content", "embeddings"]
"""The purpose of a call, in the words of OpenTelemetry's conventions."""


class ReadResponse(Protocol):
    """A reader of the JSON that came."""

    def __call__(self, body: Payload, made_up_ids: int = 0) -> LLMResponse:
        """Read it. `made_up_ids` is how many tool calls of the request have made-up ids."""


class History(Struct, frozen=True):
    """The list in a request that has its messages, if it can be read element by element.

    `read_message` reads one element; missing ids stay empty. `merge_rule` merges neighbours. It is None if each element
    is a message of its own.
    """

    member: str
    read_message: Callable[[Payload], list[Message]]
    merge_rule: MergeRule | None = None


class Background(Struct, frozen=True):
    """How a response is polled that a provider makes in the background.

    `path` matches the end of a poll's path; its first group is the id of the response, its second one is there if the
    request cancels it. `resumed_is_whole` says whether a stream that is resumed has the whole response.
    """

    path: re.Pattern[str]
    resumed_is_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The form of requests and responses at some addresses. Every member must be given."""

    name: str
    """Its name on file, `api`."""
    addresses: Mapping[str, str]
    """The ends of paths, as patterns, with the provider that serves them if the host does not say who does."""
    sdks: tuple[str, ...]
    """The SDKs that speak it: the one of the call's provider, or else the first (`endpoints.BASE_URL_VARIABLES`)."""
    headers: Mapping[str, str]
    """The headers that each request needs, without the key."""
    operation: Operation
    read_request: Callable[[Payload], RequestReading]
    """Reads the JSON that was sent."""
    read_response: ReadResponse
    join_stream: Callable[[str], JoinedStream]
    """Joins the text of a stream, wherever it was cut off."""
    not_found: Callable[[str], Payload]
    """Returns the body of an error that says, with this message, that nothing was found."""
    history: History | None
    """None if requests are read as wholes."""
    numbers_calls: bool
    """Whether tool calls without an id get one, counted over the request (`call_ids.py`)."""
    instructions_apart: bool
    """Whether requests have the instructions in a member of their own, and readings have them as system messages."""
    with_system: Callable[[dict[str, Payload], str], dict[str, Payload]] | None
    """Returns a request with another system prompt; None if requests have none."""
    counting: Counting
    """The parts that the stated token counts include."""
    usage_on_request: bool
    """Whether a stream states token counts only if `stream_options={"include_usage": True}` asks for them.

    Some servers state them anyway. The recorder never changes a request.
    """
    background: Background | None
    """None if the dialect makes no responses in the background."""


DIALECTS: registry.Records[Dialect] = registry.DIALECTS


@lru_cache(maxsize=64)
def dialect_of(api: str | None) -> Dialect | None:
    """Return a dialect by its name on file; None for an unknown one."""
    return DIALECTS.get(api or "")


DIALECTS.on_change.append(dialect_of.cache_clear)


def is_embedding(api: Payload) -> bool:
    """Whether calls of a dialect make embeddings. They are no conversations."""
    dialect = dialect_of(api) if isinstance(api, str) else None
    return dialect is not None and dialect.operation == "embeddings"


USAGE_ADVICE = 'set stream_options={"include_usage": True} in the request'


def may_omit_usage(api: str | None, include_usage: Payload) -> bool:
    """Whether a stream may leave out its token counts, since the request's option was not true."""
    dialect = dialect_of(api)
    return dialect is not None and dialect.usage_on_request and include_usage is not True


def join_stream(api: str | None, data: bytes) -> JoinedStream | None:
    """Join the bytes of a stream; None for an unknown dialect.

    A stream that was cut off may end in half a character, or half a surrogate pair: it becomes U+FFFD.
    """
    dialect = dialect_of(api)
    if dialect is None:
        return None
    yield_to_others()
    text = data.decode("utf-8", "replace")
    yield_to_others()
    joined = dialect.join_stream(text)
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
"""The reason that `why_incomplete` returns if nothing came after the part that is on file."""


def why_incomplete(joined: JoinedStream | None) -> str | None:
    """Return why a stream is incomplete although HTTP ended cleanly; None if it is complete, or if that is unknown."""
    if joined is None or joined.ended is not False:
        return None
    return _NO_LAST_EVENT if joined.error is None else _CARRIED_ERROR
