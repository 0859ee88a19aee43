"""Nesting and halves of surrogate pairs are found in long JSON, whatever stands around them."""

from __future__ import annotations

import json

import pytest

from trace_recorder.values.json_text import NotJsonError, check_depth, parse
from trace_recorder.values.messages import Payload

STEP = 32 * 1024
AROUND_A_STEP = range(STEP - 8, STEP + 3)


@pytest.mark.parametrize("inside", ['"', '\\"', "\\\\", "[", '"]', "a"])
def test_depth_is_found_wherever_a_step_ends(inside: str) -> None:
    """The depth of nesting is right if a string with brackets crosses two steps."""
    for before in AROUND_A_STEP:
        said = json.dumps("x" * before + inside * 3 + "y" * 100)
        check_depth("[" * 150 + said + "]" * 150 + "[]" * 200, 200)
        with pytest.raises(NotJsonError):
            check_depth(f"[{said}," + "[" * 200 + "]" * 201, 200)


def nested(depth: int, kinds: str) -> Payload:
    value: Payload = "{[" * 300
    for level in range(depth):
        value = [1, value] if kinds[level % len(kinds)] == "[" else {"a": 2, "b": value}
    return value


@pytest.mark.parametrize("kinds", ["[", "{", "[{"])
@pytest.mark.parametrize("depth", [0, 1, 199, 200, 201, 300])
def test_the_depth_of_a_value_is_the_depth_of_its_text(kinds: str, depth: int) -> None:
    """`parse`, which looks at the value, refuses the same texts as `check_depth`, which looks at the text."""
    text = json.dumps(nested(depth, kinds))
    refused: list[bool] = []
    for check in (lambda: parse(text, 200), lambda: check_depth(text, 200)):
        try:
            check()
        except NotJsonError:
            refused.append(True)
        else:
            refused.append(False)

    assert refused == [depth > 200] * 2


@pytest.mark.parametrize("before", ["", "x" * STEP, "\\\\" * STEP, "\\n\\ud83d\\ude00"])
@pytest.mark.parametrize("half", ["\\ud83d", "\\uDE00", "\\ud83d\\ud83d\\ude00"])
def test_half_of_a_surrogate_pair_is_refused(before: str, half: str) -> None:
    """The escape of a lone surrogate is found after any text."""
    assert parse(f'"{before}"') == json.loads(f'"{before}"')
    with pytest.raises(NotJsonError):
        parse(f'"{before}{half}"')
