"""The schemas are up to date, describe recorded files, and report violations."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from jsonschema import Draft202012Validator

from tests.capture.mcp_calls import record_dying_server
from tests.capture.websocket_programs import run_async
from tests.chat_calls import CHAT, Wire, asked, call, said
from tests.data.recorded import by_hand, captured, in_deltas, in_flight, marked, poisoned
from tests.websocket_provider import serving_scripts
from tests.websocket_scenarios import SCENARIOS
from trace_recorder import TrajectoryRecorder, load, redact, validate
from trace_recorder.facts import KINDS
from trace_recorder.reading.schemas import json_schema as schema
from trace_recorder.reading.schemas.violations import violations
from trace_recorder.values.messages import Payload


def told_later(directory: Path) -> Path:
    """Record a run whose task has a key that becomes known only when a client sends it."""
    recorder = TrajectoryRecorder(directory / "told_later.json", task="use opaque-Key-0f-a-client")
    recorder.start()
    with httpx.Client(transport=Wire(said("x")), trust_env=False) as client:
        recorder.wrap(client).post(CHAT, json=asked("x"), headers={"x-api-key": "opaque-Key-0f-a-client"})
    recorder.finalize()
    return recorder.trajectory_path


def redacted(directory: Path) -> Path:
    """Record a run by hand, and remove a text from it."""
    path = by_hand(directory / "redacted")
    redact(path, text=str(load(path).task))
    return path


def with_a_server(directory: Path) -> Path:
    """Record the messages of a session with an MCP server that dies."""
    path = directory / "with_a_server.json"
    with TrajectoryRecorder(path) as recorder:
        record_dying_server(recorder)
    return path


def with_a_websocket(directory: Path) -> Path:
    """Record a session over a websocket."""
    path, scenario = directory / "with_a_websocket.json", SCENARIOS["realtime"]
    with serving_scripts(scenario.script) as server, TrajectoryRecorder(path) as recorder:
        run_async(scenario, server.url, recorder.wrap)
    return path


RUNS = [
    *(captured, in_deltas, by_hand, marked, poisoned, in_flight, told_later, redacted),
    *(with_a_server, with_a_websocket),
]


def shipped(name: str) -> Draft202012Validator:
    """Return the validator of a published schema."""
    return Draft202012Validator(json.loads((schema.DIRECTORY / f"{name}.schema.json").read_bytes()))


def told(found: Draft202012Validator, value: Payload) -> list[str]:
    """Return a validator's messages about a value."""
    return [f"{error.json_path}: {error.message}" for error in found.iter_errors(value)]


def record(kind: str, **data: Payload) -> dict[str, Payload]:
    """Return a line of a journal."""
    return {"seq": 1, "time": "2025-06-12T20:05:46.000000+00:00", "kind": kind, "data": data, "crc": "00000000"}


def test_the_published_schemas_are_generated_from_the_models() -> None:
    """The published schemas equal the output of `python -m trace_recorder.reading.schemas.json_schema`."""
    assert {path.name: path.read_text("utf-8") for path in schema.DIRECTORY.glob("*.json")} == schema.texts()


def test_the_page_on_the_format_has_the_docstrings_of_the_facts() -> None:
    """The table of kinds equals the output of the same command."""
    page = schema.PAGE.read_text("utf-8")

    assert schema.page_with_kinds(page) == page


@pytest.mark.parametrize("name", ["document", "journal"])
def test_the_schemas_are_valid(name: str) -> None:
    """Both schemas are valid in draft 2020-12, which they name."""
    Draft202012Validator.check_schema(shipped(name).schema)

    assert shipped(name).schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("run", RUNS)
def test_a_recorded_document_matches_its_schema(run: Callable[[Path], Path], tmp_path: Path) -> None:
    """A document is valid if it is captured, streamed, failed, open, by hand, in deltas, or with values beyond JSON."""
    document = json.loads(run(tmp_path).read_bytes())

    assert (told(shipped("document"), document), violations("document", document)) == ([], [])


@pytest.mark.parametrize("run", RUNS)
def test_every_recorded_line_matches_its_schema(run: Callable[[Path], Path], tmp_path: Path) -> None:
    """Each record of the same runs is valid."""
    lines = [json.loads(line) for line in run(tmp_path).with_suffix(".jsonl").read_bytes().splitlines()]

    found = [(told(shipped("journal"), line), violations("journal", line)) for line in lines]
    assert found == [([], [])] * len(lines)


