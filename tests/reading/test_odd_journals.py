"""Journals with whole lines in an odd order, or without some of their lines, lose only what is not on file."""

from __future__ import annotations

import json

import pytest

from tests.journals import folded, journal_of
from tests.reading.test_derived_steps import call
from trace_recorder.values.messages import Payload

START = ("start", {"schema": "trace-recorder/journal", "version": 1, "trajectory_id": "t", "metadata": {}})
FIRST, SECOND = call(1, "a").records()


def tool(identity: str, name: str, **members: Payload) -> list[tuple[str, Payload]]:
    """Return the records of a tool that ran."""
    both: dict[str, Payload] = {"execution_id": identity, "name": name}
    result: dict[str, Payload] = {"success": True, "result": f"{identity}'s result"}
    return [("tool_call", both | {"arguments": {}} | members), ("tool_result", both | result)]


def test_a_redaction_without_the_value_leaves_the_annotation() -> None:
    """The copy has nothing for the annotation, so the annotation stays, and a gap says so."""
    run = folded(journal_of(START, ("annotation", {"key": "k", "value": 1}), ("redaction", {"of": 2, "task": "x"})))

    json.dumps(run.to_document())
    assert (run.annotations, [gap.what for gap in run.gaps]) == ({"k": 1}, ["a redaction record could not be used"])


def test_a_list_that_cannot_be_kept_costs_only_itself() -> None:
    """If an item of a long list is missing, the tool that runs during the stream is still the call's tool."""
    ranges = [[number, number] for number in range(0, 40, 2)]
    kind, request = FIRST
    request = {**request, "items": {"messages": ranges}, "stream": True}
    records = [(kind, request), *tool("t1", "tool-a"), SECOND]

    [step] = folded(journal_of(START, *records)).agent_steps

    assert [result.result for result in step.tool_results] == ["t1's result"]


def test_a_tool_whose_call_is_lost_is_no_tool_without_arguments() -> None:
    """The arguments of a tool whose `tool_call` is lost are unknown, so they equal no arguments."""
    kind, response = SECOND
    asked = [
        {"id": name, "type": "function", "function": {"name": "ls", "arguments": arguments}}
        for name, arguments in (("c1", "{}"), ("c2", '{"path": "/a"}'))
    ]
    message = {"role": "assistant", "tool_calls": asked}
    response = {**response, "body": {"id": "r", "choices": [{"index": 0, "message": message}]}}

    step, *_ = folded(journal_of(START, FIRST, (kind, response), tool("t1", "ls")[1])).agent_steps

    assert [result.call_id for result in step.tool_results if result.result] == ["t1"]


def test_a_call_whose_request_is_lost_is_between_its_tools() -> None:
    """Tools before and after such a call are in two steps."""
    run = folded(journal_of(START, *tool("t1", "x"), SECOND, *tool("t2", "y")))

    assert [[each.name for each in step.tool_calls] for step in run.agent_steps if step.tool_calls] == [["x"], ["y"]]


@pytest.mark.parametrize("records", [[SECOND, FIRST], [FIRST, SECOND, FIRST]], ids=["late", "doubled"])
def test_a_request_after_its_response_keeps_the_response(records: list[tuple[str, Payload]]) -> None:
    """The response stays, whichever of the two lines comes first, and if the request's line comes twice."""
    [interaction] = folded(journal_of(START, *records)).llm_interactions

    assert (interaction.complete, interaction.response.content) == (True, "x")
