"""Any value as plain JSON: nothing raises, nothing poisons, what JSON can say comes back equal."""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import json
import types
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.recording import Payload, exactly, json_values, python
from trace_recorder.plain import handed_over, plain, to_json


def no_constant(name: str) -> NoReturn:
    raise AssertionError(f"{name} is not JSON")


def read_strictly(text: str) -> Payload:
    """Read as the strictest reader would: UTF-8, one line, no NaN, no lone surrogate, no deep nesting."""
    assert "\n" not in text
    value = json.loads(text.encode(), parse_constant=no_constant)
    json.dumps(value, ensure_ascii=False).encode()
    return value


# ── values that JSON can say ──────────────────────────────────────────────────────────────────────────────────────


@given(json_values)
def test_what_json_can_say_comes_back_equal(value: Payload) -> None:
    """Dicts, lists, texts, numbers, booleans and None are themselves, also once written and read."""
    assert exactly([plain(value), read_strictly(to_json(value))]) == exactly([value, value])


@given(json_values)
def test_later_changes_do_not_show(value: Payload) -> None:
    """What was copied stays as it was, whatever happens to the value."""
    given_value = {"list": [value], "dict": {"a": value}}
    before = copy.deepcopy(given_value)

    copied = plain(given_value)

    given_value["list"].append("later")
    given_value["dict"].clear()
    assert exactly(copied) == exactly(before)


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Name(str):
    """A text of a class of its own."""

    __slots__ = ()


class Age(int):
    pass


@dataclasses.dataclass
class Point:
    x: int
    y: object = None


class Model(pydantic.BaseModel):
    name: str
    inner: Point | None = None


Pair = collections.namedtuple("Pair", "a b")  # noqa: PYI024 - what a user has


class NotGiven:
    """What the SDKs use to say that an argument was not given."""

    def __repr__(self) -> str:
        return "NOT_GIVEN"


class Omit(NotGiven):
    pass


class Opaque:
    def __init__(self) -> None:
        self.secret = object()

    def __repr__(self) -> str:
        return "<opaque>"


OPAQUE = {"__type__": "tests.test_plain.Opaque", "repr": "<opaque>"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Colour.RED, "red"),
        (Level.LOW, 1),
        (Name("n"), "n"),
        (Age(3), 3),
        (Point(1, Point(2)), {"x": 1, "y": {"x": 2, "y": None}}),
        (Model(name="m", inner=Point(1)), {"name": "m", "inner": {"x": 1, "y": None}}),
        (Pair(1, (2,)), [1, [2]]),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
        (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        ({"a": NotGiven(), "b": Omit(), "c": 1}, {"c": 1}),
        ({1: "a", None: "b", (1, 2): "c", b"k": "d", True: "e"}, {"1": "e", "None": "b", "(1, 2)": "c", "b'k'": "d"}),
        ({1: "a", "1": "b"}, {"1": "a", "1 (str)": "b"}),
        (2**64 - 1, 2**64 - 1),
        (-(2**63), -(2**63)),
    ],
    ids=repr,
)
def test_values_with_a_plain_meaning(value: object, expected: Payload) -> None:
    """What stands for something that JSON has a word for becomes that."""
    assert exactly(plain(value)) == exactly(expected)


@pytest.mark.parametrize(
    ("value", "name", "representation"),
    [
        (float("nan"), "float", "nan"),
        (float("-inf"), "float", "-inf"),
        (b"\xff", "bytes", "b'\\xff'"),
        ({1}, "set", "{1}"),
        ("a\ud800", "str", "'a\\ud800'"),
        (2**64, "int", "18446744073709551616"),
        (-(2**63) - 1, "int", "-9223372036854775809"),
        (Opaque(), "tests.test_plain.Opaque", "<opaque>"),
        (Opaque, "type", "<class 'tests.test_plain.Opaque'>"),
        (Model, "pydantic._internal._model_construction.ModelMetaclass", "<class 'tests.test_plain.Model'>"),
        (decimal.Decimal("1.10"), "decimal.Decimal", "Decimal('1.10')"),
        (datetime.date(2025, 6, 12), "datetime.date", "datetime.date(2025, 6, 12)"),
        (1j, "complex", "1j"),
        (range(3), "range", "range(0, 3)"),
    ],
    ids=repr,
)
def test_values_without_a_word_in_json(value: object, name: str, representation: str) -> None:
    """What JSON has no word for says its class and its repr."""
    assert plain([value]) == [{"__type__": name, "repr": representation}]


def test_a_key_that_is_no_text_has_its_place() -> None:
    """A lone surrogate in a name is spelled out; names that would fall together stay apart."""
    assert plain({"\ud800": 1, "\\ud800": 2}) == {"\\ud800": 1, "\\ud800 (str)": 2}


