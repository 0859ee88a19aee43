"""Derives the JSON form of a value in the document from the fields of its class.

Each field of the class is a member of the JSON object, in the same order and with the same type. A field with a default
is left out of the document if its value is None, False, or an empty tuple or dict. A mark around the type of a field
changes these rules:

    Always[…]          the member is always there
    NullIfEmpty[…]     the member is always there, and null in place of an empty tuple
    Unchecked[…]       the member may have any value, because an agent may have recorded the object by hand
    NotInDocument[…]   the field is not a member
    Given              the object as an agent recorded it by hand: if it is not None, it replaces all members

`render` makes the JSON object, `reading/document.py` reads it, and `reading/schemas/` makes its JSON Schema. If a JSON
object has members that are not fields, such as the messages of a call, the class inserts them in its `to_document`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from trace_recorder.values.structs import defaults_of

Value = TypeVar("Value")


class Mark(Enum):
    """A mark that changes how a field is written to the document, or how its member is checked."""

    ALWAYS = "always"
    NULL_IF_EMPTY = "null if empty"
    UNCHECKED = "unchecked"
    NOT_IN_DOCUMENT = "not in the document"
    GIVEN = "given"
    DESCRIBED = "described"


class Keyword(NamedTuple):
    """A keyword of the JSON Schema of a type."""

    name: str
    value: str | int


class Name(NamedTuple):
    """The name of a member, if it differs from the name of the field."""

    name: str


class InDocument(NamedTuple):
    """The type of a member, if it differs from the type of the field."""

    hint: Any


Always = Annotated[Value, Mark.ALWAYS]
NullIfEmpty = Annotated[Value, Mark.NULL_IF_EMPTY]
Unchecked = Annotated[Value, Mark.UNCHECKED]
NotInDocument = Annotated[Value, Mark.NOT_IN_DOCUMENT]
Given = Annotated[dict[str, Any] | None, Mark.NOT_IN_DOCUMENT, Mark.GIVEN]
Described = Annotated[Value, Mark.DESCRIBED]
"""The type that a value from the agent should have.

If JSON cannot express the value, the document has a description in its place.
"""

Text = Described[str]
Integer = Described[int]
Number = Described[int | float]
Count = Annotated[int, Keyword("minimum", 0)]
Seconds = Annotated[int | float, Keyword("minimum", 0)]
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"
Time = Annotated[str, Keyword("pattern", f"^{_TIME}$"), Keyword("format", "date-time")]
StatedTime = Annotated[str, Keyword("pattern", f"^({_TIME})?$")]
"""A time, or "" if the source of an imported run states no time."""


class Member(NamedTuple):
    """One member of a JSON object, and the field of the class that has the member's value."""

    name: str
    field: str
    hint: Any
    """The type, with its marks."""
    classes: frozenset[type[Any]]
    """All classes that occur in the type."""
    is_required: bool
    """Whether the field has no default."""
    default: Any

    @property
    def is_always_there(self) -> bool:
        """Whether every JSON object of the class has the member."""
        return self.is_required or not {Mark.ALWAYS, Mark.NULL_IF_EMPTY}.isdisjoint(marks_of(self.hint))

    @property
    def value_class(self) -> Any:
        """The class in `classes` that has a method `to_document`, or None if no class has it."""
        return next((kind for kind in self.classes if hasattr(kind, "to_document")), None)


@cache
def members_of(kind: Any) -> tuple[Member, ...]:
    """Return the members of the JSON object for a value of a class, in their order."""
    defaults = defaults_of(kind)
    members = []
    for field, hint in _hints_of(kind).items():
        marks = marks_of(hint)
        if field.startswith("_") or Mark.NOT_IN_DOCUMENT in marks:
            continue
        [name] = [mark.name for mark in marks if isinstance(mark, Name)] or [field]
        members.append(Member(name, field, hint, _classes_in(hint), field not in defaults, defaults.get(field)))
    return tuple(members)


