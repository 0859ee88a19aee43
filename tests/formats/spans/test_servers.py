"""Calls of MCP servers as spans, by the conventions for MCP, and read again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.capture.mcp_run import record_tools_of_server
from tests.data.frozen_runs import DIRECTORY
from trace_recorder import Trajectory, load
from trace_recorder.formats.spans.writing.span import Span
from trace_recorder.formats.spans.writing.spans import to_otlp, to_spans
from trace_recorder.values.messages import Payload


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Trajectory:
    """Record a run with the tools of a server once."""
    return load(record_tools_of_server(tmp_path_factory.mktemp("servers") / "run.json"))


def tools_of(run: Trajectory, conventions: str = "genai") -> dict[str, Span]:
    """Return the spans of the model's tools by the ids of their calls."""
    spans = to_spans(run, conventions)  # type: ignore[arg-type]  # a name in a test
    return {
        str(span.attributes.get("gen_ai.tool.call.id")): span for span in spans if span.name.startswith("execute_tool")
    }


def about_server(span: Span) -> Mapping[str, Payload]:
    """Return the attributes that only the call of a server has, but for the request's id."""
    return {
        name: value
        for name, value in span.attributes.items()
        if not name.startswith("gen_ai.") and name not in {"jsonrpc.request.id", "openinference.span.kind"}
    }


def tool_ids(run: Trajectory) -> list[str]:
    return sorted(result.call_id for step in run.agent_steps for result in step.tool_results)


OF_SERVER = {
    "mcp.method.name": "tools/call",
    "trace_recorder.mcp.server": "misbehaving",
    "trace_recorder.mcp.server_version": "1.2",
    "trace_recorder.mcp.joined_by": "name",
}


def test_a_tool_of_a_server_has_the_attributes_of_the_conventions(run: Trajectory) -> None:
    """They are on the tool's span. An error of the protocol has its code, an error of the tool is `tool_error`."""
    spans = tools_of(run)
    calls = {result.call_id: result.mcp for step in run.agent_steps for result in step.tool_results}
    version = run.mcp_servers[0].protocol_version
    known = {**OF_SERVER, "mcp.protocol.version": version}

    assert version
    assert about_server(spans["c_add"]) == {**known, "trace_recorder.mcp.tool": "add"}
    assert about_server(spans["c_slow"]) == known
    assert about_server(spans["c_fail"]) == {**known, "error.type": "tool_error"}
    refused = {"error.type": "-32602", "rpc.response.status_code": "-32602"}
    assert about_server(spans["c_refuse"]) == {**known, **refused}
    assert about_server(spans["c_sum"]) == {}
    for identity in ("c_add", "c_slow", "c_fail", "c_refuse"):
        assert spans[identity].attributes["jsonrpc.request.id"] == str(calls[identity][0].request_id)
        assert spans[identity].kind == "internal"


def test_the_calls_inside_a_tool_are_spans_of_a_client(run: Trajectory) -> None:
    """Each request has a span inside the tool's, with its arguments, its result and its own time."""
    outer = tools_of(run)["c_sum"]
    inner = [span for span in to_spans(run) if span.parent_id == outer.span_id]

    assert [(span.name, span.kind) for span in inner] == [("tools/call add", "client")] * 3
    assert [
        (
            span.attributes["gen_ai.tool.name"],
            json.loads(str(span.attributes["gen_ai.tool.call.arguments"])),
            span.attributes["gen_ai.tool.call.result"],
        )
        for span in inner
    ] == [("add", {"a": 0, "b": 3}, "3"), ("add", {"a": 3, "b": 4}, "7"), ("add", {"a": 7, "b": 5}, "12")]
    times = [outer.start, *(time for span in inner for time in (span.start, span.end))]
    assert times == sorted(times)
    assert {span.attributes["mcp.method.name"] for span in inner} == {"tools/call"}
    assert len({span.span_id for span in inner}) == 3


def test_contents_can_be_left_out(run: Trajectory) -> None:
    """Without content, no argument, result or error text of a server is in a span."""
    written = json.dumps([span.attributes for span in to_spans(run, content=False)])

    assert "mcp.method.name" in written
    assert not any(text in written for text in ("no such file", "a picture", "arguments", "unknown tool"))


@pytest.mark.parametrize("conventions", ["openinference", "langfuse", "both", "genai-0.1"])
def test_other_conventions_name_the_server(run: Trajectory, conventions: str) -> None:
    """The server is named in every form."""
    spans = list(to_spans(run, conventions))  # type: ignore[arg-type]  # a name in a test

    assert [span.attributes.get("trace_recorder.mcp.server") for span in spans].count("misbehaving") == 8


def test_a_transport_is_named_as_the_conventions_do() -> None:
    """A server over stdio has the transport `pipe`. A call without an answer has an error without a type."""
    spans = to_spans(load(DIRECTORY / "journals" / "every member.jsonl"))
    of_servers = [span for span in spans if "mcp.method.name" in span.attributes]

    assert {span.attributes["network.transport"] for span in of_servers} == {"pipe"}
    assert [
        span.attributes.get("error.type") for span in of_servers if span.attributes["jsonrpc.request.id"] == "8"
    ] == ["_OTHER"]


def test_an_import_has_the_tools_of_the_model_once(run: Trajectory, tmp_path: Path) -> None:
    """The requests inside a tool are no tools of their own when the spans are read again."""
    file = tmp_path / "spans.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in to_otlp(run)), "utf-8")

    assert tool_ids(load(file)) == tool_ids(run)
