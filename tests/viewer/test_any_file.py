"""Truncated and damaged journals: the viewer can answer all requests about them, and shows the prompts of `load`."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from functools import cache, reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chat_calls import rich_run
from tests.journals import folded, journal_of
from tests.viewer.recorded import growing, record
from trace_recorder.errors import TraceRecorderError
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.viewer.interface import RunAnswers
from trace_recorder.viewer.one_file import ascii_json, run_data


@cache
def journals() -> tuple[bytes, ...]:
    """Return the journals of two runs: one has records of every kind, the other a conversation."""
    with TemporaryDirectory() as place:
        paths = [rich_run(Path(place, "rich.json")), record(Path(place, "long.json"), growing(4))]
        return tuple(path.with_suffix(".jsonl").read_bytes() for path in paths)


def assert_answers(run: Trajectory) -> None:
    """Assert that all answers are JSON, and that the message numbers of each prompt lead to its messages."""
    data = json.loads(ascii_json(run_data(run, "run.json")))
    answers = RunAnswers(run)
    for number, one in enumerate(run.llm_interactions, start=1):
        ranges = answers.interaction(number)["prompt"]
        roles = [data["messages"][at]["role"] for first, last in ranges for at in range(first, last + 1)]
        assert roles == [message.role for message in one.input_messages]


@given(st.integers(0, 1), st.floats(0, 1))
def test_every_beginning_of_a_journal_has_answers(which: int, share: float) -> None:
    """The viewer answers for a journal that was cut off at any byte."""
    data = journals()[which]

    assert_answers(folded(data[: int(share * len(data))]))


@given(st.integers(0, 1), st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_a_journal_with_damaged_lines_has_answers(which: int, places: list[float]) -> None:
    """The viewer shows all undamaged lines of a journal, whichever other lines are damaged."""
    lines = journals()[which].split(b"\n")
    for place in places:
        lines[int(place * (len(lines) - 1))] = b"{damaged}"

    assert_answers(folded(b"\n".join(lines)))


ODD = (None, [], {}, {"a": 1}, ["x"], "text", -1, math.inf, True, {"a": [{}]}, "2025-99-99", 10**30, "\ud800")
"""Values that no member of a journal may have."""


@cache
def records() -> list[list[dict[str, Payload]]]:
    """Return the records of the runs as JSON values."""
    return [[json.loads(line) for line in data.splitlines()] for data in journals()]


def _places(value: Payload, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, member in members:
        yield (*path, name)
        yield from _places(member, (*path, name))


@settings(max_examples=300)
@given(st.integers(0, 1), st.floats(0, 1, exclude_max=True), st.sampled_from(ODD))
def test_a_journal_with_any_json_anywhere_has_answers(which: int, place: float, odd: Payload) -> None:
    """A member of a record with a value of an unexpected type hides no other member."""
    found = [path for path in _places(records()[which]) if len(path) > 2 and path[1] == "data"]
    *within, name = found[int(place * len(found))]
    changed = copy.deepcopy(records()[which])
    reduce(lambda value, step: value[step], within, cast("Payload", changed))[name] = odd

    data = journal_of(*((one["kind"], one["data"]) for one in changed))
    try:
        run = folded(data)
    except TraceRecorderError:
        return
    json.loads(ascii_json(run_data(run, "run.json")))


def test_an_agent_whose_name_is_not_text_has_answers() -> None:
    """The viewer shows an agent whose name and id in the journal are not strings."""
    request = {
        "interaction_id": "a",
        "attempt": 0,
        "agent": ["x"],
        "agent_id": {"y": 1},
        "parent_execution_id": [2],
        "body": {},
    }
    run = folded(journal_of(("start", {}), ("llm_request", request)))

    assert RunAnswers(run).outline()["agents"][0]["key"] == '{"y": 1}'
    assert_answers(run)
