"""Traces as MLflow, Langfuse and LangSmith export them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.files import PRODUCED, check_only_run, produced_document, produced_lines, runs_of
from tests.formats.span_files import written
from trace_recorder import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.run import ToolRun
from trace_recorder.values.token_counts import Counts, counts_of
from trace_recorder.values.trajectory import Trajectory

# ── MLflow ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def mlflow_trace() -> dict[str, Any]:
    """Return the trace of an agent with a call and a tool."""
    return produced_document("mlflow/trace.json")


def test_a_trace_of_mlflow_is_a_run(tmp_path: Path) -> None:
    run = check_only_run(tmp_path, written(tmp_path, mlflow_trace()))
    assert (run.trajectory_id, run.status, run.task, run.final_result) == (
        "tr-1",
        "completed",
        '{"q":"Weather?"}',
        "18",
    )
    (one,) = run.llm_interactions
    assert [message.content for message in one.input_messages] == ["Be brief.", "Weather in Paris?"]
    assert (one.response.id, one.response.finish_reason, one.parameters) == ("r1", "tool_calls", {"temperature": 0.2})
    assert counts_of(one) == Counts(prompt=10, completion=5, cache_read=4)
    (result,) = run.agent_steps[0].tool_results
    assert (result.call_id, result.result, result.duration_seconds) == ("c1", 18, 4.0)
    assert [(reward.name, reward.value, reward.explanation) for reward in run.rewards] == [("right", 1.0, "yes")]
    assert "answer" in run.annotations


def test_traces_of_mlflow_may_be_a_list_or_lines(tmp_path: Path) -> None:
    lines = PRODUCED / "mlflow" / "traces.jsonl"
    listed = written(tmp_path, produced_lines("mlflow/traces.jsonl"))
    for path in (listed, lines):
        assert [(run.identity, run.status) for run in runs_of(path)] == [("tr-1", "completed"), ("tr-2", "failed")]


def test_a_trace_of_mlflow_without_a_readable_span_is_refused(tmp_path: Path) -> None:
    trace = mlflow_trace()
    trace["data"]["spans"] = [
        {"name": span["name"], "attributes": span["attributes"]} for span in trace["data"]["spans"]
    ]
    with pytest.raises(TrajectoryFormatError, match="tr-1 has no span that can be read"):
        runs_of(written(tmp_path, trace))


# ── Langfuse ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def langfuse_trace() -> dict[str, Any]:
    """Return the trace of an agent with a call and a failed tool."""
    return produced_document("langfuse/trace.json")


def test_a_trace_of_langfuse_is_a_run(tmp_path: Path) -> None:
    run = check_only_run(tmp_path, written(tmp_path, langfuse_trace()))
    assert (run.trajectory_id, run.task, run.final_result) == ("t1", "Weather?", "18")
    assert run.metadata["sessionId"] == "s"
    (one,) = run.llm_interactions
    assert [message.role for message in one.input_messages] == ["system", "user", "assistant", "tool"]
    assert (one.response.content, one.response.usage.cost, one.agent) == ("18 degrees.", 0.5, "guide")
    assert one.time_to_first_token_seconds == 1.0
    assert [(reward.name, reward.value, reward.explanation) for reward in run.rewards] == [("right", 0.5, "half")]
    assert run.annotations["tone"] == "kind"
    results = [result for step in run.agent_steps for result in step.tool_results]
    assert [(result.name, result.success, result.error) for result in results] == [("weather", False, "no such city")]


def test_counts_of_langfuse_are_combined_without_counting_twice(tmp_path: Path) -> None:
    (one,) = check_only_run(tmp_path, written(tmp_path, langfuse_trace())).llm_interactions
    assert counts_of(one) == Counts(prompt=10, completion=5, cache_read=4, reasoning=2)


def test_a_trace_of_langfuse_may_contain_its_observations(tmp_path: Path) -> None:
    document = langfuse_trace()
    (run,) = runs_of(written(tmp_path, {**document["trace"], "observations": document["observations"]}))
    assert (run.identity, run.format, run.status) == ("t1", "langfuse", "completed")


def test_attributes_of_the_instrumentation_are_read_too(tmp_path: Path) -> None:
    document = langfuse_trace()
    tool = document["observations"][0]
    tool["metadata"] = {"attributes": {"gen_ai.tool.call.id": "c1", "gen_ai.tool.name": "forecast"}, "mine": 1}
    (run,) = runs_of(written(tmp_path, document))
    (one,) = [event for event in run.events if isinstance(event, ToolRun)]
    assert (one.call_id, one.name, one.arguments) == ("c1", "forecast", {"city": "Paris"})


# ── LangSmith ────────────────────────────────────────────────────────────────────────────────────────────────────────


def langsmith_runs() -> list[dict[str, Any]]:
    """Return the runs of a chain with a call and a failed tool."""
    return produced_lines("langsmith/runs.jsonl")


def _check_langsmith(run: Trajectory) -> None:
    assert (run.trajectory_id, run.status, run.task, run.final_result) == ("r1", "completed", '{"q":"Weather?"}', "18")
    assert run.metadata["imported_from"]["project"] == "demo"
    (one,) = run.llm_interactions
    assert [message.content for message in one.input_messages] == ["Be brief.", "Weather in Paris?"]
    assert (one.model, one.provider, one.response.id, one.stream) == ("gpt-4o", "openai", "r1", True)
    assert (one.time_to_first_token_seconds, counts_of(one)) == (1.0, Counts(prompt=10, completion=5, cache_read=4))
    (result,) = run.agent_steps[0].tool_results
    assert (result.call_id, result.success, result.error) == ("c1", False, "no city")


def test_runs_of_langsmith_are_a_run(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join(map(json.dumps, langsmith_runs())))
    _check_langsmith(check_only_run(tmp_path, path))


def test_a_batch_of_langsmith_is_joined(tmp_path: Path) -> None:
    late = ("end_time", "outputs", "error", "events")
    post = [
        {name: value for name, value in run.items() if name not in late} | {"outputs": {}} for run in langsmith_runs()
    ]
    patch = [{name: run[name] for name in (*late, "id") if name in run} for run in langsmith_runs()]
    _check_langsmith(check_only_run(tmp_path, written(tmp_path, {"post": post, "patch": patch})))


def test_messages_and_results_of_langchain_are_read(tmp_path: Path) -> None:
    def constructed(name: str, **kwargs: Any) -> dict[str, Any]:
        return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", name], "kwargs": kwargs}

    asked = constructed(
        "AIMessage", content="", tool_calls=[{"name": "weather", "args": {"city": "Paris"}, "id": "c1"}]
    )
    prompt = [
        constructed("SystemMessage", content="Be brief."),
        constructed("HumanMessage", content="Weather?"),
        asked,
        constructed("ToolMessage", content="18", tool_call_id="c1"),
    ]
    answer = {
        "text": "18.",
        "message": constructed("AIMessageChunk", content="18."),
        "generation_info": {"finish_reason": "stop"},
    }
    run = langsmith_runs()[1]
    run |= {"parent_run_id": None, "id": "r1", "inputs": {"messages": [prompt]}, "outputs": {"generations": [[answer]]}}
    (one,) = check_only_run(tmp_path, written(tmp_path, [run])).llm_interactions
    assert [message.role for message in one.input_messages] == ["system", "user", "assistant", "tool"]
    assert one.input_messages[2].tool_calls[0].arguments == {"city": "Paris"}
    assert (one.response.content, one.response.finish_reason) == ("18.", "stop")
