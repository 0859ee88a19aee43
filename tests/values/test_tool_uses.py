"""The pairing of tool calls with results, which every count of tools uses."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.formats.files import DIRECTORY
from tests.processes import ROOT
from trace_recorder import ToolCall, ToolResult, Trajectory, TrajectoryRecorder, load, load_all, to_arrow
from trace_recorder.catalog.run_values import values_of
from trace_recorder.figures.stats import Stats
from trace_recorder.values.tool_uses import tool_uses

pytest.importorskip("pyarrow")

FOREIGN = (DIRECTORY, ROOT / "tests" / "data" / "foreign")


def call(call_id: str, name: str = "bash") -> ToolCall:
    return ToolCall(call_id, name, {})


def result(call_id: str, value: str, name: str | None = None, success: bool | None = None) -> ToolResult:
    return ToolResult(call_id, name=name, success=success, result=value)


@pytest.mark.parametrize(
    ("calls", "results", "pairs"),
    [
        pytest.param("ab", [("b", "B"), ("a", "A")], [("a", "A"), ("b", "B")], id="by id, in any order"),
        pytest.param("aa", [("a", "1"), ("a", "2")], [("a", "1"), ("a", "2")], id="equal ids, one after another"),
        pytest.param("a", [("a", "1"), ("a", "2")], [("a", "1"), (None, "2")], id="a second result is alone"),
        pytest.param("ab", [("a", "A")], [("a", "A"), ("b", None)], id="a call without a result"),
        pytest.param("ab", [("", "1"), ("", "2")], [("a", "1"), ("b", "2")], id="as many results without ids"),
        pytest.param("ab", [("a", "A"), ("", "1")], [("a", "A"), ("b", "1")], id="one unanswered call is left"),
        pytest.param("ab", [("", "1")], [("a", None), ("b", None), (None, "1")], id="fewer results without ids"),
        pytest.param(["", ""], [("", "1"), ("", "2")], [("", "1"), ("", "2")], id="no ids at all"),
        pytest.param("a", [("z", "Z")], [("a", None), (None, "Z")], id="another id"),
        pytest.param("", [("", "1")], [(None, "1")], id="a result without calls"),
    ],
)
def test_a_result_answers_a_call_of_its_step(
    calls: str, results: list[tuple[str, str]], pairs: list[tuple[str | None, str | None]]
) -> None:
    """A result belongs to the first unanswered call with its id in its step, and each call and each result is returned
    once.
    """
    uses = tool_uses([*map(call, calls)], [result(*one) for one in results])

    assert [(use.call and use.call.call_id, use.result and use.result.result) for use in uses] == pairs


@pytest.mark.parametrize(("name", "named"), [("bash", None), ("", "search"), ("", None), ("bash", "search")])
def test_one_call_with_its_result_is_paired_as_in_a_step_with_more(name: str, named: str | None) -> None:
    """A further call of a step changes neither the pair nor its name."""
    calls, results = [call("a", name), call("b")], [result("a", "A", named)]

    [use] = tool_uses(calls[:1], results)

    assert use == tool_uses(calls, results)[0]


def test_a_tool_is_named_by_its_call_or_its_result() -> None:
    """The name of a tool is that of its call or result; a second result of the same call has the call's name."""
    results = [result("a", "1"), result("a", "2"), result("b", "3", "search"), result("c", "4")]

    names = [use.name for use in tool_uses([call("a")], results)]

    assert names == ["bash", "bash", "search", "unknown"]


def counts_by_everyone(run: Trajectory) -> list[dict[str, tuple[int, int]]]:
    """Return how often each tool was used and failed, by `stats`, by `find`, and by the table."""
    stats = Stats()
    stats.add(run)
    facts = [one for one in values_of(run, with_texts=False).named if one.kind == "tool"]
    rows: list[dict[str, Any]] = to_arrow([run], of="tool_calls").to_pylist()
    used, failed = Counter(row["name"] for row in rows), Counter(row["name"] for row in rows if row["success"] is False)
    return [
        {name: (tool["calls"] + tool["replayed"], tool["failed"]) for name, tool in stats.tools.items()},
        {one.name: (int(one.number or 0), one.failed or 0) for one in facts},
        {name: (used[name], failed[name]) for name in used},
    ]


def test_all_counts_of_tools_are_the_same(tmp_path: Path) -> None:
    """`stats`, `find` and the table count the same tools, with results without calls, equal ids, and calls outside of
    steps.
    """
    asked = [{"id": "a", "name": "bash", "arguments": {}}, {"id": "z", "name": "search", "arguments": {}}]
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        recorder.record_llm_interaction([], {"content": None, "tool_calls": asked}, "p", "m")
        twice = [{"call_id": "a", "result": "1"}, {"call_id": "a", "result": "2"}]
        recorder.record_agent_step(1, "calling_tool", tool_calls=[asked[0], asked[0]], tool_results=twice)
        alone = [{"call_id": "", "name": "ls", "result": "x", "success": False}, {"call_id": "", "result": "y"}]
        recorder.record_agent_step(2, "thinking", tool_results=alone)
    run = load(tmp_path / "run.json")

    by_stats, by_find, in_table = counts_by_everyone(run)

    assert by_stats == {"bash": (2, 0), "ls": (1, 1), "unknown": (1, 0), "search": (1, 0)}
    assert by_find == in_table == by_stats
    assert to_arrow([run], of="tool_calls")["result"].to_pylist() == ["1", "2", "x", "y", None]


@pytest.mark.parametrize("directory", FOREIGN, ids=["real", "produced"])
def test_all_counts_of_tools_are_the_same_for_files_of_other_tools(directory: Path) -> None:
    """`stats`, `find` and the table count the same tools for imported files, even with results without ids."""
    if not directory.is_dir():
        pytest.skip(f"there is no {directory}")
    counts = {run.path: counts_by_everyone(run) for run in load_all(directory, strict=False)}

    assert counts
    assert {path: of for path, of in counts.items() if not of[0] == of[1] == of[2]} == {}
