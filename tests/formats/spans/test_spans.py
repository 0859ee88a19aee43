"""Runs as spans: nested, with the exchanged messages, by OpenTelemetry's conventions, and the same at each export."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.data.written import Writing, said
from tests.formats import made
from tests.formats.runs import RUNS
from trace_recorder import Trajectory, TrajectoryRecorder, load
from trace_recorder.formats.spans.writing.span import Span, nanoseconds
from trace_recorder.formats.spans.writing.spans import to_spans
from trace_recorder.reading.document import from_document
from trace_recorder.values.structs import replace

SCHEMAS = json.loads((Path(__file__).parent / "genai_schemas.json").read_text(encoding="utf-8"))
"""The parts of the conventions' schemas that say which members a message, a definition and their parts must have."""
TEXTS = {
    "gen_ai.input.messages": "input",
    "gen_ai.output.messages": "output",
    "gen_ai.system_instructions": "instructions",
    "gen_ai.tool.definitions": "definitions",
}
ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How many?"}]
CALL = {"call_id": "c1", "name": "count", "arguments": {"path": "a"}}


def json_of(span: Span, name: str) -> Any:
    value = span.attributes[name]
    assert isinstance(value, str)
    return json.loads(value)


def named(spans: list[Span], name: str) -> Span:
    [found] = [span for span in spans if span.name == name]
    return found


_REMOVED = {
    "invoke_agent": {"gen_ai.provider.name", "gen_ai.agent.id"},
    "chat": {"gen_ai.agent.id", "gen_ai.usage.cache_creation.input_tokens"},
}
"""Attributes that version 0.1 does not have, by the operation of a span."""
_CHANGED = {"gen_ai.output.messages", "gen_ai.system_instructions", "trace_recorder.agent.id"}


@pytest.mark.parametrize("run", RUNS)
def test_version_0_1_has_exactly_its_own_attributes(trajectories: Mapping[str, Trajectory], run: str) -> None:
    """In version 0.1 answers state no finish reason and instructions are texts. Nothing else differs."""
    today, spans = list(to_spans(trajectories[run])), list(to_spans(trajectories[run], "genai-0.1"))

    for before, span in zip(today, spans, strict=True):
        kind = "invoke_agent" if before.name.startswith("invoke_agent") else "chat"
        kept = {name: before.attributes[name] for name in before.attributes.keys() - _REMOVED[kind] - _CHANGED}
        assert {name: span.attributes[name] for name in span.attributes.keys() - _CHANGED} == kept
        assert span.attributes.get("trace_recorder.agent.id") == before.attributes.get("gen_ai.agent.id")
        outputs = json.loads(str(before.attributes.get("gen_ai.output.messages", "[]")))
        assert json.loads(str(span.attributes.get("gen_ai.output.messages", "[]"))) == [
            {name: value for name, value in output.items() if name != "finish_reason"} for output in outputs
        ]
        parts = json.loads(str(span.attributes.get("gen_ai.system_instructions", "[]")))
        assert {part["type"] for part in parts} <= {"text"}


@pytest.mark.parametrize("run", RUNS)
def test_spans_are_nested_and_match_the_conventions_schemas(trajectories: Mapping[str, Trajectory], run: str) -> None:
    """Each span has a unique id and a parent in the run. JSON values match the conventions' schemas."""
    spans = list(to_spans(trajectories[run], "both"))
    ids = [span.span_id for span in spans]

    assert len({*ids}) == len(ids)
    assert [span.name for span in spans if span.parent_id not in ids] == ["invoke_agent"]
    assert [span for span in spans if not 0 < span.start <= span.end and run != "empty"] == []
    for span in spans:
        for name in TEXTS.keys() & span.attributes.keys():
            schema = {"$defs": SCHEMAS["$defs"], **SCHEMAS[TEXTS[name]]}
            Draft202012Validator(schema).validate(json_of(span, name))


