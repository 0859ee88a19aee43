"""Damaged files of spans: cut off, with flipped bits, or with values of other types."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.formats.fuzzing import leaked
from tests.formats.span_files import agent_run, call, otlp, span, written
from tests.formats.test_span_lists import phoenix_spans
from tests.formats.test_trace_exports import langfuse_trace, langsmith_runs, mlflow_trace
from tests.secrets.corpus import keys
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.langfuse import reading as langfuse
from trace_recorder.formats.langsmith import reading as langsmith
from trace_recorder.formats.mlflow import reading as mlflow
from trace_recorder.formats.phoenix import reading as phoenix
from trace_recorder.formats.recognition import Source, journal_lines
from trace_recorder.formats.spans import otlp_files as otlp_format
from trace_recorder.reading.own_files import load_lines

_CASES: dict[str, tuple[Any, Any]] = {
    "otlp": (otlp_format, lambda: otlp(agent_run())),
    "phoenix": (phoenix, phoenix_spans),
    "mlflow": (mlflow, mlflow_trace),
    "langfuse": (langfuse, langfuse_trace),
    "langsmith": (langsmith, langsmith_runs),
}
_VALUES = [
    *(
        None,
        True,
        0,
        -1,
        1.5,
        1e308,
        10**30,
        "",
        "x",
        "\ud800",
        "[",
        '{"a":',
        '{"role":3}',
        '[{"role":"user","parts":[3]}]',
    ),
    *([], {}, [None], {"a": None}, [[[]]], {"role": "user"}, [{"role": "tool", "content": [{"type": {}}]}]),
    *("9" * 30, float("nan"), {"lc": 1, "kwargs": {}, "id": []}, [{"parts": [{"type": "text"}], "role": "x"}]),
]


def _attempt(module: ModuleType, path: Path, data: bytes) -> bool:
    """Read the runs of a file by this format only. Return False if the file is refused."""
    path.write_bytes(data)
    try:
        module.recognizes(Source(path))
        for run in module.read(Source(path)):
            load_lines(journal_lines(run), path).to_document()
    except TrajectoryFormatError:
        return False
    return True


def _paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield above
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _paths(value[key], (*above, key))


def _replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Return a value with the value at a path replaced. The path may lead into JSON text."""
    if not path:
        return new
    whole = copy.deepcopy(value)
    inner = whole
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return whole


@pytest.mark.parametrize("name", _CASES)
def test_a_cut_file_is_refused_or_read(tmp_path: Path, name: str) -> None:
    module, make = _CASES[name]
    data = json.dumps(make()).encode()
    for end in range(0, len(data), max(1, len(data) // 200)):
        _attempt(module, tmp_path / "file", data[:end])
    assert _attempt(module, tmp_path / "file", data)


@pytest.mark.parametrize("name", _CASES)
def test_a_file_with_flipped_bits_is_refused_or_read(tmp_path: Path, name: str) -> None:
    module, make = _CASES[name]
    data, chance = json.dumps(make()).encode(), random.Random(1)
    for _ in range(200):
        damaged = bytearray(data)
        for _ in range(chance.choice([1, 5, 50])):
            damaged[chance.randrange(len(data))] = chance.randrange(256)
        _attempt(module, tmp_path / "file", bytes(damaged))


@pytest.mark.parametrize("name", _CASES)
def test_values_of_other_types_are_skipped(tmp_path: Path, name: str) -> None:
    module, make = _CASES[name]
    chance = random.Random(2)
    for path in _paths(make()):
        value = _replaced(make(), path, chance.choice(_VALUES))
        _attempt(module, tmp_path / "file", json.dumps(value).encode())


def test_json_in_an_attribute_may_be_anything(tmp_path: Path) -> None:
    names = (
        "gen_ai__input__messages",
        "gen_ai__output__messages",
        "gen_ai__system_instructions",
        "gen_ai__tool__definitions",
    )
    for value in _VALUES:
        for name in names:
            named = {"gen_ai__operation__name": "chat", name: value}
            text = json.dumps(otlp([span(1, "chat", None, **named)]))
            assert _attempt(otlp_format, tmp_path / "file", text.encode())


def test_a_deep_or_long_attribute_is_kept_as_text(tmp_path: Path) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    named = {
        f"llm__input_messages__{'.'.join('0' * 100)}": 1,
        "llm__input_messages__999999999999__message__role": "user",
    }
    spans = [call(1, None, deep, deep), span(2, "LLM", openinference__span__kind="LLM", **named)]
    assert _attempt(otlp_format, tmp_path / "file", json.dumps(otlp(spans)).encode())


def test_a_chain_of_many_spans_is_read(tmp_path: Path) -> None:
    spans = [call(number, number - 1 or None, None, None) for number in range(1, 3000)]
    assert _attempt(otlp_format, tmp_path / "file", json.dumps(otlp(spans)).encode())


def test_a_secret_with_dots_in_an_attribute_s_name_is_masked(tmp_path: Path) -> None:
    """Names of nested attributes are split at dots, and the parts of such a key do not look like a key."""
    key = next(key for key in keys(1) if key.service == "Dropbox")
    members = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        f"llm.input_messages.0.message.contents.0.message_content.text {key.text} ": "Hello",
    }
    path = written(tmp_path, otlp([span(1, "ChatCompletion", **members)]))
    assert leaked(path, [key], tmp_path / "out") == set()
