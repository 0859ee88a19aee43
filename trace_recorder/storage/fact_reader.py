"""Makes facts from the data of records.

`fact_decoder` decodes the JSON of a record's data in one step, and refuses an ill-typed member. `read_fact` makes the
same fact member by member. It is for data that the decoder refuses, and for interpreters without msgspec. So a member
of the wrong type costs that member, and not the record. A missing member is None or empty, without a fault.

- A text takes its place, if the member is a text. A description of a value becomes its `repr`.
- Otherwise the member is None if it may be, or else empty: 0, "", False, [] or {}. `ReadFact.faults` names it.
- A record whose key (`Key`) is missing or has the wrong type cannot be used.

Members that the fact does not have are ignored, because a later version wrote them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from trace_recorder.facts import KINDS, Fact, UnreadFact, hints_of, is_key
from trace_recorder.values.checked_types import text_of_member
from trace_recorder.values.document_members import Keyword, Mark, marks_of, unmarked
from trace_recorder.values.jsonable import is_description
from trace_recorder.values.messages import Payload
from trace_recorder.values.structs import Struct, defaults_of

try:
    from msgspec.json import Decoder
except ImportError:  # in an interpreter that has only the standard library
    Decoder = None  # type: ignore[assignment, misc]

Decode = Callable[[bytes | memoryview], Fact]
_UNIONS = (Union, UnionType)
_NUMBERS = (int, float)
_CONTAINERS = (list, dict)
_EMPTY: Mapping[Any, Callable[[], Payload]] = {str: str, int: int, float: int, bool: bool, list: list, dict: dict}


class _IllTypedError(Exception):
    """A value of JSON does not have the type that it should have."""


class ReadFact(NamedTuple):
    """A fact, and a description of each member that could not be used."""

    fact: Fact
    faults: tuple[str, ...] = ()


@cache
def fact_decoder(kind: str) -> Decode | None:
    """Return a function that decodes the JSON of a record's data. Return None if there is no strict way.

    The function raises MsgspecError or UnicodeDecodeError for data that `read_fact` may be able to read.
    """
    if Decoder is None or kind not in KINDS:
        return None
    return Decoder(KINDS[kind]).decode


def read_fact(kind: str, data: Mapping[str, Payload]) -> ReadFact:
    """Make a fact member by member from the data of a record of a kind."""
    if kind not in KINDS:
        return ReadFact(UnreadFact())
    values: dict[str, Payload] = {}
    faults = []
    for member in _members_of(KINDS[kind]):
        name = member.name
        if name not in data:
            if member.is_key and member.is_required:
                return ReadFact(UnreadFact(why=f"KeyError: {name!r}"))
            values[name] = member.missing
            continue
        try:
            values[name] = _read(data[name], member.hint)
        except _IllTypedError:
            if member.is_key:
                expected = "an integer" if _allows(member.hint, int) else "a text"
                return ReadFact(UnreadFact(why=f"TypeError: the {name} is not {expected}"))
            values[name] = _nearest(data[name], member)
            if data[name] is None or not member.is_text:
                faults.append(f"{name} is {type(data[name]).__name__}")
    return ReadFact(KINDS[kind](**values), tuple(faults))


class _Member(NamedTuple):
    """A member of a fact. `missing` is its value if it is not in a record, and `empty` if it has the wrong type."""

    name: str
    hint: Any
    is_required: bool
    is_key: bool
    is_text: bool
    missing: Payload
    empty: Payload


@cache
def _members_of(kind: type[Fact]) -> tuple[_Member, ...]:
    defaults = defaults_of(kind)
    members = []
    for name, hint in hints_of(kind).items():
        if name not in kind.__struct_fields__:
            continue
        empty = _empty(hint)
        missing = defaults.get(name, empty)
        is_text = _allows(hint, str) and not any(isinstance(mark, Keyword) for mark in marks_of(hint))
        members.append(_Member(name, hint, name not in defaults, is_key(hint), is_text, missing, empty))
    return tuple(members)


def _arms(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the type alone."""
    inner = unmarked(hint)
    if get_origin(inner) in _UNIONS:
        return get_args(inner)
    return (inner,)


def _allows(hint: Any, kind: type) -> bool:
    return any(unmarked(arm) is kind for arm in _arms(hint))


def _empty(hint: Any) -> Payload:
    """Return the value of a member whose value in the record cannot be used."""
    kind = unmarked(_arms(hint)[0])
    if _allows(hint, NoneType) or kind is Any:
        return None
    if get_origin(kind) is Literal:
        return get_args(kind)[-1]
    return _EMPTY[get_origin(kind) or kind]()


def _nearest(value: Payload, member: _Member) -> Payload:
    """Return what can be kept of a value that does not have the type of its member."""
    if member.is_text:
        text = text_of_member(value)
        return member.empty if text is None else text
    if isinstance(value, dict) and unmarked(_arms(member.hint)[0]) == dict[str, str]:
        return {name: text_of_member(text) or "" for name, text in value.items()}
    return member.empty


# ── values of a type ─────────────────────────────────────────────────────────────────────────────────────────────────


def _read(value: Payload, hint: Any) -> Payload:
    """Return a value of JSON as a value of a type. Raises _IllTypedError if it is not one."""
    inner = unmarked(hint)
    kind = get_origin(inner) or inner
    if Mark.DESCRIBED in marks_of(hint) and not {int, float}.isdisjoint(_arms(inner)):
        if is_description(value) or type(value) in _NUMBERS:
            return value
        return _read(value, inner)
    if kind in _UNIONS:
        return _read_union(value, get_args(inner))
    if type(value) in _CONTAINERS and kind is not Any:
        return _read_container(value, kind, inner)
    if kind is Any or type(value) is kind or (kind is Literal and value in get_args(inner)):
        return value
    if kind is float and type(value) is int:
        return float(value)
    raise _IllTypedError(f"{type(value).__name__} in place of {hint}")


def _read_container(value: Payload, kind: Any, inner: Any) -> Payload:
    """Return a list or an object of JSON as a list, a dict or a struct."""
    if kind is list and type(value) is list:
        [element] = get_args(inner)
        return [_read(part, element) for part in value]
    if kind is dict and type(value) is dict:
        return {name: _read(part, get_args(inner)[1]) for name, part in value.items()}
    if isinstance(kind, type) and issubclass(kind, Struct) and type(value) is dict:
        return _read_struct(value, kind)
    raise _IllTypedError(f"{type(value).__name__} in place of {inner}")


def _read_union(value: Payload, arms: tuple[Any, ...]) -> Payload:
    if {*arms} >= {int, float} and type(value) in _NUMBERS:
        return value
    for arm in arms:
        try:
            return _read(value, arm)
        except _IllTypedError:
            continue
    raise _IllTypedError(f"{type(value).__name__} in place of {arms}")


def _read_struct(value: Mapping[str, Payload], kind: Any) -> Payload:
    members = {}
    for name, hint in _hints_of_struct(kind).items():
        if name not in value:
            raise _IllTypedError(f"{kind.__name__} without {name}")
        members[name] = _read(value[name], hint)
    return kind(**members)


@cache
def _hints_of_struct(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)
