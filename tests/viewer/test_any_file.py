"""Journals that were cut off or damaged: what can be loaded has answers, and prompts are what `load` gives."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from tests.chat_calls import rich_run
from tests.journals import folded, journal_of
from tests.viewer.recorded import growing, record
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.viewer.interface import RunAnswers
from trace_recorder.viewer.one_file import run_data
from trace_recorder.viewer.page_template import json_text


@cache
def journals() -> tuple[bytes, ...]:
    """A run with records of every kind, and a conversation."""
    with TemporaryDirectory() as place:
        paths = [rich_run(Path(place, "rich.json")), record(Path(place, "long.json"), growing(4))]
        return tuple(path.with_suffix(".jsonl").read_bytes() for path in paths)


def assert_answers(run: Trajectory) -> None:
    """All answers are JSON, and the numbers of each prompt lead to as many messages, of the same roles."""
    data = json.loads(json_text(run_data(run, "run.json")))
    answers = RunAnswers(run)
    for number, one in enumerate(run.llm_interactions, start=1):
        ranges = answers.interaction(number)["prompt"]
        roles = [data["messages"][at]["role"] for first, last in ranges for at in range(first, last + 1)]
        assert roles == [message.role for message in one.input_messages]


@given(st.integers(0, 1), st.floats(0, 1))
def test_every_beginning_of_a_journal_has_answers(which: int, share: float) -> None:
    """Cut off at any byte."""
    data = journals()[which]

    assert_answers(folded(data[: int(share * len(data))]))


@given(st.integers(0, 1), st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_a_journal_with_damaged_lines_has_answers(which: int, places: list[float]) -> None:
    """Whichever lines are damaged, the rest is shown."""
    lines = journals()[which].split(b"\n")
    for place in places:
        lines[int(place * (len(lines) - 1))] = b"{damaged}"

    assert_answers(folded(b"\n".join(lines)))


def test_an_agent_that_is_no_text_has_answers() -> None:
    """A journal by another hand may have any JSON as the name of an agent."""
    request = {"interaction_id": "a", "agent": ["x"], "agent_id": {"y": 1}, "parent_execution_id": [2], "body": {}}
    run = folded(journal_of(("start", {}), ("llm_request", request)))

    assert RunAnswers(run).outline()["agents"][0]["key"] == "{'y': 1}"
    assert_answers(run)
