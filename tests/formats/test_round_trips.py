"""Our runs, exported and read again: equal members, and members that a format cannot express
(results/imports.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.formats.runs import every
from trace_recorder import load
from trace_recorder.formats.any_file import load_each
from trace_recorder.formats.format_writer import EXPORT_FORMATS, OutputPlace
from trace_recorder.values.messages import Message, ToolCall
from trace_recorder.values.trajectory import Trajectory

_DIFFERS: dict[str, set[str]] = {
    "atif": {"prompt", "said", "tools", "number of calls", "results"},
    "inspect": {"error", "finish reason", "prompt", "said", "tokens", "final result", "number of calls"}
    | {"results", "rewards", "status", "success"},
    "otlp": {"error", "said", "tokens", "final result", "number of calls", "results", "rewards"},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trajectory]:
    return {name: load(path) for name, path in every(tmp_path_factory.mktemp("runs")).items()}


@pytest.mark.parametrize("name", _DIFFERS)
def test_only_members_that_a_format_cannot_express_differ(
    name: str, runs: dict[str, Trajectory], tmp_path: Path
) -> None:
    differing: set[str] = set()
    for run_name, run in runs.items():
        again = _exported_and_read(name, run, tmp_path / run_name)
        differing |= {aspect for aspect, value in _of_run(run).items() if value != _of_run(again)[aspect]}
        for one, other in zip(_calls(run), _calls(again), strict=False):
            differing |= {aspect for aspect, value in one.items() if value != other[aspect]}
    assert differing == _DIFFERS[name]


@pytest.mark.parametrize("name", _DIFFERS)
def test_an_ordinary_run_is_read_back(name: str, runs: dict[str, Trajectory], tmp_path: Path) -> None:
    """A run with tools has the same questions, answers, tool calls with their arguments, and results."""
    run = runs["tools"]
    again = _exported_and_read(name, run, tmp_path)
    asked = [[(text or None, calls) for _, text, calls, _ in call["prompt"] if text or calls] for call in _calls(run)]
    found = [[(text or None, calls) for _, text, calls, _ in call["prompt"] if text or calls] for call in _calls(again)]
    assert found == asked
    for aspect in ("tools asked for", "tools"):
        assert [call[aspect] for call in _calls(again)] == [call[aspect] for call in _calls(run)]
    assert [call["said"] or None for call in _calls(again)] == [call["said"] for call in _calls(run)]
    assert run.task == again.task


def _exported_and_read(name: str, run: Trajectory, directory: Path) -> Trajectory:
    directory.mkdir(exist_ok=True)
    pieces, _ = EXPORT_FORMATS[name].outputs(EXPORT_FORMATS[name].with_options(), run, OutputPlace("run", directory))
    [(file, content), *_] = pieces
    lines = content if name == "otlp" else [content]
    (directory / file).write_text("".join(json.dumps(line) + "\n" for line in lines))
    (again,) = load_each(directory / file)
    return again


def _of_run(run: Trajectory) -> dict[str, Any]:
    return {
        "task": run.task,
        "status": run.status,
        "success": run.success,
        "final result": run.final_result,
        "rewards": [(reward.name, reward.value) for reward in run.rewards],
        "number of calls": len(run.llm_interactions),
        "results": [
            (one.call_id, one.name, one.success, one.result, one.error)
            for step in run.agent_steps
            for one in step.tool_results
        ],
    }


def _calls(run: Trajectory) -> list[dict[str, Any]]:
    return [
        {
            "agent": interaction.agent,
            "model": interaction.model,
            "prompt": [_message(message) for message in interaction.input_messages],
            "said": interaction.response.content,
            "reasoning": interaction.response.reasoning,
            "finish reason": interaction.response.finish_reason,
            "tools": [tool.name for tool in interaction.tools],
            "tools asked for": [*_asked(interaction.response.tool_calls)],
            "tokens": (interaction.response.usage.input_tokens, interaction.response.usage.output_tokens),
            "cached tokens": interaction.response.usage.cache_read_input_tokens,
            "error": interaction.error and interaction.error.message,
        }
        for interaction in run.llm_interactions
    ]


def _message(message: Message) -> tuple[str, Any, Any, str | None]:
    """Return a message. Its parts that are not text are replaced by a mark of their presence."""
    content = message.content
    if isinstance(content, list):
        content = [part.get("text", "…") if isinstance(part, dict) else part for part in content]
    return message.role, content, [*_asked(message.tool_calls)], message.call_id


def _asked(calls: tuple[ToolCall, ...]) -> Iterator[tuple[str, str, Any]]:
    yield from ((call.call_id, call.name, call.arguments) for call in calls)
