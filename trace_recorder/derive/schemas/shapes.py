"""What the declarations of objects that are no values are made of.

Most objects of a document are values, and their schemas are made of the classes of these values. A `Shape` declares an
object that is not: the data of a record, and what a call has that is not a field. An object may always have members
beyond those of its shape: a provider, a caller or a later version may add some. A member with the default `ABSENT` may
be missing; it may be null only if its type says so.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from trace_recorder.values.document_members import Count, Keyword
from trace_recorder.values.messages import Payload

ABSENT: Payload = None
"""The default of a member that may be missing."""


class Shape:
    """An object with these members, and with those of a value if it is the object of a value of `value_class`.

    Of the members that `exactly_one_of` names, one must be present.
    """

    value_class: ClassVar[Any] = None
    exactly_one_of: ClassVar[tuple[str, ...]] = ()


class Unrepresentable(Shape):
    """The description of a value that JSON cannot express: its class and its repr."""

    __type__: str
    repr: str


Json = dict[str, Payload]
Positive = Annotated[int, Keyword("minimum", 1)]
Crc = Annotated[str, Keyword("pattern", "^[0-9a-f]{8}$")]
Pair = Annotated[list[Count], Keyword("minItems", 2), Keyword("maxItems", 2)]
Nothing = Annotated[Json, Keyword("maxProperties", 0)]
