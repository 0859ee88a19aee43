"""Any value as plain JSON: nothing raises, no file is damaged, and JSON values are read back equal."""

from __future__ import annotations

import collections
import copy
import enum
import inspect
import json
import sys
import types
from collections.abc import Callable
from typing import NoReturn

import msgspec
import pydantic
import pytest
from hypothesis import given

from tests.hostile import HOLDERS, HOSTILE, NotGiven, Point, nested, values
from tests.interrupts import interrupted
from tests.json_strategies import exactly, json_values
from trace_recorder.facts import SourceRecordFact
from trace_recorder.storage.fact_writer import fact_text
from trace_recorder.values.jsonable import object_to_jsonable, to_json, to_jsonable
from trace_recorder.values.messages import Payload


def no_constant(name: str) -> NoReturn:
    raise AssertionError(f"{name} is not JSON")


def read_strictly(text: str) -> Payload:
    """Read as the strictest reader does: UTF-8, one line, no NaN, no lone surrogate, no deep nesting."""
    assert "\n" not in text
    value = json.loads(text.encode(), parse_constant=no_constant)
    json.dumps(value, ensure_ascii=False).encode()
    return value


# ── values that JSON can say ──────────────────────────────────────────────────────────────────────────────────────


@given(json_values)
def test_values_of_json_are_read_back_equal(value: Payload) -> None:
    """Dicts, lists, strings, numbers, booleans and None are equal after conversion, writing and reading."""
    assert exactly([to_jsonable(value), read_strictly(to_json(value))]) == exactly([value, value])


@given(json_values)
def test_later_changes_do_not_change_the_copy(value: Payload) -> None:
    """Later changes of a value do not change its copy."""
    given_value = {"list": [value], "dict": {"a": value}}
    before = copy.deepcopy(given_value)

    copied = to_jsonable(given_value)

    given_value["list"].append("later")
    given_value["dict"].clear()
    assert exactly(copied) == exactly(before)


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Name(str):
    """A subclass of str."""

    __slots__ = ()


class Age(int):
    pass


class Model(pydantic.BaseModel):
    name: str
    inner: Point | None = None


class Record(msgspec.Struct):
    name: str
    inner: Point | None = None


Pair = collections.namedtuple("Pair", "a b")  # noqa: PYI024 - what a user has


class Omit(NotGiven):
    pass


class Opaque:
    def __init__(self) -> None:
        self.secret = object()

    def __repr__(self) -> str:
        return "<opaque>"


OPAQUE = {"__type__": "tests.values.test_jsonable.Opaque", "repr": "<opaque>"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Colour.RED, "red"),
        (Level.LOW, 1),
        (Name("n"), "n"),
        (Age(3), 3),
        (Point(1, Point(2)), {"x": 1, "y": {"x": 2, "y": None}}),
        (Model(name="m", inner=Point(1)), {"name": "m", "inner": {"x": 1, "y": None}}),
        (Record(name="m", inner=Point(1)), {"name": "m", "inner": {"x": 1, "y": None}}),
        (Pair(1, (2,)), [1, [2]]),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
        (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        ({"a": NotGiven(), "b": Omit(), "c": 1}, {"c": 1}),
        ({True: "a", None: "b", (1, 2): "c", b"k": "d"}, {"True": "a", "None": "b", "(1, 2)": "c", "b'k'": "d"}),
        ({1: "a", "1": "b"}, {"1": "a", "1 (str)": "b"}),
        (2**64 - 1, 2**64 - 1),
        (-(2**63), -(2**63)),
    ],
    ids=repr,
)
def test_values_with_a_meaning_in_json_become_it(value: object, expected: Payload) -> None:
    """A value of a class with a JSON form, such as an enum or a dataclass, becomes that JSON."""
    assert exactly(to_jsonable(value)) == exactly(expected)


@pytest.mark.parametrize(
    ("value", "name", "representation"),
    [
        (float("nan"), "float", "nan"),
        (float("-inf"), "float", "-inf"),
        (b"\xff", "bytes", "b'\\xff'"),
        ("a\ud800", "str", "'a\\ud800'"),
        (2**64, "int", "18446744073709551616"),
        (-(2**63) - 1, "int", "-9223372036854775809"),
        (Opaque(), "tests.values.test_jsonable.Opaque", "<opaque>"),
        (Opaque, "type", "<class 'tests.values.test_jsonable.Opaque'>"),
        (1j, "complex", "1j"),
        (range(3), "range", "range(0, 3)"),
    ],
    ids=repr,
)
def test_other_values_are_described(value: object, name: str, representation: str) -> None:
    """A value outside of JSON is written as its class and its repr."""
    assert to_jsonable([value]) == [{"__type__": name, "repr": representation}]


def test_a_key_that_is_not_text_is_written() -> None:
    """A key that is not a string is written as its text; a lone surrogate is escaped, and keys that would become equal
    stay different.
    """
    assert to_jsonable({"\ud800": 1, "\\ud800": 2}) == {"\\ud800": 1, "\\ud800 (str)": 2}


def test_a_thousand_keys_with_one_repr_have_short_names() -> None:
    """A thousand keys with the same repr become different names, whose length does not grow with their number."""
    names = to_jsonable({Opaque(): number for number in range(1000)})

    assert (len(names), max(map(len, names)) < 100) == (1000, True)


