"""The types that the models of both files are made of: an object that may have further members, and scalar types.

An object may always have members beyond those of its model: a provider, a caller or a later version may add some.
What the caller of the recorder gave has the type that was asked for, or is an `Unrepresentable`. A member with
the default `ABSENT` may be missing; it may be null only if its type says so.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from trace_recorder.values.messages import Payload

ABSENT: Payload = None
"""The default of a member that may be missing."""


class Shape(BaseModel):
    """An object with these members, of exactly these types, and any others.

    Of the members that `exactly_one_of` names, one must be present.
    """

    model_config = ConfigDict(extra="allow", strict=True)
    exactly_one_of: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if self.exactly_one_of and len(self.model_fields_set.intersection(self.exactly_one_of)) != 1:
            raise ValueError(f"exactly one of {', '.join(self.exactly_one_of)} is expected")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        if cls.exactly_one_of:
            handler.resolve_ref_schema(schema)["oneOf"] = [{"required": [name]} for name in cls.exactly_one_of]
        return schema


class Unrepresentable(Shape):
    """The description of a value that JSON cannot express: its class and its repr."""

    type: str = Field(alias="__type__")
    repr: str


Json = dict[str, Payload]
Text = str | Unrepresentable
Integer = int | Unrepresentable
Number = float | Unrepresentable
Seconds = Annotated[float, Field(ge=0)]
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"
Time = Annotated[str, Field(pattern=f"^{_TIME}$", json_schema_extra={"format": "date-time"})]
StatedTime = Annotated[str, Field(pattern=f"^({_TIME})?$")]
"""Empty where the source of an imported run states no time."""
Crc = Annotated[str, Field(pattern="^[0-9a-f]{8}$")]
Count = Annotated[int, Field(ge=0)]
Pair = Annotated[list[Count], Field(min_length=2, max_length=2)]


class ReplayedCall(Shape):
    """The recorded call that gave a call its answer."""

    trajectory_id: str = ABSENT
    interaction_id: str = ABSENT
    by_hand: bool = ABSENT
