"""Our own runs as OTLP, read again: the same calls, tools, agents and tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.span_files import GIVEN, SAID, agent_run, call, otlp, span, written
from trace_recorder import load
from trace_recorder.formats.spans.writing.span_maker import Conventions
from trace_recorder.formats.spans.writing.spans import to_otlp
from trace_recorder.values.trajectory import Trajectory


def _described(run: Trajectory) -> dict[str, Any]:
    """Return the calls and tools of a run, without ids and times."""
    return {
        "status": run.status,
        "tokens": {
            name: run.metrics.get(name) for name in ("input_tokens", "output_tokens", "cache_read_input_tokens")
        },
        "calls": [
            (
                interaction.agent,
                interaction.agent_id is None,
                interaction.parent_execution_id is None,
                interaction.model,
                [
                    (message.role, message.content, message.tool_calls, message.call_id)
                    for message in interaction.input_messages
                ],
                (
                    interaction.response.content,
                    interaction.response.reasoning,
                    interaction.response.finish_reason,
                    interaction.response.usage,
                ),
                interaction.response.tool_calls,
                interaction.error and interaction.error.message,
            )
            for interaction in run.llm_interactions
        ],
        "results": [
            (result.call_id, result.name, result.success, result.result, result.error)
            for step in run.agent_steps
            for result in step.tool_results
        ],
    }


@pytest.mark.parametrize("conventions", ["genai", "genai-0.1", "openinference", "both"])
def test_a_run_is_the_same_after_a_round_trip(tmp_path: Path, conventions: Conventions) -> None:
    inner = {"gen_ai__operation__name": "invoke_agent", "gen_ai__agent__name": "scout"}
    usage = {"gen_ai__usage__input_tokens": 7, "gen_ai__usage__output_tokens": 2}
    scout = [span(5, "scout", 3, start=2.6, **inner), call(6, 5, GIVEN, SAID, start=2.7, **usage)]
    failed = call(7, 1, GIVEN, None, start=5.5, seconds=0.1, error="429")
    run = load(written(tmp_path, otlp([*agent_run(), *scout, failed])))
    path = tmp_path / "again.jsonl"
    path.write_text("\n".join(map(json.dumps, to_otlp(run, conventions))))
    again = load(path)
    assert _described(again) == _described(run)
    assert [call.duration_seconds for call in again.llm_interactions] == pytest.approx(
        [call.duration_seconds for call in run.llm_interactions]
    )
