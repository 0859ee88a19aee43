"""Logs of calls: LiteLLM's payloads, OpenAI's batches and NeMo Relay's ATOF."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copy

import pytest

from tests.formats.files import PRODUCED, results_in, said_in
from tests.formats.imported import import_file
from trace_recorder import load, load_all
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.values.token_counts import counts_of

CITIES = [("get_weather", {"city": "Tokyo"}), ("get_weather", {"city": "Paris"})]


def test_payloads_of_a_trace_are_a_run() -> None:
    agent, other = load_all(PRODUCED / "litellm" / "payloads.jsonl")
    assert [
        (one["saw"], one["text"], one.get("asked"), one["usage"]["input_tokens"], one["usage"]["output_tokens"])
        for one in said_in(agent)
    ] == [
        (2, "Let me look.", CITIES, 67, 19),
        (5, "It is sunny in Tokyo, and it rains in Paris.", None, 179, 11),
    ]
    assert [result[2:] for result in results_in(agent)] == [(None, "sunny"), (None, "rain")]
    plain, streamed = agent.llm_interactions
    assert (plain.duration_seconds, plain.time_to_first_token_seconds) == (pytest.approx(1.832977), None)
    assert (streamed.stream, streamed.time_to_first_token_seconds) == (True, pytest.approx(2.147129))
    assert [call.response.usage.cost for call in agent.llm_interactions] == [0.00027375, 0.00033375]
    assert [tool.name for tool in plain.tools] == ["get_weather"]
    answered, failed = other.llm_interactions
    assert (answered.provider, answered.response.content, answered.response.usage.cost) == (
        "anthropic",
        "It is sunny.",
        None,
    )
    assert failed.error is not None
    assert (failed.error.type, failed.error.status) == ("InternalServerError", 500)


@pytest.mark.parametrize("form", ["list", "document"])
def test_payloads_are_read_from_a_list_and_from_a_document(tmp_path: Path, form: str) -> None:
    lines = (PRODUCED / "litellm" / "payloads.jsonl").read_text().splitlines()[:2]
    path = tmp_path / "payload.json"
    path.write_text(f"[{','.join(lines)}]" if form == "list" else lines[0])
    run = load(path)
    assert run.llm_interactions[0].response.content == "Let me look."
    assert len(run.llm_interactions) == (2 if form == "list" else 1)


def test_a_retry_with_the_id_of_the_failed_call_is_a_second_call(tmp_path: Path) -> None:
    """LiteLLM's router gives both calls the id of the request that they serve."""
    answered = json.loads((PRODUCED / "litellm" / "payloads.jsonl").read_text().splitlines()[0])
    failed = {
        **answered,
        "status": "failure",
        "response": None,
        "error_str": "overloaded",
        "startTime": answered["startTime"] - 5,
    }
    path = tmp_path / "payloads.jsonl"
    path.write_text(f"{json.dumps(failed)}\n{json.dumps(answered)}\n")
    run = load(path)
    assert [(call.error and call.error.message, call.response.content) for call in run.llm_interactions] == [
        ("overloaded", None),
        (None, "Let me look."),
    ]


@pytest.mark.parametrize("name", ["weather_input.jsonl", "weather_output.jsonl"])
def test_a_batch_is_its_requests_with_outputs_if_either_file_is_named(name: str) -> None:
    runs = [*load_all(PRODUCED / "openai-batch" / name)]
    assert [run.metadata["imported_from"]["custom_id"] for run in runs] == ["chat-1", "responses-1", "chat-2", "chat-3"]
    assert [run.status for run in runs] == ["completed", "completed", "failed", "failed"]
    assert [run.task for run in runs] == ["Weather in Tokyo?", "Weather in Paris?", "And now?", "Too late?"]
    calls = [run.llm_interactions[0] for run in runs]
    assert [(call.api, len(call.input_messages), call.response.content) for call in calls] == [
        ("openai-chat", 2, None),
        ("openai-responses", 1, "It rains."),
        ("openai-chat", 1, None),
        ("openai-chat", 1, None),
    ]
    assert [(call.name, call.arguments) for call in calls[0].response.tool_calls] == CITIES[:1]
    assert [(call.error.type, call.error.status) for call in calls[2:] if call.error] == [
        *(("invalid_request_error", 404), ("batch_expired", None))
    ]


def test_an_imported_batch_has_the_requests_as_sent(tmp_path: Path) -> None:
    """The imported run has the records of a recording, so it can be replayed."""
    done = [*import_file(Source(PRODUCED / "openai-batch" / "weather_output.jsonl"), tmp_path)]
    assert [one.done for one in done] == ["written"] * 4
    journals = "".join(path.read_text() for path in tmp_path.glob("*.jsonl"))
    assert journals.count('"kind":"llm_request"') == 4
    assert journals.count('"kind":"llm_response"') == 3


def test_outputs_without_requests_have_a_gap(tmp_path: Path) -> None:
    path = Path(copy(PRODUCED / "openai-batch" / "weather_output.jsonl", tmp_path / "output.jsonl"))
    runs = [*load_all(path)]
    assert [run.gaps[0].what for run in runs] == [
        f"the request {name}" for name in ("responses-1", "chat-1", "chat-2", "chat-3")
    ]
    assert [run.llm_interactions[0].response.content for run in runs][:2] == ["It rains.", None]


