"""The cost of reading a run: calls of our functions, which the load of the machine does not change.

The limits are a few percent above the present counts. Most of what was saved was in the readers of ordinary messages.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.reading_runs import record, record_tools
from tests.counting import calls, watch
from trace_recorder import load
from trace_recorder.cli.stats import count_run


def read_all(path: Path) -> int:
    """Read every message of every call."""
    return sum(len([*call.input_messages]) for call in load(path).llm_interactions)


def per_call(path: Path, few: int, many: int, *, growing: bool) -> float:
    """Return how many calls of our functions an additional LLM call takes when all messages are read."""
    counted = []
    for turns in (few, many):
        run = path / f"{turns}.json"
        record(run, turns, 50, growing=growing)
        counted.append(calls(lambda run=run: read_all(run)))  # type: ignore[misc]
    return (counted[1] - counted[0]) / (many - few)


@pytest.mark.parametrize(("growing", "limit"), [(False, 80), (True, 80)], ids=["short prompts", "conversation"])
def test_reading_a_call_takes_few_function_calls(tmp_path: Path, *, growing: bool, limit: int) -> None:
    """How many function calls a call takes does not depend on the earlier messages."""
    assert per_call(tmp_path, 10, 60, growing=growing) <= limit


def test_counting_a_run_takes_few_function_calls(tmp_path: Path) -> None:
    """The statistics of a run of 10 calls include reading the run, counting, and pricing its tokens."""
    record_tools(tmp_path / "run.json", 10, 500)
    count_run(tmp_path / "run.json")  # the prices of a model are looked up once

    assert calls(lambda: count_run(tmp_path / "run.json")) <= 2610


def test_each_element_is_read_once(tmp_path: Path) -> None:
    """A message is read when it is first sent, and not again for the calls that repeat it."""
    record(tmp_path / "run.json", 20, 50, growing=True)
    read: list[object] = []

    def look(frame: object) -> None:
        if frame.f_code.co_name == "read_message":  # type: ignore[attr-defined]
            read.append(frame.f_locals["element"]["content"])  # type: ignore[attr-defined]

    watch(lambda: read_all(tmp_path / "run.json"), look)
    sent = [message.content for message in load(tmp_path / "run.json").llm_interactions[-1].input_messages]
    assert sorted(map(str, read)) == sorted(map(str, sent))
