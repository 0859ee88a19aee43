"""A span as its file states it, access to the span's attributes, and the span's meaning.

A vocabulary marks each attribute that it reads. The attributes that no vocabulary has read are kept unchanged in the
journal. Several vocabularies may read the same span. `merged` joins their readings.

Scores are events named `gen_ai.evaluation.result`, as in the GenAI conventions. Our own export
(`writing/span_maker.py`) writes attributes whose names begin with `trace_recorder.`. In the root span of a run,
these attributes state the task, the status, the success, the metadata and the annotations. In the span of a call that a
replay answered, these attributes state the origin and the usage of the answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from datetime import UTC, timedelta
from typing import Literal, get_args

from trace_recorder.clocks import parse_time
from trace_recorder.dialects.json_access import as_dict, as_int, as_number, as_text
from trace_recorder.dialects.manual import read_usage
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.formats.spans.attribute_names import genai, own
from trace_recorder.values.json_text import check_depth
from trace_recorder.values.messages import LLMResponse, Message, Payload, Usage
from trace_recorder.values.origins import ReplayedFrom
from trace_recorder.values.structs import replace
from trace_recorder.values.trajectory import Status

MAX_ATTRIBUTE_DEPTH = 100
"""JSON in the text of an attribute may have at most this many levels. Deeper JSON remains text."""


def parsed(value: Payload) -> Payload:
    """Parse the text of a JSON object or array. Return any other value unchanged."""
    if not isinstance(value, str) or value.lstrip()[:1] not in {"{", "["}:
        return value
    try:
        check_depth(value, MAX_ATTRIBUTE_DEPTH)
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def utc_time(value: Payload) -> str:
    """Return a time of a source in UTC, so that times can be compared as strings.

    Return "" if the value is not a time.
    """
    time = parse_time(stated_time(value))
    if time is None:
        return ""
    try:
        return time.astimezone(UTC).isoformat(timespec="microseconds")
    except OverflowError:
        return ""


@dataclass(frozen=True, slots=True)
class ForeignSpanEvent:
    """An event of a span, or a log record that belongs to the span. `body` is the body of the log record."""

    name: str
    time: str = ""
    attributes: Members = field(default_factory=dict)
    body: Payload = None

    def to_members(self) -> Members:
        """Return the event as JSON."""
        members: Members = {"name": self.name, "time": self.time, "attributes": self.attributes}
        if self.body is not None:
            members["body"] = self.body
        return members


@dataclass(slots=True)
class ForeignSpan:
    """One span of a source, and which of its attributes and events were read.

    Times are ISO 8601 with an offset, or "". An `end` of "" means that the span did not end. `failed` is None if the
    source does not say whether the operation succeeded.
    """

    trace_id: str
    span_id: str
    parent_id: str | None = None
    name: str = ""
    start: str = ""
    end: str = ""
    failed: bool | None = None
    status_message: str | None = None
    attributes: Members = field(default_factory=dict)
    events: list[ForeignSpanEvent] = field(default_factory=list)
    scope: str = ""
    more: Members = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    read_events: set[int] = field(default_factory=set)

    def take(self, *names: str) -> Payload:
        """Return the first of the attributes `names` that the span has, or None. Mark all of `names` as read."""
        self.read.update(names)
        return next((self.attributes[name] for name in names if self.attributes.get(name) is not None), None)

    def take_text(self, *names: str) -> str | None:
        """Return the first of the attributes `names` that the span has, or None if it is not a text."""
        return as_text(self.take(*names))

    def take_json(self, *names: str) -> Payload:
        """Return the first of the attributes `names` that the span has.

        Parse it if it is the text of a JSON object or array.
        """
        return parsed(self.take(*names))

    def take_number(self, *names: str) -> float | None:
        """Return the first of the attributes `names` that the span has, if it is a number or a number's text.

        Otherwise return None.
        """
        value = self.take(*names)
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                return None
        return as_number(value)

    def mark_read(self, *prefixes: str) -> None:
        """Mark all attributes whose names begin with a prefix as read, because they repeat facts read elsewhere."""
        self.read.update(name for name in self.attributes if name.startswith(prefixes))

    def take_event(self, position: int) -> ForeignSpanEvent:
        """Return the event at a position, and mark the event as read."""
        self.read_events.add(position)
        return self.events[position]

    def unread_parts(self) -> Members:
        """Return the attributes and events that are not marked as read."""
        attributes = {name: value for name, value in self.attributes.items() if name not in self.read}
        unread = (event for position, event in enumerate(self.events) if position not in self.read_events)
        parts = {"attributes": attributes, "events": [event.to_members() for event in unread], **self.more}
        return {name: value for name, value in parts.items() if value}

    def seconds_until(self, time: str) -> float | None:
        """Return the seconds from the span's start to `time`, or None if one of the two times is unknown."""
        start, end = parse_time(self.start), parse_time(time)
        if start is None or end is None:
            return None
        return max(0.0, (end - start) / timedelta(seconds=1))


Kind = Literal["call", "tool", "agent"]