def test_a_thousand_keys_with_one_repr_have_short_names() -> None:
    """Names that are told apart do not grow with their number."""
    names = plain({Opaque(): number for number in range(1000)})

    assert (len(names), max(map(len, names)) < 100) == (1000, True)


def test_a_huge_integer_is_on_file() -> None:
    """An integer of 10,000 digits, which Python's repr refuses, can be read back from what stands for it."""
    assert int(plain(10**5000)["repr"], 0) == 10**5000


# ── values that try to do harm ────────────────────────────────────────────────────────────────────────────────────


class Raising:
    """Raises wherever it is touched."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(name)

    @property
    def content(self) -> object:
        raise RuntimeError("content")

    def __repr__(self) -> str:
        raise RuntimeError("repr")

    def __len__(self) -> int:
        raise RuntimeError("len")

    def __bool__(self) -> bool:
        raise RuntimeError("bool")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")

    def __hash__(self) -> int:
        return 1


class Unbound:
    """A proxy outside of its context, such as a web framework's request: even its class is not known."""

    @property
    def __class__(self) -> type:  # type: ignore[override]
        raise RuntimeError("outside of the request's context")


class RaisingMapping(Mapping[str, object]):
    def __getitem__(self, key: str) -> object:
        raise RuntimeError("getitem")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("iter")

    def __len__(self) -> int:
        return 2


class OddItems(dict[str, object]):
    def items(self) -> object:  # type: ignore[override]
        return [1, 2]


class RaisingList(list[object]):
    def __iter__(self) -> Iterator[object]:
        raise RuntimeError("iter")


class RaisingEnum(enum.Enum):
    ONE = 1

    @property
    def value(self) -> object:
        raise RuntimeError("value")


class OddInt(int):
    def __le__(self, other: object) -> bool:
        raise RuntimeError("le")

    __ge__ = __le__


class OddFloat(float):
    def __float__(self) -> float:
        raise RuntimeError("float")


class OddText(str):
    __slots__ = ()

    def encode(self, *_: object) -> bytes:
        raise RuntimeError("encode")


class OddRepr:
    def __repr__(self) -> str:
        return OddText("odd")


class SurrogateRepr:
    def __repr__(self) -> str:
        return "\ud800"


@dataclasses.dataclass
class HalfMade:
    """A dataclass of which a field was never set."""

    there: int
    missing: int = dataclasses.field(init=False)


class RaisingModel(pydantic.BaseModel):
    value: int = 1

    @pydantic.model_serializer
    def refuse(self) -> dict[str, object]:
        raise RuntimeError("serializer")


def renamed(**names: str) -> object:
    return type("Renamed", (), {})() if not names else _named(names)


def _named(names: dict[str, str]) -> object:
    made = type("Renamed", (), {})
    for name, value in names.items():
        setattr(made, name, value)
    return made()


def cycle() -> Payload:
    inner: Payload = {"list": []}
    inner["list"].append(inner)
    return inner


def cyclic_dataclass() -> Point:
    point = Point(1)
    point.y = [point]
    return point


def nested(depth: int, wrap: Callable[[Payload], Payload]) -> Payload:
    value: Payload = "inside"
    for _ in range(depth):
        value = wrap(value)
    return value


HOSTILE: dict[str, Callable[[], object]] = {
    "raising": Raising,
    "unbound proxy": Unbound,
    "raising mapping": RaisingMapping,
    "odd items": lambda: OddItems(a=1),
    "raising list": lambda: RaisingList([1]),
    "raising enum": lambda: RaisingEnum.ONE,
    "odd int": lambda: OddInt(3),
    "odd float": lambda: OddFloat(0.5),
    "odd text": lambda: OddText("x"),
    "odd repr": OddRepr,
    "surrogate repr": SurrogateRepr,
    "half made dataclass": lambda: HalfMade(1),
    "raising model": RaisingModel,
    "class with a surrogate for a name": lambda: _named({"__qualname__": "\ud800"}),
    "class with a surrogate for a module": lambda: _named({"__module__": "\ud800"}),
    "surrogate": lambda: "\ud800",
    "surrogate key": lambda: {"\udfff": 1},
    "nan key": lambda: {float("nan"): float("nan")},
    "huge int": lambda: 10**5000,
    "huge int key": lambda: {10**5000: 1},
    "cycle": cycle,
    "cyclic dataclass": cyclic_dataclass,
    "deep list": lambda: nested(10_000, lambda inner: [inner]),
    "deep dict": lambda: nested(10_000, lambda inner: {"a": inner}),
    "deep dataclass": lambda: nested(10_000, lambda inner: Point(1, inner)),
    "deep mixture": lambda: nested(10_000, lambda inner: ({"a": [inner]},)),
    "generator": lambda: (one for one in ()),
    "not given": NotGiven,
    "exception": lambda: ValueError(Raising()),
}

