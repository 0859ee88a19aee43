"""Real files of spans, compared with an independent reading of the file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.formats.files import check_run, real_files, runs_of
from trace_recorder.formats.foreign_runs.run import Call, ForeignRun, ToolRun
from trace_recorder.values.trajectory import Trajectory


def _raw_value(value: dict[str, Any]) -> Any:
    ((kind, held),) = value.items()
    return (
        [_raw_value(value) for value in held["values"]]
        if kind == "arrayValue"
        else int(held)
        if kind == "intValue"
        else held
    )


def _raw_spans(path: Path) -> list[dict[str, Any]]:
    """Return the name, trace, status and attributes of each span of an OTLP document."""
    document = json.loads(path.read_bytes())
    return [
        {one["key"]: _raw_value(one["value"]) for one in span.get("attributes", ())}
        | {
            "-name": span["name"],
            "-trace": span["traceId"],
            "-failed": span["status"].get("code") == 2,
            "-id": span["spanId"],
        }
        for resource in document["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def _checked(path: Path, directory: Path) -> list[Trajectory]:
    directory.mkdir(exist_ok=True)
    return [check_run(run, directory) for run in runs_of(path)]


def _calls_of(runs: list[Trajectory]) -> Iterator[Any]:
    return chain.from_iterable(run.llm_interactions for run in runs)


_TOKENS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


@pytest.mark.parametrize(
    "name", ["openllmetry-openai", "openllmetry-anthropic", "pydantic-ai-v2", "pydantic-ai-v5", "pydantic-ai-v6"]
)
def test_real_spans_of_the_genai_conventions_equal_a_second_reading(tmp_path: Path, name: str) -> None:
    (path,) = real_files(f"otel/{name}.otlp.json")
    spans = _raw_spans(path)
    chats = [span for span in spans if span.get("gen_ai.operation.name") == "chat"]
    tools = [span for span in spans if span.get("gen_ai.operation.name") == "execute_tool"]
    runs = _checked(path, tmp_path / "runs")
    assert [run.trajectory_id for run in runs] == [*dict.fromkeys(span["-trace"] for span in spans)]
    read = {call.interaction_id: call for call in _calls_of(runs)}
    assert read.keys() == {span["-id"] for span in chats}
    for span in chats:
        one = read[span["-id"]]
        _check_usage(one.response.usage, span)
        _check_parts(span, one)
        assert (one.error is not None) == span["-failed"]
    results = [
        result for run in runs for step in run.agent_steps for result in step.tool_results if result.duration_seconds
    ]
    assert Counter(result.call_id for result in results) == Counter(span["gen_ai.tool.call.id"] for span in tools)
    assert sum(not result.success for result in results) == sum(span["-failed"] for span in tools)


def _check_usage(usage: Any, span: dict[str, Any]) -> None:
    names = ("input_tokens", "output_tokens", "cache_read.input_tokens", "cache_creation.input_tokens")
    assert [getattr(usage, name) for name in _TOKENS] == [span.get(f"gen_ai.usage.{name}") for name in names]


def _check_parts(span: dict[str, Any], interaction: Any) -> None:
    """Compare texts, tool calls and results, in their order, with the parts in the attributes."""
    given = json.loads(span.get("gen_ai.input.messages", "[]"))
    parts = [(message["role"], part) for message in given for part in message["parts"]]
    texts = [part["content"] for _, part in parts if part["type"] == "text"]
    system = [part["content"] for part in json.loads(span.get("gen_ai.system_instructions", "[]"))]
    assert [*_texts(interaction.input_messages)] == [*system, *texts]
    asked = [part["id"] for _, part in parts if part["type"] == "tool_call"]
    assert [call.call_id for message in interaction.input_messages for call in message.tool_calls] == asked
    answered = [part["id"] for _, part in parts if part["type"] == "tool_call_response"]
    assert [message.call_id for message in interaction.input_messages if message.role == "tool"] == answered
    said = [part for message in json.loads(span.get("gen_ai.output.messages", "[]")) for part in message["parts"]]
    assert (interaction.response.content or "") == "".join(part["content"] for part in said if part["type"] == "text")
    wanted = [(part["id"], part["name"], part["arguments"]) for part in said if part["type"] == "tool_call"]
    assert [(call.call_id, call.name, call.arguments) for call in interaction.response.tool_calls] == wanted


def _texts(messages: Any) -> Iterator[str]:
    for message in messages:
        if message.role == "tool":
            continue
        if isinstance(message.content, str):
            yield message.content
        elif message.content:
            yield from (part["text"] for part in message.content if part["type"] == "text")


def test_pydantic_ai_s_sub_agents_and_sums_are_read(tmp_path: Path) -> None:
    for path in real_files("otel/pydantic-ai-*.otlp.json"):
        whole, *failed = _checked(path, tmp_path / "runs")
        (root,) = [
            span for span in _raw_spans(path) if span.get("agent_name") == "weather_agent" and "final_result" in span
        ]
        main = [call for call in whole.llm_interactions if call.agent_id is None]
        assert sum(one.response.usage.input_tokens for one in main) == root["gen_ai.aggregated_usage.input_tokens"]
        (scout,) = [call for call in whole.llm_interactions if call.agent_id is not None]
        started = [one for step in whole.agent_steps for one in step.tool_results if one.execution_id is not None]
        assert (scout.agent, scout.parent_execution_id) == ("researcher", started[0].execution_id)
        assert (whole.final_result, whole.status) == (root["final_result"], "completed")
        assert {run.status for run in failed} <= {"failed"}


@pytest.mark.parametrize("name", ["openinference-openai.otlp.json", "openinference-anthropic.otlp.json"])
def test_real_spans_of_openinference_equal_a_second_reading(tmp_path: Path, name: str) -> None:
    (path,) = real_files(f"otel/{name}")
    calls = [span for span in _raw_spans(path) if span.get("openinference.span.kind") == "LLM"]
    read = {call.interaction_id: call for call in _calls_of(_checked(path, tmp_path / "runs"))}
    assert read.keys() == {span["-id"] for span in calls}
    for span in calls:
        _check_openinference(read[span["-id"]], span)


def _check_openinference(interaction: Any, span: dict[str, Any]) -> None:
    counted = ("prompt", "completion", "prompt_details.cache_read", "prompt_details.cache_write")
    assert [getattr(interaction.response.usage, name) for name in _TOKENS] == [
        span.get(f"llm.token_count.{name}") for name in counted
    ]
    roles = [
        span[name] for name in sorted(span) if name.startswith("llm.input_messages.") and name.endswith(".message.role")
    ]
    assert [message.role for message in interaction.input_messages] == roles
    texts = [value for name, value in span.items() if name.startswith("llm.input") and name.endswith("message.content")]
    assert all(text in [message.content for message in interaction.input_messages] for text in texts)
    asked = [
        value
        for name, value in span.items()
        if name.startswith("llm.output") and name.endswith("tool_call.id") and ".contents." not in name
    ]
    assert [call.call_id for call in interaction.response.tool_calls] == asked
    raw = json.loads(span["output.value"]) if "output.value" in span else {}
    assert interaction.response.id == raw.get("id")


def test_the_console_s_lines_give_the_same_calls_as_otlp(tmp_path: Path) -> None:
    (lines,) = real_files("otel/openinference-anthropic.sdk-console.jsonl")
    (whole,) = real_files("otel/openinference-anthropic.otlp.json")
    (one,), (other,) = _checked(lines, tmp_path / "a"), _checked(whole, tmp_path / "b")
    for mine, yours in zip(one.llm_interactions, other.llm_interactions, strict=True):
        assert mine.input_messages == yours.input_messages
        assert mine.response == yours.response


def test_log_records_give_the_messages_of_their_spans(tmp_path: Path) -> None:
    (traces,) = real_files("otel/*-traces.json")
    (logs,) = real_files("otel/*-logs.json")
    records = [
        record
        for resource in json.loads(logs.read_bytes())["resourceLogs"]
        for scope in resource["scopeLogs"]
        for record in scope["logRecords"]
    ]
    said = Counter(record["spanId"] for record in records if record["eventName"] != "gen_ai.choice")
    for path in (traces, logs):
        (run,) = _checked(path, tmp_path / "runs")
        assert {call.interaction_id: len(call.input_messages) for call in run.llm_interactions} == said
        answered = [record["spanId"] for record in records if record["eventName"] == "gen_ai.choice"]
        assert [call.interaction_id for call in run.llm_interactions if call.response.finish_reason] == answered


def test_logfire_s_streamed_call_is_one_call(tmp_path: Path) -> None:
    (path,) = real_files("otel/logfire-openai.otlp.json")
    spans = [span for span in _raw_spans(path) if "request_data" in span]
    (run,) = _checked(path, tmp_path / "runs")
    assert len(run.llm_interactions) == len(spans) - 1
    assert run.metrics["input_tokens"] == sum(span.get("gen_ai.usage.input_tokens", 0) for span in spans)
    assert run.metrics["cost"] == pytest.approx(sum(span.get("operation.cost", 0) for span in spans))
    (streamed,) = [call for call in run.llm_interactions if call.stream]
    assert streamed.response.content == "Paris is 18°C."


# ── exports of services ──────────────────────────────────────────────────────────────────────────────────────────────


def _json(value: Any) -> Any:
    """Return a value, parsed if it is JSON text."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def test_real_traces_of_langfuse_equal_a_second_reading(tmp_path: Path) -> None:
    for path in real_files("langfuse/*.trace.json"):
        document = json.loads(path.read_bytes())
        observations = {observation["id"]: observation for observation in document["observations"]}
        inside = {value["parentObservationId"] for value in observations.values() if value["type"] == "GENERATION"}
        calls = {name for name, one in observations.items() if one["type"] == "GENERATION" and name not in inside}
        (run,) = _checked(path, tmp_path / "runs")
        assert {call.interaction_id for call in run.llm_interactions} == calls, path.name
        used = [observations[name]["usageDetails"] for name in calls]
        sent = [usage.get("input", 0) for usage in used]
        made = [  # langfuse states reasoning beside the output; the total has both
            usage.get("total", tokens + usage.get("output", 0)) - tokens
            for usage, tokens in zip(used, sent, strict=True)
        ]
        assert (run.metrics["input_tokens"], run.metrics["output_tokens"]) == (sum(sent), sum(made))
        cost = sum((observations[name]["costDetails"] or {}).get("total", 0) for name in calls)
        assert run.metrics["cost"] == pytest.approx(cost)
        results = [
            result for step in run.agent_steps for result in step.tool_results if result.duration_seconds is not None
        ]
        counts = [
            value for value in observations.values() if value["type"] == "TOOL" or value["name"].startswith("tool.")
        ]
        assert len(results) == len(counts)
        assert len(run.rewards) == len(document["trace"]["scores"])


