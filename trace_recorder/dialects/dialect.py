"""`Dialect`: all that the package knows about one wire dialect. The module that reads a dialect has this record.

The functions of a record turn a provider's raw JSON into values. These functions never raise, whatever the provider
sends. A body that they do not understand is still on file, raw. The functions of this module serve all dialects. They
tell whether a stream is complete, whether a background response is final, and which error a body has.

Sources of background responses: OpenAI's guide "Background mode" (Responses), Google's reference of Interactions, and
the requests of their SDKs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol, get_args

from trace_recorder import registry
from trace_recorder.background_work import yield_to_others
from trace_recorder.dialects.split_messages import MergeRule
from trace_recorder.signal_handlers import ours
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.messages import JoinedStream, LLMResponse, Message, Payload, RequestReading
from trace_recorder.values.structs import Struct, replace
from trace_recorder.values.token_counts import Counting

MANUAL = "manual"
"""The dialect of calls that the agent records by hand. This dialect has no name on file: `api` is null."""

TurnOperation = Literal["chat", "text_completion", "generate_content"]
Operation = Literal[
    TurnOperation, "embeddings", "compaction", "image_generation", "speech", "transcription", "rerank", "moderation"
]
"""The purpose of a call. OpenTelemetry's conventions have the names up to `embeddings`."""


class ReadResponse(Protocol):
    """A reader of a response's JSON."""

    def __call__(self, body: Payload, made_up_ids: int = 0) -> LLMResponse:
        """Read the answer. `made_up_ids` is how many tool calls of the request have made-up ids."""


class History(Struct, frozen=True):
    """The list of messages in a request, if it can be read element by element.

    `read_message` reads one element and adds no ids. `merge_rule` merges neighbouring elements. `merge_rule` is None if
    each element is a separate message. `member` is the name of the list, or its path, such as "/request/contents", if
    it is a member of an object in the request.
    """

    member: str
    read_message: Callable[[Payload], list[Message]]
    merge_rule: MergeRule | None = None


class Background(Struct, frozen=True):
    """How to poll a response that a provider makes in the background.

    `path` matches the end of the path of each poll. Its first group is the id of the response. Its second group matches
    if the request cancels the response. `resumed_is_whole` is True if a resumed stream has the whole response.
    """

    path: re.Pattern[str]
    resumed_is_whole: bool


class Websockets(Struct, frozen=True):
    """How a dialect is spoken over a websocket. Both sides send JSON objects, whose `type` names the event.

    The client asks for a response by `response.create`, and the first event of a response is `response.created`.
    `addresses` maps patterns for the ends of paths to providers, as `Dialect.addresses` does. `last_events` has the
    types of the events that end a response. If `names_responses` is True, each event of a response states the id of
    its response (`response_id`), and several responses may be made at once. Otherwise an event may state its lane
    (`stream_id`), and a lane makes one response at a time.

    If `media_are_kept` is True, the media in a `response.create` are recorded as they are. An agent that repeats its
    history sends them again, and they are stored once.
    """

    addresses: Mapping[str, str]
    last_events: frozenset[str]
    names_responses: bool
    media_are_kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The form of the requests and responses of some providers, and how to read them. Every member must be given."""

    name: str
    """The name of the dialect on file, `api`."""
    addresses: Mapping[str, str]
    """Maps patterns for the ends of paths to the providers that are assumed if the host is unknown."""
    sdks: tuple[str, ...]
    """The SDKs that use the dialect. For a call, the SDK of its provider is chosen, or else the first one."""
    headers: Mapping[str, str]
    """The headers that each request needs, except the header with the key."""
    operation: Operation
    read_request: Callable[[Payload], RequestReading]
    """Reads a request's JSON."""
    read_response: ReadResponse
    join_stream: Callable[[str], JoinedStream]
    """Joins the text of a stream, which may be cut off anywhere."""
    not_found: Callable[[str], Payload]
    """Returns the body of a "not found" error that has this message."""
    history: History | None
    """The list of messages in a request, or None if requests are read as a whole."""
    numbers_calls: bool
    """Whether tool calls without an id get a made-up id, numbered through the whole request (`call_ids.py`)."""
    instructions_apart: bool
    """Whether a request has its instructions in a separate member. The reader makes system messages of them."""
    with_system: Callable[[dict[str, Payload], str], dict[str, Payload]] | None
    """Returns a request with this text as its system prompt.

    The member is None if requests have no system prompt.
    """
    counting: Counting
    """Which tokens are missing in the counts of input and output tokens that an answer states."""
    usage_on_request: bool
    """Whether a stream states token counts only if `stream_options={"include_usage": True}` asks for them.

    Some servers state token counts without this option. The recorder never changes a request.
    """
    background: Background | None
    """How responses are polled, or None if the provider makes no responses in the background."""
    websockets: Websockets | None
    """How the dialect is spoken over a websocket, or None if it is not."""


DIALECTS: registry.Records[Dialect] = registry.DIALECTS


@lru_cache(maxsize=64)
def dialect_of(api: str | None) -> Dialect | None:
    """Return a dialect by its name on file, or None for an unknown name."""
    return DIALECTS.get(api or "")


