"""What a vocabulary says of a span. Several may speak of the same span; `merged` joins what they say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Literal

from trace_recorder.imports.foreign.run import Members
from trace_recorder.values.messages import LLMResponse, Message, Payload, Usage
from trace_recorder.values.structs import replace

Kind = Literal["call", "tool", "agent"]


@dataclass(slots=True, kw_only=True)
class Reading:
    """A span's meaning. What a vocabulary does not say is None; `kind` None is a span that only groups others.

    Of a call, `input` and `output` are what it was given and gave where that is in no form of messages. Of a tool,
    `input` are its arguments and `output` its result; of an agent, its task and its final answer.
    `first_token` is the time of the first token, `first_token_seconds` how long it took. `api` is the way in which
    `usage` counts tokens, if that is not the format's own.
    """

    kind: Kind | None = None
    name: str | None = None
    messages: list[Message] | None = None
    response: LLMResponse | None = None
    usage: Usage | None = None
    finish_reason: str | None = None
    response_id: str | None = None
    response_model: str | None = None
    model: str | None = None
    provider: str | None = None
    tools: list[Payload] | None = None
    parameters: Members = field(default_factory=dict)
    stream: bool | None = None
    first_token: str | None = None
    first_token_seconds: float | None = None
    api: str | None = None
    call_id: str | None = None
    input: Payload = None
    output: Payload = None
    failed: bool | None = None
    error: str | None = None
    error_type: str | None = None
    continues: bool = False
    """Whether this is the end of a call that another span began."""

    def take_answer(self, answer: LLMResponse | None) -> None:
        """Take a response, and what it says of itself: why it ended, its id and its model."""
        self.response = answer
        if answer is not None:
            self.finish_reason, self.response_id, self.response_model = answer.finish_reason, answer.id, answer.model


def if_known(usage: Usage) -> Usage | None:
    """Return counts; None if none is known."""
    return usage if usage.is_known else None


_JOINED_APART = ("parameters", "continues", "api", "usage", "messages")


def merged(readings: Iterable[Reading]) -> Reading:
    """Join readings of one span: of each thing, what the first says that says anything of it.

    Of messages the longest list is taken: some leave out the instructions.
    """
    whole = Reading()
    for reading in readings:
        for member in fields(Reading):
            if member.name not in _JOINED_APART and getattr(whole, member.name) is None:
                setattr(whole, member.name, getattr(reading, member.name))
        _add_usage(whole, reading)
        if reading.messages is not None and len(reading.messages) > len(whole.messages or ()):
            whole.messages = reading.messages
        whole.parameters = reading.parameters | whole.parameters
        whole.continues = whole.continues or reading.continues
    return whole


def _add_usage(whole: Reading, more: Reading) -> None:
    """Add the counts of another reading of the same span; those that are counted in another way are left aside."""
    if whole.usage is None:
        whole.usage, whole.api = more.usage, more.api
    elif more.usage is not None and whole.api == more.api:
        counts = {name: getattr(whole.usage, name) for name in _COUNTS}
        filled = {name: getattr(more.usage, name) if count is None else count for name, count in counts.items()}
        whole.usage = replace(whole.usage, **filled)


_COUNTS = (
    *("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
    *("reasoning_tokens", "cost"),
)
