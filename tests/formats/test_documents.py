"""ATIF and documents as described runs: a journal made from the runs has the same content as the file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.cli.invoking import recorded
from tests.formats.files import check_run, real_files
from trace_recorder import TrajectoryFormatError, load
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.imported_runs import runs_in
from trace_recorder.values.messages import ToolCall
from trace_recorder.values.trajectory import Trajectory


def _calls(calls: Iterable[ToolCall]) -> list[object]:
    return [(call.call_id, call.name, call.arguments, call.call_id_made_up) for call in calls]


def _contents(run: Trajectory) -> list[object]:
    """Return the contents of a run, without what an import adds."""
    calls = [
        (
            [
                (message.role, message.content, _calls(message.tool_calls), message.call_id, message.reasoning)
                for message in interaction.input_messages
            ],
            interaction.response.content,
            _calls(interaction.response.tool_calls),
            [(choice.index, choice.content, choice.extra) for choice in interaction.response.choices if choice.extra],
            interaction.response.usage.to_document(),
            (interaction.agent, interaction.agent_id, interaction.provider, interaction.model),
        )
        for interaction in run.llm_interactions
    ]
    return [run.task, run.status, run.success, run.final_result, calls]


def test_a_run_of_ours_is_not_imported(tmp_path: Path) -> None:
    with pytest.raises(TrajectoryFormatError, match="already"):
        list(runs_in(Source(recorded(tmp_path / "run.json"))))


@pytest.mark.parametrize("pattern", ["atif/**/*.json", "trae-agent/*"])
def test_real_files_are_imported_completely(pattern: str, tmp_path: Path) -> None:
    for path in real_files(pattern):
        if path.name == "subagent_trajectories.json":  # one file of another project's tests has two documents
            continue
        (run,) = runs_in(Source(path))
        assert _contents(check_run(run, tmp_path)) == _contents(load(path))


def test_results_without_ids_answer_the_calls_of_their_step(tmp_path: Path) -> None:
    """The imported run has as many tool calls as the file, and each result belongs to its call."""
    asked = [{"tool_call_id": f"c{number}", "function_name": "look", "arguments": {"at": number}} for number in (1, 2)]
    step = {"step_id": 1, "source": "agent", "message": "I look.", "tool_calls": asked}
    step["observation"] = {"results": [{"content": "one"}, {"content": "two"}]}
    path = tmp_path / "run.json"
    document = {"schema_version": "ATIF-v1.4", "session_id": "s", "agent": {"name": "a"}, "steps": [step]}
    path.write_text(json.dumps(document))

    (run,) = runs_in(Source(path))
    imported = check_run(run, tmp_path)

    assert imported.metrics["tool_calls"] == load(path).metrics["tool_calls"] == 2
    results = [(result.call_id, result.name, result.result) for result in imported.agent_steps[0].tool_results]
    assert results == [("c1", "look", "one"), ("c2", "look", "two")]
