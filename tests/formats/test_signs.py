"""Signs: which members and values an object must have, and where in a file the object must be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.values.messages import Payload

HEAD = Signs(values={"type": {"head", "start"}}, members=("id", "of/name"), objects=("of",), lists=("parts",))
OBJECT: dict[str, Payload] = {"type": "head", "id": None, "of": {"name": 1}, "parts": []}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (OBJECT, True),
        (OBJECT | {"type": "start", "more": 1}, True),
        (OBJECT | {"type": "end"}, False),
        (OBJECT | {"type": ["head"]}, False),
        ({name: value for name, value in OBJECT.items() if name != "id"}, False),
        (OBJECT | {"of": {}}, False),
        (OBJECT | {"of": "name"}, False),
        (OBJECT | {"parts": {}}, False),
        ([OBJECT], False),
        (None, False),
    ],
)
def test_an_object_has_all_signs(value: Payload, expected: bool) -> None:
    assert HEAD.match(value) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{json.dumps(OBJECT)}\n{{}}\n", (True, True, False)),
        (f"{{}}\n{json.dumps(OBJECT)}\n", (False, True, False)),
        (json.dumps(OBJECT, indent=1), (False, False, True)),
        (f"[{json.dumps(OBJECT)}]", (False, False, False)),
        ("", (False, False, False)),
    ],
)
def test_the_object_is_the_first_line_a_line_or_the_document(
    tmp_path: Path, text: str, expected: tuple[bool, bool, bool]
) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    source = Source(path)
    assert (HEAD.in_first_line(source), HEAD.in_any_line(source), HEAD.in_document(source)) == expected
