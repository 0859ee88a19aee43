"""Values of odd classes, which give wrong answers, raise or never end, and a value of every kind that agents pass."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import importlib.util
import json
import pathlib
import types
import uuid
from collections.abc import Callable, Iterator

import anthropic
import httpx
import ollama
import openai
import pydantic

from tests.hostile import HOSTILE, Raising, nested

HAS_NUMPY = importlib.util.find_spec("numpy") is not None


class OddText(str):
    """A text whose methods all give wrong answers."""

    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("str")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")

    def __hash__(self) -> int:
        return 1

    def __len__(self) -> int:
        return -1  # noqa: PLE0303 - that is what is odd about it

    def __contains__(self, part: object) -> bool:
        raise RuntimeError("contains")


class OddInt(int):
    def __repr__(self) -> str:
        return "NaN"

    __str__ = __repr__

    def __int__(self) -> int:
        raise RuntimeError("int")

    def __bool__(self) -> bool:
        raise RuntimeError("bool")


class OddFloat(float):
    def __repr__(self) -> str:
        return "Infinity"


class OddDict(dict[object, object]):
    def items(self) -> object:  # type: ignore[override]
        yield "a", 1
        yield "a", self
        yield 2

    def __bool__(self) -> bool:
        raise RuntimeError("bool")


class OddList(list[object]):
    def __iter__(self) -> Iterator[object]:
        yield 1
        raise RuntimeError("iter")

    def __len__(self) -> int:
        raise RuntimeError("len")


class Endless(list[object]):
    def __iter__(self) -> Iterator[object]:
        while True:
            yield "again"


class EverythingThere:
    """An object that has every attribute, and claims to be of any class."""

    def __getattr__(self, name: str) -> object:
        return self

    def __call__(self, *_: object, **__: object) -> object:
        return self

    def __iter__(self) -> Iterator[object]:
        return iter([self])

    def __getitem__(self, _: object) -> object:
        return self


class RubbishFields:
    model_fields = property(lambda self: 1 / 0)

    def model_dump(self, **_: object) -> object:
        return "no dict"


class WeirdModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow", arbitrary_types_allowed=True)
    value: object = float("nan")
    secret: pydantic.SecretStr = pydantic.SecretStr("hidden")


@dataclasses.dataclass
class RaisingField:
    value: int = 1

    def __getattribute__(self, name: str) -> object:
        if name == "value":
            raise RuntimeError(name)
        return super().__getattribute__(name)


class Colour(enum.Enum):
    RED = b"\xff"


class Flags(enum.Flag):
    A = 1
    B = 2


def array() -> object:
    return importlib.import_module("numpy").array([[1.5, float("nan")], [2, 3]])


MAKERS: dict[str, Callable[[], object]] = {
    **HOSTILE,
    "odd text": lambda: OddText("x"),
    "odd int": lambda: OddInt(3),
    "odd float": lambda: OddFloat(1.5),
    "odd dict": lambda: OddDict(a=1),
    "odd list": lambda: OddList([1]),
    "everything there": EverythingThere,
    "rubbish fields": RubbishFields,
    "weird model": lambda: WeirdModel(other=object(), value=b"\xff"),
    "raising field": RaisingField,
    "bytes enum": lambda: Colour.RED,
    "flags": lambda: Flags.A | Flags.B,
    "datetime": lambda: datetime.datetime(2025, 6, 12, tzinfo=datetime.UTC),
    "timedelta": lambda: datetime.timedelta(1),
    "decimal": lambda: decimal.Decimal("NaN"),
    "path": lambda: pathlib.Path("/x"),
    "uuid": lambda: uuid.UUID(int=7),
    "nan": lambda: float("nan"),
    "infinity": lambda: float("-inf"),
    "minus zero": lambda: -0.0,
    "bytes": lambda: b"\xff\x00",
    "bytearray": lambda: bytearray(b"\xff"),
    "memoryview": lambda: memoryview(b"x"),
    "set": lambda: {1, "a"},
    "tuple keys": lambda: {(1, 2): 3, None: 4, 1.5: 5, b"x": 6},
    "range": lambda: range(10**12),
    "function": lambda: nested,
    "module": lambda: json,
    "class": lambda: Raising,
    "not implemented": lambda: NotImplemented,
    "ellipsis": lambda: ...,
    "NUL": lambda: "\x00\x1b[31m\u2028\ufffe",
    "line breaks": lambda: '\r\n{"seq":1,"time":"","kind":"',
    "a record": lambda: '{"seq":1,"time":"x","kind":"finalize","data":{},"crc":"00000000"}\n',
    "a placeholder": lambda: "@string:0",
    "a long text": lambda: "ü" * 10_000,
    "a coroutine": types.coroutine(lambda: (yield)),
    "openai client": lambda: openai.OpenAI(api_key="x"),
    "anthropic client": lambda: anthropic.Anthropic(api_key="x"),
    "ollama client": ollama.Client,
    "http client": httpx.Client,
    "openai NOT_GIVEN": lambda: openai.NOT_GIVEN,
    "openai Omit": openai.Omit,
    "anthropic NOT_GIVEN": lambda: anthropic.NOT_GIVEN,
    "defaultdict": lambda: collections.defaultdict(list, a=[1]),
    "counter": lambda: collections.Counter("aab"),
    "chain map": lambda: collections.ChainMap({"a": 1}, {"b": 2}),
    "exception group": lambda: ExceptionGroup("x", [ValueError("\ud800")]),
    **({"numpy array": array, "numpy scalar": lambda: array()[0, 0]} if HAS_NUMPY else {}),  # type: ignore[index]
}
