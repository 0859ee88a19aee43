"""Declares the JSON objects of the journal and the document that have no class in `values/`.

Most objects of a document are values, and their schemas are made from the classes of these values. A `Shape` declares
any other object: the data of a record, or an object in a call that is not a field of `LLMInteraction`. Shapes that
several kinds of records share are in this module, and the kinds of records are in `journal.py`. An object may have more
members than its shape, because a provider, a caller or a later version may add some. A member with the default `ABSENT`
may be missing. A member may be null only if its type allows None.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from trace_recorder.values.document_members import Count, Integer, Keyword, StatedTime, Text
from trace_recorder.values.messages import Payload

ABSENT: Payload = None
"""The default of a member that may be missing."""


class Shape:
    """The base class of shapes: each annotated attribute is a member of the JSON object.

    If `value_class` is set, the object also has the members of a value of that class.

    Exactly one of the members in `exactly_one_of` must be present.
    """

    value_class: ClassVar[Any] = None
    exactly_one_of: ClassVar[tuple[str, ...]] = ()


class Unrepresentable(Shape):
    """The description of a value that JSON cannot express: the name of its class, and its repr."""

    __type__: str
    repr: str


Json = dict[str, Payload]
Positive = Annotated[int, Keyword("minimum", 1)]
Crc = Annotated[str, Keyword("pattern", "^[0-9a-f]{8}$")]
Pair = Annotated[list[Count], Keyword("minItems", 2), Keyword("maxItems", 2)]
Nothing = Annotated[Json, Keyword("maxProperties", 0)]


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
    """A range of the list to which a `DeltaList` refers. `base` has the first and the last position of the range."""

    base: Pair


class DeltaList(Shape):
    """A list of item numbers as a difference to the list of the same name in the record `base`.

    An element of `ranges` is a range of item numbers, or a range of positions in the list of the record `base`.
    """

    base: Positive
    ranges: list[Pair | BasePositions]


class ItemizedData(RecordData):
    """JSON without the members that are stored as items.

    In place of such a member, `body` has null, and `items` has the numbers of the items.
    """

    body: Payload
    items: dict[str, Count | list[Pair] | DeltaList] = ABSENT


class StepData(RecordData):
    """The members that name the agent and the step of a record, if the agent gave them."""

    agent: Text = ABSENT
    agent_id: str = ABSENT
    parent_agent_id: str = ABSENT
    parent_execution_id: str = ABSENT
    step_id: str = ABSENT
    step_number: Integer = ABSENT
