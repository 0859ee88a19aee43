"""Have Invariant's strict reader accept our messages, and its rules find the expected matches.

needs: Python >= 3.11; invariant-ai==0.3.5 (which wants openai < 2)
usage: PYTHONPATH=. python -m tests.readers.check_invariant DIRECTORY
"""

from __future__ import annotations

import warnings
from typing import Any

from invariant.analyzer import LocalPolicy
from invariant.analyzer.runtime.input import Input
from invariant.analyzer.runtime.nodes import ToolOutput

from tests.readers.contents import Contents
from tests.readers.reading import Reader, finish, rows, runs
from trace_recorder import Trajectory
from trace_recorder.formats.invariant.writing import to_invariant

RULES = {
    "tools": ('raise "asked" if:\n    (call: ToolCall)\n    call is tool:weather({city: "Rome"})\n', 1),
    "sub_agents": ('raise "flow" if:\n    (a: ToolCall) -> (b: ToolCall)\n    b is tool:search\n', 1),
    "own_steps": ('raise "read" if:\n    (out: ToolOutput)\n    "7 °C" in out.content\n', 1),
    "twins": ('raise "flow" if:\n    (a: ToolCall) -> (out: ToolOutput)\n    a is tool:search\n', 4),
    "empty": ('raise "any" if:\n    (msg: Message)\n    msg.role == "user"\n', 0),
}
"""A rule that a run of this name breaks this many times."""


def accept(messages: list[dict[str, Any]]) -> None:
    """Let the reader accept messages without a warning. Each result belongs to its call."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        events = Input(messages).data
    assert len(events) == len(messages)
    for event, message in zip(events, messages, strict=True):
        if isinstance(event, ToolOutput) and any(_calls(other, event.tool_call_id) for other in messages):
            assert event._tool_call.id == message["id"]
    identities = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert len(identities) == len(set(identities))


def dumped(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the content of messages after the reader has read them."""
    return [event.model_dump() for event in Input(messages).data]


def find(name: str, trajectory: Trajectory) -> None:
    """Return the matches of a rule in a run."""
    messages = to_invariant(trajectory)
    rule, times = RULES.get(name, ('raise "any" if:\n    (msg: Message)\n    msg.role == "nobody"\n', 0))
    found = len(LocalPolicy.from_string(rule).analyze(messages).errors)
    assert found == times, f"{found} errors, and not {times}"


def _calls(message: dict[str, Any], identity: str | None) -> bool:
    return any(call["id"] == identity for call in message.get("tool_calls", ()))


reader = Reader("invariant-ai: Input", "traces of a dataset", "invariant-ai")
policy = Reader("invariant-ai: LocalPolicy", "runs, checked by rules over calls, flows and outputs", "invariant-ai")
metadata, *traces = rows("invariant.jsonl")
assert metadata.keys() == {"metadata"}
assert [trace["index"] for trace in traces] == sorted({trace["index"] for trace in traces})
for trace in traces:
    reader.take(trace["name"], lambda trace=trace: accept(trace["messages"]))
for run, told in runs():
    policy.take(run, lambda run=run, told=told: find(run, told))
contents = Contents("invariant-ai: contents of messages", "invariant", "invariant-ai")
contents.hold(lambda held, _: [{"messages": dumped(row["messages"])} for row in held if "messages" in row])
finish(reader, policy, contents)