@pytest.mark.parametrize("run", RUNS)
def test_every_call_has_a_span_with_its_tokens(trajectories: Mapping[str, Trajectory], run: str) -> None:
    """Each call has one span with its prompt and its answer, and the right counts of messages and tokens."""
    trajectory = trajectories[run]
    spans = {span.attributes.get("trace_recorder.interaction_id"): span for span in to_spans(trajectory)}

    for interaction in trajectory.llm_interactions:
        span = spans[interaction.interaction_id]
        prompt = [name for name in ("gen_ai.input.messages",) if name in span.attributes]
        shown = sum(len(json_of(span, name)) for name in prompt)
        apart = len(interaction.input_messages) - shown
        assert apart == 0 or [message.role for message in interaction.input_messages[:apart]] == ["system"] * apart
        if interaction.response.content:
            [answer, *_] = json_of(span, "gen_ai.output.messages")
            texts = [part["content"] for part in answer["parts"] if part["type"] == "text"]
            assert "".join(texts).replace("\n", "") == interaction.response.content.replace("\n", "")
        assert span.attributes.get("gen_ai.usage.output_tokens", 0) >= (interaction.response.usage.output_tokens or 0)


def test_anthropics_cached_tokens_are_in_the_input(tmp_path: Path) -> None:
    """The input count includes the cached tokens, as the conventions want. They are also stated under their old and new
    names.
    """
    usage = {"input_tokens": 82, "output_tokens": 31, "cache_read_input_tokens": 64, "cache_creation_input_tokens": 10}
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        recorder.record_llm_interaction(ASKED, {"content": "3", "usage": usage}, "anthropic", "claude")

    chat = named(list(to_spans(load(tmp_path / "run.json"))), "chat claude").attributes

    assert {name: value for name, value in chat.items() if "usage" in name} == {
        "gen_ai.usage.input_tokens": 156,
        "gen_ai.usage.output_tokens": 31,
        "gen_ai.usage.cache_read.input_tokens": 64,
        "gen_ai.usage.cache_write.input_tokens": 10,
        "gen_ai.usage.cache_creation.input_tokens": 10,
    }


def test_steps_tools_and_sub_agents_are_nested(tmp_path: Path) -> None:
    """A call is within its step, a sub-agent within the tool that started it. A tool has its arguments, result and
    time.
    """
    path = tmp_path / "run.json"
    with TrajectoryRecorder(path, task="count", provider="openai", model="m") as recorder:
        with recorder.step():
            recorder.record_llm_interaction(ASKED, {"content": None, "tool_calls": [CALL]}, "openai", "m")
            with recorder.tool_call("count", {"path": "a"}, "c1") as tool:
                with recorder.agent("helper"):
                    recorder.record_llm_interaction(ASKED, {"content": "3"}, "openai", "small")
                tool.result = {"lines": 3}
        recorder.reward("exact", 1.0, explanation="it is 3")
        recorder.finalize(success=True, final_result="3")

    spans = list(to_spans(load(path)))

    parents = {span.name: next((one.name for one in spans if one.span_id == span.parent_id), None) for span in spans}
    assert parents == {
        "invoke_agent": None,
        "step 1": "invoke_agent",
        "chat m": "step 1",
        "execute_tool count": "step 1",
        "invoke_agent helper": "execute_tool count",
        "chat small": "invoke_agent helper",
    }
    tool_span = named(spans, "execute_tool count")
    assert json_of(tool_span, "gen_ai.tool.call.arguments") == {"path": "a"}
    assert json_of(tool_span, "gen_ai.tool.call.result") == {"lines": 3}
    assert tool_span.start == nanoseconds(load(path).agent_steps[0].tool_results[0].timestamp)
    assert "trace_recorder.time_is_inferred" not in tool_span.attributes
    [reward] = named(spans, "invoke_agent").events
    assert (reward.name, reward.attributes["gen_ai.evaluation.score.value"]) == ("gen_ai.evaluation.result", 1.0)


def test_failures_have_their_type_and_attempts_are_events(tmp_path: Path) -> None:
    """A call that succeeded at its second attempt is one span without an error. A failed call has the type of its
    error.
    """
    writing = Writing(tmp_path / "run.jsonl")
    writing.request(1, {"model": "m", "messages": ASKED})
    writing.response(1, status=429, body={"error": {"type": "rate_limit", "message": "later"}}, duration_seconds=0.5)
    writing.request(1, {"model": "m", "messages": ASKED}, attempt=1)
    writing.response(1, attempt=1, body=said("3"))
    writing.request(2, {"model": "m", "messages": ASKED})
    writing.response(2, status=500, body={"error": {"type": "server_error", "message": "no"}})

    _, first, second = to_spans(load(tmp_path / "run.jsonl"))

    assert (first.error, [event.name for event in first.events]) == (None, ["trace_recorder.attempt"])
    assert first.attributes["http.request.resend_count"] == 1
    assert first.events[0].attributes["http.response.status_code"] == 429
    assert (second.error, second.attributes["error.type"]) == ("no", "500")
    assert [event.name for event in second.events] == ["exception"]


