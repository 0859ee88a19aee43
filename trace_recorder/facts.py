"""The facts of a run: one type for each thing that can happen, and so for each kind of record in a journal.

Every writer makes facts. The class of a fact is the schema of its record: the JSON Schema of the journal and the table
in `docs/format.md` are made from this file. Readers get facts too, so nobody spells the name of a record's member
elsewhere. A `Maybe` may be missing. It is then None here, and is never null in a record. A member that may be missing,
and may also be null, has the default `ABSENT`.

A member is the recorder's own (ids, times, counts, and names that the run has masked already), or `Foreign`: content
that the recorder did not make. Own members come first in a record. Foreign members follow and are masked when the fact
is written. The value of a foreign member is JSON, or `JsonText`, which is written as it is.

`Itemized` facts have a JSON object as their `body`. Lists and large members of that object are stored once, as items.
`storage/fact_writer.py` writes all facts.
"""

from collections.abc import Callable, Mapping
from functools import cache
from inspect import get_annotations
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

from trace_recorder.values.document_members import (
    Count,
    Described,
    InDocument,
    Integer,
    Keyword,
    Number,
    Seconds,
    StatedTime,
    Text,
    marks_of,
)
from trace_recorder.values.llm_interaction import ErrorInfo
from trace_recorder.values.messages import Payload
from trace_recorder.values.origins import ReplayedFrom
from trace_recorder.values.structs import Struct
from trace_recorder.values.trajectory import Status

Value = TypeVar("Value")
_FOREIGN, _MAYBE, _KEY = "foreign", "maybe", "key"
Foreign = Annotated[Value, _FOREIGN]
"""The type of a member with content that the recorder did not make. It is masked when the fact is written."""
Maybe = Annotated[Value | None, _MAYBE]
"""The type of a member that may be missing. A missing member is None."""
Key = Annotated[Value, _KEY]
"""The type of a member that the record is worth nothing without, such as an id by which records refer to each other.

A record whose key is missing or has another type cannot be used.
"""

Json = dict[str, Payload]
ErrorJson = Annotated[Json, InDocument(ErrorInfo)]
ReplayedFromJson = Annotated[Json, InDocument(ReplayedFrom)]
Positive = Annotated[int, Keyword("minimum", 1)]
Pair = Annotated[list[Count], Keyword("minItems", 2), Keyword("maxItems", 2)]


class ForkedAt(Struct, frozen=True, kw_only=True):
    """The call of the forked run at which the fork begins.

    From this call on, the fork sends its calls to the provider.
    """

    interaction_id: Key[str]
    step_number: Integer | None


ForkedAtJson = Annotated[Json, InDocument(ForkedAt)]


class AddedMembers(Struct, frozen=True, kw_only=True):
    """The `members` that the proxy added to the body of a request, and the kind of `server` that takes them."""

    server: str
    members: Json


AddedJson = Annotated[Json, InDocument(AddedMembers)]


class _Absent:
    """The value of a member that is not in the record."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Any = _Absent()


class JsonText(Struct, frozen=True, gc=False):
    """A value as JSON text on one line, such as a body from the wire, which stays exact.

    `data` is the same text in UTF-8, if it is at hand. It need not be encoded again if nothing in it is masked.
    """

    text: str
    data: bytes | None = None


class Fact(Struct, frozen=True, kw_only=True, gc=False):
    """Something that happened in a run. `redacted` is how many secrets were masked in the record, if any."""

    kind: ClassVar[str] = ""
    exactly_one_of: ClassVar[tuple[str, ...]] = ()
    """Exactly one of these members is in a record."""
    redacted: Maybe[Positive] = None


class FactMembers(NamedTuple):
    """Some members of a kind of fact. `absences` has the value with which each of them is left out of a record."""

    names: tuple[str, ...]
    values: Callable[[Fact], tuple[Payload, ...]]
    absences: tuple[Payload, ...]


_LAST = ("redacted", "items", "body")
"""In a record, `redacted` and `items` are the last own members, and `body` is the last foreign one."""


@cache
def own_and_foreign_members(kind: type[Fact]) -> tuple[FactMembers, FactMembers]:
    """Return the own members and the foreign members of a kind of fact, each in the order of its records."""
    hints = hints_of(kind)
    first = [name for name in kind.__struct_fields__ if name not in _LAST]
    names = [*first, *(name for name in _LAST if name in kind.__struct_fields__)]
    foreign = [name for name in names if _FOREIGN in marks_of(hints[name])]
    return _members_named([name for name in names if name not in foreign], hints), _members_named(foreign, hints)


def _members_named(names: list[str], hints: Mapping[str, Any]) -> FactMembers:
    absent = {name: None for name in names if may_be_missing(hints[name])}
    absences = tuple(absent.get(name, ABSENT) for name in names)
    if len(names) > 1:
        return FactMembers(tuple(names), attrgetter(*names), absences)
    return FactMembers(tuple(names), lambda fact: tuple(getattr(fact, name) for name in names), absences)


def hints_of(kind: type[Fact]) -> dict[str, Any]:
    """Return the types of a fact's members by their names, with their marks."""
    return {name: hint for base in reversed(kind.__mro__) for name, hint in get_annotations(base).items()}