@dataclass(slots=True, kw_only=True)
class SpanReading:
    """The meaning of a span.

    A fact that the vocabulary does not state is None. A span without a `kind` only groups other spans. For a call,
    `input` is the request if the request has no messages, and `output` is None. For a tool, `input` and `output` are
    the arguments and the result. For an agent, they are the task and the final answer. `first_token` is the time of the
    first token, and `first_token_seconds` is how many seconds after the start of the span the first token came. `api`
    is the dialect by which `usage` counts tokens, if this is not the dialect of the format.
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
    """Whether the span is the end of a call that another span began."""

    def take_answer(self, answer: LLMResponse | None) -> None:
        """Set the response, and the finish reason, the id and the model that the response states."""
        self.response = answer
        if answer is not None:
            self.finish_reason, self.response_id, self.response_model = answer.finish_reason, answer.id, answer.model


def if_known(usage: Usage) -> Usage | None:
    """Return a usage, or None if the usage has no count."""
    if not usage.is_known:
        return None
    return usage


_MERGED_APART = ("parameters", "continues", "api", "usage", "messages")


def merged(readings: Iterable[SpanReading]) -> SpanReading:
    """Join the readings of one span.

    Each member is taken from the first reading that has the member. The longest list of messages is taken, because some
    vocabularies leave out the instructions.
    """
    whole = SpanReading()
    for reading in readings:
        for member in fields(SpanReading):
            if member.name not in _MERGED_APART and getattr(whole, member.name) is None:
                setattr(whole, member.name, getattr(reading, member.name))
        _add_usage(whole, reading)
        if reading.messages is not None and len(reading.messages) > len(whole.messages or ()):
            whole.messages = reading.messages
        whole.parameters = reading.parameters | whole.parameters
        whole.continues = whole.continues or reading.continues
    return whole


def _add_usage(whole: SpanReading, more: SpanReading) -> None:
    """Add the counts that `whole` lacks from `more`, a reading of the same span, if both count by the same dialect."""
    if whole.usage is None:
        whole.usage, whole.api = more.usage, more.api
    elif more.usage is not None and whole.api == more.api:
        missing = [name for name in _COUNTS if getattr(whole.usage, name) is None]
        whole.usage = replace(whole.usage, **{name: getattr(more.usage, name) for name in missing})


_COUNTS = (
    *("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
    *("reasoning_tokens", "cost"),
)


def scores(span: ForeignSpan) -> Iterator[TimedFact]:
    """Yield the scores in a span's events. A score whose value is not a number is left out."""
    for position, event in enumerate(span.events):
        attributes = event.attributes
        value, weight = as_number(attributes.get(genai.EVALUATION_SCORE)), as_number(attributes.get(own.REWARD_WEIGHT))
        if event.name != genai.EVALUATION_EVENT or value is None:
            continue
        if weight is None:
            weight = 1.0
        span.read_events.add(position)
        yield TimedFact.reward(
            name=as_text(attributes.get(genai.EVALUATION_NAME)) or "score",
            value=value,
            weight=weight,
            step_number=as_int(attributes.get(own.REWARD_STEP_NUMBER)),
            explanation=as_text(attributes.get(genai.EVALUATION_EXPLANATION)),
            time=event.time,
        )


def take_origin(span: ForeignSpan, reading: SpanReading) -> ReplayedFrom | None:
    """Return the origin of an answer that a replay gave, and set the usage of the answer in `reading`.

    Return None if the model itself answered. Only our own export states such origins. In every form of spans, this
    usage counts tokens as the GenAI conventions do.
    """
    value = span.take_json(own.REPLAYED_FROM)
    origin = ReplayedFrom.of_document(value)
    if origin is not None:
        reading.usage, reading.api = read_usage(as_dict(as_dict(value).get("usage"))), "otlp"
    return origin


def is_own(root: ForeignSpan) -> bool:
    """Return whether our own export wrote the root span of a run."""
    return own.STATUS in root.attributes


def add_own_facts(run: ForeignRun, root: ForeignSpan) -> None:
    """Add the facts of a run that our own export wrote into its root span."""
    status = root.take_text(own.STATUS)
    if status in get_args(Status):
        run.status = status  # type: ignore[assignment]
    run.success = None
    success = root.take(own.SUCCESS)
    if isinstance(success, bool):
        run.success = success
    run.task = root.take_text(own.TASK) or run.task
    run.parent = root.take_text(own.PARENT)
    if is_own(root):  # without a session, the conventions' attributes have the run's id
        run.session = root.take_text(own.SESSION)
    run.max_steps = as_int(root.take(own.MAX_STEPS))
    for name, value in [*root.attributes.items()]:
        if name.startswith(own.METADATA):
            root.read.add(name)
            run.metadata[name.removeprefix(own.METADATA)] = parsed(value)
        elif name.startswith(own.ANNOTATION):
            root.read.add(name)
            run.events.append(TimedFact.annotation(key=name.removeprefix(own.ANNOTATION), value=parsed(value)))