def test_a_huge_integer_is_recorded() -> None:
    """An integer of 10,000 digits, which Python's repr refuses, can be read back from its description."""
    assert int(to_jsonable(10**5000)["repr"], 0) == 10**5000


# ── values that try to do harm ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", HOSTILE)
def test_no_value_raises_or_damages_a_file(name: str) -> None:
    """Any value, at any place, is written as one line that the strictest reader reads."""
    outcomes = {holder: (outcome(to_json, name, holder), outcome(copied_to_json, name, holder)) for holder in HOLDERS}

    assert outcomes == dict.fromkeys(HOLDERS, ("written", "written"))


def outcome(write: Callable[[object], str], name: str, holder: str) -> str:
    try:
        read_strictly(write(HOLDERS[holder](HOSTILE[name]())))
    except (Exception, RecursionError) as error:  # noqa: BLE001 - whatever a hostile value raises
        return f"{type(error).__name__}: {error}"
    return "written"


def copied_to_json(value: object) -> str:
    return to_json(object_to_jsonable(value))


@given(values)
def test_no_combination_of_values_raises_or_damages_a_file(value: object) -> None:
    """Values of every kind, nested in each other, are written as text that the strictest reader reads."""
    assert [read_strictly(to_json(value)), read_strictly(to_json(object_to_jsonable(value)))] == [
        to_jsonable(value),
        object_to_jsonable(value),
    ]


def test_an_interrupt_is_not_caught() -> None:
    """A KeyboardInterrupt in a value's own code is raised."""

    class Interrupting:
        def __repr__(self) -> str:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        to_jsonable(Interrupting())


def test_a_nearly_full_stack_raises_nothing() -> None:
    """A value of ordinary depth is written even if the agent's own recursion has nearly filled the stack."""
    value = nested(50, lambda inner: [inner])
    room = sys.getrecursionlimit() - len(inspect.stack(0))

    def down(frames: int) -> str:
        return down(frames - 1) if frames else outcome_of(value)

    outcomes = {down(frames) for frames in range(0, room - 60, 20)}

    assert outcomes == {"written"}


def test_with_a_nearly_full_stack_a_member_is_complete_or_described() -> None:
    """Near the end of the stack, each member is copied completely or becomes a description."""
    value = nested(50, lambda inner: [inner])
    whole = fact_text(SourceRecordFact(what="arguments", value=to_jsonable(value))).foreign
    room = sys.getrecursionlimit() - len(inspect.stack(0))

    def down(frames: int) -> str:
        return down(frames - 1) if frames else written_members(value)

    texts = {down(frames) for frames in range(0, room - 60, 10)}

    assert whole in texts
    assert [text for text in texts if text != whole and '"__type__":' not in text] == []
    assert len(texts) > 1


def written_members(value: object) -> str:
    try:
        return fact_text(SourceRecordFact(what="arguments", value=to_jsonable(value))).foreign
    except RecursionError:
        return '"__type__":'  # the record is lost, and a gap says so


def outcome_of(value: object) -> str:
    try:
        to_json(value)
    except RecursionError:
        return "RecursionError"
    return "written"


def test_a_value_that_expands_without_end_is_cut() -> None:
    """Forty lists, each twice in the next, are cut at the limit of parts instead of written 2**40 times."""
    value: Payload = [1]
    for _ in range(40):
        value = [value, value]
    texts: list[str] = []

    assert not interrupted(lambda: texts.append(to_json(value, max_nodes=10_000)), moment=20 * 10_000)
    assert texts[0].count("[") + texts[0].count("1") <= 10_000


# ── what is handed over ───────────────────────────────────────────────────────────────────────────────────────────


def test_an_object_is_read_by_its_known_attributes() -> None:
    """A message of any class is recorded by its known attributes, and those of its calls and results."""

    class Message:
        def __init__(self) -> None:
            self.role = "assistant"
            self.content = "x"
            self.tool_calls = [types.SimpleNamespace(call_id="1", name="bash", arguments={"a": Colour.RED})]
            self.client = Opaque()

        def error(self) -> None:
            """A property that is not an attribute of messages."""

    assert object_to_jsonable([Message()]) == [
        {
            "role": "assistant",
            "content": "x",
            "tool_calls": [{"call_id": "1", "name": "bash", "arguments": {"a": "red"}}],
        }
    ]


def test_absent_arguments_leave_no_member() -> None:
    """The SDKs' sentinel for an argument that was not given is not recorded."""
    assert object_to_jsonable({"role": "user", "tool_calls": NotGiven(), "usage": Omit()}) == {"role": "user"}


def test_a_call_and_its_result_may_refer_to_each_other() -> None:
    """A call and a result that refer to each other are copied once, and the reference back is described."""
    call = types.SimpleNamespace(call_id="1", name="bash")
    call.tool_result = types.SimpleNamespace(call_id="1", result="ok", tool_call=call)

    copied = object_to_jsonable(call)

    assert (copied["call_id"], copied["tool_result"]["result"]) == ("1", "ok")


def test_values_without_known_attributes_are_unchanged() -> None:
    """None, texts, numbers and objects without such attributes are returned unchanged."""
    assert object_to_jsonable([None, "x", 3, b"", Opaque()]) == [
        None,
        "x",
        3,
        {"__type__": "bytes", "repr": "b''"},
        OPAQUE,
    ]