def may_be_missing(hint: Any) -> bool:
    """Return whether the type of a member is `Maybe`."""
    return _MAYBE in marks_of(hint)


def is_key(hint: Any) -> bool:
    """Return whether the type of a member is `Key`."""
    return _KEY in marks_of(hint)


# ── parts of facts ───────────────────────────────────────────────────────────────────────────────────────────────────


class BasePositions(Struct, frozen=True, kw_only=True):
    """A range of the list to which a `DeltaList` refers. `base` has the first and the last position of the range."""

    base: Pair


class DeltaList(Struct, frozen=True, kw_only=True):
    """A list of item numbers as a difference to the list of the same name in the record `base`.

    An element of `ranges` is a range of item numbers, or a range of positions in the list of the record `base`.
    """

    base: Positive
    ranges: list[Pair | BasePositions]


ItemNumbers = list[Pair] | DeltaList
"""The item numbers of a list: ranges of numbers, or the difference to an earlier list."""
Parts = dict[str, Count | ItemNumbers]
"""The members of a body that are stored as items: the number of an item, or the numbers of a list's elements."""


class InStep(Fact, frozen=True, kw_only=True, gc=False):
    """A fact of an agent and a step, if the agent named them."""

    agent: Maybe[Text] = None
    agent_id: Maybe[str] = None
    parent_agent_id: Maybe[str] = None
    parent_execution_id: Maybe[str] = None
    step_id: Key[Maybe[str]] = None
    step_number: Maybe[Integer] = None


class Itemized(InStep, frozen=True, kw_only=True, gc=False):
    """A fact of a step with a JSON object whose lists and large members are stored as items.

    In place of such a member, `body` has null, and `items` has the numbers of the items.
    """

    items: Maybe[Parts] = None
    body: Foreign[Payload] = ABSENT


class OfExchange(Fact, frozen=True, kw_only=True, gc=False):
    """A fact of one HTTP exchange: an attempt of an interaction."""

    interaction_id: Key[str]
    attempt: Key[Count]


# ── the run ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class StartFact(Fact, frozen=True, kw_only=True, gc=False):
    """The first record: who wrote the run, on which machine and in which process, and what the caller states.

    `schema` and `version` name the format, and `trajectory_id` the run. `host`, `pid`, `process_start` (in seconds
    since the epoch), `recorder` (the version of the package), `python` and `platform` are those of the process.
    `parent` is the trajectory id of the run that this fork continues, or in which the process of this run was started.
    A fork continues its parent at `forked_at`, and a replay repeats the run `replay_of`. `task`, `provider`, `model`,
    `max_steps` and `metadata` are the caller's. `session` is the caller's name for all runs that belong together, such
    as the turns of one chat. The record of an imported run has no members about a process, from
    `host` to `platform`, and its `metadata` states the source. If not everything was written, `content` says so: names
    of people and machines are "masked", or "none" of the texts is there (see *Content*).
    """

    kind = "start"
    schema: Literal["trace-recorder/journal"]
    version: int
    trajectory_id: str
    host: Maybe[str] = None
    pid: Maybe[int] = None
    process_start: Maybe[float] = None
    recorder: Maybe[str] = None
    python: Maybe[str] = None
    platform: Maybe[str] = None
    parent: Maybe[str] = None
    provider: Text | None
    model: Text | None
    max_steps: Integer | None
    forked_at: Maybe[ForkedAtJson] = None
    replay_of: Maybe[str] = None
    content: Maybe[Literal["masked", "none"]] = None
    task: Foreign[Text | None]
    session: Foreign[Maybe[Text]] = None
    metadata: Foreign[Json]


