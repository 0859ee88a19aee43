"""List elements that an agent passes again are recorded in their present state, even after edits in place."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import enum
import itertools
import json
import types
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Annotated, Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.counting import arguments_of, kept_by, watch
from tests.hostile import HOLDERS, HOSTILE
from tests.json_strategies import json_values
from tests.storage.items.store import item_of, request_of, text_of_data
from trace_recorder.recording.repeated_elements import RepeatedElements
from trace_recorder.storage.fact_writer import fact_text, record_of
from trace_recorder.storage.items.encoder import Encoded, ItemEncoder
from trace_recorder.storage.items.item_lists import Element
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.values import jsonable
from trace_recorder.values.jsonable import objects_to_jsonable, to_json

Message = dict[str, Any]


class Body:
    """The recorder's list encoder for the bodies of one run; each list that it writes is read again."""

    def __init__(self, *, max_chars: int = 200) -> None:
        self.elements = RepeatedElements(max_chars=max_chars)
        self._encoder, self._table, self._seqs = ItemEncoder(), ItemTable(), itertools.count(1)

    def encode(self, value: object) -> tuple[str | list[Element], Encoded]:
        """Encode a list element by element."""
        elements = self.elements.elements_of(value)
        return elements, self._encoder.encode_lists({"messages": elements})

    def written(self, value: object) -> str:
        """Return the recorded JSON of a list."""
        elements, encoded = self.encode(value)
        for new in encoded.new:
            self._table.add(item_of(json.loads(text_of_data(record_of(fact_text(new))[1]))))
        request = request_of({"body": json.loads(encoded.body.text), "items": encoded.items})
        items = request.items or {}
        encoded.mark_written(seq := next(self._seqs))
        self._table.add_base(seq, items)
        self.elements.remember([elements])
        return to_json(self._table.expand(request.body, items)["messages"])


def expected(value: object) -> str:
    """Return the expected recorded JSON of a list."""
    return to_json(objects_to_jsonable(copy.deepcopy(value)))


def call() -> Message:
    """Return a message with nested parts."""
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "arguments": {"n": 1, "l": [1, (2, 3)]}}]}