def test_langfuse_reads_its_traces_the_same(tmp_path: Path) -> None:
    for path in real_files("langfuse/*.chatml.json"):
        (run,) = _checked(path.with_name(path.name.replace("chatml", "trace")), tmp_path / "runs")
        oracle = json.loads(path.read_bytes())
        for interaction in run.llm_interactions:
            said = oracle[interaction.interaction_id]
            if said["input"]["success"]:
                _check_chatml(interaction.input_messages, said["input"]["data"])
            (answer,) = said["output"]["data"]
            assert (interaction.response.content or "") == _chatml_text(answer)
            assert [call.call_id for call in interaction.response.tool_calls] == _chatml_calls(answer)


def _check_chatml(messages: Any, oracle: list[dict[str, Any]]) -> None:
    """Compare messages. Langfuse omits instructions that only the instrumentation's own attributes have."""
    own = [*messages]
    if len(own) == len(oracle) + 1:
        assert own[0].role == "system"
        del own[0]
    assert [message.role for message in own] == [one["role"] for one in oracle]
    assert [message.content or "" for message in own] == [_chatml_text(one) for one in oracle]
    assert [[call.call_id for call in message.tool_calls] for message in own] == [*map(_chatml_calls, oracle)]


def _chatml_text(one: dict[str, Any]) -> str:
    content = one.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _chatml_calls(one: dict[str, Any]) -> list[str]:
    content = one.get("content")
    inside = [part["id"] for part in content if part["type"] == "tool_use"] if isinstance(content, list) else []
    return inside or [call["id"] for call in one.get("tool_calls", [])]