@cache
def _hints_of(kind: Any) -> dict[str, Any]:
    """Return the type of each field of a class by the field's name, with its marks."""
    return get_type_hints(kind, include_extras=True)


def render(value: object) -> dict[str, Any]:
    """Return the JSON object of a value for the document. All members are fields of the value's class."""
    kind: Any = type(value)
    return renderer_of(kind)(value)


@cache
def renderer_of(
    kind: Any,
    first: int = 0,
    end: int | None = None,
    *,
    without: str = "",
    inserts_after: tuple[str, ...] = (),
) -> Callable[..., dict[str, Any]]:
    """Return a function that makes the JSON object of a value, or only of the members `first` to `end` - 1.

    The function leaves out the member `without`. For each name in `inserts_after`, it takes one more argument: a dict
    of members to insert after the member of that name.

    The function is called for each message and each LLM call of a document. A loop over the members would take three to
    five times as long. So the function is compiled from generated statements, as `dataclasses` does for its methods.
    """
    lines, names = [f"def render(value, {', '.join(inserts_after)}):", "document = {}"], dict[str, Any]()
    objects_by_hand = [name for name, hint in _hints_of(kind).items() if Mark.GIVEN in marks_of(hint)]
    lines[1:1] = [f"if value.{name} is not None: return value.{name}" for name in objects_by_hand]
    for member in members_of(kind)[first:end]:
        if member.name != without:
            lines += _statements(member)
        if member.name in inserts_after:
            lines.append(f"document |= {member.name}")
        if _is_rendered(member.value_class):
            names[f"render_{member.field}"] = renderer_of(member.value_class)
    lines.append("return document")
    # `compile` is a separate call. If `exec` compiles a text while CPython exits after Ctrl-C, the exit code is 1, and
    # the process does not end by the signal.
    exec(compile("\n ".join(lines), __file__, "exec"), names)  # noqa: S102 - of names of fields only
    renderer: Callable[..., dict[str, Any]] = names["render"]
    return renderer


def _statements(member: Member) -> list[str]:
    """Return the statements of a renderer that put one member into the JSON object."""
    value_class = member.value_class
    rendered = "{}.to_document()"
    if _is_rendered(value_class):
        rendered = f"render_{member.field}({{}})"
    part = "part"
    if tuple in member.classes and value_class:
        part = f"[{rendered.format('element')} for element in part]"
    elif tuple in member.classes:
        part = "[*part]"
    elif value_class:
        part = f"part and {rendered.format('part')}"
    if Mark.NULL_IF_EMPTY in marks_of(member.hint):
        part += " or None"

    statements = [f"part = value.{member.field}"]
    if part != "part":
        statements.append(f"part = {part}")
    assignment = f"document[{member.name!r}] = part"
    if member.is_always_there:
        statements.append(assignment)
    elif member.default is None:
        statements.append(f"if part is not None: {assignment}")
    else:
        statements.append(f"if part: {assignment}")
    return statements


def _is_rendered(value_class: Any) -> bool:
    """Return whether `render` alone makes the JSON objects of a class."""
    return getattr(value_class, "to_document", None) is render


def marks_of(hint: Any) -> tuple[Any, ...]:
    """Return the marks of a type, without the marks of the types inside it."""
    if get_origin(hint) is not Annotated:
        return ()
    marks: tuple[Any, ...] = hint.__metadata__
    return marks


def unmarked(hint: Any) -> Any:
    """Return a type without its marks."""
    if get_origin(hint) is Annotated:
        return hint.__origin__
    return hint


@cache
def _classes_in(hint: Any) -> frozenset[type[Any]]:
    inner = unmarked(hint)
    kind = get_origin(inner) or inner
    classes: set[type[Any]] = set().union(*map(_classes_in, get_args(inner)))
    if isinstance(kind, type):
        classes.add(kind)
    return frozenset(classes)
