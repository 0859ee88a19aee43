"""Makes the JSON Schemas of the document and the journal from the values, the facts, and the shapes in this folder.

`python -m trace_recorder.reading.schemas.json_schema` writes the schema files next to this module, and the table of
kinds in `docs/format.md`. A test checks that both are up to date. `violations.py` checks values against them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from inspect import get_annotations
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from trace_recorder.facts import KINDS, Fact, Json, may_be_missing
from trace_recorder.reading.schemas.document import Document
from trace_recorder.reading.schemas.shapes import JournalLine, Shape, Unrepresentable
from trace_recorder.values.document_members import InDocument, Keyword, Mark, Member, marks_of, members_of, unmarked
from trace_recorder.values.messages import Payload
from trace_recorder.values.structs import defaults_of

DIRECTORY = Path(__file__).parent
MAX_LINE = 120
"""A line of a schema file has at most this many characters if it can be broken.

A longer object or array is broken into several lines.
"""
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
_UNIONS = (Union, UnionType)
_LISTS = (list, tuple)


class SchemaMaker:
    """Makes the JSON Schemas of Python types. `definitions` has the schemas of all classes in these types."""

    def __init__(self) -> None:
        self.definitions: dict[str, Json] = {}

    def schema_of(self, hint: Any) -> Json:
        """Return the JSON Schema of a type. The marks of the type add keywords."""
        marks, inner = marks_of(hint), unmarked(hint)
        if Mark.UNCHECKED in marks:
            return {}
        stated = [mark.hint for mark in marks if isinstance(mark, InDocument)]
        if stated:
            schema = self.schema_of(stated[0])
        else:
            schema = self._schema_of_type(inner)
        if Mark.DESCRIBED in marks:
            schema = {"anyOf": [schema, self.schema_of(Unrepresentable)]}
        return schema | {mark.name: mark.value for mark in marks if isinstance(mark, Keyword)}

    def _schema_of_type(self, hint: Any) -> Json:
        kind, arguments = get_origin(hint) or hint, get_args(hint)
        schema: Json = {}
        if kind in _SCALARS:
            schema = {"type": _SCALARS[kind]}
        elif kind is Literal:
            schema = {"type": "string", "enum": [*arguments]}
        elif kind in _UNIONS and {*arguments} == {int, float}:
            schema = {"type": "number"}
        elif kind in _UNIONS:
            parts = map(self.schema_of, arguments)
            schema = {"anyOf": [inner for part in parts for inner in part.get("anyOf", [part])]}
        elif kind is dict:
            schema = {"type": "object"} | self._if_any("additionalProperties", arguments[1])
        elif kind in _LISTS:
            schema = {"type": "array"} | self._if_any("items", arguments[0])
        elif kind is not Any:
            schema = self._reference(kind)
        return schema

    def _if_any(self, keyword: str, hint: Any) -> Json:
        schema = self.schema_of(hint)
        if not schema:
            return {}
        return {keyword: schema}

    def _reference(self, kind: type[Any]) -> Json:
        if kind.__name__ not in self.definitions:
            self.definitions[kind.__name__] = {}  # a class may be a part of itself
            self.definitions[kind.__name__] = self.schema_of_object(kind)
        return {"$ref": f"#/$defs/{kind.__name__}"}

    def schema_of_object(self, kind: type[Any]) -> Json:
        """Return the schema of the JSON objects of a value, of a fact, or of a shape."""
        members = {name: (hint, is_required) for name, hint, is_required in _members(kind)}
        schema: Json = {
            "description": (kind.__doc__ or "").replace("\n    ", "\n").strip(),
            "type": "object",
            "properties": {name: self.schema_of(hint) for name, (hint, _) in members.items()},
            "required": [name for name, (_, is_required) in members.items() if is_required],
        }
        if issubclass(kind, Shape | Fact) and kind.exactly_one_of:
            schema["oneOf"] = [{"required": [name]} for name in kind.exactly_one_of]
        return schema


def _members(kind: Any) -> Iterator[tuple[str, Any, bool]]:
    """Yield the name and the type of each member, and whether the member is required.

    A later member replaces an earlier member of the same name.
    """
    if not issubclass(kind, Shape | Fact):
        yield from ((member.name, _type_in_document(member), member.is_always_there) for member in members_of(kind))
        return
    if issubclass(kind, Shape) and kind.value_class is not None:
        yield from _members(kind.value_class)
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if get_origin(hint) is not ClassVar:
            if may_be_missing(hint):
                hint = _without_null(hint)  # noqa: PLW2901 - the type in a record
            yield name, hint, name not in _defaults(kind)


def _defaults(kind: Any) -> Collection[str]:
    """Return the names of the members that have a default."""
    if issubclass(kind, Fact):
        return defaults_of(kind)
    return {name for base in kind.__mro__ for name in get_annotations(base) if name in vars(base)}


def _type_in_document(member: Member) -> Any:
    """Return the type of a member in the document. If a member that is None is left out, null is not allowed."""
    inner, marks = unmarked(member.hint), marks_of(member.hint)
    if Mark.NULL_IF_EMPTY in marks:
        inner = Union[inner, None]  # noqa: UP007 - the type is known only at run time
    elif not member.is_always_there and get_origin(inner) in _UNIONS:
        return _without_null(member.hint)
    return _marked(inner, marks)


def _marked(inner: Any, marks: Collection[Any]) -> Any:
    if not marks:
        return inner
    return Annotated[inner, *marks]


def _without_null(hint: Any) -> Any:
    """Return a union without None. The marks stay."""
    inner, marks = unmarked(hint), marks_of(hint)
    inner = Union[tuple(part for part in get_args(inner) if part is not NoneType)]  # noqa: UP007 - known at run time
    return _marked(inner, marks)


def document_schema() -> Json:
    """Make the JSON Schema of the document."""
    maker = SchemaMaker()
    return _with_title("document", maker.schema_of_object(Document), maker)


def journal_schema() -> Json:
    """Make the JSON Schema of one line of a journal. The data of a record of an unknown kind may be any object."""
    maker = SchemaMaker()
    cases = [
        {
            "if": {"properties": {"kind": {"const": kind}}},
            "then": {"properties": {"data": maker.schema_of(fact)}},
        }
        for kind, fact in KINDS.items()
    ]
    return _with_title("journal", {**maker.schema_of_object(JournalLine), "allOf": cases}, maker)


def _with_title(name: str, schema: Json, maker: SchemaMaker) -> Json:
    title = {"$schema": _DIALECT, "title": f"trace-recorder {name}"}
    return {**title, **schema, "$defs": dict(sorted(maker.definitions.items()))}


SCHEMAS: Mapping[str, Callable[[], Json]] = {"document": document_schema, "journal": journal_schema}


def texts() -> dict[str, str]:
    """Return the text of each schema file by its name."""
    return {f"{name}.schema.json": _laid_out(make()) + "\n" for name, make in SCHEMAS.items()}


def _laid_out(value: Payload, indent: str = "") -> str:
    """Return JSON text in which an object or an array is on one line if it fits."""
    line = json.dumps(value)
    if not isinstance(value, dict | list) or len(indent) + len(line) <= MAX_LINE:
        return line
    inner = indent + "  "
    if isinstance(value, dict):
        members = [f"{inner}{json.dumps(name)}: {_laid_out(part, inner)}" for name, part in value.items()]
        return "{\n" + ",\n".join(members) + f"\n{indent}}}"
    elements = [f"{inner}{_laid_out(part, inner)}" for part in value]
    return "[\n" + ",\n".join(elements) + f"\n{indent}]"


def page_with_kinds(page: str) -> str:
    """Return the page on the format with its table of kinds, which is made from the docstrings of the facts."""
    rows = [f"| `{kind}` | {' '.join((fact.__doc__ or '').split())} |\n" for kind, fact in KINDS.items()]
    begin = page.index(_TABLE_HEAD) + len(_TABLE_HEAD)
    return page[:begin] + "".join(rows) + page[page.index("\n\n", begin) + 1 :]


_TABLE_HEAD = "| kind | meaning |\n|---|---|\n"
PAGE = DIRECTORY.parents[2] / "docs" / "format.md"
"""The page on the format, in a checkout."""

if __name__ == "__main__":
    for name, text in texts().items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")
    PAGE.write_text(page_with_kinds(PAGE.read_text("utf-8")), encoding="utf-8")
