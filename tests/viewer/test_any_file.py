"""Journals that were cut off or damaged: the viewer has answers for a loaded run, with the same prompts as `load`."""

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
from trace_recorder.viewer.one_file import json_text, run_data


@cache
def journals() -> tuple[bytes, ...]:
    """Write a run with records of every kind, and a conversation. Return their journals."""
    with TemporaryDirectory() as place:
        paths = [rich_run(Path(place, "rich.json")), record(Path(place, "long.json"), growing(4))]
        return tuple(path.with_suffix(".jsonl").read_bytes() for path in paths)


def assert_answers(run: Trajectory) -> None:
    """Check that all answers are JSON, and that the numbers of each prompt lead to as many messages, of the
    same roles.
    """
    data = json.loads(json_text(run_data(run, "run.json")))
    answers = RunAnswers(run)
    for number, one in enumerate(run.llm_interactions, start=1):
        ranges = answers.interaction(number)["prompt"]
        roles = [data["messages"][at]["role"] for first, last in ranges for at in range(first, last + 1)]
        assert roles == [message.role for message in one.input_messages]


@given(st.integers(0, 1), st.floats(0, 1))
def test_every_beginning_of_a_journal_has_answers(which: int, share: float) -> None:
    """The journal is cut off at any byte."""
    data = journals()[which]

    assert_answers(folded(data[: int(share * len(data))]))


@given(st.integers(0, 1), st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_a_journal_with_damaged_lines_has_answers(which: int, places: list[float]) -> None:
    """Whichever lines are damaged, the rest of the run is shown."""
    lines = journals()[which].split(b"\n")
    for place in places:
        lines[int(place * (len(lines) - 1))] = b"{damaged}"

    assert_answers(folded(b"\n".join(lines)))


ODD = (None, [], {}, {"a": 1}, ["x"], "text", -1, math.inf, True, {"a": [{}]}, "2025-99-99", 10**30, "\ud800")
"""Values that no member of a journal may have."""


@cache
def records() -> list[list[dict[str, Payload]]]:
    """Return the records of the runs as JSON."""
    return [[json.loads(line) for line in data.splitlines()] for data in journals()]


def _places(value: Payload, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, member in members:
        yield (*path, name)
        yield from _places(member, (*path, name))


@settings(max_examples=300)
@given(st.integers(0, 1), st.floats(0, 1, exclude_max=True), st.sampled_from(ODD))
def test_a_journal_with_any_json_anywhere_has_answers(which: int, place: float, odd: Payload) -> None:
    """A different program may have written the journal. An odd value hides no other value."""
    found = [path for path in _places(records()[which]) if len(path) > 2 and path[1] == "data"]
    *within, name = found[int(place * len(found))]
    changed = copy.deepcopy(records()[which])
    reduce(lambda value, step: value[step], within, cast("Payload", changed))[name] = odd

    data = journal_of(*((one["kind"], one["data"]) for one in changed))
    try:
        run = folded(data)
    except TraceRecorderError:
        return
    json.loads(json_text(run_data(run, "run.json")))


def test_an_agent_whose_name_is_not_text_has_answers() -> None:
    """In a journal of a different program, an agent's name may be any JSON."""
    request = {"interaction_id": "a", "agent": ["x"], "agent_id": {"y": 1}, "parent_execution_id": [2], "body": {}}
    run = folded(journal_of(("start", {}), ("llm_request", request)))

    assert RunAnswers(run).outline()["agents"][0]["key"] == '{"y": 1}'
    assert_answers(run)
