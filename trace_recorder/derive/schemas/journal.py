"""The models of the journal, `trajectory_*.jsonl`: a record, and what the data of each kind of record has.

They follow what is written: `run.py` and `recorder.py` (start, steps, the end), `capture/exchange.py` (what went over
the wire), `encoder.py` (what was taken apart). What numbers lead to, and whether checks hold, is for validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from trace_recorder.derive.schemas.document import Error
from trace_recorder.derive.schemas.model import (
    ABSENT,
    Count,
    Crc,
    Json,
    Mark,
    Number,
    Pair,
    Seconds,
    Shape,
    Text,
    Time,
    Whole,
)
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Status


class Record(Shape):
    """One line of a journal, `trajectory_*.jsonl`; what `data` has is told by `kind`."""

    seq: Annotated[int, Field(ge=1)]
    time: Time
    kind: str
    data: Json
    crc: Crc


class Data(Shape):
    """The data of a record; `redacted` is how many secrets were masked in it, where there were any."""

    redacted: Annotated[int, Field(ge=1)] = ABSENT


class Start(Data):
    """The first record: the schema, where the run goes on, and what the caller says of it."""

    schema_: Literal["trace-recorder/journal"] = Field(alias="schema")
    version: int
    trajectory_id: str
    host: str
    pid: int
    process_start: float
    task: Text | None
    provider: Text | None
    model: Text | None
    max_steps: Whole | None
    metadata: Json
    parent: str = ABSENT


class Item(Data):
    """What recurs in requests, once: element `n`, or the large string `s` that stands inside elements."""

    either = ("n", "s")
    n: Count = ABSENT
    s: Count = ABSENT
    value: Payload
    strings: dict[str, Count] = ABSENT


class Positions(Shape):
    """The elements at these positions, both included, of the list that a delta is written against."""

    base: Pair


class Scattered(Shape):
    """A list written against the same list of the record `base`, which stands in full there."""

    base: Annotated[int, Field(ge=1)]
    ranges: list[Pair | Positions]


class Itemized(Data):
    """JSON taken apart: null stands in `body` for what is in `items`, as numbers and ranges of numbers."""

    body: Payload
    items: dict[str, Count | list[Pair] | Scattered] = ABSENT
    check: dict[str, Crc] = ABSENT


class Placed(Data):
    """Of which agent and step it is, where the agent has marked them."""

    agent: Text = ABSENT
    agent_id: str = ABSENT
    parent_agent_id: str = ABSENT
    parent_execution_id: str = ABSENT
    step_id: str = ABSENT
    step_number: Whole = ABSENT


class LLMExchange(Data):
    """A part of one HTTP exchange of an interaction."""

    interaction_id: str
    attempt: Count


class LLMRequest(LLMExchange, Itemized, Placed):
    """A request, before it is sent; what is no JSON object stands as text or bytes."""

    either = ("body", "text", "base64")
    api: str
    provider: str
    model: str = ABSENT
    method: str
    url: str
    headers: dict[str, str]
    stream: bool = ABSENT
    inferred: bool = ABSENT
    body: Payload = ABSENT
    text: str = ABSENT
    base64: str = ABSENT


class LLMStream(LLMExchange):
    """The next part of a stream, or of a large plain body: its text in UTF-8, compressed with zlib, in base64."""

    status: int
    headers: dict[str, str]
    time_to_first_token_seconds: Seconds | None
    bytes: Count
    zlib: str
    plain: bool = ABSENT
    chunk_ends: str = ABSENT
    chunk_times: str = ABSENT
    continues: bool = ABSENT


class LLMResponse(LLMExchange):
    """A response that came, whole or in part; of a stream, put together in `assembled`; of a large one, in `parts`."""

    either = ("body", "text", "base64", "assembled", "parts")
    status: int
    headers: dict[str, str]
    duration_seconds: Seconds
    complete: bool
    ended_by: str = ABSENT
    error: Error = ABSENT
    stream: bool = ABSENT
    chunks: Count = ABSENT
    events: Count = ABSENT
    last_event: bool = ABSENT
    time_to_first_token_seconds: Seconds = ABSENT
    time_to_last_token_seconds: Seconds = ABSENT
    body: Payload = ABSENT
    text: str = ABSENT
    base64: str = ABSENT
    assembled: Payload = ABSENT
    parts: Count = ABSENT


class LLMError(LLMExchange):
    """There was no response."""

    type: str
    message: Text
    duration_seconds: Seconds


class LLMInteraction(Itemized, Placed):
    """An interaction that the agent recorded itself; `body` has its messages and tools."""

    interaction_id: str
    provider: Text | None
    model: Text | None
    response: Payload
    error: Error = ABSENT


class StepStart(Placed):
    """A step with a block, when that is entered: what names its `step_id` from then on is inside."""

    step_id: str
    step_number: Whole


class AgentStep(Itemized, Placed):
    """One step of the agent; `body` has its `llm_messages`. Of one with a block it is written when that is left."""

    step_number: Whole
    state: Text | None
    llm_response: Payload
    tool_calls: list[Payload] | None
    tool_results: list[Payload] | None
    reflection: Text | None
    error: Payload
    duration_seconds: Seconds = ABSENT


class ToolCall(Placed):
    """A tool, before it runs; `call_id` is there where the agent said for which call."""

    execution_id: str
    name: Text
    call_id: Text = ABSENT
    arguments: Payload


class ToolResult(Placed):
    """What a tool gave; of a generator, the first of what it yielded, how many that were, and what it returned."""

    execution_id: str
    name: Text
    call_id: Text = ABSENT
    success: bool | None
    result: Payload
    error: Error = ABSENT
    duration_seconds: Seconds
    yielded: Count = ABSENT
    returned: Payload = ABSENT
    ended_by: str = ABSENT


class Annotation(Data):
    """Something that is known of the run, or a summary of one of its steps."""

    either = ("key", "lakeview_step")
    key: str = ABSENT
    lakeview_step: Whole = ABSENT
    value: Payload


class Redaction(Data):
    """What the record `of` says, without a value in it that became known as a secret later: of the start its task and
    metadata, of an annotation its value.
    """

    either = ("task", "value")
    of: Annotated[int, Field(ge=1)]
    task: Text | None = ABSENT
    metadata: Json = ABSENT
    value: Payload = ABSENT


class GivenReward(Data):
    """A reward of the run, or of one of its steps."""

    name: Text
    value: Number
    weight: Number
    step_number: Whole | None
    explanation: Text | None


class RecordedGap(Data):
    """Something that could not be recorded when it happened, at `time`."""

    time: Time
    what: Text
    why: Text


class Finalize(Data):
    """The last record: how the run ended."""

    status: Status
    success: bool | Mark | None = ABSENT
    final_result: Payload = ABSENT
    error: Error = ABSENT
    execution_time: Seconds


DATA: Mapping[str, type[Shape]] = {
    "start": Start,
    "item": Item,
    "llm_request": LLMRequest,
    "llm_stream": LLMStream,
    "llm_response": LLMResponse,
    "llm_error": LLMError,
    "llm_interaction": LLMInteraction,
    "step_start": StepStart,
    "agent_step": AgentStep,
    "tool_call": ToolCall,
    "tool_result": ToolResult,
    "annotation": Annotation,
    "redaction": Redaction,
    "reward": GivenReward,
    "gap": RecordedGap,
    "finalize": Finalize,
}
"""What the data of each kind of record has. A kind that is not here is of a later version, and passed over."""