DIALECTS.on_change.append(dialect_of.cache_clear)


def operation_of(api: str | None) -> Operation:
    """Return the purpose of the calls of a dialect. Calls of an unknown dialect count as chat."""
    dialect = dialect_of(api)
    if dialect is None:
        return "chat"
    return dialect.operation


@lru_cache(maxsize=64)
def is_turn(api: str | None) -> bool:
    """Whether calls of a dialect are turns of a conversation. Embeddings and images, for example, are not."""
    return operation_of(api) in get_args(TurnOperation)


DIALECTS.on_change.append(is_turn.cache_clear)


USAGE_ADVICE = 'set stream_options={"include_usage": True} in the request'


def may_omit_usage(api: str | None, include_usage: Payload) -> bool:
    """Whether a stream may lack token counts because the request did not set `include_usage`."""
    dialect = dialect_of(api)
    return dialect is not None and dialect.usage_on_request and include_usage is not True


def join_stream(api: str | None, data: bytes) -> JoinedStream | None:
    """Join the bytes of a stream, or return None for an unknown dialect.

    If the stream has an error, the body has it too, as the member `error`. A stream that was cut off may end inside a
    character or a surrogate pair, which becomes U+FFFD.
    """
    dialect = dialect_of(api)
    if dialect is None:
        return None
    yield_to_others()
    text = data.decode("utf-8", "replace")
    yield_to_others()
    joined = dialect.join_stream(text)
    if joined.error is not None and isinstance(joined.body, dict) and joined.body.get("error") is None:
        joined = replace(joined, body={**joined.body, "error": joined.error})
    text = _dump([joined.body, joined.error])
    try:
        text.encode()
    except ours(UnicodeEncodeError):
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        body, error = json.loads(whole)
        return replace(joined, body=body, error=error)
    return joined


_dump = make_json_writer(",", ":")
_NO_LAST_EVENT = "the stream ended without its last event"
_CARRIED_ERROR = "the stream carried an error"
ENDED_BY_SERVER = frozenset({_NO_LAST_EVENT, _CARRIED_ERROR})
"""The reasons that `why_incomplete` returns. For both, the server ended the stream without its last event."""


def why_incomplete(joined: JoinedStream | None) -> str | None:
    """Return why a stream is incomplete although HTTP ended cleanly.

    Return None if the stream is complete, or if it is unknown whether the stream is complete.
    """
    if joined is None or joined.ended is not False:
        return None
    if joined.error is not None:
        return _CARRIED_ERROR
    return _NO_LAST_EVENT


NOT_FINAL = ("in_progress", "queued")
"""The values of `status` in a response that is not final."""


def background_id(body: Payload) -> str | None:
    """Return the id by which a response is polled.

    Return None if the response is final, or if the body is not a response with an id.
    """
    if not isinstance(body, dict) or body.get("status") not in NOT_FINAL:
        return None
    identity = body.get("id")
    if isinstance(identity, str) and identity:
        return identity
    return None


def is_final(body: Payload) -> bool:
    """Whether the answer to a poll states that the response is final."""
    return isinstance(body, dict) and isinstance(body.get("status"), str) and body["status"] not in NOT_FINAL


@lru_cache(maxsize=64)
def answers_in_background(api: str) -> bool:
    """Whether a dialect has responses that the provider makes in the background."""
    dialect = dialect_of(api)
    return dialect is not None and dialect.background is not None


DIALECTS.on_change.append(answers_in_background.cache_clear)


def has_whole_response(api: str, url: str) -> bool:
    """Whether the stream that answers a poll has the whole response.

    The last event of OpenAI's streams has the whole response. A resumed stream of Google lacks the earlier events.
    """
    if "last_event_id=" not in url:
        return True
    dialect = dialect_of(api)
    return dialect is not None and dialect.background is not None and dialect.background.resumed_is_whole


def is_in_progress(response: LLMResponse) -> bool:
    """Whether a response is not final yet. The answer to a later poll may be final."""
    return response.finish_reason is None and response.extra.get("status") in NOT_FINAL


def read_error(body: Payload) -> tuple[str | None, str | None]:
    """Return the provider's name for the error in a body, and the error's message. Each is None if it is not stated.

    All dialects share this reader, because their errors differ little:

    - `{"error": {"type" | "code" | "status": …, "message": …}}`: OpenAI, Anthropic, Google, OpenRouter
    - `[{"error": …}]`: Google, if a stream was requested
    - `{"error": "…"}`, `{"message": …}`, `{"detail": …}`: Ollama and many servers

    """
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, str):
        return None, body or None
    if not isinstance(body, dict):
        return None, None
    error = body.get("error")
    if isinstance(error, str):
        return None, error
    members = error if isinstance(error, dict) else body
    kind = next((members[name] for name in ("type", "status", "code") if isinstance(members.get(name), str)), None)
    message = next((members[name] for name in ("message", "detail") if members.get(name) is not None), None)
    if message is not None:
        message = str(message)
    return kind, message
