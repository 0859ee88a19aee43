"""What the models of both files are made of: an object's shape, and the types that recur.

Members beyond those that a model names are allowed everywhere: they are what a provider, a caller or a later version
says. What the caller of the recorder gave has the type that was asked for, or is a `Mark`. A member whose default is
`ABSENT` may be missing; it is null only where its type says so.
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
    """An object with these members, of exactly these types, and any others; of those in `either`, one is there."""

    model_config = ConfigDict(extra="allow", strict=True)
    either: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if self.either and len(self.model_fields_set.intersection(self.either)) != 1:
            raise ValueError(f"exactly one of {', '.join(self.either)} is expected")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        if cls.either:
            handler.resolve_ref_schema(schema)["oneOf"] = [{"required": [name]} for name in cls.either]
        return schema


class Mark(Shape):
    """What stands for a value that JSON has no word for: its class and its repr."""

    type: str = Field(alias="__type__")
    repr: str


Json = dict[str, Payload]
Text = str | Mark
Whole = int | Mark
Number = float | Mark
Seconds = Annotated[float, Field(ge=0)]
Time = Annotated[
    str,
    Field(
        pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$", json_schema_extra={"format": "date-time"}
    ),
]
Crc = Annotated[str, Field(pattern="^[0-9a-f]{8}$")]
Count = Annotated[int, Field(ge=0)]
Pair = Annotated[list[Count], Field(min_length=2, max_length=2)]
