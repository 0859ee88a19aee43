"""Traces as OTLP JSON: calls, tools and agents where they belong, and each read once."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.files import check_run, facts_in, runs_of
from tests.formats.span_files import (
    ASKED,
    BEGAN,
    GIVEN,
    SAID,
    TRACE,
    agent_run,
    attributes,
    call,
    otlp,
    span,
    written,
)
from trace_recorder import load
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.facts import SourceRecordFact
from trace_recorder.formats.foreign_runs.run import Call, ForeignRun, TimedFact, ToolRun
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import format_of
from trace_recorder.values.trajectory import Trajectory


def _run(directory: Path, spans: list[dict[str, Any]]) -> ForeignRun:
    (run,) = runs_of(written(directory, otlp(spans)))
    return run


def _loaded(directory: Path, spans: list[dict[str, Any]]) -> Trajectory:
    runs = directory / "runs"
    runs.mkdir(exist_ok=True)
    return check_run(_run(directory, spans), runs)


def test_a_run_of_an_agent_is_read_from_its_spans(tmp_path: Path) -> None:
    run = load(written(tmp_path, otlp(agent_run())))
    assert (run.trajectory_id, run.status, run.task, run.final_result) == (
        TRACE,
        "completed",
        "Weather in Paris?",
        "18",
    )
    assert (run.start_time, run.execution_time) == ("2025-10-09T08:53:20.000000+00:00", 6.0)
    first, second = run.llm_interactions
    assert (first.response.reasoning, first.response.usage.input_tokens) == ("A tool knows.", 10)
    assert (second.response.content, second.response.finish_reason, second.agent) == (
        "It is 18 degrees.",
        "stop",
        "guide",
    )
    assert [message.role for message in second.input_messages] == ["user", "assistant", "tool"]
    assert (second.agent_id, second.duration_seconds) == (None, 1.0)
    (result,) = run.agent_steps[0].tool_results
    assert (result.call_id, result.result, result.success, result.duration_seconds) == ("c1", "18 degrees", True, 1.0)
    assert run.metadata["imported_from"]["resource"] == {"service.name": "app"}


def test_sums_on_an_agent_s_span_are_not_counted_again(tmp_path: Path) -> None:
    run = _loaded(tmp_path, agent_run())
    assert (run.metrics["llm_calls"], run.metrics["input_tokens"], run.metrics["output_tokens"]) == (2, 20, 10)


def test_a_sub_agent_is_linked_to_the_tool_that_started_it(tmp_path: Path) -> None:
    inner = {"gen_ai__operation__name": "invoke_agent", "gen_ai__agent__name": "scout"}
    run = _loaded(tmp_path, [*agent_run(), span(5, "scout", 3, start=2.6, **inner), call(6, 5, GIVEN, SAID, start=2.7)])
    scout = run.llm_interactions[1]
    assert (scout.agent, scout.agent_id, scout.parent_agent_id) == ("scout", f"{5:016x}", None)
    assert scout.parent_execution_id == f"{3:016x}" == run.agent_steps[0].tool_results[0].execution_id


def test_parallel_agents_have_different_ids(tmp_path: Path) -> None:
    agent = {"gen_ai__operation__name": "invoke_agent", "gen_ai__agent__name": "twin"}
    spans = [span(1, "root", seconds=9)]
    for number, at in ((2, 1), (3, 4)):
        spans += [span(number, "twin", 1, start=at, **agent), call(number + 10, number, GIVEN, SAID, start=at)]
    assert [call.agent_id for call in _loaded(tmp_path, spans).llm_interactions] == [f"{2:016x}", f"{3:016x}"]


def test_an_agent_that_only_runs_a_second_agent_is_that_agent(tmp_path: Path) -> None:
    agent = {"gen_ai__operation__name": "invoke_agent"}
    outer, inner = (
        span(1, "workflow", seconds=9, gen_ai__agent__name="workflow", **agent),
        span(2, "guide", 1, gen_ai__agent__name="guide", **agent),
    )
    (one,) = _loaded(tmp_path, [outer, inner, call(3, 2, GIVEN, SAID)]).llm_interactions
    assert (one.agent, one.agent_id) == ("guide", None)


def test_a_call_recorded_by_a_framework_and_its_client_is_one_call(tmp_path: Path) -> None:
    outer = call(2, 1, GIVEN, SAID, gen_ai__usage__input_tokens=10, gen_ai__request__temperature=0.5)
    inner = call(3, 2, None, None, start=0.1, gen_ai__usage__input_tokens=12)
    run = _run(tmp_path, [span(1, "root"), outer, inner])
    (one,) = [event for event in run.events if isinstance(event, Call)]
    assert (one.interaction_id, one.length, one.parameters) == (f"{3:016x}", 1, {"temperature": 0.5})
    assert one.response is not None
    assert (one.response["content"], one.response["usage"]) == ("It is 18 degrees.", {"input_tokens": 12})


def test_a_tool_between_two_calls_separates_them(tmp_path: Path) -> None:
    tool = span(3, "tool", 2, gen_ai__operation__name="execute_tool", gen_ai__tool__name="ask")
    run = _run(tmp_path, [call(2, None, GIVEN, SAID), tool, call(4, 3, GIVEN, SAID, start=0.5)])
    assert [type(event) for event in run.events if not isinstance(event, TimedFact)] == [Call, ToolRun, Call]


def test_a_streamed_call_in_two_spans_is_one_call(tmp_path: Path) -> None:
    more = {"request_data": {"model": "gpt-4o"}, "logfire__span_type": "span"}
    begun = call(2, 1, GIVEN, None, start=1, **more)
    log = more | {"logfire__span_type": "log", "gen_ai__usage__input_tokens": 7}
    ended = call(3, 1, GIVEN, SAID, start=4, seconds=0, **log)
    run = _run(tmp_path, [begun, ended, span(1, "root", seconds=9)])
    (one,) = [event for event in run.events if isinstance(event, Call)]
    assert (one.interaction_id, one.stream, one.duration_seconds) == (f"{2:016x}", True, 3.0)
    assert one.response is not None
    assert (one.response["content"], one.response["usage"]) == ("It is 18 degrees.", {"input_tokens": 7})


def test_messages_in_log_records_belong_to_their_span(tmp_path: Path) -> None:
    path = written(tmp_path, otlp([span(2, "chat", gen_ai__operation__name="chat")]), "app-traces.json")
    records = [
        ("gen_ai.system.message", {"content": "Be brief."}),
        ("gen_ai.user.message", {"content": "Hello."}),
        ("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": {"content": "Hi.", "role": "assistant"}}),
    ]
    logs = [
        {
            "traceId": TRACE,
            "spanId": f"{2:016x}",
            "observedTimeUnixNano": str(BEGAN + number),
            "eventName": name,
            "body": {"kvlistValue": {"values": attributes(body)}},
        }
        for number, (name, body) in enumerate(records)
    ]
    request = {"resourceLogs": [{"scopeLogs": [{"logRecords": logs}]}]}
    other = written(tmp_path, request, "app-logs.json")
    source = Source(path)
    (run,) = runs_of(path)
    assert format_of(source) == "otlp"
    (interaction,) = check_run(run, _new(tmp_path)).llm_interactions
    assert [(message.role, message.content) for message in interaction.input_messages] == [
        ("system", "Be brief."),
        ("user", "Hello."),
    ]
    assert (interaction.response.content, interaction.response.finish_reason) == ("Hi.", "stop")
    path.unlink()
    (alone,) = [event for event in runs_of(other)[0].events if isinstance(event, Call)]
    assert (alone.length, alone.response and alone.response["content"], alone.complete) == (2, "Hi.", False)


def _new(directory: Path) -> Path:
    path = directory / "runs"
    path.mkdir()
    return path


def test_messages_in_events_of_a_span_are_read(tmp_path: Path) -> None:
    said = [
        ("gen_ai.user.message", {"content": "Hello.", "role": "user"}),
        ("gen_ai.choice", {"message": json.dumps({"content": "Hi."}), "finish_reason": "stop"}),
    ]
    events = [{"name": name, "timeUnixNano": str(BEGAN), "attributes": attributes(one)} for name, one in said]
    (one,) = _loaded(tmp_path, [span(2, "chat", events=events, gen_ai__operation__name="chat")]).llm_interactions
    assert (one.input_messages[0].content, one.response.content) == ("Hello.", "Hi.")


def test_the_older_numbered_prompts_of_openllmetry_are_read(tmp_path: Path) -> None:
    prompts = {
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "Hello.",
        "gen_ai.prompt.1.role": "assistant",
        "gen_ai.prompt.1.tool_calls.0.id": "c1",
        "gen_ai.prompt.1.tool_calls.0.name": "weather",
        "gen_ai.prompt.1.tool_calls.0.arguments": '{"city": "Paris"}',
        "gen_ai.prompt.10.role": "tool",
        "gen_ai.prompt.10.content": "18",
        "gen_ai.prompt.10.tool_call_id": "c1",
        "gen_ai.completion.0.content": "18 degrees.",
        "gen_ai.completion.0.finish_reason": "stop",
        "gen_ai.usage.prompt_tokens": 9,
        "gen_ai.usage.completion_tokens": 3,
        "gen_ai.system": "OpenAI",
        "llm.request.functions.0.name": "weather",
        "llm.request.functions.0.parameters": '{"type": "object"}',
    }
    one = span(2, "openai.chat")
    one["attributes"] = attributes(prompts)
    (read,) = _loaded(tmp_path, [one]).llm_interactions
    assert [message.role for message in read.input_messages] == ["user", "assistant", "tool"]
    assert read.input_messages[1].tool_calls[0].arguments == {"city": "Paris"}
    assert (read.response.content, read.response.usage.input_tokens, read.tools[0].name) == (
        "18 degrees.",
        9,
        "weather",
    )
    assert read.tools[0].parameters == {"type": "object"}


def test_ids_may_be_base64(tmp_path: Path) -> None:
    spans = agent_run()
    for one in spans:
        for name in ("traceId", "spanId", "parentSpanId"):
            if name in one:
                one[name] = base64.b64encode(bytes.fromhex(one[name])).decode()
    run = _run(tmp_path, spans)
    assert run.identity == TRACE
    assert [event.interaction_id for event in run.events if isinstance(event, Call)] == [f"{2:016x}", f"{4:016x}"]


def test_a_trace_over_several_lines_is_one_run_without_its_damaged_line(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    lines = [json.dumps(otlp([one])) for one in agent_run()]
    path.write_text("\n".join([lines[0], '{"resourceSpans": [', *lines[1:]]))
    run = load(path)
    assert (run.status, run.metrics["llm_calls"], run.metrics["tool_calls"]) == ("completed", 2, 1)
    assert [gap.what for gap in run.gaps] == ["line 2 of traces.jsonl"]


def test_each_trace_is_a_run(tmp_path: Path) -> None:
    other = [{**one, "traceId": TRACE[::-1]} for one in agent_run()]
    assert [run.identity for run in runs_of(written(tmp_path, otlp([*agent_run(), *other])))] == [TRACE, TRACE[::-1]]


@pytest.mark.parametrize(
    ("root", "status"),
    [
        (span(1, "root"), "completed"),
        (span(1, "root", error="no"), "failed"),
        (span(1, "root", seconds=None), "unknown"),
        (span(1, "root", parent=99), "unknown"),
        (
            span(
                1,
                "root",
                error="",
                events=[{"name": "exception", "attributes": attributes({"exception.type": "a.CancelledError"})}],
            ),
            "interrupted",
        ),
    ],
)
def test_a_run_ends_as_its_root_does(tmp_path: Path, root: dict[str, Any], status: str) -> None:
    run = _run(tmp_path, [root, call(2, 1, GIVEN, SAID)])
    assert run.status == status
    assert (run.error is not None) == (status in {"failed", "interrupted"})


def test_a_failed_call_has_its_exception(tmp_path: Path) -> None:
    raised = {"exception.type": "openai.RateLimitError", "exception.message": "429"}
    failed = call(2, None, GIVEN, None, error="429", events=[{"name": "exception", "attributes": attributes(raised)}])
    (one,) = _loaded(tmp_path, [failed]).llm_interactions
    assert one.error is not None
    assert (one.error.type, one.error.message, one.response.content) == ("openai.RateLimitError", "429", None)


def test_a_failed_tool_has_its_error(tmp_path: Path) -> None:
    named = {"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "weather", "gen_ai__tool__call__id": "c1"}
    run = _loaded(tmp_path, [call(1, None, GIVEN, ASKED), span(2, "tool", start=2, error="no such city", **named)])
    (result,) = run.agent_steps[0].tool_results
    assert (result.success, result.error) == (False, "no such city")


def test_spans_that_are_each_other_s_parents_are_read(tmp_path: Path) -> None:
    run = _loaded(tmp_path, [call(1, 2, GIVEN, SAID), call(2, 1, GIVEN, SAID), call(3, 3, GIVEN, SAID)])
    assert 1 <= len(run.llm_interactions) <= 3


def test_a_repeated_span_is_read_once(tmp_path: Path) -> None:
    begun = call(2, None, GIVEN, None, seconds=None)
    run = _loaded(tmp_path, [call(2, None, GIVEN, SAID), begun])
    assert [call.response.content for call in run.llm_interactions] == ["It is 18 degrees."]


def test_an_unknown_attribute_is_kept(tmp_path: Path) -> None:
    run = _run(tmp_path, [call(2, None, GIVEN, SAID, my__note="important")])
    (kept,) = facts_in(run, SourceRecordFact)
    assert kept.value["attributes"] == {"my.note": "important"}


def test_images_and_the_order_of_blocks_are_read(tmp_path: Path) -> None:
    image = {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "aGk="}
    text = [{"type": "text", "content": "See."}, image]
    said = {"role": "assistant", "parts": [ASKED["parts"][1], {"type": "text", "content": "Later."}]}
    (interaction,) = _loaded(tmp_path, [call(2, None, [{"role": "user", "parts": text}], said)]).llm_interactions
    assert interaction.input_messages[0].content == [
        {"type": "text", "text": "See."},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
    ]
    assert [block.type for block in interaction.response.blocks] == ["tool_call", "text"]


def test_a_long_history_is_stored_once(tmp_path: Path) -> None:
    history: list[Any] = []
    spans = []
    for number in range(60):
        history = [*history, {"role": "user", "parts": [{"type": "text", "content": f"{number} " + "x" * 500}]}, SAID]
        spans.append(call(number + 2, None, history, SAID, start=number))
    run = _run(tmp_path, spans)
    conversations = {id(event.conversation) for event in run.events if isinstance(event, Call)}
    assert len(conversations) == 1


@pytest.mark.parametrize(
    "value", [{"resourceSpans": []}, {"resourceSpans": [{"scopeSpans": [{"spans": [{"name": 3}]}]}]}]
)
def test_a_file_without_spans_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(TrajectoryFormatError, match="has no span"):
        load(written(tmp_path, value))
