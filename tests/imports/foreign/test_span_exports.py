"""Spans as the console exporter, Phoenix, MLflow, Langfuse and LangSmith write them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.imports.foreign.files import check_run, runs_of
from tests.imports.foreign.span_files import BEGAN, SECOND, TRACE, written
from trace_recorder.imports.foreign.formats import Source, format_of
from trace_recorder.imports.foreign.run import Annotation, Call, Missing, Score, ToolRun
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.token_counts import Counts, counts_of

_TIMES = [f"2025-10-09T08:53:{second:02}+00:00" for second in range(20, 40)]
_CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
_GIVEN = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather in Paris?"}]
_ASKED = {"role": "assistant", "content": None, "tool_calls": [_CALL]}
_AGAIN = [*_GIVEN, _ASKED, {"role": "tool", "tool_call_id": "c1", "content": "18"}]
_REPLY = {
    "id": "r1",
    "model": "gpt-4o-2024",
    "choices": [{"index": 0, "finish_reason": "tool_calls", "message": _ASKED}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}},
}


def _check(directory: Path, path: Path) -> Trajectory:
    runs = directory / "runs"
    runs.mkdir()
    (run,) = runs_of(path)
    return check_run(run, runs)


# ── lists of spans ───────────────────────────────────────────────────────────────────────────────────────────────────


def _openinference() -> dict[str, Any]:
    return {
        "llm.model_name": "gpt-4o",
        "llm.provider": "openai",
        "llm.invocation_parameters": '{"model": "gpt-4o", "temperature": 0.2}',
        "llm.tools.0.tool.json_schema": '{"name": "weather", "input_schema": {"type": "object"}}',
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.contents.0.message_content.type": "text",
        "llm.input_messages.0.message.contents.0.message_content.text": "Weather?",
        "llm.input_messages.0.message.contents.1.message_content.type": "image",
        "llm.input_messages.0.message.contents.1.message_content.image.image.url": "https://a/b.png",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "weather",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"city": "Paris"}',
        "llm.token_count.prompt": 10,
        "llm.token_count.completion": 5,
        "llm.token_count.prompt_details.cache_read": 4,
    }


def _phoenix_spans() -> list[dict[str, Any]]:
    named = [
        ("s1", None, "AGENT", "guide", {"input.value": "Weather in Paris?", "output.value": "18"}),
        ("s2", "s1", "LLM", "gpt-4o", _openinference()),
        (
            "s3",
            "s1",
            "TOOL",
            "weather",
            {"tool_call.id": "c1", "input.value": '{"city": "Paris"}', "output.value": "18"},
        ),
    ]
    return [
        {
            "id": f"node-{number}",
            "name": name,
            "context": {"trace_id": "t1", "span_id": identity},
            "span_kind": kind,
            "parent_id": parent,
            "start_time": _TIMES[number],
            "end_time": _TIMES[number + 3],
            "status_code": "OK",
            "attributes": attributes,
        }
        for number, (identity, parent, kind, name, attributes) in enumerate(named)
    ]


def _check_guide(run: Trajectory) -> None:
    assert (run.status, run.task, run.final_result) == ("completed", "Weather in Paris?", "18")
    (one,) = run.llm_interactions
    assert (one.agent, one.model, one.provider, one.parameters) == ("guide", "gpt-4o", "openai", {"temperature": 0.2})
    assert one.input_messages[0].content == [
        {"type": "text", "text": "Weather?"},
        {"type": "image_url", "image_url": {"url": "https://a/b.png"}},
    ]
    assert (one.tools[0].name, one.tools[0].parameters) == ("weather", {"type": "object"})
    assert counts_of(one) == Counts(prompt=10, completion=5, cache_read=4)
    assert [(result.call_id, result.result) for result in run.agent_steps[0].tool_results] == [("c1", "18")]


def test_spans_of_phoenix_are_a_run(tmp_path: Path) -> None:
    _check_guide(_check(tmp_path, written(tmp_path, _phoenix_spans())))


def test_a_page_of_phoenix_s_interface_and_nested_attributes_are_read(tmp_path: Path) -> None:
    spans = _phoenix_spans()
    flat = spans[1]["attributes"]
    counted = {"token_count": {"prompt": 10, "completion": 5, "prompt_details": {"cache_read": 4}}}
    left = {name: value for name, value in flat.items() if not name.startswith("llm.token_count")}
    spans[1]["attributes"] = {**left, "llm": counted}
    _check_guide(_check(tmp_path, written(tmp_path, {"data": spans, "next_cursor": None})))


def test_spans_of_phoenix_one_a_line_are_read_but_for_a_damaged_one(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    first, *others = map(json.dumps, _phoenix_spans())
    path.write_text("\n".join([first, "{", *others]))
    (run,) = runs_of(path)
    kinds = (Call, ToolRun, Missing)
    assert [type(event) for event in run.events if isinstance(event, kinds)] == [*kinds]


def test_annotations_of_phoenix_are_scores(tmp_path: Path) -> None:
    spans = _phoenix_spans()
    spans[1]["annotations"] = [
        {"name": "right", "result": {"score": 0.5, "explanation": "half"}},
        {"name": "tone", "result": {"label": "kind"}},
    ]
    (run,) = runs_of(written(tmp_path, spans))
    (score,) = [event for event in run.events if isinstance(event, Score)]
    (note,) = [event for event in run.events if isinstance(event, Annotation)]
    assert (score.name, score.value, score.explanation, note.key) == ("right", 0.5, "half", "tone")


@pytest.mark.parametrize("indent", [None, 4])
def test_what_the_sdk_prints_is_a_run(tmp_path: Path, indent: int | None) -> None:
    printed = [
        {
            "name": one["name"],
            "context": {"trace_id": f"0x{TRACE}", "span_id": f"0x{number + 1:016x}", "trace_state": "[]"},
            "kind": "SpanKind.INTERNAL",
            "parent_id": f"0x{1:016x}" if number else None,
            "start_time": one["start_time"],
            "end_time": one["end_time"],
            "status": {"status_code": "OK"},
            "attributes": {"openinference.span.kind": one["span_kind"], **one["attributes"]},
            "events": [],
            "resource": {"attributes": {"service.name": "app"}},
        }
        for number, one in enumerate(_phoenix_spans())
    ]
    path = tmp_path / "spans.log"
    path.write_text("\n".join(json.dumps(one, indent=indent) for one in printed))
    assert format_of(Source(path)) == "otel-console"
    run = _check(tmp_path, path)
    _check_guide(run)
    assert run.metadata["imported_from"]["resource"] == {"service.name": "app"}


# ── MLflow ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _mlflow() -> dict[str, Any]:
    told = [
        (None, "agent", "AGENT", {"q": "Weather?"}, "18"),
        (1, "Completions", "CHAT_MODEL", {"model": "gpt-4o", "messages": _GIVEN, "temperature": 0.2}, _REPLY),
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
                "mlflow.spanInputs": json.dumps(given),
                "mlflow.spanOutputs": json.dumps(said),
                **({"mlflow.chat.tokenUsage": '{"input_tokens": 10, "output_tokens": 5}'} if number == 1 else {}),
            },
        }
        for number, (parent, name, kind, given, said) in enumerate(told)
    ]
    said = [
        {"assessment_name": "right", "feedback": {"value": True}, "rationale": "yes"},
        {"assessment_name": "answer", "expectation": {"value": "18"}},
    ]
    info = {"trace_id": "tr-1", "state": "OK", "tags": {"a": "b"}, "assessments": said}
    return {"info": info, "data": {"spans": spans}}


def test_a_trace_of_mlflow_is_a_run(tmp_path: Path) -> None:
    run = _check(tmp_path, written(tmp_path, _mlflow()))
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
    other = _mlflow()
    other["info"] = {"request_id": "tr-2", "status": "ERROR"}
    listed = written(tmp_path, [_mlflow(), other])
    lines = tmp_path / "traces.jsonl"
    lines.write_text("\n".join(map(json.dumps, [_mlflow(), other])))
    for path in (listed, lines):
        assert [(run.identity, run.status) for run in runs_of(path)] == [("tr-1", "completed"), ("tr-2", "failed")]


def test_a_damaged_line_among_traces_of_mlflow_costs_itself(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text(json.dumps(_mlflow()) + "\n" + json.dumps(_mlflow())[:-9])
    (run,) = runs_of(path)
    assert [event.what for event in run.events if isinstance(event, Missing)] == ["line 2"]


# ── Langfuse ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _langfuse() -> dict[str, Any]:
    told: list[tuple[str, str | None, str, str, dict[str, Any]]] = [
        ("o1", None, "AGENT", "guide", {}),
        (
            "o2",
            "o1",
            "GENERATION",
            "llm",
            {
                "input": json.dumps(_AGAIN),
                "output": '{"role": "assistant", "content": "18 degrees."}',
                "model": "gpt-4o",
                "modelParameters": {"temperature": 0.2},
                "usageDetails": {"input": 6, "input_cache_read": 4, "output": 3, "output_reasoning": 2, "total": 15},
                "costDetails": {"input": 0.25, "output": 0.25, "total": 0.5},
                "completionStartTime": _TIMES[2],
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
            "startTime": _TIMES[number],
            "endTime": _TIMES[number + 4],
            "level": "DEFAULT",
            **members,
        }
        for number, (identity, parent, kind, name, members) in enumerate(told)
    ]
    scores = [
        {"name": "right", "value": 0.5, "dataType": "NUMERIC", "comment": "half", "timestamp": _TIMES[9]},
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
    run = _check(tmp_path, written(tmp_path, _langfuse()))
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


def test_counts_of_langfuse_stand_apart_from_each_other(tmp_path: Path) -> None:
    (one,) = _check(tmp_path, written(tmp_path, _langfuse())).llm_interactions
    assert counts_of(one) == Counts(prompt=10, completion=5, cache_read=4, reasoning=2)


def test_a_trace_of_langfuse_may_have_its_observations_inside(tmp_path: Path) -> None:
    document = _langfuse()
    (run,) = runs_of(written(tmp_path, {**document["trace"], "observations": document["observations"]}))
    assert (run.identity, run.format, run.status) == ("t1", "langfuse", "completed")


def test_what_an_instrumentation_said_in_its_own_words_is_read_too(tmp_path: Path) -> None:
    document = _langfuse()
    tool = document["observations"][0]
    tool["metadata"] = {"attributes": {"gen_ai.tool.call.id": "c1", "gen_ai.tool.name": "forecast"}, "mine": 1}
    (run,) = runs_of(written(tmp_path, document))
    (one,) = [event for event in run.events if isinstance(event, ToolRun)]
    assert (one.call_id, one.name, one.arguments) == ("c1", "forecast", {"city": "Paris"})


# ── LangSmith ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _langsmith() -> list[dict[str, Any]]:
    about = {
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
                "inputs": {"messages": _GIVEN, "model": "gpt-4o"},
                "outputs": _REPLY,
                "extra": {"metadata": about},
                "events": [{"name": "new_token", "time": _TIMES[2]}],
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
            "start_time": _TIMES[number],
            "end_time": _TIMES[number + 4],
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
    path.write_text("\n".join(map(json.dumps, _langsmith())))
    _check_langsmith(_check(tmp_path, path))


def test_a_batch_of_langsmith_is_put_together(tmp_path: Path) -> None:
    late = ("end_time", "outputs", "error", "events")
    post = [{name: value for name, value in run.items() if name not in late} | {"outputs": {}} for run in _langsmith()]
    patch = [{name: run[name] for name in (*late, "id") if name in run} for run in _langsmith()]
    _check_langsmith(_check(tmp_path, written(tmp_path, {"post": post, "patch": patch})))


def test_messages_and_results_of_langchain_are_read(tmp_path: Path) -> None:
    def constructed(name: str, **kwargs: Any) -> dict[str, Any]:
        return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", name], "kwargs": kwargs}

    asked = constructed(
        "AIMessage", content="", tool_calls=[{"name": "weather", "args": {"city": "Paris"}, "id": "c1"}]
    )
    given = [
        constructed("SystemMessage", content="Be brief."),
        constructed("HumanMessage", content="Weather?"),
        asked,
        constructed("ToolMessage", content="18", tool_call_id="c1"),
    ]
    said = {
        "text": "18.",
        "message": constructed("AIMessageChunk", content="18."),
        "generation_info": {"finish_reason": "stop"},
    }
    run = _langsmith()[1]
    run |= {"parent_run_id": None, "id": "r1", "inputs": {"messages": [given]}, "outputs": {"generations": [[said]]}}
    (one,) = _check(tmp_path, written(tmp_path, [run])).llm_interactions
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
