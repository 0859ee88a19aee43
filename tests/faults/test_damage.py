"""A damaged journal: the damage is counted, and affects only its own records and the calls that use them.

Calls that continue each other share their messages. The others share nothing, and one is a stream.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chat_calls import asked, call, said, streamed
from tests.journals import RawRecord, records_of
from trace_recorder import LLMInteraction, TrajectoryRecorder, load

DAMAGES = {
    "nuls": lambda block: bytes(len(block)),
    "flips": lambda block: bytes(byte ^ 0x10 for byte in block),
    "newlines": lambda block: b"\n" * len(block),
    "cut out": lambda _: b"",
}


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete journal."""
    path = tmp_path_factory.mktemp("damage") / "run.json"
    with TrajectoryRecorder(path, task="t") as recorder:
        for number in range(4):
            call(recorder, asked(*(f"message {n}" for n in range(number + 1))), said(f"answer {number}"))
            call(recorder, asked(f"alone {number}", tools=[{"name": f"tool {number}"}]), said("x"))
        call(recorder, asked("s" * 5000, stream=True), streamed("one", "two"))
    return path.with_suffix(".jsonl")


def told(one: LLMInteraction) -> str:
    """Return the recorded facts of a call."""
    return json.dumps([one.raw_request, one.raw_response, one.raw_stream, one.response and one.response.content])


def needed_by(record: RawRecord, calls: dict[str, str]) -> set[str]:
    """Return the calls that need a record: its own call, or the calls that contain the value of an item."""
    if record.kind != "item":
        return {record.data["interaction_id"]} & set(calls) if "interaction_id" in record.data else set()
    spelled = json.dumps("s" * 5000 if "@string" in str(record.data["value"]) else record.data["value"])
    return {identity for identity, text in calls.items() if spelled in text}


def costs(journal: Path, directory: Path, begin: int, end: int, kind: str) -> None:
    """Damage the bytes from `begin` to `end`, and return the calls that are lost."""
    data = journal.read_bytes()
    damaged = directory / "run.jsonl"
    damaged.write_bytes(data[:begin] + DAMAGES[kind](data[begin:end]) + data[end:])
    before = {call.interaction_id: told(call) for call in load(journal).llm_interactions}
    hit = [
        record
        for record in records_of(journal.with_suffix(".json"))
        if record.offset < end and begin < record.offset + record.length
    ]
    may_differ = set().union(*(needed_by(one, before) for one in hit))

    trajectory = load(damaged)

    after = {call.interaction_id: told(call) for call in trajectory.llm_interactions}
    assert {one for one in before if after.get(one) != before[one]} <= may_differ
    assert set(after) <= set(before)
    assert (
        bool([gap for gap in trajectory.gaps if "damaged" in gap.what]) or trajectory.status != "completed" or not hit
    )


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_anywhere_affects_only_the_calls_that_need_it(kind: str, journal: Path, tmp_path: Path) -> None:
    """A byte or a short block may be damaged anywhere in a journal."""
    size = journal.stat().st_size
    for begin in range(0, size, 37):
        costs(journal, tmp_path, begin, min(begin + 1 + begin % 50, size), kind)


@given(data=st.data())
def test_a_block_of_nuls_affects_only_the_calls_that_need_it(
    journal: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """A block of any length may be NULs, as after a crash of the system."""
    begin = data.draw(st.integers(0, journal.stat().st_size - 1))
    length = data.draw(st.integers(1, 4096))
    kind = data.draw(st.sampled_from(sorted(DAMAGES)))

    costs(journal, tmp_path_factory.mktemp("block"), begin, min(begin + length, journal.stat().st_size), kind)
