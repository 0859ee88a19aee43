"""A field of a value is defined once: rendering, reading and the JSON Schema follow from it."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from trace_recorder.reading.document import read_value
from trace_recorder.reading.schemas.json_schema import SchemaMaker
from trace_recorder.reading.schemas.shapes import Unrepresentable
from trace_recorder.values.document_members import (
    Always,
    Count,
    InDocument,
    Name,
    NotInDocument,
    NullIfEmpty,
    Text,
    Unchecked,
    render,
)
from trace_recorder.values.structs import Struct, field


class Inner(Struct, frozen=True):
    """An inner value."""

    number: Count

    def to_document(self) -> dict[str, Any]:
        """Render the inner value."""
        return render(self)


class Outer(Struct, frozen=True):
    """A value with a field of each kind."""

    title: Text
    note: Always[str | None] = None
    size: Count | None = None
    is_open: bool = False
    parts: NullIfEmpty[tuple[Inner, ...]] = ()
    names: Annotated[tuple[str, ...], Name("labels")] = ()
    first: Inner | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    odd: Unchecked[bool | None] = None
    length: Annotated[str | None, InDocument(Count)] = None
    secret: NotInDocument[str] = ""


FULL = Outer("t", "n", 0, True, (Inner(1),), ("a",), Inner(2), {"x": 1}, odd=False, length="abc", secret="s")
OF_FULL = {
    "title": "t",
    "note": "n",
    "size": 0,
    "is_open": True,
    "parts": [{"number": 1}],
    "labels": ["a"],
    "first": {"number": 2},
    "extra": {"x": 1},
    "odd": False,
    "length": "abc",
}


@pytest.mark.parametrize(
    ("value", "document"), [(FULL, OF_FULL), (Outer("t"), {"title": "t", "note": None, "parts": None})]
)
def test_a_value_is_rendered_and_read_again(value: Outer, document: dict[str, Any]) -> None:
    """A value's document has its fields in order, is read back equal, and lacks a member that has no value unless its
    type says otherwise.
    """
    rendered = render(value)

    assert (rendered, [*rendered]) == (document, [*document])
    assert read_value(Outer, {**document, "later": 1}, secret=value.secret) == value


def test_the_schema_follows_from_the_fields() -> None:
    """The schema of a class has its fields with their types, and allows null for a member that is written as null."""
    maker = SchemaMaker()
    count, inner = {"type": "integer", "minimum": 0}, {"$ref": "#/$defs/Inner"}

    assert maker.schema_of_object(Outer) == {
        "description": "A value with a field of each kind.",
        "type": "object",
        "properties": {
            "title": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/Unrepresentable"}]},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "size": count,
            "is_open": {"type": "boolean"},
            "parts": {"anyOf": [{"type": "array", "items": inner}, {"type": "null"}]},
            "labels": {"type": "array", "items": {"type": "string"}},
            "first": inner,
            "extra": {"type": "object"},
            "odd": {},
            "length": count,
        },
        "required": ["title", "note", "parts"],
    }
    assert sorted(maker.definitions) == ["Inner", Unrepresentable.__name__]


def test_a_description_in_place_of_a_text_is_read_as_its_repr() -> None:
    """If a file has a description where a string is expected, the string is read as the described value's repr."""
    described = {"__type__": "Path", "repr": "PosixPath('a')"}

    assert read_value(Outer, {"title": described}) == Outer("PosixPath('a')")
