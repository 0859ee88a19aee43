"""Values that try to do damage: they raise at every access, refer to themselves, or have no end.

`HOSTILE` makes one of each. `HOLDERS` are the places in which such a value can be. `values` is a strategy for all of
them, nested in each other.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Callable, Iterator, Mapping

import pydantic
from hypothesis import strategies as st

from trace_recorder.values.messages import Payload


@dataclasses.dataclass
class Point:
    x: int
    y: object = None


class NotGiven:
    """The SDKs' sentinel for an argument that was not given."""

    def __repr__(self) -> str:
        return "NOT_GIVEN"


class Raising:
    """An object that raises at every access."""

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
    """A proxy outside of its context, such as a web framework's request, whose class is unknown too."""

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
    """A dataclass with a field that was never set."""

    there: int
    missing: int = dataclasses.field(init=False)


class RaisingModel(pydantic.BaseModel):
    value: int = 1

    @pydantic.model_serializer
    def refuse(self) -> dict[str, object]:
        raise RuntimeError("serializer")


def named(names: dict[str, str]) -> object:
    """Make an object of a class, and rename the class afterwards."""
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
    "class with a surrogate for a name": lambda: named({"__qualname__": "\ud800"}),
    "class with a surrogate for a module": lambda: named({"__module__": "\ud800"}),
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
    except Exception:  # noqa: BLE001 - a hostile value may raise any exception
        return repr(type(value))
    return value


_BEARABLE = [name for name in HOSTILE if name != "unbound proxy"]  # hypothesis itself cannot contain such a value
_harmful = st.sampled_from(_BEARABLE).map(lambda name: HOSTILE[name]())
_texts = st.text(st.characters(exclude_categories=()), max_size=5)
_leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | _texts
    | st.binary(max_size=5)
    | st.complex_numbers()
    | _harmful
)
values = st.recursive(
    _leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(_texts | st.integers() | st.floats() | st.binary() | st.none(), inner, max_size=3)
        | st.builds(Point, st.integers(), inner)
        | st.builds(types.SimpleNamespace, role=_texts, content=inner, tool_calls=inner)
    ),
    max_leaves=10,
)
