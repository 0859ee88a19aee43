"""Spans of newer programs: answers in several outputs, arrays of console spans, and unknown vocabularies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.files import real_files, runs_of
from tests.formats.span_files import agent_run, otlp, span, written
from trace_recorder import load
from trace_recorder.formats.foreign_runs.run import Call, ToolRun
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import format_of


def _output(kind: str, reason: str, **part: Any) -> dict[str, Any]:
    return {"role": "assistant", "parts": [{"type": kind, **part}], "finish_reason": reason}


def _chat(outputs: list[dict[str, Any]], **members: Any) -> dict[str, Any]:
    return otlp([span(1, "chat", gen_ai__operation__name="chat", gen_ai__output__messages=outputs, **members)])


def test_items_and_chunks_of_an_answer_are_one_answer(tmp_path: Path) -> None:
    call = _output("tool_call", "tool_call", id="c1", name="weather", arguments={"city": "Paris"})
    chunks = [_output("text", "", content="Let me "), _output("text", "", content="look."), call]
    items = [_output("text", "stop", content="Let me look."), call]
    for outputs in (chunks, items):
        [read] = load(written(tmp_path, _chat(outputs))).llm_interactions
        assert (read.response.content, read.response.finish_reason) == ("Let me look.", "tool_call")
        assert [(asked.call_id, asked.arguments) for asked in read.response.tool_calls] == [("c1", {"city": "Paris"})]


def test_requested_choices_stay_choices(tmp_path: Path) -> None:
    outputs = [_output("text", "stop", content="Yes."), _output("text", "stop", content="No.")]
    [read] = load(written(tmp_path, _chat(outputs, gen_ai__request__choice__count=2))).llm_interactions
    assert (read.response.content, read.response.extra["other_outputs"]) == ("Yes.", outputs[1:])


@pytest.mark.parametrize("name", ["adk-2.13-streamed", "openllmetry-openai-agents"])
def test_the_answers_of_real_spans_are_the_provider_s(name: str) -> None:
    for facts in real_files("newest/truth.json"):
        answers = json.loads(facts.read_text())[f"spans/{name}.otlp.json"]
        [path] = real_files(f"newest/spans/{name}.otlp.json")
        calls = [event for run in runs_of(path) for event in run.events if isinstance(event, Call)]
        responses = [call.response or {} for call in sorted(calls, key=lambda call: call.time)]
        assert [
            (
                response["content"],
                [(asked["call_id"], asked["name"], asked["arguments"]) for asked in response["tool_calls"] or ()],
                response["usage"]["input_tokens"],
                response["usage"]["output_tokens"],
            )
            for response in responses
        ] == [
            (
                answer["text"],
                [(asked["id"], asked["name"], asked["args"]) for asked in answer["calls"]],
                answer["inp"],
                answer["out"],
            )
            for answer in answers
        ]


_CONSOLE = {
    "name": "inference",
    "context": {"trace_id": "0x26d435f4b3a42555a3ded8c6a30af143", "span_id": "0xdb1dbbb030774a8f"},
    "kind": "SpanKind.INTERNAL",
    "parent_id": None,
    "start_time": "2025-11-19T04:47:00.953571Z",
    "end_time": "2025-11-19T04:47:03.461439Z",
    "status": {"status_code": "OK"},
    "attributes": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"},
}


@pytest.mark.parametrize("indent", [None, 4])
def test_an_array_of_console_spans_is_read(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "spans.json"
    second = _CONSOLE | {"context": _CONSOLE["context"] | {"span_id": "0xdb1dbbb030774a90"}}
    path.write_text(json.dumps([_CONSOLE, second], indent=indent))
    run = load(path)
    assert format_of(Source(path)) == "otel-console"
    assert ([call.model for call in run.llm_interactions], run.gaps) == (["m", "m"], ())

    path.write_text(f"[{json.dumps(_CONSOLE)},\n{json.dumps(second)}\n]\n")
    assert len(load(path).llm_interactions) == 2


def test_an_unknown_vocabulary_is_a_gap_with_the_names_of_its_spans(tmp_path: Path) -> None:
    names = [f"step {number}" for number in range(1, 15)]
    spans = [
        span(number, name, None if number == 1 else 1, **{"entity.1.type": "x"})
        for number, name in enumerate(names, start=1)
    ]
    run = load(written(tmp_path, otlp(spans)))
    [gap] = run.gaps
    assert (run.status, len(run.llm_interactions)) == ("unknown", 0)
    assert "step 1, step 2," in gap.why
    assert gap.why.endswith("step 12 and 2 more")
    assert load(written(tmp_path, otlp(agent_run()))).gaps == ()


def test_a_real_file_of_an_unknown_vocabulary_is_a_gap() -> None:
    for path in real_files("newest/spans/console-array-monocle.json"):
        run = load(path)
        assert run.status == "unknown"
        assert "openai.resources.responses.AsyncResponses.create" in run.gaps[0].why


def test_secrets_in_names_of_unknown_spans_are_masked_in_each_name(tmp_path: Path) -> None:
    names = ["Cookie: sid", '- name: DB_PASSWORD\n  value: "EH0aveIku8OPLm"', "end"]
    spans = [span(number, name, None if number == 1 else 1) for number, name in enumerate(names, start=1)]
    [gap] = load(written(tmp_path, otlp(spans))).gaps
    assert "EH0aveIku8OPLm" not in gap.why


def test_the_span_in_which_adk_merges_results_is_not_a_tool() -> None:
    [path] = real_files("newest/spans/adk-2.13-streamed.otlp.json")
    names = [event.name for run in runs_of(path) for event in run.events if isinstance(event, ToolRun)]
    assert names == ["get_weather"] * 6
