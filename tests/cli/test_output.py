"""JSON on stdout: the text of json.dumps, in parts, with escapes for characters that control or confuse a terminal."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given

from tests.cli.invoking import invoke
from tests.json_strategies import json_values
from trace_recorder import TrajectoryRecorder
from trace_recorder.cli.output import PART_CHARACTERS, json_parts
from trace_recorder.values.control_characters import (
    escape_control_characters,
    escape_json_text,
    has_control_characters,
)
from trace_recorder.values.messages import Payload

OBEYED = "".join(map(chr, (*range(0x80, 0xA0), 0x7F, 0x61C, *range(0x200E, 0x2010), *range(0x2028, 0x202F), 0xFEFF)))
OBEYED += "".join(map(chr, range(0x2066, 0x206A)))
SAID = f"a{OBEYED}\r\n\tß日\U0001f600"


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "--json", "run.json"),
        ("show", "--turns", "--json", "run.json"),
        ("list", "--json", "."),
        ("validate", "--json", "run.json"),
        ("export", "-f", "openai", "run.json"),
        ("export", "-f", "invariant", "run.json"),
    ],
    ids=" ".join,
)
def test_json_contains_no_terminal_controls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    """C1 and bidi controls, and line separators, are printed as escapes.

    Parsing the text gives the original, and letters are not escaped.
    """
    monkeypatch.chdir(tmp_path)
    with TrajectoryRecorder("run.json", task=SAID, metadata={SAID: 1}) as recorder:
        recorder.record_llm_interaction([{"role": "user", "content": SAID}], {"content": SAID}, "openai", "m")
        recorder.finalize(success=True)

    printed = invoke(*arguments)

    assert (printed.exit_code, [one for one in OBEYED if one in printed.stdout]) == (0, [])
    read = [json.loads(printed.stdout)] if "--json" in arguments else map(json.loads, printed.stdout.split("\n")[:-1])
    said = json.dumps(list(read), ensure_ascii=False)
    assert ("validate" in arguments) or json.dumps(SAID, ensure_ascii=False)[1:-1] in said
    assert ("validate" in arguments) or "ß日\U0001f600" in printed.stdout


def test_each_terminal_control_is_found() -> None:
    """The characters that are escaped are found, wherever they are in a text, and no others."""
    blocks = range(0x3000), range(0xD700, 0xE100), range(0xFE00, 0x10100), range(0xE0000, 0xE0200)
    for character in map(chr, itertools.chain(*blocks)):
        text = f"a\n{character}\tb"
        is_escaped = escape_control_characters(text) != text
        assert (has_control_characters(text), escape_json_text(text) != text) == (is_escaped, is_escaped), character


@given(json_values)
def test_the_text_equals_json_dumps(value: Payload) -> None:
    """The text equals that of `json.dumps` at every level of nesting, in ASCII and in Unicode."""
    for nested in (value, [value, [value, [value, [value]]]], {"a": [{"messages": [value, value]}], "b": value}):
        assert "".join(json_parts(nested)) == json.dumps(nested, ensure_ascii=False, indent=2)
        assert "".join(json_parts(nested, ascii_only=True)) == json.dumps(nested, indent=2)


def test_a_document_is_written_in_parts() -> None:
    """No part is much longer than the limit, however often the document repeats a message."""
    message = {"content": "x" * 1000}
    document = {"calls": [{"messages": [message] * 100} for _ in range(50)]}

    parts = [*json_parts(document)]
    assert "".join(parts) == json.dumps(document, indent=2)
    assert len(parts) > 10
    assert max(map(len, parts)) < PART_CHARACTERS + 2000
