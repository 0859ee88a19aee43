"""Any value fits into an answer of any size, and what was cut says how long it is and where it is."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.json_strategies import json_objects, json_values
from tests.mcp_server.connecting import ANSWER
from trace_recorder.mcp_server.answers import MAX_CHARACTERS, MIN_CHARACTERS, Cutter, answer_text, beginning_of
from trace_recorder.values.control_characters import has_control_characters
from trace_recorder.values.messages import Payload

LONG = st.builds(lambda text, times: text * times, st.text(min_size=1, max_size=5), st.integers(300, 3_000))
VALUES = st.dictionaries(
    st.text(max_size=8) | LONG, json_values | LONG | st.lists(json_objects | LONG, max_size=8), max_size=4
)


@given(VALUES, st.integers(MIN_CHARACTERS, MAX_CHARACTERS))
def test_an_answer_has_at_most_its_size(data: dict[str, Payload], size: int) -> None:
    """An answer is valid JSON between its marks, is not longer than its size, and has no hidden characters."""
    text = answer_text(data, size)
    match = ANSWER.fullmatch(text)

    assert len(text) <= size
    assert not has_control_characters(text)
    assert match is not None
    assert isinstance(json.loads(match[3]), dict)


@given(json_values | LONG | st.lists(LONG, max_size=5), st.integers(0, 3000))
def test_what_is_cut_can_be_asked_for(value: Payload, size: int) -> None:
    """Each cut text is the beginning of the text at its pointer, with that text's length. Other values are whole."""
    _compare(Cutter(size).fit(value, ""), value, value)


def _compare(shown: Any, value: Any, whole: Payload) -> None:
    if isinstance(shown, dict) and shown.get("cut") is True and "pointer" in shown:
        cut = _at(whole, shown["pointer"])
        if "beginning" in shown:
            assert (cut.startswith(shown["beginning"]), len(cut)) == (True, shown["characters"])
        else:
            assert isinstance(cut, list | dict)
    elif isinstance(shown, dict):
        for (name, member), (original, inner) in zip(shown.items(), value.items(), strict=False):
            if name != "...":
                assert original.startswith(name.removesuffix("..."))
                _compare(member, inner, whole)
    elif isinstance(shown, list):
        for element, inner in zip(shown, value, strict=False):
            _compare(element, inner, whole)
    else:
        assert json.dumps(shown) == json.dumps(value)


def _at(value: Any, pointer: str) -> Any:
    for name in pointer.split("/")[1:]:
        key = name.replace("~1", "/").replace("~0", "~")
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


@given(st.text() | LONG, st.integers(0, 200))
def test_a_beginning_fits_with_its_escapes(text: str, size: int) -> None:
    """The beginning of a text fits as JSON, and is the whole text if that fits."""
    beginning = beginning_of(text, size)

    assert text.startswith(beginning)
    assert len(json.dumps(beginning, ensure_ascii=False)) - 2 <= size
