"""Calls of MCP servers in the viewer's answers: they show what was exchanged, and what the model saw."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.capture.mcp_run import CALLS, SEEN, record_tools_of_server
from tests.viewer.packed import unpacked
from trace_recorder import load
from trace_recorder.reading.own_files import load_own
from trace_recorder.values.messages import Payload
from trace_recorder.viewer.interface import RunAnswers
from trace_recorder.viewer.one_file import packed_sections, run_data
from trace_recorder.viewer.parts import WHOLE


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record the run once."""
    return record_tools_of_server(tmp_path_factory.mktemp("servers") / "run.json")


def exchanged(path: Path) -> list[tuple[Payload, Payload]]:
    """Return the requests for tools and their answers, as the journal has them."""
    records = map(json.loads, path.with_suffix(".jsonl").read_text("utf-8").splitlines())
    messages = [record["data"]["message"] for record in records if record["kind"] == "mcp_message"]
    answers = {message["id"]: message for message in messages if "method" not in message}
    return [(message, answers[message["id"]]) for message in messages if message.get("method") == "tools/call"]


def shown(tools: list[Payload]) -> list[tuple[Payload, ...]]:
    """Return the messages of all calls of servers, in order."""
    calls = [call for tool in tools for call in tool["result"].get("mcp", ())]
    return [tuple(call["messages"]) for call in calls]


def test_a_step_shows_both_messages_of_each_call(path: Path) -> None:
    """The request and the answer are those that went over the wire. The list of steps has no messages."""
    answers = RunAnswers(load(path))
    [whole] = answers.steps([1], WHOLE, server_messages=True)
    [listed] = answers.steps([1])

    assert shown(whole["tool_calls"]) == exchanged(path)
    assert all("messages" not in call for tool in listed["tool_calls"] for call in tool["result"]["mcp"])


def test_a_tool_shows_its_server(path: Path) -> None:
    """The name and version of the server, how the call was found, and what the model got in place of the result."""
    [step] = RunAnswers(load(path)).steps([1])
    tools = {tool["call_id"]: tool for tool in step["tool_calls"]}
    facts = {
        identity: [
            (call["server"], call["version"], call["tool"], call["joined_by"], call["success"])
            for call in tool["result"]["mcp"]
        ]
        for identity, tool in tools.items()
    }

    name = ("misbehaving", "1.2")
    assert [*tools] == [identity for identity, _, _ in CALLS]
    assert facts == {
        "c_add": [(*name, "add", "name", True)],
        "c_image": [(*name, "image", "name", True)],
        "c_slow": [(*name, "slow", "name", True)],
        "c_fail": [(*name, "fail", "name", False)],
        "c_refuse": [(*name, "refuse", "name", False)],
        "c_sum": [(*name, "add", "execution", True)] * 3,
    }
    assert tools["c_slow"]["result"]["mcp"][0]["progress"] == 2
    assert tools["c_add"]["result"]["mcp"][0]["structured_content"]["value"] == {"total": 3}
    assert [part["type"] for part in tools["c_image"]["result"]["parts"]] == ["text", "image"]
    seen = {identity: tool["result"]["sent"] for identity, tool in tools.items() if tool["result"]["sent"]}
    assert seen == {identity: [{"type": "text", "text": SEEN[identity]}] for identity in ("c_image", "c_refuse")}


def test_the_one_file_has_the_messages(path: Path) -> None:
    """The page of one run has them in its steps, because it has no other place."""
    [step, *_] = unpacked(packed_sections(run_data(load(path), "run")))["steps"]

    assert shown(step["tool_calls"]) == exchanged(path)


def test_a_document_alone_has_the_servers_but_not_the_messages(path: Path, tmp_path: Path) -> None:
    """Without the journal, the calls are known, and their messages are not."""
    copy = tmp_path / "run.json"
    copy.write_bytes(path.read_bytes())
    whole, alone = load_own(path), load_own(copy)

    assert alone.mcp_servers == whole.mcp_servers
    assert [result.mcp for step in alone.agent_steps for result in step.tool_results] == [
        result.mcp for step in whole.agent_steps for result in step.tool_results
    ]
    [step] = RunAnswers(alone).steps([1], WHOLE, server_messages=True)
    assert {*shown(step["tool_calls"])} == {()}
