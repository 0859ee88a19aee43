"""The columns of MCP servers in the table of tool calls."""

from __future__ import annotations

from pathlib import Path

from tests.capture.mcp_run import CALLS, record_tools_of_server
from trace_recorder import load
from trace_recorder.tables.rows import cells_of
from trace_recorder.values.messages import ToolCall, ToolResult
from trace_recorder.values.trajectory import AgentStep, Trajectory


def test_a_row_has_the_server_of_its_tool(tmp_path: Path) -> None:
    """Server, version, how it was joined, and the error of each tool, as in the run."""
    run = load(record_tools_of_server(tmp_path / "run.json"))
    cells = cells_of(run, "tool_calls")
    results = [result for step in run.agent_steps for result in step.tool_results]

    assert cells["call_id"] == [identity for identity, _, _ in CALLS]
    assert cells["server"] == ["misbehaving"] * 6
    assert cells["server_version"] == ["1.2"] * 6
    assert cells["joined_by"] == ["name"] * 5 + ["execution"]
    assert cells["error"] == [None, None, None, "no such file", "MCP error -32602: unknown tool", None]
    assert cells["duration_seconds"] == [result.duration_seconds for result in results]


def test_other_tools_have_no_server() -> None:
    """The columns are null for a tool without a result, and for a result without a server."""
    calls = tuple(ToolCall(identity, "bash", {}) for identity in ("c1", "c2"))
    step = AgentStep(1, "", "", tool_calls=calls, tool_results=(ToolResult("c1", True, "a.py"),))

    cells = cells_of(Trajectory(agent_steps=[step]), "tool_calls")
    assert [cells[name] for name in ("server", "server_version", "joined_by")] == [[None, None]] * 3
