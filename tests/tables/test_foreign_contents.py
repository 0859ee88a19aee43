"""The tables of files of other tools equal the runs that `load` reads from them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.formats.files import DIRECTORY, PRODUCED
from trace_recorder import Trajectory, load_all, to_arrow
from trace_recorder.tables.columns import Of
from trace_recorder.values.tool_uses import tool_uses_of


@pytest.fixture(scope="module", params=[DIRECTORY, PRODUCED], ids=["real", "produced"])
def runs(request: pytest.FixtureRequest) -> list[Trajectory]:
    """Return every run of the files of other tools."""
    if not request.param.is_dir():
        pytest.skip(f"there is no {request.param}")
    return [*load_all(request.param, strict=False)]


def rows(run: Trajectory, of: Of) -> list[dict[str, Any]]:
    return to_arrow([run], of=of).to_pylist()


def text(value: object) -> str | None:
    """Return a text in the form of a table, in which a lone surrogate is a question mark."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def test_there_is_a_row_for_each_call_step_and_tool(runs: list[Trajectory]) -> None:
    """Each call, step and tool of a run has a row, in the same order and with the same texts."""
    for run in runs:
        [whole] = rows(run, "runs")
        calls, steps, tools = rows(run, "calls"), rows(run, "steps"), rows(run, "tool_calls")
        uses = [use for _, use in tool_uses_of(run)]

        assert (whole["task"], whole["status"], whole["success"]) == (text(run.task), run.status, run.success), run.path
        assert [(row["interaction_id"], row["content"]) for row in calls] == [
            (call.interaction_id, text(call.response.content)) for call in run.llm_interactions
        ], run.path
        assert [row["step_number"] for row in steps] == [step.step_number for step in run.agent_steps], run.path
        assert [(row["name"], row["success"]) for row in tools] == [
            (text(use.name), use.result and use.result.success) for use in uses
        ], run.path


def test_the_messages_of_each_call_are_its_prompt(runs: list[Trajectory]) -> None:
    """Each distinct message is one row, whose ranges name the calls that have it in their prompt."""
    for run in runs:
        held: dict[int, Counter[tuple[str, str | None]]] = {}
        for row in rows(run, "messages"):
            for ends in row["call_ranges"]:
                for call in range(ends["first"], ends["last"] + 1):
                    held.setdefault(call, Counter())[row["role"], row["call_id"]] += 1
        for row, call in zip(rows(run, "calls"), run.llm_interactions, strict=True):
            distinct = {(message.role, text(message.call_id)) for message in call.input_messages}
            assert held.get(row["call_number"], Counter()).keys() == distinct, (run.path, call.interaction_id)
