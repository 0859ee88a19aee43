"""A function without parameters is a function in every export; other tools without a schema are not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.formats.made import call, run
from trace_recorder import Trajectory
from trace_recorder.formats.spans.writing.messages import definition_of
from trace_recorder.views import to_atif, to_openai_finetuning

Payload = Any

NOW = {"name": "now", "description": "Tell the time."}
FUNCTION = {"type": "function", "function": NOW}


def _offered(tool: Payload, name: str) -> Trajectory:
    return run(call(["q"], "a", tools_available=[name], request={"tools": [tool]}))


def test_a_schema_of_mcp_is_in_every_export() -> None:
    """MCP has the schema of a tool in `inputSchema`."""
    schema = {"type": "object", "properties": {"zone": {"type": "string"}}}
    trajectory = _offered({**NOW, "inputSchema": schema}, "now")
    function = {"type": "function", "function": {**NOW, "parameters": schema}}

    assert to_openai_finetuning.with_report(trajectory)[0][0]["tools"] == [function]
    assert to_atif(trajectory)["agent"]["tool_definitions"] == [function]
    assert definition_of(trajectory.llm_interactions[0].tools[0]) == {"type": "function", **NOW, "parameters": schema}


@pytest.mark.parametrize("tool", [FUNCTION, {"type": "function", **NOW}, NOW], ids=["chat", "responses", "google"])
def test_a_function_without_parameters_is_a_function(tool: Payload) -> None:
    """OpenAI and Google allow a function without parameters, which is not a tool of the provider."""
    trajectory = _offered(tool, "now")
    [row], left_out = to_openai_finetuning.with_report(trajectory)

    assert (row["tools"], left_out) == ([FUNCTION], {})
    assert to_atif(trajectory)["agent"]["tool_definitions"] == [FUNCTION]
    assert "extra" not in to_atif(trajectory)["agent"]
    assert definition_of(trajectory.llm_interactions[0].tools[0]) == {"type": "function", **NOW}


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ({"type": "custom", "custom": NOW}, "now"),
        ({"type": "web_search"}, "web_search"),
        ({"type": "bash_20250124", "name": "bash"}, "bash"),
        ({"googleSearch": {}}, "googleSearch"),
        ({"systemTool": {"name": "nova_grounding"}}, "nova_grounding"),
        ("ls", "ls"),
        ({**NOW, "args_schema": {"type": "object"}}, "now"),
    ],
)
def test_other_tools_without_a_schema_are_not_functions(tool: Payload, name: str) -> None:
    """ATIF has their declarations as they were sent. Training data leaves them out."""
    trajectory = _offered(tool, name)
    [row], left_out = to_openai_finetuning.with_report(trajectory)

    assert ("tools" in row, left_out) == (False, {"tools without a schema": 1})
    agent = to_atif(trajectory)["agent"]
    assert ("tool_definitions" in agent, agent["extra"]["built_in_tools"]) == (False, [tool])
