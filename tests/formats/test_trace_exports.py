"""Traces as MLflow, Langfuse and LangSmith export them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.files import facts_in, runs_of
from tests.formats.span_files import BEGAN, SECOND, TRACE, written
from tests.formats.weather_traces import AGAIN, GIVEN, REPLY, TIMES, check_only_run
from trace_recorder.facts import GapFact
from trace_recorder.formats.foreign_runs.run import ToolRun
from trace_recorder.formats.recognition import Source, format_of
from trace_recorder.values.token_counts import Counts, counts_of
from trace_recorder.values.trajectory import Trajectory

# ── MLflow ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def mlflow_trace() -> dict[str, Any]:
    """Return the trace of an agent with a call and a tool."""
    told = [
        (None, "agent", "AGENT", {"q": "Weather?"}, "18"),
        (1, "Completions", "CHAT_MODEL", {"model": "gpt-4o", "messages": GIVEN, "temperature": 0.2}, REPLY),
        (1, "weather", "TOOL", {"city": "Paris"}, 18),
    ]
    spans = [
        {
            "trace_id": base64.b64encode(bytes.fromhex(TRACE)).decode(),
            "span_id": base64.b64encode((number + 1).to_bytes(8, "big")).decode(),
            "parent_span_id": parent and base64.b64encode(parent.to_bytes(8, "big")).decode(),
            "name": name,
            "start_time_unix_nano": BEGAN + number * SECOND,
            "end_time_unix_nano": BEGAN + (number + 4) * SECOND,
            "status": {"code": "STATUS_CODE_OK", "message": ""},
            "events": [],
            "attributes": {
                "mlflow.spanType": json.dumps(kind),
                "mlflow.spanInputs": json.dumps(inputs),
                "mlflow.spanOutputs": json.dumps(said),
                **({"mlflow.chat.tokenUsage": '{"input_tokens": 10, "output_tokens": 5}'} if number == 1 else {}),
            },
        }
        for number, (parent, name, kind, inputs, said) in enumerate(told)
    ]
    said = [
        {"assessment_name": "right", "feedback": {"value": True}, "rationale": "yes"},
        {"assessment_name": "answer", "expectation": {"value": "18"}},
    ]
    info = {"trace_id": "tr-1", "state": "OK", "tags": {"a": "b"}, "assessments": said}
    return {"info": info, "data": {"spans": spans}}


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
    other = mlflow_trace()
    other["info"] = {"request_id": "tr-2", "status": "ERROR"}
    listed = written(tmp_path, [mlflow_trace(), other])
    lines = tmp_path / "traces.jsonl"
    lines.write_text("\n".join(map(json.dumps, [mlflow_trace(), other])))
    for path in (listed, lines):
        assert [(run.identity, run.status) for run in runs_of(path)] == [("tr-1", "completed"), ("tr-2", "failed")]


def test_a_damaged_line_hides_no_other_trace_of_mlflow(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text(json.dumps(mlflow_trace()) + "\n" + json.dumps(mlflow_trace())[:-9])
    (run,) = runs_of(path)
    assert [event.what for event in facts_in(run, GapFact)] == ["line 2"]


# ── Langfuse ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def langfuse_trace() -> dict[str, Any]:
    """Return the trace of an agent with a call and a failed tool."""
    told: list[tuple[str, str | None, str, str, dict[str, Any]]] = [
        ("o1", None, "AGENT", "guide", {}),
        (
            "o2",
            "o1",
            "GENERATION",
            "llm",
            {
                "input": json.dumps(AGAIN),
                "output": '{"role": "assistant", "content": "18 degrees."}',
                "model": "gpt-4o",
                "modelParameters": {"temperature": 0.2},
                "usageDetails": {"input": 6, "input_cache_read": 4, "output": 3, "output_reasoning": 2, "total": 15},
                "costDetails": {"input": 0.25, "output": 0.25, "total": 0.5},
                "completionStartTime": TIMES[2],
            },
        ),
        (
            "o3",
            "o1",
            "TOOL",
            "weather",
            {"input": '{"city": "Paris"}', "level": "ERROR", "statusMessage": "no such city"},
        ),
    ]
    observations = [
        {
            "id": identity,
            "traceId": "t1",
            "parentObservationId": parent,
            "type": kind,
            "name": name,
            "startTime": TIMES[number],
            "endTime": TIMES[number + 4],
            "level": "DEFAULT",
            **members,
        }
        for number, (identity, parent, kind, name, members) in enumerate(told)
    ]
    scores = [
        {"name": "right", "value": 0.5, "dataType": "NUMERIC", "comment": "half", "timestamp": TIMES[9]},
        {"name": "tone", "value": None, "stringValue": "kind", "dataType": "CATEGORICAL"},
    ]
    trace = {
        "id": "t1",
        "name": "demo",
        "input": '"\\"Weather?\\""',
        "output": "18",
        "sessionId": "s",
        "scores": scores,
    }
    return {"trace": trace, "observations": observations[::-1]}


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
    metadata = {
        "ls_provider": "openai",
        "ls_model_name": "gpt-4o",
        "usage_metadata": {"input_tokens": 10, "output_tokens": 5, "input_token_details": {"cache_read": 4}},
    }
    told: list[tuple[str, str | None, str, str, dict[str, Any]]] = [
        ("r1", None, "chain", "guide", {"inputs": {"q": "Weather?"}, "outputs": {"output": "18"}}),
        (
            "r2",
            "r1",
            "llm",
            "ChatOpenAI",
            {
                "inputs": {"messages": GIVEN, "model": "gpt-4o"},
                "outputs": REPLY,
                "extra": {"metadata": metadata},
                "events": [{"name": "new_token", "time": TIMES[2]}],
            },
        ),
        ("r3", "r1", "tool", "weather", {"inputs": {"city": "Paris"}, "error": "ValueError('no city')\n\nTraceback"}),
    ]
    return [
        {
            "id": identity,
            "trace_id": "r1",
            "parent_run_id": parent,
            "dotted_order": f"x{identity}",
            "run_type": kind,
            "name": name,
            "start_time": TIMES[number],
            "end_time": TIMES[number + 4],
            "session_name": "demo",
            **members,
        }
        for number, (identity, parent, kind, name, members) in enumerate(told)
    ]


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


@pytest.mark.parametrize(
    "value",
    [
        {"info": {"trace_id": "x"}},
        {"trace": {"id": 3}, "observations": []},
        [{"context": {"trace_id": "x"}}],
        {"post": [{}]},
        {"observations": [{"id": "x"}]},
        [],
        {"a": {"input": {"success": True, "data": []}}},
    ],
)
def test_other_documents_are_not_taken_for_these_formats(tmp_path: Path, value: Any) -> None:
    assert format_of(Source(written(tmp_path, value))) is None