def test_real_runs_of_langsmith_equal_a_second_reading(tmp_path: Path) -> None:
    for path in real_files("langsmith/**/*.json*"):
        if "anthropic_managed" in path.name:
            continue
        text = path.read_text()
        batch = json.loads(text) if path.suffix == ".json" else None
        listed = [batch["post"][0] | batch["patch"][0]] if batch else [json.loads(line) for line in text.splitlines()]
        (run,) = _checked(path, tmp_path / "runs")
        calls = [one for one in listed if one["run_type"] == "llm"]
        assert [call.interaction_id for call in run.llm_interactions] == [call["id"] for call in calls]
        for one, raw in zip(run.llm_interactions, calls, strict=True):
            assert len(one.input_messages) == len(raw["inputs"]["messages"])
            answered = raw["outputs"].get("choices", [{"message": {"content": None}}])[0]["message"]
            assert one.response.content == answered["content"]
            assert (one.error is not None) == bool(raw.get("error"))
        results = [one for step in run.agent_steps for one in step.tool_results if one.duration_seconds is not None]
        assert len(results) == sum(one["run_type"] == "tool" for one in listed)


def test_a_real_trace_of_mlflow_equals_a_second_reading(tmp_path: Path) -> None:
    for path in real_files("mlflow/*/*.json"):
        document = json.loads(path.read_bytes())
        spans = document["data"]["spans"]
        (run,) = _checked(path, tmp_path / "runs")
        stated = json.loads(document["info"]["trace_metadata"]["mlflow.trace.tokenUsage"])
        assert {name: run.metrics[name] for name in ("input_tokens", "output_tokens")} == {
            name: stated[name] for name in ("input_tokens", "output_tokens")
        }
        tools = [span for span in spans if span["attributes"]["mlflow.spanType"] == '"TOOL"']
        results = [result for step in run.agent_steps for result in step.tool_results]
        assert [result.result for result in results] == [
            _json(span["attributes"].get("mlflow.spanOutputs")) for span in tools
        ]
        assert [result.success for result in results] == ["ERROR" not in span["status"]["code"] for span in tools]


def test_real_spans_of_phoenix_equal_a_second_reading(tmp_path: Path) -> None:
    for path in real_files("phoenix/*.json"):
        document = json.loads(path.read_bytes())
        spans = [*chain.from_iterable(document.values())] if isinstance(document, dict) else document
        kinds = Counter(span["span_kind"] for span in spans)
        runs = _checked(path, tmp_path / "runs")
        assert len(runs) == len({span["context"]["trace_id"] for span in spans})
        described: list[ForeignRun] = runs_of(path)
        events = Counter(type(event) for run in described for event in run.events)
        assert (events[Call], events[ToolRun]) == (kinds["LLM"], kinds["TOOL"])
        total = sum(span["attributes"].get("llm.token_count.prompt", 0) for span in spans)
        assert sum(run.metrics.get("input_tokens", 0) for run in runs) == total
        failed = sum(span["span_kind"] == "TOOL" and span["status_code"] == "ERROR" for span in spans)
        assert sum(run.metrics["failed_tool_calls"] for run in runs) == failed