class AnnotationFact(Fact, frozen=True, kw_only=True, gc=False):
    """An annotation of the run, with a `key`, or a summary of the step with the number `lakeview_step`.

    `value` is the annotation or the summary. The annotation `exit_code` comes after `finalize`. If the exit code shows
    that this `finalize` was wrong, a second `finalize` follows.
    """

    kind = "annotation"
    exactly_one_of = ("key", "lakeview_step")
    key: Maybe[str] = None
    lakeview_step: Maybe[Integer] = None
    value: Foreign[Key[Payload]]


class RedactionFact(Fact, frozen=True, kw_only=True, gc=False):
    """A copy of an earlier record's data, with a value masked that became known as a secret later.

    `of` is the number of the earlier record, a `start` or an `annotation`. Of a `start`, the copy has `task`,
    `session` and `metadata`. Of an `annotation`, it has `value`.
    """

    kind = "redaction"
    exactly_one_of = ("task", "value")
    of: Key[Positive]
    task: Foreign[Text | None] = ABSENT
    session: Foreign[Maybe[Text]] = None
    metadata: Foreign[Maybe[Json]] = None
    value: Foreign[Payload] = ABSENT


class RemovalFact(Fact, frozen=True, kw_only=True, gc=False):
    """Texts were removed from the run after its end.

    The whole journal was written again, and this record was then its last one. `rules` has the kind of
    each rule: "text", "pattern", "function" with its name, or "path" with its address. They never say what was removed.
    `places` is how many places were changed.
    """

    kind = "removal"
    rules: list[Text]
    places: Count


class RewardFact(Fact, frozen=True, kw_only=True, gc=False):
    """A reward of the run, or of the step `step_number`: `name`, `value`, `weight` and `explanation`.

    It may follow `finalize`, if a run is scored later.
    """

    kind = "reward"
    name: Text
    value: Number
    weight: Number
    step_number: Integer | None
    explanation: Foreign[Text | None]


class GapFact(Fact, frozen=True, kw_only=True, gc=False):
    """Something that could not be recorded. `time` is when it happened, `what` names it, and `why` gives the reason.

    "(7 more)" at the end of `why` means seven more gaps of the same kind.
    """

    kind = "gap"
    time: StatedTime
    what: Foreign[Text]
    why: Foreign[Text]


class FinalizeFact(Fact, frozen=True, kw_only=True, gc=False):
    """How the run ended: `status`, `success`, `final_result` and `execution_time` in seconds.

    A run that failed has the `error`. Rewards, annotations and a corrected end may follow. The last record of this kind
    counts.
    """

    kind = "finalize"
    status: Status
    success: Described[bool] | None
    execution_time: Seconds | None
    final_result: Foreign[Payload]
    error: Foreign[Maybe[ErrorJson]] = None


class SourceRecordFact(Fact, frozen=True, kw_only=True, gc=False):
    """An unchanged part of an imported run's source that no other kind of record can express.

    `what` names the part, and `value` is the part. No reader derives anything from it.
    """

    kind = "source_record"
    what: Foreign[str]
    value: Foreign[Payload]


# ── calls of a model ─────────────────────────────────────────────────────────────────────────────────────────────────


class ItemFact(Fact, frozen=True, kw_only=True, gc=False):
    """A part of a request that is stored once (see *Items*). Requests refer to it by its number.

    An element of a list, or a large member, has the number `n`. A large string inside such a part has the number `s`,
    and its place in `value` has a placeholder. `strings` has the numbers of these strings by their placeholders.
    """

    kind = "item"
    exactly_one_of = ("n", "s")
    n: Key[Maybe[Count]] = None
    s: Key[Maybe[Count]] = None
    strings: Maybe[dict[str, Count]] = None
    value: Foreign[Key[Payload]]