def test_the_recorded_runs_have_every_kind_of_record(tmp_path: Path) -> None:
    """The runs have each kind of fact that the fold takes."""
    journals = [run(tmp_path).with_suffix(".jsonl") for run in RUNS]
    kinds = {json.loads(line)["kind"] for path in journals for line in path.read_bytes().splitlines()}

    kept_by_imports = {"source_record"}  # no fold reads this kind, and no recorder writes it
    assert kinds == set(KINDS) - kept_by_imports


def test_a_violation_names_its_place(tmp_path: Path) -> None:
    """A violation has the path of the member, and words for a person who reads the file."""
    document = json.loads(captured(tmp_path).read_bytes())
    document["llm_interactions"][0]["attempts"][0]["number"] = "0"
    del document["gaps"]

    assert violations("document", document) == [
        "gaps: it is missing",
        "llm_interactions[0].attempts[0].number: an integer is expected",
    ]


@pytest.mark.parametrize("members", [["input_messages", "input_messages_delta"], []])
def test_a_captured_call_has_all_its_messages_or_a_delta(members: list[str], tmp_path: Path) -> None:
    """The models and the schema refuse a call with both a list and a delta, and a call with neither."""
    document = json.loads(captured(tmp_path).read_bytes())
    call = document["llm_interactions"][0]
    messages = call.pop("input_messages")
    both = {"input_messages": messages, "input_messages_delta": {"since": None, "kept": 0, "messages": messages}}
    call.update({name: both[name] for name in members})

    assert violations("document", document) == [
        "llm_interactions[0]: exactly one of input_messages, input_messages_delta is expected"
    ]
    assert not shipped("document").is_valid(document)


@pytest.mark.parametrize("members", [{}, {"key": "a", "lakeview_step": 1}])
def test_a_record_has_exactly_one_of_its_alternatives(members: dict[str, Payload]) -> None:
    """An annotation belongs to the run or to a step. The schema refuses an annotation of both, and an
    annotation of neither.
    """
    line = record("annotation", value=1, **members)

    assert violations("journal", line) == ["data: exactly one of key, lakeview_step is expected"]
    assert not shipped("journal").is_valid(line)


def test_the_start_of_a_step_names_its_step() -> None:
    """Other records may be outside of steps, but the start of a step may not."""
    line = record("step_start", agent="a")

    assert violations("journal", line) == ["data.step_id: it is missing", "data.step_number: it is missing"]
    assert not shipped("journal").is_valid(line)


def test_a_kind_of_a_later_version_may_have_any_data() -> None:
    """A line of an unknown kind is skipped and not refused."""
    assert told(shipped("journal"), record("dream", anything=True)) == []


def test_the_envelope_of_a_line_is_checked() -> None:
    """The members around the data are checked for records of every kind."""
    line = {**record("dream"), "time": "yesterday", "crc": "XYZ"}

    assert [one.partition(":")[0] for one in violations("journal", line)] == ["time", "crc"]
    assert len(told(shipped("journal"), line)) == 2


def test_importing_the_package_imports_nothing_that_only_readers_need() -> None:
    """Recording does not import pydantic, rich, typer, an HTTP library or an SDK."""
    heavy = "{'pydantic', 'rich', 'typer', 'httpx', 'httpx2', 'openai', 'anthropic', 'google.genai', 'ollama'}"
    code = f"import sys, trace_recorder; print(sorted({heavy} & set(sys.modules)))"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_faults_of_a_captured_call_are_reported_as_such(tmp_path: Path) -> None:
    """The faults are those of captured calls, and not those of calls that were recorded by hand."""
    path = tmp_path / "run.json"
    with TrajectoryRecorder(path) as recorder:
        call(recorder, asked("hello"), said("Hello."))
    path.with_suffix(".jsonl").unlink()
    document = json.loads(path.read_text())
    [message] = document["llm_interactions"][0]["input_messages"]
    document["llm_interactions"][0]["input_messages"] = [{**message, "role": 5}, {**message, "role": 6}]
    path.write_text(json.dumps(document))

    errors = [finding.what for finding in validate(path).findings if finding.severity == "error"]
    assert [what.partition(": ")[0] for what in errors] == [
        f"llm_interactions[0].input_messages[{number}].role" for number in (0, 1)
    ]
