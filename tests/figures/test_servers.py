"""Figures of MCP servers: their calls, and what their tools take of each prompt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.capture.mcp_run import OFFERED, record_tools_of_server, tool
from tests.chat_calls import asked, call, said
from tests.cli.invoking import invoke
from trace_recorder import QueryError, TrajectoryRecorder, compare, load
from trace_recorder.figures.servers import ServersOfRun
from trace_recorder.figures.stats import Stats
from trace_recorder.values.messages import MCPServer, Payload
from trace_recorder.values.trajectory import Trajectory


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record a run with the tools of a server once."""
    return record_tools_of_server(tmp_path_factory.mktemp("servers") / "run.json")


def characters(value: Payload) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def servers_of(run: Path) -> list[Payload]:
    """Return the rows of the servers in the figures of a run."""
    figures = Stats()
    figures.add(load(run))
    return Stats.from_text(figures.to_text()).to_json()["servers"]


def test_the_calls_of_a_server_are_counted(path: Path) -> None:
    """Each request to the server counts, also those of a tool of the agent. The seconds are those of the calls."""
    run = load(path)
    calls = [call for step in run.agent_steps for result in step.tool_results for call in result.mcp]
    [server] = servers_of(path)

    assert (server["name"], server["calls"], server["failed"]) == ("misbehaving", 8, 2)
    assert server["seconds"] == pytest.approx(sum(call.duration_seconds or 0 for call in calls), abs=1e-5)


def test_the_tools_of_a_server_have_their_share_of_the_prompt(path: Path) -> None:
    """The characters are those of the tools in the request. Their tokens are the same share of the input tokens.

    A tool belongs to the server by its name or by the server's list. `sum_up` is the agent's own.
    """
    first = load(path).llm_interactions[0]
    listed = sum(characters(tool(name)) for name in OFFERED if name != "sum_up")
    [server] = servers_of(path)

    assert (server["prompts"], server["list_characters"]) == (2, listed)
    assert [*ServersOfRun(load(path)).offers()] == [
        ("misbehaving", listed, pytest.approx(7 * listed / characters(first.raw_request)))
    ] * 2
    assert server["estimated_list_tokens"] == round(7 * listed / characters(first.raw_request))


def test_a_server_without_messages_is_known_by_the_names_of_its_tools(tmp_path: Path) -> None:
    """The calls are then the model's. A failure and a time are known only if the tool's result states them."""
    tools = [tool("mcp__files__read"), tool("mcp__"), tool("mcp__odd"), tool("bash")]
    result = {"role": "tool", "tool_call_id": "c1", "content": "text"}
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        call(recorder, asked("go", tools=tools), said(None, calls=[("c1", "mcp__files__read", "{}")]))
        call(recorder, asked("go", result), said("The end."))

    [server] = servers_of(tmp_path / "run.json")
    assert (server["name"], server["calls"], server["failed"], server["prompts"]) == ("files", 1, 0, 1)
    assert server["calls_without_time"] == 1
    assert server["list_characters"] == characters(tool("mcp__files__read"))


def test_no_tokens_are_stated_where_the_share_says_nothing(tmp_path: Path) -> None:
    """An image takes other tokens than its characters. The next prompts with the same tools are measured instead."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    image = {"role": "user", "content": [{"type": "text", "text": "look"}, picture]}
    tools = [tool("mcp__files__read")]
    with TrajectoryRecorder(tmp_path / "image.json") as recorder:
        call(recorder, asked(image, tools=tools), said("Nice."))
    with TrajectoryRecorder(tmp_path / "both.json") as recorder:
        call(recorder, asked(image, tools=tools), said("Nice."))
        call(recorder, asked("go", tools=tools), said("Well."))

    [only_image], [both] = servers_of(tmp_path / "image.json"), servers_of(tmp_path / "both.json")
    assert "estimated_list_tokens" not in only_image
    assert only_image["list_characters"] == both["list_characters"]
    assert both["estimated_list_tokens"] > 0


def test_a_name_that_two_servers_list_belongs_to_neither() -> None:
    """A bare name does not say which server is meant. A name with the server does, also with other characters."""
    servers = (
        MCPServer("1", "my files", tools=("read", "write")),
        MCPServer("2", "my", tools=("read",)),
    )
    known = ServersOfRun(Trajectory(mcp_servers=servers))

    assert known.server_of("read") is None
    assert known.server_of("write") == "my files"
    assert known.server_of("mcp__my_files__read") == "my files"
    assert known.server_of("mcp__my__read") == "my"
    assert known.server_of("mcp__other__read") == "other"
    assert known.server_of("bash") is None


def test_servers_are_groups(path: Path) -> None:
    """A group has the calls, errors and time of its server, and the tokens of its tools. Groups are not compared."""
    comparison = compare([load(path)], by="server")
    [group] = comparison.groups
    [server] = servers_of(path)

    assert group.key == ("misbehaving",)
    figures = {name: spread and spread.total for name, spread in group.figures.items()}
    assert (figures["tool_calls"], figures["tool_errors"], figures["calls"]) == (8, 2, 2)
    assert figures["seconds"] == pytest.approx(server["seconds"], abs=1e-5)
    assert figures["list_tokens"] == pytest.approx(server["estimated_list_tokens"], abs=0.5)
    assert comparison.differences == ()
    with pytest.raises(QueryError, match="tool and server"):
        compare([load(path)], by=["tool", "server"])


def test_the_command_marks_the_estimate(path: Path) -> None:
    """`stats` and `stats --by server` print the tokens with `~`, and say what they are."""
    [server] = servers_of(path)
    plain, groups = invoke("stats", str(path)).output, invoke("stats", str(path), "--by", "server").output

    assert plain.splitlines()[-1].split() == [
        *("misbehaving", "8", "2"),
        *plain.splitlines()[-1].split()[3:5],
        "2",
        f"~{server['estimated_list_tokens']}",
        "tokens",
    ]
    assert "tool list: the tokens that the tools of MCP servers take of each prompt, estimated" in groups
    assert f"~{server['estimated_list_tokens']}" in groups.splitlines()[-1]
    assert "tool list" not in invoke("stats", str(path), "--by", "server", "--where", "status:failed").output