class LLMRequestFact(Itemized, frozen=True, kw_only=True, gc=False):
    """A request. It is written before the request is sent (see *Bodies that pass* for the exception).

    All facts of a call have its `interaction_id`, and `attempt` counts its HTTP exchanges from 0. `inferred` is true if
    the recorder inferred that a request is a retry, and `run_inferred` if it inferred the run. `api` is the dialect,
    and `provider` is who serves it. `model` comes from the path, if it is there. `method`, `url`, `headers` and
    `stream` describe the request. A JSON object is the `body`, and `items` has its parts that are stored once. Any
    other body is stored as `text` or `base64`. `added` has what the proxy added to the body (see *Added members*).
    A request that was sent over a websocket has the `connection_id` of the websocket (see *Websockets*). Its `body` is
    the client's event, or an empty object if the server began the response by itself.
    """

    kind = "llm_request"
    exactly_one_of = ("body", "text", "base64")
    interaction_id: Key[str]
    attempt: Key[Count]
    api: str
    provider: str
    model: Maybe[str] = None
    method: str
    stream: Maybe[bool] = None
    inferred: Maybe[bool] = None
    run_inferred: Maybe[bool] = None
    connection_id: Maybe[str] = None
    added: Maybe[AddedJson] = None
    url: Foreign[str]
    headers: Foreign[dict[str, str]]
    text: Foreign[Maybe[str]] = None
    base64: Foreign[Maybe[str]] = None


class LLMStreamFact(OfExchange, frozen=True, kw_only=True, gc=False):
    """A part of a stream: `bytes` bytes of text in `zlib`, compressed with zlib, in base64. Parts follow one another.

    `status` and `headers` are those of the response. `time_to_first_token_seconds` counts from the request.
    `chunk_ends`, `chunk_times` and `continues` state the chunks (see *Chunks*), and `framing` is "aws-eventstream" for
    such frames (see *Frames*). If a recording gave the answer, `replayed_from` states its origin (see *Answers from a
    recording*). `interaction_id` and `attempt` are as in `llm_request`.
    """

    kind = "llm_stream"
    replayed_from: Maybe[ReplayedFromJson] = None
    status: int
    time_to_first_token_seconds: Seconds | None
    bytes: Count
    zlib: str
    chunk_ends: Maybe[str] = None
    chunk_times: Maybe[str] = None
    continues: Maybe[bool] = None
    framing: Maybe[str] = None
    headers: Foreign[dict[str, str]]


class LLMResponseFact(OfExchange, frozen=True, kw_only=True, gc=False):
    """A response that was received completely or partly.

    `interaction_id` and `attempt` are as in `llm_request`. `status` and `headers` are those of the response, and
    `duration_seconds` counts from the request to the end. If the response is not `complete`, `ended_by` says why, and
    `error` is the exception. A body is stored as `body`, `text` or `base64`. A stream has `stream` true, and in place
    of the body `assembled`, which is one response made from its events. It also has the numbers of `chunks` and
    `events`, `last_event` (see *The end of a stream*), `time_to_first_token_seconds` and `time_to_last_token_seconds`.
    A record with `polled` is a second response of the same attempt (see *Responses in the background*).
    `replayed_from`: see *Answers from a recording*.
    """

    kind = "llm_response"
    exactly_one_of = ("body", "text", "base64", "assembled")
    replayed_from: Maybe[ReplayedFromJson] = None
    status: int
    duration_seconds: Maybe[Seconds] = None
    complete: bool
    stream: Maybe[bool] = None
    chunks: Maybe[Count] = None
    events: Maybe[Count] = None
    last_event: Maybe[bool] = None
    polled: Maybe[bool] = None
    time_to_first_token_seconds: Maybe[Seconds] = None
    time_to_last_token_seconds: Maybe[Seconds] = None
    headers: Foreign[dict[str, str]]
    ended_by: Foreign[Maybe[str]] = None
    error: Foreign[Maybe[ErrorJson]] = None
    body: Foreign[Payload] = ABSENT
    text: Foreign[Maybe[str]] = None
    base64: Foreign[Maybe[str]] = None
    assembled: Foreign[Payload] = ABSENT


class LLMErrorFact(OfExchange, frozen=True, kw_only=True, gc=False):
    """The error of an exchange that got no response: its class is the `type`, and `message` is its message.

    `interaction_id`, `attempt`, `duration_seconds` and `replayed_from` are as in `llm_response`.
    """

    kind = "llm_error"
    replayed_from: Maybe[ReplayedFromJson] = None
    duration_seconds: Maybe[Seconds] = None
    type: Foreign[str]
    message: Foreign[Text]


