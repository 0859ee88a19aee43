"""Elements that an agent passes again are written as they are now, whatever was changed in them meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.counting import calls
from tests.hostile import HOLDERS, HOSTILE
from tests.json_strategies import json_values
from trace_recorder.recording.repeated_elements import RepeatedElements
from trace_recorder.values import jsonable
from trace_recorder.values.jsonable import objects_to_jsonable, to_json

Element = dict[str, Any]


def written(value: object) -> str:
    """What is on file of a member of a request."""
    return to_json({"messages": objects_to_jsonable(value)})[len('{"messages":') : -1]


def call() -> Element:
    """A message with parts in parts."""
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "arguments": {"n": 1, "l": [1, (2, 3)]}}]}


CHANGES: dict[str, Callable[[Element], object]] = {
    "a text": lambda one: one.update(role="user"),
    "a number that is equal": lambda one: one["tool_calls"][0]["arguments"].update(n=1.0),
    "true, which is equal to 1": lambda one: one["tool_calls"][0]["arguments"].update(n=True),
    "an element of a list": lambda one: one["tool_calls"][0]["arguments"]["l"].__setitem__(0, 5),
    "a longer list": lambda one: one["tool_calls"].append("more"),
    "a list that is another one": lambda one: one.update(tool_calls=[{"id": "b"}]),
    "a part that is emptied": lambda one: one["tool_calls"][0].clear(),
    "the order of members": lambda one: one.update(role=one.pop("role")),
    "a member more": lambda one: one.update(name="x"),
    "the name of a member": lambda one: one.update({"Role": one.pop("role")}),
    "an object": lambda one: one.update(content=object),
    "nothing": lambda one: None,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_written(change: Callable[[Element], object]) -> None:
    """A message that was changed since the last call, at any depth, is written as it is now."""
    elements, messages = RepeatedElements(), [call(), call()]
    elements.to_json(messages)

    change(messages[1])

    assert elements.to_json(messages) == written(messages)


@given(st.lists(st.lists(json_values, max_size=4), max_size=4))
def test_any_values(histories: list[list[Any]]) -> None:
    """Lists of any values, one after another, each passed twice, are written as a whole value is."""
    elements = RepeatedElements(max_chars=200)
    for history in histories:
        assert [elements.to_json(history), elements.to_json(tuple(history))] == [written(history)] * 2


@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS)
@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_hostile_values(make: Callable[[], object], holder: Callable[[object], object]) -> None:
    """Whatever a message contains, its text is JSON."""
    elements = RepeatedElements()
    value = [holder(make())]

    json.loads(elements.to_json(value))
    json.loads(elements.to_json(value))


def test_many_parts_are_cut_as_a_whole() -> None:
    """The limit of parts is one of the whole list, however its elements are remembered."""
    half = [0] * (jsonable.MAX_NODES // 2)
    messages = [{"content": half}, {"content": half}]

    found = json.loads(RepeatedElements().to_json(messages))

    assert sum(len(one["content"]) for one in found) < jsonable.MAX_NODES


def test_little_is_kept() -> None:
    """The texts of what is not passed any more are dropped."""
    elements = RepeatedElements(max_chars=1000)
    for number in range(100):
        elements.to_json([{"content": f"{number:090}"}])

    assert elements.known_chars <= 1200


def test_what_is_repeated_costs_little() -> None:
    """Of a history that is passed again, each element is looked at, and not copied."""
    messages = [{"role": "user", "content": f"{number}" * 200, "extra": {"a": [number]}} for number in range(300)]
    elements = RepeatedElements()

    first = calls(lambda: elements.to_json(messages))
    again = calls(lambda: elements.to_json([*messages, call()]))

    assert again < first / 5