HOLDERS: dict[str, Callable[[object], object]] = {
    "alone": lambda value: value,
    "in a list": lambda value: [value],
    "in a dict": lambda value: {"content": value},
    "as tool calls": lambda value: {"role": "assistant", "tool_calls": [value], "usage": value},
    "as a key": lambda value: {_hashable(value): 1},
    "as an attribute": lambda value: types.SimpleNamespace(role="user", content=value, tool_calls=value),
    "in a dataclass": lambda value: Point(1, value),
}


def _hashable(value: object) -> object:
    try:
        hash(value)
    except Exception:  # noqa: BLE001 - whatever a hostile value raises
        return repr(type(value))
    return value


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("name", HOSTILE)
def test_no_value_raises_or_poisons(name: str, holder: str) -> None:
    """Whatever a value does, and wherever it stands, it is written as one line that the strictest reader reads."""
    value = HOLDERS[holder](HOSTILE[name]())

    texts = [to_json(value), to_json(handed_over(value))]

    assert [type(read_strictly(text)) in (dict, list, str, int, float) for text in texts] == [True, True]


harmful = st.sampled_from(list(HOSTILE)).map(lambda name: HOSTILE[name]())
texts = st.text(st.characters(exclude_categories=()), max_size=5)
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | texts
    | st.binary(max_size=5)
    | st.complex_numbers()
    | harmful
)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(texts | st.integers() | st.floats() | st.binary() | st.none(), inner, max_size=3)
        | st.builds(Point, st.integers(), inner)
        | st.builds(types.SimpleNamespace, role=texts, content=inner, tool_calls=inner)
    ),
    max_leaves=10,
)


@given(values)
def test_no_combination_of_values_raises_or_poisons(value: object) -> None:
    """Values of every kind, in one another, are written as text that the strictest reader reads."""
    assert [read_strictly(to_json(value)), read_strictly(to_json(handed_over(value)))] == [
        plain(value),
        handed_over(value),
    ]


def test_an_interrupt_is_no_value() -> None:
    """Ctrl-C in the middle of a value's own code passes."""

    class Interrupting:
        def __repr__(self) -> str:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plain(Interrupting())


def test_where_the_stack_is_nearly_full_nothing_is_raised() -> None:
    """A value of ordinary depth is written wherever in a deep recursion the agent stands."""
    value = nested(50, lambda inner: [inner])

    def down(frames: int) -> str:
        return down(frames - 1) if frames else to_json(value)

    raised = []
    for frames in range(0, 900, 20):
        try:
            down(frames)
        except RecursionError:
            raised.append(frames)

    assert raised == []


def test_a_value_that_unfolds_without_end_is_cut() -> None:
    """Forty lists that each stand twice in the next are not written 2**40 times."""
    ended = python(
        """
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
        from trace_recorder.plain import to_json
        value = [1]
        for _ in range(40):
            value = [value, value]
        print(len(to_json(value)) < 10**8)
        """,
        cpu_seconds=3,
    )

    assert (ended.returncode, ended.stdout) == (0, "True\n")


# ── what is handed over ───────────────────────────────────────────────────────────────────────────────────────────


def test_an_object_is_read_by_the_attributes_that_count() -> None:
    """A message of any class gives its known attributes, and those of its calls and results; methods are none."""

    class Message:
        def __init__(self) -> None:
            self.role = "assistant"
            self.content = "x"
            self.tool_calls = [types.SimpleNamespace(call_id="1", name="bash", arguments={"a": Colour.RED})]
            self.client = Opaque()

        def error(self) -> None:
            """Not an attribute that counts."""

    assert handed_over([Message()]) == [
        {
            "role": "assistant",
            "content": "x",
            "tool_calls": [{"call_id": "1", "name": "bash", "arguments": {"a": "red"}}],
        }
    ]


def test_what_was_not_given_is_not_there() -> None:
    """The SDKs' words for an argument that was not given leave no trace among a message's members."""
    assert handed_over({"role": "user", "tool_calls": NotGiven(), "usage": Omit()}) == {"role": "user"}


def test_a_call_and_its_result_may_know_each_other() -> None:
    """Objects that lead back to one another are copied once, and the way back says so."""
    call = types.SimpleNamespace(call_id="1", name="bash")
    call.tool_result = types.SimpleNamespace(call_id="1", result="ok", tool_call=call)

    copied = handed_over(call)

    assert (copied["call_id"], copied["tool_result"]["result"]) == ("1", "ok")


def test_handing_over_nothing_gives_nothing() -> None:
    """None, texts, numbers and what has no such attribute pass as they are."""
    assert handed_over([None, "x", 3, b"", Opaque()]) == [None, "x", 3, {"__type__": "bytes", "repr": "b''"}, OPAQUE]
