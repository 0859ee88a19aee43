"""The data of the one file: unpacked they are what was packed, and each long text is in them once."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from tests.viewer.packed import unpacked
from trace_recorder.values.messages import Payload
from trace_recorder.viewer.one_file import LONG_CHARACTERS, packed

TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["", "\u0001", "\u00010", "\u0001x", "x" * LONG_CHARACTERS, "</script>" * 20, "half \ud83d"]),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(TEXTS, inside, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["run", "steps", "raw"]), VALUES))
@example({"run": {"__proto__": "\u00010", "constructor": ["\u0001" * 200]}})
def test_packing_loses_nothing(sections: dict[str, Payload]) -> None:
    """Any recorded text is the same after unpacking, also a text that looks like the name of a text."""
    assert unpacked(packed(sections)) == sections


def test_what_was_recorded_is_not_changed() -> None:
    """Long texts are named in a copy: the values belong to the run."""
    value = {"a": ["x" * LONG_CHARACTERS, {"b": "y" * LONG_CHARACTERS}]}
    before = json.dumps(value)
    packed({"run": value})

    assert json.dumps(value) == before