def test_an_option_exports_only_new_messages(trajectories: Mapping[str, Trajectory]) -> None:
    """The new messages of all calls together are the last prompt.

    Each call states how many it omits, and the call that has them.
    """
    trajectory = trajectories["tools"]
    spans = [span for span in to_spans(trajectory, new_messages=True) if span.kind == "client"]
    whole = [span for span in to_spans(trajectory) if span.kind == "client"]

    new = [json_of(span, "gen_ai.input.messages") for span in spans]
    omitted = [span.attributes.get("trace_recorder.input.omitted_messages", 0) for span in spans]
    calls = trajectory.llm_interactions
    for number, each in enumerate(spans):
        assert len(new[number]) + omitted[number] == len(calls[number].input_messages)
        before = json_of(whole[number], "gen_ai.input.messages")[: omitted[number]]
        assert before + new[number] == json_of(whole[number], "gen_ai.input.messages")
        if omitted[number]:
            assert each.attributes["trace_recorder.input.continues"] == calls[number - 1].interaction_id
    assert any(omitted)


def test_new_messages_are_found_in_a_document_too(trajectories: Mapping[str, Trajectory]) -> None:
    """With that option, a document gives the same spans as a journal, although its equal messages are different
    objects.
    """
    trajectory = trajectories["tools"]
    inline = from_document(trajectory.to_document(), "run.json")
    omitted = [
        [span.attributes.get("trace_recorder.input.omitted_messages") for span in to_spans(run, new_messages=True)]
        for run in (trajectory, inline)
    ]

    assert omitted[1] == omitted[0]
    assert any(omitted[0])


def test_contents_can_be_left_out(trajectories: Mapping[str, Trajectory]) -> None:
    """Without contents, the spans have no text of the full spans. Names, times, tokens and types of errors remain."""
    for run in trajectories.values():
        bare, full = (list(to_spans(run, "both", content=content)) for content in (False, True))

        assert [(span.name, span.start, span.end) for span in bare] == [(one.name, one.start, one.end) for one in full]
        kept = {name for span in bare for name in span.attributes}
        assert not [
            name for name in kept if "messages" in name or ".value" in name or "arguments" in name or "result" in name
        ]
        assert not [span for span in bare if span.error]


def test_a_span_keeps_its_id_when_the_run_goes_on(tmp_path: Path) -> None:
    """A service recognises a span that was sent during the run when it is sent again."""
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        recorder.record_llm_interaction(ASKED, {"content": "3"}, "openai", "m")
        before = {span.span_id for span in to_spans(load(tmp_path / "run.json"))}
        recorder.record_llm_interaction(ASKED, {"content": "4"}, "openai", "m")

    run = load(tmp_path / "run.json")
    assert before < {span.span_id for span in to_spans(run)}
    assert {span.trace_id for span in to_spans(run)} == {run.trajectory_id}


def test_a_message_that_calls_share_is_encoded_once(trajectories: Mapping[str, Trajectory]) -> None:
    """Spans of the same run are equal without encoding shared messages again. A changed copy of a call differs."""
    run = trajectories["tools"]
    one = run.llm_interactions[0]

    assert [*to_spans(run)] == [*to_spans(run)]
    assert replace(one, model="other") != one


def test_instructions_that_are_not_text_are_texts_in_version_0_1() -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png", "media_type": "image/png"}}
    messages = [{"role": "system", "content": [{"type": "text", "text": "See."}, image]}]
    trajectory = made.run(made.call(messages, "a", api="anthropic-messages"))
    [_, span] = to_spans(trajectory, "genai-0.1")

    text, other = json_of(span, "gen_ai.system_instructions")
    assert text == {"type": "text", "content": "See."}
    assert other["type"] == "text"
    assert json.loads(other["content"])["uri"] == "https://example.org/a.png"
