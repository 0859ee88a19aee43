"""What the records of a journal are made of: the line, JSON taken apart into items, and the agent's step.

The kinds of records are in `journal.py`.
"""

from __future__ import annotations

from trace_recorder.derive.schemas.shapes import ABSENT, Crc, Json, Pair, Positive, Shape
from trace_recorder.values.document_members import Count, Integer, StatedTime, Text
from trace_recorder.values.messages import Payload


class JournalLine(Shape):
    """One line of a journal, `trajectory_*.jsonl`. `kind` determines the members of `data`."""

    seq: Positive
    time: StatedTime
    kind: str
    data: Json
    crc: Crc


class RecordData(Shape):
    """The data of a record. `redacted` is how many secrets were masked in it, if any."""

    redacted: Positive = ABSENT


class BasePositions(Shape):
    """The elements at these positions, inclusive, of the list that a delta refers to."""

    base: Pair


class DeltaList(Shape):
    """A list written as a delta to the same list of the record `base`, which is complete there."""

    base: Positive
    ranges: list[Pair | BasePositions]


class ItemizedData(RecordData):
    """JSON taken apart: `body` has null in the places of what `items` holds as numbers and ranges of numbers."""

    body: Payload
    items: dict[str, Count | list[Pair] | DeltaList] = ABSENT
    check: dict[str, Crc] = ABSENT


class StepData(RecordData):
    """The agent and the step that a record belongs to, if the agent named them."""

    agent: Text = ABSENT
    agent_id: str = ABSENT
    parent_agent_id: str = ABSENT
    parent_execution_id: str = ABSENT
    step_id: str = ABSENT
    step_number: Integer = ABSENT
