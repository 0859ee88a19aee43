"""Keys of values: different JSON has different keys, and a value that runs code when it is read has no key."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import types
from itertools import combinations
from typing import Any

import pydantic
import pytest

from trace_recorder.values.content_key import MAX_PARTS, content_key
from trace_recorder.values.structs import Struct


class Number(enum.IntEnum):
    ONE = 1


@dataclasses.dataclass
class Data:
    content: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    content: Any


class Packed(Struct):
    content: Any


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    content: Any


CONTENTS = (
    *(None, "", "a", "1", "1.0", "True", "None", 0, 0.0, -0.0, 1, 1.0, True, False, float("nan")),
    *([], {}, [[]], [{}], ["a"], [None], ["a", "b"], [["a"], "b"], {"a": "b"}, {"b": "a"}, {"a": ["b"]}, {"a": 1}),
    *({None: "a"}, {None: None}, {"None": 1}, {"a": None, "b": "c"}, {"b": "c", "a": None}, {"a": {"b": "c"}}),
    *(datetime.date(2025, 6, 12), datetime.datetime(2025, 6, 12)),
)


@pytest.mark.parametrize("holder", [dict, Data, Slotted, Packed, Model, types.SimpleNamespace])
def test_different_contents_have_different_keys(holder: Any) -> None:
    """Values with different JSON have different keys, such as 0.0 and -0.0, 1 and True, or ["x"] and {None: "x"}."""
    keys = [content_key(holder(content=content)) for content in CONTENTS]

    assert None not in keys
    assert [pair for pair in combinations(range(len(keys)), 2) if keys[pair[0]] == keys[pair[1]]] == []


@pytest.mark.parametrize("holder", [dict, Data, Slotted, Packed, Model, types.SimpleNamespace])
def test_equal_contents_have_equal_keys(holder: Any) -> None:
    """Values with the same JSON have the same key: a tuple and a list, or a member of an enum and its value."""
    keys = {content_key(holder(content=content)) for content in ([1, {"a": None}], (Number.ONE, {"a": None}))}

    assert len(keys) == 1
    assert None not in keys


@dataclasses.dataclass
class Computed:
    """A dataclass with a field that is a property."""

    content: Any

    @property  # type: ignore[no-redef]
    def content(self) -> str:
        return "x"

    @content.setter
    def content(self, value: object) -> None:
        pass


@dataclasses.dataclass
class OwnAccess:
    """A dataclass that runs code for each read of an attribute."""

    content: Any = None

    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__(name)


class Fallback:
    """An object that runs code for missing attributes."""

    def __init__(self) -> None:
        self.content = "x"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


class OwnDump(Model):
    def model_dump(self, **_: Any) -> dict[str, Any]:
        return {"content": "x"}


class OwnField(Model):
    @pydantic.field_serializer("content")
    def write(self, value: object) -> str:
        return f"{value}"


class OwnModel(Model):
    @pydantic.model_serializer
    def write(self) -> dict[str, Any]:
        return {"content": "x"}


class ComputedField(Model):
    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def loud(self) -> str:
        return "X"


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "value",
    [
        *(Computed("x"), OwnAccess("x"), Fallback()),
        *(OwnDump(content="x"), OwnField(content="x"), OwnModel(content="x"), ComputedField(content="x")),
        *(
            {"content": Text("x")},
            {Text("content"): "x"},
            {1: "x"},
            {"content": {"x"}},
            {"content": object()},
            object(),
        ),
        {"content": [{} for _ in range(MAX_PARTS)]},
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_may_run_code_has_no_key(value: object) -> None:
    """A value has no key if its class overrides attribute access or derives from str, if it is a set, or if it has too
    many parts.
    """
    assert content_key(value) is None
