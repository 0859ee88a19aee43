"""Strategies for values of JSON, and for JSON texts in any spelling: with any white space and escapes."""

from __future__ import annotations

import json
from random import Random

from hypothesis import strategies as st

from trace_recorder.values.messages import Payload


def exactly(value: Payload) -> str:
    """Return a JSON value as a text in which 0, 0.0 and false differ, and the order of names counts."""
    return json.dumps(value)


scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
json_values = st.recursive(
    scalars | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
json_objects = st.dictionaries(st.text(max_size=8), json_values, max_size=5)


def json_texts(values: st.SearchStrategy[Payload]) -> st.SearchStrategy[str]:
    """Return a strategy for JSON texts of values, with random white space and escapes."""
    return st.builds(_spelled, values, st.randoms(use_true_random=False))


def _spelled(value: Payload, random: Random) -> str:
    def space() -> str:
        return random.choice(("", "", "", " ", "\n", "\r\n\t"))

    if isinstance(value, str):
        return _spelled_text(value, random)
    if isinstance(value, list):
        return "[" + ",".join(space() + _spelled(one, random) + space() for one in value) + space() + "]"
    if isinstance(value, dict):
        names = ((_spelled_text(name, random), _spelled(one, random)) for name, one in value.items())
        return "{" + ",".join(space() + name + space() + ":" + space() + one for name, one in names) + space() + "}"
    return json.dumps(value)


def _spelled_text(text: str, random: Random) -> str:
    plainly = random.choice((True, False))
    if plainly:
        return json.dumps(text, ensure_ascii=random.choice((True, False)))
    units = memoryview(text.encode("utf-16-be")).tobytes()
    escaped = [f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)]
    return '"' + "".join(escaped) + '"'
