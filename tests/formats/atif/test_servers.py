"""Calls of MCP servers in ATIF: in the `extra` of a result, and back."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.capture.mcp_calls import connected
from tests.capture.mcp_run import record_tools_of_server
from tests.formats.imported import import_file
from trace_recorder import Trajectory, TrajectoryRecorder, load
from trace_recorder.formats.atif.writing import to_atif
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.values.messages import MCPCall, Payload


def unjoined(path: Path) -> Path:
    """Record a call of a server that no model asked for."""

    async def run() -> None:
        with TrajectoryRecorder(path) as recorder:
            async with connected(recorder.wrap) as session:
                await session.call_tool("add", {"a": 1, "b": 2})

    asyncio.run(run())
    return path


def calls_of(run: Trajectory) -> dict[str, tuple[MCPCall, ...]]:
    """Return the calls of servers by the ids of the model's calls."""
    return {result.call_id: result.mcp for step in run.agent_steps for result in step.tool_results if result.mcp}


def in_atif(document: Payload) -> dict[str, Payload]:
    """Return the calls of servers in the results of an ATIF document."""
    results = (result for step in document["steps"] for result in step.get("observation", {"results": []})["results"])
    return {result["source_call_id"]: result["extra"]["mcp"] for result in results if "mcp" in result.get("extra", {})}


@pytest.mark.parametrize("record", [record_tools_of_server, unjoined])
def test_a_result_has_the_calls_of_servers(record: object, tmp_path: Path) -> None:
    """ATIF has them as the document has them. A run that is read from it has them too, and writes them again."""
    assert callable(record)
    run = load(record(tmp_path / "run.json"))
    written = to_atif(run)
    file = tmp_path / "atif.json"
    file.write_text(json.dumps(written), "utf-8")
    again = load(file)

    assert in_atif(written) == {
        identity: [call.to_document() for call in calls] for identity, calls in calls_of(run).items()
    }
    assert calls_of(again) == calls_of(run)
    assert again.mcp_servers == run.mcp_servers
    assert in_atif(to_atif(again)) == in_atif(written)


def test_another_tool_may_use_the_names_for_something_else(tmp_path: Path) -> None:
    """Members of the same names in another form are kept, and are no calls of servers."""
    result = {"source_call_id": "c1", "content": "3", "extra": {"mcp": [{"name": "sums"}, "sums"]}}
    call = {"tool_call_id": "c1", "function_name": "add", "arguments": {}}
    step = {"step_id": 1, "source": "agent", "message": "", "tool_calls": [call]}
    document = {
        "schema_version": "ATIF-v1.7",
        "agent": {"name": "x", "version": "1"},
        "steps": [
            {**step, "observation": {"results": [result]}},
            {"step_id": 2, "source": "agent", "message": "It is 3."},
        ],
        "extra": {"mcp_servers": ["sums", {"name": "sums"}]},
    }
    file = tmp_path / "atif.json"
    file.write_text(json.dumps(document), "utf-8")
    run = load(file)

    assert (calls_of(run), run.mcp_servers) == ({}, ())
    assert in_atif(to_atif(run)) == {"c1": result["extra"]["mcp"]}
    assert to_atif(run)["extra"]["mcp_servers"] == document["extra"]["mcp_servers"]


def test_an_import_keeps_them_for_the_next_export(tmp_path: Path) -> None:
    """The journal of an imported run keeps them in the tool's message."""
    written = to_atif(load(record_tools_of_server(tmp_path / "run.json")))
    file = tmp_path / "atif.json"
    file.write_text(json.dumps(written), "utf-8")
    (tmp_path / "imported").mkdir()
    [imported] = import_file(Source(file), tmp_path / "imported")

    assert in_atif(to_atif(load(imported.path))) == in_atif(written)
