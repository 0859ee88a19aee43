"""Damaged files of spans: cut off, with flipped bits, or with values of other types."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

from tests.formats.fuzzing import leaked
from tests.formats.span_files import call, otlp, span, written
from tests.secrets.corpus import keys
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.journal_writer import journal_lines
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.spans import otlp_files as otlp_format
from trace_recorder.reading.own_files import load_lines

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
