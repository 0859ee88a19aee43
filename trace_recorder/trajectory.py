"""The values of a trajectory: what one run of an agent did.

Everything here is plain, immutable data: no file is opened, no SDK is known, nothing is derived that the journal
does not say. Readers (`providers/`) make `RequestReading` and `LLMResponse` from a provider's raw JSON; the fold
(`document.py`) makes a `Trajectory` from a journal.

Unknown is absent: a token count that the provider did not give is None, never 0. What a provider says that has no
place in these values stays beside it in `extra`, under the provider's own names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Payload = Any
"""A provider's raw JSON: dict, list, str, int, float, bool or None. The only place for Any."""

Role = Literal["system", "developer", "user", "assistant", "tool"]
Status = Literal["running", "completed", "failed", "interrupted", "unknown"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model asks for a tool. `arguments` is the parsed object, or the raw text where it is no JSON object.

    `call_id` is empty only inside a reader; where the provider gives none, one is made up and
    `call_id_made_up` says so.
    """

    call_id: str
    name: str
    arguments: Payload
    call_id_made_up: bool = False
    extra: dict[str, Payload] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came back from a tool: `result` as the Python object's JSON, or `error` as text."""

    call_id: str
    name: str | None = None
    success: bool | None = None
    result: Payload = None
    error: str | None = None
    extra: dict[str, Payload] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation, in the one form that all providers share.

    `content` is a str where the message is one text; otherwise the list of its parts, in order: text as
    {"type": "text", "text": …}, every other part as the provider has it. `reasoning` is the model's thinking where
    it was sent back. A tool message has the `call_id` that it answers.
    """

    role: str
    content: str | list[Payload] | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    name: str | None = None
    reasoning: str | None = None
    extra: dict[str, Payload] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that was offered to the model. `raw` is its declaration as it was sent."""

    name: str
    description: str | None = None
    parameters: Payload = None
    raw: Payload = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counts them; None is unknown.

    Providers differ in whether `input_tokens` includes the cached ones (OpenAI, Google: yes; Anthropic: no): the
    number stands as the provider gave it. `cost` is the provider's own bill in US dollars, never an estimate.
    `extra` is every other member of the provider's usage object.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None
    extra: dict[str, Payload] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the answers of a response. `extra` holds what else it has, such as `logprobs` and `token_ids`."""

    index: int
    content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    extra: dict[str, Payload] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LLMResponse:
    """What the model said: the first choice's content, reasoning, tool calls and finish reason, and all `choices`.

    `finish_reason` is the provider's own word. `extra` holds every member of the provider's answer that has no
    place here (`system_fingerprint`, `service_tier`, …).
    """

    content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    usage: Usage | None = None
    model: str | None = None
    id: str | None = None
    choices: tuple[Choice, ...] = ()
    extra: dict[str, Payload] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RequestReading:
    """A request as a reader understands it: `parameters` is every member that is neither messages nor tools."""

    messages: list[Message] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=list)
    parameters: dict[str, Payload] = field(default_factory=dict)
    model: str | None = None


@dataclass(frozen=True, slots=True)
class JoinedStream:
    """A stream put together: `body` has the shape of the provider's answer without streaming.

    `ended` is whether the protocol's own end was seen ([DONE], message_stop, done: true, a finish reason).
    `events` counts the events. `error` is the provider's error object, where the stream carried one.
    """

    body: Payload
    ended: bool
    events: int
    error: Payload = None
