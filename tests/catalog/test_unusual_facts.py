"""Facts of runs that other programs wrote: values of any type cause neither a failure nor a wrong match."""

from __future__ import annotations

import pytest

from trace_recorder import AgentStep, LLMResponse, Reward, ToolResult, Trajectory
from trace_recorder.catalog.matching import Matcher
from trace_recorder.catalog.query import parse_query

STEP = AgentStep(
    2**70,
    "2026-01-01T00:00:00+00:00",
    "done",
    llm_response=LLMResponse("vast"),
    tool_results=(ToolResult("c", name="bash", success=False),),
)
TAGS = {"tag": 5, "tags": ["t\ud800", 2, None, [], ""]}
UNUSUAL = Trajectory(
    trajectory_id="a\ud800b",
    task="Straße\ud800",
    status="completed",
    start_time="no time",
    execution_time=float("nan"),
    metadata={
        "big": 2**80,
        "list": ["a", "b"],
        "none": None,
        "k\ud800": "v\ud800",
        "tag": 5,
        "tags": ["t\ud800", 2, None, [], ""],
    },
    rewards=(Reward("big", 1e300), Reward("endless", float("inf"))),
    metrics={"llm_calls": 2**70, "total_input_tokens": "many", "failed_tool_calls": 1},
    agent_steps=(STEP,),
)


@pytest.mark.parametrize(
    ("query", "matches"),
    [
        ("task:STRASSE", True),
        ("task:ß", True),
        ("calls>0", False),
        ("-calls>0", True),
        ("seconds>=0", False),
        ("tokens>=0", False),
        ("since:2000-01-01", False),
        ("reward:endless", True),
        ("reward:endless>0", False),
        ("reward:big>0", False),
        ("meta:big", True),
        (f"meta:big={2**80}", True),
        ('meta:none=""', True),
        ("tool:bash", True),
        ("failed_tool:bash", True),
        ("failed_tool:bash>1", False),
        ("has:error", True),
        ("success:unknown", True),
        ("vast", True),
        ("tag:t?", True),
        ("tag:5", False),
        ("tag:2", False),
        ('tag:""', False),
        ("", True),
    ],
)
def test_unusual_values_are_stored(query: str, matches: bool) -> None:
    """A number out of range is stored as unknown, and a lone surrogate as a question mark."""
    assert Matcher(parse_query(query))(UNUSUAL) is matches