@pytest.mark.parametrize(
    ("response", "message"), [(None, ""), ({"error": "slow down"}, "slow down"), ({"error": {}}, "")]
)
@pytest.mark.parametrize("has_request", [True, False])
def test_a_refusal_without_an_error_object_is_a_failure(
    tmp_path: Path, response: object, message: str, *, has_request: bool
) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "q"}]}
    request = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body}
    refused = {"status_code": 429, "request_id": "r", "body": response}
    output = {"id": "b", "custom_id": "a", "response": refused, "error": None}
    path = tmp_path / "batch.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in [request, output][not has_request :]))
    run = load(path)
    assert (run.status, run.error and (run.error.message, run.error.status)) == ("failed", (message, 429))
    error = run.llm_interactions[0].error
    assert error is not None
    assert error.status == 429


def test_an_output_with_neither_a_response_nor_an_error_has_no_known_end(tmp_path: Path) -> None:
    path = tmp_path / "batch.jsonl"
    path.write_text(json.dumps({"id": "b", "custom_id": "a", "response": None, "error": None}))
    assert load(path).status == "unknown"


def test_of_files_with_the_same_ids_the_file_with_the_most_similar_name_is_taken(tmp_path: Path) -> None:
    lines = (PRODUCED / "openai-batch" / "weather_input.jsonl").read_text()
    (tmp_path / "b_input.jsonl").write_text(lines.replace("Too late?", "Right?"))
    for name in ("a_output.jsonl", "b_output.jsonl"):
        copy(PRODUCED / "openai-batch" / "weather_output.jsonl", tmp_path / name)
    (tmp_path / "a_input.jsonl").write_text(lines)
    runs = [*load_all(tmp_path / "b_output.jsonl")]
    assert runs[3].llm_interactions[0].input_messages[0].content == "Right?"
    (tmp_path / "c.jsonl").write_text(json.dumps({"custom_id": "chat-1", "response": None, "error": {}}) + "\n")
    assert [gap.what for gap in load(tmp_path / "c.jsonl").gaps] == ["the request chat-1"]


def test_the_outputs_of_a_batch_may_be_in_two_files(tmp_path: Path) -> None:
    """A file of errors has the failed outputs. Two files that share ids do not belong to the same batch."""
    copy(PRODUCED / "openai-batch" / "weather_input.jsonl", tmp_path / "b_input.jsonl")
    lines = (PRODUCED / "openai-batch" / "weather_output.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "b_output.jsonl").write_text("".join(lines[:2]))
    (tmp_path / "b_error.jsonl").write_text("".join(lines[2:]))
    statuses = [run.status for run in load_all(tmp_path / "b_input.jsonl")]
    assert statuses == ["completed", "completed", "failed", "failed"]
    (tmp_path / "b_again.jsonl").write_text("".join(lines[:2]))
    assert [run.status for run in load_all(tmp_path / "b_input.jsonl")] == ["unknown"] * 4


def test_scopes_of_atof_are_calls_tools_and_agents() -> None:
    run = load(PRODUCED / "atof" / "weather.jsonl")
    assert [(one["saw"], one["text"], one.get("asked")) for one in said_in(run)] == [
        (2, "Let me look.", CITIES),
        (5, "Sunny in Tokyo.", None),
        (5, None, None),
        (2, "It is sunny in Tokyo.", None),
    ]
    calls = run.llm_interactions
    assert [(call.agent, call.provider, call.model) for call in calls] == [
        ("weather-agent", "openai", "gpt-5"),
        ("checker", "openai", "gpt-5"),
        ("weather-agent", "openai", "gpt-5"),
        ("weather-agent", "anthropic", "claude-x"),
    ]
    counted = [counts_of(call) for call in calls]
    assert [(one.prompt, one.completion) for one in counted if one] == [(101, 11), (150, 4), (20, 7)]
    assert [call.error.type for call in calls if call.error] == ["RuntimeError"]
    assert all(call.duration_seconds is not None for call in calls)
    assert [result[1:] for result in results_in(run)] == [
        ("get_weather", True, {"weather": "sunny"}),
        ("get_weather", False, "internal error: ValueError: no such city"),
    ]
    assert (run.status, run.gaps) == ("completed", ())


def test_an_atof_scope_without_an_end_is_an_unfinished_call(tmp_path: Path) -> None:
    lines = (PRODUCED / "atof" / "weather.jsonl").read_text().splitlines()[:2]
    path = tmp_path / "cut.jsonl"
    path.write_text("\n".join([*lines, "no JSON"]))
    run = load(path)
    [call] = run.llm_interactions
    assert (call.complete, call.response.content, run.status) == (False, None, "unknown")
    assert [gap.what for gap in run.gaps] == ["line 3"]


def test_requests_with_the_same_custom_id_are_separate_runs(tmp_path: Path) -> None:
    """The first output of an id belongs to its first request, and so on. An extra output is a run of its own."""
    lines: list[object] = []
    for question in ("one?", "two?"):
        body = {"model": "m", "messages": [{"role": "user", "content": question}]}
        lines.append({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body})
    for answer in ("one", "two", "three"):
        message = {"role": "assistant", "content": answer}
        response = {"status_code": 200, "body": {"choices": [{"index": 0, "message": message}]}}
        lines.append({"id": None, "custom_id": "a", "response": response, "error": None})
    path = tmp_path / "batch.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    runs = [*load_all(path)]

    assert [(run.trajectory_id, run.task, run.llm_interactions[0].response.content) for run in runs] == [
        ("a", "one?", "one"),
        ("a-2", "two?", "two"),
        ("a-3", None, "three"),
    ]
