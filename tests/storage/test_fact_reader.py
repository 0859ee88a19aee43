"""A fact is the same whether its record is decoded in one step or made member by member."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.recorded import by_hand, captured, in_deltas, in_flight, marked, poisoned
from tests.formats.files import produced_files, runs_of
from tests.journals import RawRecord, line, read_raw
from tests.json_strategies import json_values
from trace_recorder.facts import AnnotationFact, FinalizeFact, LLMRequestFact, LLMResponseFact, StartFact, UnreadFact
from trace_recorder.formats.foreign_runs.journal_writer import journal_lines
from trace_recorder.storage.fact_reader import ReadFact, fact_decoder, read_fact
from trace_recorder.storage.journal_reader import Record, read_records
from trace_recorder.values.messages import Payload

RUNS = (by_hand, captured, in_deltas, in_flight, marked, poisoned)
REQUEST: dict[str, Payload] = {
    "interaction_id": "llm_1",
    "attempt": 0,
    "api": "openai-chat",
    "provider": "openai",
    "method": "POST",
    "url": "https://api.openai.com/v1/chat/completions",
    "headers": {},
    "body": {},
}
RESPONSE: dict[str, Payload] = {
    "interaction_id": "llm_1",
    "attempt": 0,
    "status": 200,
    "complete": True,
    "headers": {},
    "body": {},
}


def decoded(kind: str, data: Payload) -> object:
    """Return the fact that the strict decoder makes."""
    decode = fact_decoder(kind)
    assert decode is not None
    return decode(json.dumps(data).encode())


def records_of_runs(directory: Path) -> Iterator[RawRecord]:
    """Yield the records of recorded and imported runs."""
    for number, run in enumerate(RUNS):
        (directory / str(number)).mkdir()
        yield from raw(run(directory / str(number)).with_suffix(".jsonl").read_bytes())
    for path in produced_files():
        for foreign in runs_of(path):
            yield from raw(b"".join(journal_lines(foreign)))


def raw(data: bytes) -> list[RawRecord]:
    """Return the records of a journal without damaged lines."""
    return [record for record in read_raw(data) if isinstance(record, RawRecord)]


def test_both_ways_agree_on_every_record(tmp_path: Path) -> None:
    """The strict decoder takes each record of our writers, and the slower way makes the same fact without a fault."""
    kinds = set()
    for record in records_of_runs(tmp_path):
        again = read_fact(record.kind, record.data)
        assert again.faults == (), record
        if '"__type__"' in json.dumps(record.data):  # a description in place of a text is made member by member
            continue
        assert again.fact == decoded(record.kind, record.data), record
        kinds.add(record.kind)

    assert len(kinds) >= 14


@given(st.sampled_from(sorted(RESPONSE)), json_values)
def test_any_value_of_a_member_gives_the_same_fact_or_a_fault(name: str, value: Payload) -> None:
    """If the strict decoder takes a record, both facts are equal. Otherwise the other members are kept."""
    data = RESPONSE | {name: value}
    again = read_fact("llm_response", data)
    [record] = read_records(line(1, "llm_response", data))

    assert isinstance(record, Record)
    assert (record.fact, record.faults) == tuple(again)
    if isinstance(again.fact, LLMResponseFact):
        kept = {"interaction_id", "attempt", "status", "complete"} - {name}
        assert {member: getattr(again.fact, member) for member in kept} == {member: RESPONSE[member] for member in kept}


@pytest.mark.parametrize(
    ("member", "value", "expected", "faults"),
    [
        ("provider", 5, "5", ()),
        ("provider", {"__type__": "Enum", "repr": "Enum.A"}, "Enum.A", ()),
        ("provider", None, "", ("provider is NoneType",)),
        ("headers", {"a": 1}, {"a": "1"}, ("headers is dict",)),
        ("headers", "none", {}, ("headers is str",)),
        ("step_number", {"__type__": "int64", "repr": "3"}, {"__type__": "int64", "repr": "3"}, ()),
        ("step_number", [3], None, ("step_number is list",)),
        ("stream", "yes", None, ("stream is str",)),
        ("items", {"messages": {"base": 1}}, None, ("items is dict",)),
    ],
)
def test_an_ill_typed_member_costs_that_member(
    member: str, value: Payload, expected: Payload, faults: tuple[str, ...]
) -> None:
    """A text takes the place of a text. Otherwise the member is None or empty, and a fault names it."""
    [record] = read_records(line(1, "llm_request", REQUEST | {member: value}))

    assert isinstance(record, Record)
    assert isinstance(record.fact, LLMRequestFact)
    assert (getattr(record.fact, member), record.faults) == (expected, faults)
    assert record.fact.interaction_id == "llm_1"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"interaction_id": 5}, "TypeError: the interaction_id is not a text"),
        ({"attempt": "first"}, "TypeError: the attempt is not an integer"),
        ({"step_id": []}, "TypeError: the step_id is not a text"),
    ],
)
def test_a_wrong_key_costs_the_record(change: dict[str, Payload], why: str) -> None:
    """Other records refer to it by this key, so nothing of the record can be used."""
    assert read_fact("llm_request", REQUEST | change) == ReadFact(UnreadFact(why=why))


def test_a_missing_key_costs_the_record() -> None:
    """A record without the key that it must have is no fact."""
    assert read_fact("llm_request", {}) == ReadFact(UnreadFact(why="KeyError: 'interaction_id'"))


def test_a_kind_of_a_later_version_is_not_a_fault() -> None:
    """A record of an unknown kind is no fact, and nothing is wrong with it."""
    [record] = read_records(line(1, "hologram", {"a": 1}))

    assert isinstance(record, Record)
    assert (record.kind, record.fact, record.faults) == ("hologram", UnreadFact(), ())


def test_members_of_a_later_version_are_ignored() -> None:
    """A record with a member that this version does not know is the fact of the members that it knows."""
    data = {"key": "label", "value": 1, "confidence": 0.5}

    assert decoded("annotation", data) == read_fact("annotation", data).fact == AnnotationFact(key="label", value=1)


def test_numbers_stay_as_they_are() -> None:
    """A whole number of seconds stays whole in both ways."""
    data = {"status": "completed", "success": None, "execution_time": 3, "final_result": None}
    fact = FinalizeFact(status="completed", success=None, execution_time=3, final_result=None)

    assert decoded("finalize", data) == read_fact("finalize", data).fact == fact
    assert type(fact.execution_time) is type(read_fact("finalize", data).fact.execution_time) is int  # type: ignore[attr-defined]


def test_nan_is_read_member_by_member() -> None:
    """JSON has no NaN. A line with it is read all the same."""
    data = {"schema": "trace-recorder/journal", "version": 1, "trajectory_id": "a", "provider": None, "model": None}
    [record] = read_records(
        line(1, "start", {**data, "max_steps": None, "task": None, "metadata": {"x": float("nan")}})
    )

    assert isinstance(record, Record)
    assert isinstance(record.fact, StartFact)
    assert str(record.fact.metadata) == "{'x': nan}"