class LLMInteractionFact(Itemized, frozen=True, kw_only=True, gc=False):
    """An interaction that the agent recorded by hand, or an imported interaction.

    It has an `interaction_id`, and `provider`, `model`, `response` and `error` as they were given. `body` and `items`
    have its messages, tools and, if it is imported, parameters. Only an imported interaction has `api`, which is the
    format of its source, and `duration_seconds`, `time_to_first_token_seconds`, `stream`, `complete`, `ended_by` and
    `replayed_from`, if its source states them.
    """

    kind = "llm_interaction"
    exactly_one_of = ("body",)
    interaction_id: Key[str]
    provider: Text | None
    model: Text | None
    api: Maybe[str] = None
    duration_seconds: Maybe[Seconds] = None
    time_to_first_token_seconds: Maybe[Seconds] = None
    stream: Maybe[bool] = None
    complete: Maybe[bool] = None
    replayed_from: Maybe[ReplayedFromJson] = None
    response: Foreign[Payload]
    error: Foreign[Maybe[ErrorJson]] = None
    ended_by: Foreign[Maybe[str]] = None


# ── steps and tools ──────────────────────────────────────────────────────────────────────────────────────────────────


class StepStartFact(InStep, frozen=True, kw_only=True, gc=False):
    """The start of a step that is a `with` block. Later records with the same `step_id` belong to the step.

    `step_number` is the number of the step.
    """

    kind = "step_start"
    step_id: Key[str]
    step_number: Integer


class AgentStepFact(Itemized, frozen=True, kw_only=True, gc=False):
    """One step of the agent, with its `step_number` and its `state`.

    `llm_response`, `tool_calls`, `tool_results`, `reflection` and `error` are as the agent gave them. `body` and
    `items` have the step's `llm_messages`. A record with a `step_id` adds to the step with that id. If it also has
    `duration_seconds`, the block of the step has ended. If no record of the block states a `state`, readers derive it
    (see *Steps and tools*).
    """

    kind = "agent_step"
    exactly_one_of = ("body",)
    step_number: Integer
    state: Text | None
    duration_seconds: Maybe[Seconds] = None
    llm_response: Foreign[Payload]
    tool_calls: Foreign[list[Payload] | None]
    tool_results: Foreign[list[Payload] | None]
    reflection: Foreign[Text | None]
    error: Foreign[Payload]


class ToolCallFact(InStep, frozen=True, kw_only=True, gc=False):
    """A tool, recorded before it runs: its `execution_id`, `name` and `arguments`.

    `call_id` is there if the agent stated for which tool call the tool runs. If the tool comes from a session file that
    was joined to the run, `began` is when the tool began, and `interaction_id` is the interaction that asked for the
    tool.
    """

    kind = "tool_call"
    execution_id: Key[str]
    name: Text
    call_id: Maybe[Text] = None
    interaction_id: Maybe[str] = None
    began: Maybe[StatedTime] = None
    arguments: Foreign[Payload]


class ToolResultFact(InStep, frozen=True, kw_only=True, gc=False):
    """The result of a tool, with the `execution_id`, `name` and `call_id` of its call.

    `success`, `result`, `error` and `duration_seconds` say how it ended. `replayed` is true if a recording gave the
    result, and the tool did not run. If the tool is a generator, `result` has the first 1,000 values that it yielded,
    `yielded` is how many it yielded, and `returned` is its return value. If the generator was closed early, `success`
    is null, and `ended_by` says so.
    """

    kind = "tool_result"
    execution_id: Key[str]
    name: Text
    call_id: Maybe[Text] = None
    success: bool | None
    duration_seconds: Maybe[Seconds] = None
    yielded: Maybe[Count] = None
    ended_by: Maybe[str] = None
    replayed: Maybe[bool] = None
    result: Foreign[Payload]
    returned: Foreign[Payload] = ABSENT
    error: Foreign[Maybe[ErrorJson]] = None


# ── MCP servers ──────────────────────────────────────────────────────────────────────────────────────────────────────


TOOL_USE_IDS = ("claudecode/toolUseId", "callId")
"""The members of `_meta` of a `tools/call` with the model's id of the call: of Claude Code, and of Codex 0.171."""


MCPDirection = Literal["sent", "received"]


class MCPMessageFact(InStep, frozen=True, kw_only=True, gc=False):
    """A JSON-RPC message between a client and an MCP server: its `direction` is "sent" by the client, or "received".

    All messages of one connection have its `connection_id`. `server` is the name that the client's configuration gives
    the server, and `transport` is "stdio", "sse" or "streamable_http", if they are known. `execution_id` is the tool
    execution in which the message was sent. `message` is the JSON. What is not JSON is stored as `text`.
    """

    kind = "mcp_message"
    exactly_one_of = ("message", "text")
    connection_id: Key[str]
    direction: MCPDirection
    server: Maybe[Text] = None
    transport: Maybe[str] = None
    execution_id: Maybe[str] = None
    message: Foreign[Payload] = ABSENT
    text: Foreign[Maybe[str]] = None


