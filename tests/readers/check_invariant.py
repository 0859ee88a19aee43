"""Have Invariant's strict reader take our messages, its rules find what is in them, and its client send them.

needs: Python 3.12, pip install invariant-ai==0.3.5 invariant-sdk==0.0.11 (which want openai < 2)
usage: PYTHONPATH=. python -m tests.readers.check_invariant DIRECTORY
"""

from __future__ import annotations

import json
import warnings
from typing import Any

from invariant.analyzer import LocalPolicy
from invariant.analyzer.runtime.input import Input
from invariant.analyzer.runtime.nodes import ToolOutput
from invariant_sdk.client import Client

from tests.capture.server import plain, serving
from tests.readers.reading import check
from trace_recorder import Trajectory
from trace_recorder.views.invariant import dataset_lines, push, to_invariant

RULES = {
    "tools": ('raise "asked" if:\n    (call: ToolCall)\n    call is tool:weather({city: "Rome"})\n', 1),
    "sub_agents": ('raise "flow" if:\n    (a: ToolCall) -> (b: ToolCall)\n    b is tool:search\n', 1),
    "own_steps": ('raise "read" if:\n    (out: ToolOutput)\n    "7 °C" in out.content\n', 1),
    "empty": ('raise "any" if:\n    (msg: Message)\n    msg.role == "user"\n', 0),
}
"""A rule that a run of this name breaks so many times."""


def read(name: str, trajectory: Trajectory) -> int:
    """Read a run's messages; return how many there are."""
    messages = to_invariant(trajectory)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        events = Input(messages).data
    assert len(events) == len(messages)
    for event, message in zip(events, messages, strict=True):
        if isinstance(event, ToolOutput) and any(_calls(other, event.tool_call_id) for other in messages):
            assert event._tool_call.id == message["id"]
    identities = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert len(identities) == len(set(identities))
    rule, times = RULES.get(name, ('raise "any" if:\n    (msg: Message)\n    msg.role == "nobody"\n', 0))
    assert len(LocalPolicy.from_string(rule).analyze(messages).errors) == times
    _push(trajectory, messages)
    _dataset(trajectory, messages)
    return len(messages)


def _calls(message: dict[str, Any], identity: str | None) -> bool:
    return any(call["id"] == identity for call in message.get("tool_calls", ()))


def _push(trajectory: Trajectory, messages: list[Any]) -> None:
    """Send it by the SDK's own client, to a server that keeps what it was sent."""
    accepted = {"id": ["1"], "dataset": "a-dataset", "username": "u"}
    with serving(plain(accepted)) as server:
        client = Client(api_url=server.url, api_key="k")
        sent = push([trajectory], "a-dataset", client=client)
        client.session.close()
        assert sent == (["1"] if messages else [])
        assert [body["messages"] for body in server.bodies()] == ([[messages]] if messages else [])


def _dataset(trajectory: Trajectory, messages: list[Any]) -> None:
    first, *lines = [json.loads(line) for line in dataset_lines([trajectory, trajectory], {"accuracy": 0.5})]
    assert first == {"metadata": {"accuracy": 0.5}}
    assert [line["index"] for line in lines] == [0, 1]
    assert all(line["messages"] == messages and isinstance(line["metadata"], dict) for line in lines)


if __name__ == "__main__":
    check("invariant-ai", read)
