"""JSON in parts: the joined text is that of json.dumps with an indent."""

from __future__ import annotations

import json

from hypothesis import given

from tests.json_strategies import json_values
from trace_recorder.cli.output import PART_CHARACTERS, json_parts
from trace_recorder.values.messages import Payload


@given(json_values)
def test_the_text_is_that_of_json(value: Payload) -> None:
    """At every level of nesting, in ASCII and in Unicode."""
    for nested in (value, [value, [value, [value, [value]]]], {"a": [{"messages": [value, value]}], "b": value}):
        assert "".join(json_parts(nested)) == json.dumps(nested, ensure_ascii=False, indent=2)
        assert "".join(json_parts(nested, ascii_only=True)) == json.dumps(nested, indent=2)


def test_a_document_comes_in_parts() -> None:
    """No part is much longer than the limit, however often the document repeats a message."""
    message = {"content": "x" * 1000}
    document = {"calls": [{"messages": [message] * 100} for _ in range(50)]}

    parts = [*json_parts(document)]
    assert "".join(parts) == json.dumps(document, indent=2)
    assert len(parts) > 10
    assert max(map(len, parts)) < PART_CHARACTERS + 2000