class MCPEndFact(Fact, frozen=True, kw_only=True, gc=False):
    """The end of a connection to an MCP server, with its `connection_id`.

    `ended_by` says what ended it, and `exit_code` is the server's, if it is known.
    """

    kind = "mcp_end"
    connection_id: Key[str]
    exit_code: Maybe[int] = None
    ended_by: Foreign[Text]


def execution_of_call(connection_id: str, request_id: Payload) -> str:
    """Return the id of the tool execution that a call of an MCP server is: 1 and "1" are two ids of requests."""
    return f"{connection_id}/{request_id!r}"


# ── websockets ───────────────────────────────────────────────────────────────────────────────────────────────────────


class WebsocketStartFact(InStep, frozen=True, kw_only=True, gc=False):
    """A websocket to a model was opened, or was refused.

    All records of the websocket have its `connection_id`. `api` is the dialect of its events, `provider` is who serves
    it, and `model` comes from the address, if it is there. `url` and `headers` are those of the handshake, which took
    `duration_seconds`. `status`, `subprotocol` and `response_headers` are the server's answer. If there is no
    websocket, `error` is the exception.
    """

    kind = "websocket_start"
    connection_id: Key[str]
    api: str
    provider: str
    model: Maybe[str] = None
    status: Maybe[int] = None
    duration_seconds: Maybe[Seconds] = None
    subprotocol: Maybe[str] = None
    url: Foreign[str]
    headers: Foreign[dict[str, str]]
    response_headers: Foreign[Maybe[dict[str, str]]] = None
    error: Foreign[Maybe[ErrorJson]] = None


class WebsocketFramesFact(Fact, frozen=True, kw_only=True, gc=False):
    """Messages of a websocket in both directions, without those of responses. Records follow one another.

    They have the `connection_id` of the websocket. The text has one message after another, each marked as sent or
    received (see *Websockets*). `bytes`, `zlib`,
    `chunk_ends`, `chunk_times` and `continues` are as in `llm_stream`: a chunk is a message, and times count from the
    handshake.
    """

    kind = "websocket_frames"
    connection_id: Key[str]
    bytes: Count
    zlib: str
    chunk_ends: Maybe[str] = None
    chunk_times: Maybe[str] = None
    continues: Maybe[bool] = None


class WebsocketEndFact(Fact, frozen=True, kw_only=True, gc=False):
    """The end of a websocket, with its `connection_id`, `duration_seconds` after the handshake began.

    `code` and `reason` are those of the closing handshake, if there was one. `ended_by` says who or what ended the
    websocket. `sent` and `received` are how many messages passed in each direction.
    """

    kind = "websocket_end"
    connection_id: Key[str]
    duration_seconds: Maybe[Seconds] = None
    code: Maybe[int] = None
    sent: Maybe[Count] = None
    received: Maybe[Count] = None
    ended_by: Foreign[Text]
    reason: Foreign[Maybe[Text]] = None


StreamPart = LLMStreamFact | WebsocketFramesFact
"""The facts that have a part of a longer text in `zlib`, which is cut at the ends of lines."""


class UnreadFact(Fact, frozen=True, kw_only=True, gc=False):
    """A record that cannot be read as a fact.

    `why` says what is wrong with the record. It is None if the record has a kind that only a later version knows.
    """

    why: str | None = None


KINDS: Mapping[str, type[Fact]] = {
    fact.kind: fact
    for fact in (
        *(
            StartFact,
            ItemFact,
            LLMRequestFact,
            LLMStreamFact,
            LLMResponseFact,
            LLMErrorFact,
            LLMInteractionFact,
            StepStartFact,
            AgentStepFact,
        ),
        *(
            ToolCallFact,
            ToolResultFact,
            AnnotationFact,
            RedactionFact,
            RemovalFact,
            RewardFact,
            GapFact,
            FinalizeFact,
            SourceRecordFact,
        ),
        *(MCPMessageFact, MCPEndFact),
        *(WebsocketStartFact, WebsocketFramesFact, WebsocketEndFact),
    )
}
"""The kinds of facts by their names. A record of any other kind is an `UnreadFact`."""
