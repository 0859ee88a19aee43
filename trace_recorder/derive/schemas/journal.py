"""Declares the JSON objects of the journal, `trajectory_*.jsonl`: the data of each kind of record.

Each class declares the data of records that one of these modules writes: `recording/run.py` (start, redaction, gap,
end), `recording/manual_records.py` (records by hand), `recording/context.py` (steps), `recording/tools.py`,
`capture/exchange.py` (requests and responses on the wire) and `storage/items/encoder.py` (items). `validate.py` checks
whether the numbers in a record refer to existing records, and whether check values are right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from trace_recorder.derive.schemas.shapes import ABSENT, ItemizedData, Json, Positive, RecordData, Shape, StepData
from trace_recorder.values.document_members import Count, Described, Integer, Number, Seconds, StatedTime, Text
from trace_recorder.values.llm_interaction import ErrorInfo
from trace_recorder.values.messages import Payload
from trace_recorder.values.origins import ReplayedFrom
from trace_recorder.values.trajectory import Status


class ForkedAt(Shape):
    """The call of the forked run at which the fork begins.

    From this call on, the fork sends its calls to the provider.
    """

    interaction_id: str
    step_number: Integer | None


class StartData(RecordData):
    """The first record of a journal: the format's version, the run's machine and process, and what the caller states.

    The record of an imported run has no `host`, `pid` and `process_start`. The run's metadata states the source.
    """

    schema: Literal["trace-recorder/journal"]
    version: int
    trajectory_id: str
    host: str = ABSENT
    pid: int = ABSENT
    process_start: float = ABSENT
    task: Text | None
    provider: Text | None
    model: Text | None
    max_steps: Integer | None
    metadata: Json
    parent: str = ABSENT
    forked_at: ForkedAt = ABSENT
    replay_of: str = ABSENT


class ItemData(RecordData):
    """An element of a list in a request, with the number `n`, or a long string, with the number `s`.

    Requests refer to the item by its number.
    """

    exactly_one_of = ("n", "s")
    n: Count = ABSENT
    s: Count = ABSENT
    value: Payload
    strings: dict[str, Count] = ABSENT


class ExchangeData(RecordData):
    """A record of one HTTP exchange of an interaction."""

    interaction_id: str
    attempt: Count


class LLMRequestData(ExchangeData, ItemizedData, StepData):
    """A request, recorded before it is sent. A body that is not a JSON object is stored as text or bytes."""

    exactly_one_of = ("body", "text", "base64")
    api: str
    provider: str
    model: str = ABSENT
    method: str
    url: str
    headers: dict[str, str]
    stream: bool = ABSENT
    inferred: bool = ABSENT
    run_inferred: bool = ABSENT
    body: Payload = ABSENT
    text: str = ABSENT
    base64: str = ABSENT


class LLMStreamData(ExchangeData):
    """The next part of a stream. `zlib` has the text of the part, compressed with zlib, in base64."""

    replayed_from: ReplayedFrom = ABSENT
    status: int
    headers: dict[str, str]
    time_to_first_token_seconds: Seconds | None
    bytes: Count
    zlib: str
    chunk_ends: str = ABSENT
    chunk_times: str = ABSENT
    continues: bool = ABSENT
    framing: str = ABSENT


class LLMResponseData(ExchangeData):
    """A response that was received completely or partly.

    `assembled` is one response body made from the events of a stream. If the provider made the response in the
    background, a second record of the attempt, with `polled`, has the final response.
    """

    exactly_one_of = ("body", "text", "base64", "assembled")
    replayed_from: ReplayedFrom = ABSENT
    status: int
    headers: dict[str, str]
    duration_seconds: Seconds = ABSENT
    complete: bool
    ended_by: str = ABSENT
    error: ErrorInfo = ABSENT
    stream: bool = ABSENT
    chunks: Count = ABSENT
    events: Count = ABSENT
    last_event: bool = ABSENT
    polled: bool = ABSENT
    time_to_first_token_seconds: Seconds = ABSENT
    time_to_last_token_seconds: Seconds = ABSENT
    body: Payload = ABSENT
    text: str = ABSENT
    base64: str = ABSENT
    assembled: Payload = ABSENT


class LLMErrorData(ExchangeData):
    """The error of an exchange that got no response."""

    replayed_from: ReplayedFrom = ABSENT
    type: str
    message: Text
    duration_seconds: Seconds = ABSENT


class LLMInteractionData(ItemizedData, StepData):
    """An interaction that the agent recorded by hand, or an imported interaction. `body` has its messages and tools.

    Only an imported interaction has the members after `error`, if its source states them. Then `api` is the format of
    the source.
    """

    interaction_id: str
    provider: Text | None
    model: Text | None
    response: Payload
    error: ErrorInfo = ABSENT
    api: str = ABSENT
    duration_seconds: Seconds = ABSENT
    time_to_first_token_seconds: Seconds = ABSENT
    stream: bool = ABSENT
    complete: bool = ABSENT
    ended_by: str = ABSENT
    replayed_from: ReplayedFrom = ABSENT


class StepStartData(StepData):
    """The start of a step that is a `with` block. Later records with the same `step_id` belong to the step."""

    step_id: str
    step_number: Integer


class AgentStepData(ItemizedData, StepData):
    """One step of the agent.

    `body` has the step's `llm_messages`. If the step is a `with` block, this record is written when the block ends.
    """

    step_number: Integer
    state: Text | None
    llm_response: Payload
    tool_calls: list[Payload] | None
    tool_results: list[Payload] | None
    reflection: Text | None
    error: Payload
    duration_seconds: Seconds = ABSENT


class ToolCallData(StepData):
    """A tool, recorded before it runs. `call_id` is present if the agent stated for which tool call the tool runs.

    If the tool comes from a session file that was joined to the run, `began` is when the tool began, and
    `interaction_id` is the interaction that asked for the tool.
    """

    execution_id: str
    name: Text
    call_id: Text = ABSENT
    interaction_id: str = ABSENT
    began: StatedTime = ABSENT
    arguments: Payload


class ToolResultData(StepData):
    """The result of a tool.

    If the tool is a generator, `result` has the first values that it yielded, `yielded` is how many values it yielded,
    and `returned` is its return value.
    """

    execution_id: str
    name: Text
    call_id: Text = ABSENT
    success: bool | None
    result: Payload
    error: ErrorInfo = ABSENT
    duration_seconds: Seconds = ABSENT
    yielded: Count = ABSENT
    returned: Payload = ABSENT
    ended_by: str = ABSENT
    replayed: bool = ABSENT


class AnnotationData(RecordData):
    """An annotation of the run, with a `key`, or a summary of the step with the number `lakeview_step`."""

    exactly_one_of = ("key", "lakeview_step")
    key: str = ABSENT
    lakeview_step: Integer = ABSENT
    value: Payload


class RedactionData(RecordData):
    """A copy of the data of the earlier record `of`.

    In the copy, a value that became known as a secret later is masked.

    If `of` is the start record, the copy has the task and the metadata. If `of` is an annotation, the copy has the
    annotation's value.
    """

    exactly_one_of = ("task", "value")
    of: Positive
    task: Text | None = ABSENT
    metadata: Json = ABSENT
    value: Payload = ABSENT


class RewardData(RecordData):
    """A reward of the run, or of one of its steps."""

    name: Text
    value: Number
    weight: Number
    step_number: Integer | None
    explanation: Text | None


class GapData(RecordData):
    """Something that could not be recorded. `time` is when it happened, `what` names it, and `why` gives the reason."""

    time: StatedTime
    what: Text
    why: Text


class FinalizeData(RecordData):
    """The last record of a run: how the run ended."""

    status: Status
    success: Described[bool] | None = ABSENT
    final_result: Payload = ABSENT
    error: ErrorInfo = ABSENT
    execution_time: Seconds | None


class SourceData(RecordData):
    """An unchanged part of an imported run's source that no other kind of record can express.

    `what` names the part, and `value` is the part.
    """

    what: str
    value: Payload


DATA: Mapping[str, type[Shape]] = {
    "start": StartData,
    "item": ItemData,
    "llm_request": LLMRequestData,
    "llm_stream": LLMStreamData,
    "llm_response": LLMResponseData,
    "llm_error": LLMErrorData,
    "llm_interaction": LLMInteractionData,
    "step_start": StepStartData,
    "agent_step": AgentStepData,
    "tool_call": ToolCallData,
    "tool_result": ToolResultData,
    "annotation": AnnotationData,
    "redaction": RedactionData,
    "reward": RewardData,
    "gap": GapData,
    "finalize": FinalizeData,
    "source_record": SourceData,
}
"""The shape of the data for each kind of record.

Readers skip a record of any other kind, because a later version wrote it.
"""
