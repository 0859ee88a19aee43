"""Declares the JSON objects of the journal and the document that have no class in `values/`.

Most objects of a document are values, and their schemas are made from the classes of these values. The data of a record
is a fact (`facts.py`). A `Shape` declares any other object. An object may have more members than its shape, because a
provider, a caller or a later version may add some. A member with the default `ABSENT` may be missing. A member may be
null only if its type allows None.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from trace_recorder.facts import Json, Positive
from trace_recorder.values.document_members import Keyword, StatedTime
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


Crc = Annotated[str, Keyword("pattern", "^[0-9a-f]{8}$")]
Nothing = Annotated[Json, Keyword("maxProperties", 0)]


class JournalLine(Shape):
    """One line of a journal, `trajectory_*.jsonl`. `kind` determines the members of `data`."""

    seq: Positive
    time: StatedTime
    kind: str
    data: Json
    crc: Crc