CHANGES: dict[str, Callable[[Message], object]] = {
    "a text": lambda one: one.update(role="user"),
    "a number that is equal": lambda one: one["tool_calls"][0]["arguments"].update(n=1.0),
    "true, which is equal to 1": lambda one: one["tool_calls"][0]["arguments"].update(n=True),
    "minus zero": lambda one: one["tool_calls"][0]["arguments"].update(n=-0.0),
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
def test_a_changed_message_is_recorded_as_it_is_now(change: Callable[[Message], object]) -> None:
    """A message that was changed since the last call, at any depth, is recorded in its new state."""
    body, messages = Body(), [call(), call()]
    body.written(messages)

    change(messages[1])

    assert body.written(messages) == to_json(objects_to_jsonable(messages))


def test_an_object_named_none_is_not_taken_for_a_list() -> None:
    """The elements {None: "x"} and ["x"] are told apart: the first is recorded as an object, the second as a list."""
    body = Body()
    written = [json.loads(body.written([{"content": content}])) for content in (["x"], {None: "x"}, ["x"])]

    assert written == [[{"content": ["x"]}], [{"content": {"None": "x"}}], [{"content": ["x"]}]]


class Meddling(datetime.tzinfo):
    """A time zone that changes a message when it is asked for the second time, as another thread could."""

    def __init__(self) -> None:
        self.message: Message = {}
        self._calls = itertools.count(1)

    def utcoffset(self, _: datetime.datetime | None) -> datetime.timedelta:
        if next(self._calls) == 2:  # the first call looks for the message, and the second keeps its key
            self.message["content"] = "changed"
        return datetime.timedelta(0)


def test_a_message_changed_during_its_copy_is_not_remembered() -> None:
    """The JSON of a message is kept for later calls only if the message did not change while it was copied."""
    body, zone = Body(), Meddling()
    zone.message = {"role": "user", "content": "original", "at": datetime.datetime(2025, 6, 12, tzinfo=zone)}
    original = {**zone.message}

    found = [json.loads(body.written([message]))[0]["content"] for message in (zone.message, original)]
    assert found == ["changed", "original"]


def test_a_message_that_could_not_be_copied_is_copied_again() -> None:
    """A model whose serializer raises becomes a description. Once its serializer works, its fields are recorded."""
    failures = [ValueError("not yet")]

    def write(text: str) -> str:
        if failures:
            raise failures[0]
        return text

    class Recovering(pydantic.BaseModel):
        content: Annotated[str, pydantic.PlainSerializer(write)]

    body, message = Body(), Recovering(content="x")
    [first] = json.loads(body.written([message]))
    failures.clear()

    assert (first.keys(), body.written([message])) == ({"__type__", "repr"}, '[{"content":"x"}]')


class Role(enum.Enum):
    """The role of a message, as an enum."""

    USER = "user"
    TOOL = "tool"


@dataclasses.dataclass
class DataMessage:
    """A message as a dataclass."""

    role: Any = "user"
    content: Any = ""
    tool_call: Any = None


class Model(pydantic.BaseModel):
    """A message as a pydantic model."""

    model_config = pydantic.ConfigDict(extra="allow")
    role: Any = "user"
    content: Any = ""


class Shouting(Model):
    """A message whose serializer changes its fields."""

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def loud(self) -> str:
        return str(self.content).upper()


class Computed:
    """A message with a computed attribute."""

    def __init__(self, role: object, content: object) -> None:
        self.role, self.text = role, content

    @property
    def content(self) -> object:
        return [self.text]

    @content.setter
    def content(self, value: object) -> None:
        self.text = value


NUMBERS = (0, 0.0, -0.0, False, 1, 1.0, True, "1", None, Role.USER, Role.TOOL, "user")
KINDS: tuple[Callable[..., Any], ...] = (dict, DataMessage, Model, Shouting, Computed, types.SimpleNamespace)
values = st.sampled_from(NUMBERS) | st.builds(list, st.lists(st.sampled_from(NUMBERS), max_size=2)) | json_values
messages = st.builds(
    lambda kind, role, content: kind(role=role, content=content), st.sampled_from(KINDS), values, values
)


def _set(one: Any, name: str, value: object) -> None:
    one.__setitem__(name, value) if isinstance(one, dict) else setattr(one, name, value)


def _content(one: Any) -> Any:
    return one.get("content") if isinstance(one, dict) else one.content


def _edit_inside(element: Any, value: object) -> None:
    inner = _content(element)
    if isinstance(inner, list):
        inner.append(value)
    elif isinstance(inner, dict):
        inner["more"] = value


EDITS: tuple[Callable[[list[Any], int, object], object], ...] = (
    lambda history, at, value: _set(history[at], "content", value),
    lambda history, at, value: (
        _set(history[at], "tool_call", {"arguments": value}) if not isinstance(history[at], Computed) else None
    ),
    lambda history, at, value: _edit_inside(history[at], value),
    lambda history, at, value: history.__setitem__(at, copy.deepcopy(history[at])),
    lambda history, at, value: history.insert(at, {"role": "user", "content": value}),
    lambda history, at, value: history.append(history[at]),
    lambda history, at, value: history.pop(at),
    lambda history, at, value: history.reverse(),
)


@given(
    st.lists(messages, min_size=1, max_size=5), st.lists(st.tuples(st.sampled_from(EDITS), st.integers(0, 9), values))
)
def test_random_edits_in_place_are_recorded(
    history: list[Any], edits: Sequence[tuple[Callable[..., object], int, Any]]
) -> None:
    """After random edits in place, of messages of any class, the recorded JSON is that of a deep copy at the call."""
    body = Body()
    for edit, at, value in edits:
        if history:
            edit(history, at % len(history), value)
        assert body.written(history) == expected(history)


@given(st.lists(st.lists(json_values, max_size=4), max_size=4))
def test_any_values_are_recorded_like_whole_values(histories: list[list[Any]]) -> None:
    """Lists of any values, each passed twice, are recorded as when each is encoded as one value."""
    body = Body()
    for history in histories:
        assert [body.written(history), body.written(tuple(history))] == [expected(history)] * 2


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_hostile_values_are_json(make: Callable[[], object]) -> None:
    """A message with any text is recorded as valid JSON, both the first and the second time."""
    written = {}
    for name, holder in HOLDERS.items():
        body, value = Body(), [holder(make()), call()]
        written[name] = [json.loads(body.written(value))[1:] for _ in range(2)]

    assert written == dict.fromkeys(HOLDERS, [json.loads(expected([call()]))] * 2)


def test_many_parts_are_cut_as_one_list() -> None:
    """The limit of parts applies to the whole list, whether or not its elements were recorded before."""
    half = [0] * (jsonable.MAX_NODES // 2)
    messages = [{"content": half}, {"content": half}]

    found = json.loads(Body().written(messages))

    assert sum(len(one["content"]) for one in found) < jsonable.MAX_NODES


def test_elements_that_are_not_passed_again_are_forgotten() -> None:
    """Elements that are no longer passed are forgotten."""
    body = Body(max_chars=10_000)
    for number in range(100):
        body.written([{"content": f"{number:090}"}])
    kept = kept_by(body.elements)

    for number in range(100, 1000):
        body.written([{"content": f"{number:090}"}])

    assert kept_by(body.elements).characters <= kept.characters + 10_000


def test_a_history_longer_than_the_limit_is_found() -> None:
    """The elements of a history longer than the limit are still recognised at the next call."""
    body, history = Body(max_chars=1000), [{"content": f"{number:090}"} for number in range(100)]
    body.written(history)

    for _ in range(3):
        copied = arguments_of(lambda: body.written(history), jsonable.element_to_json, len)

        assert copied == []


def _history(steps: int) -> list[Message]:
    return [part for number in range(steps) for part in ({"role": "user", "content": f"{number}" * 200}, call())]


_OF_KEYS = ("content_key.py", "signal_handlers.py")
"""The files of the functions that read a key: the guard ends in `suppress` of `signal_handlers.py`."""


def test_a_repeated_history_costs_only_its_new_messages() -> None:
    """For messages that are passed again, only their keys are read; all other work is for new messages."""

    def work(steps: int) -> tuple[int, int]:
        body, counted = Body(max_chars=10**6), [0, 0]
        body.written(_history(steps))
        history = [*_history(steps), call()]  # all objects are new

        def count(frame: FrameType) -> None:
            counted[frame.f_code.co_filename.endswith(_OF_KEYS)] += 1

        watch(lambda: body.encode(history), count)
        return counted[0], counted[1]

    (few, few_keys), (many, many_keys) = work(100), work(400)

    assert many == few
    assert (many_keys - few_keys) / 600 <= 13
