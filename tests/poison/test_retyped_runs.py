"""Runs whose values have other types, as other programs and new providers write them: every view gives its output.

`scripts/fuzz-views` tries many more of such runs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests.cli.invoking import invoke, recorded
from tests.formats.made import call, run
from tests.journals import folded, journal_of
from tests.poison import retyped_runs
from tests.poison.hostile_journals import journals
from tests.searching import IS_SEARCH
from trace_recorder import Trajectory, TrajectoryRecorder, load, validate
from trace_recorder.figures.stats import Stats
from trace_recorder.reading.document import from_document
from trace_recorder.rerun.recorded import Recording

Payload = Any
CHANGES = 120 if IS_SEARCH else 60


def assert_viewed(trajectory: Trajectory) -> None:
    """Assert that every view gives its output."""
    assert [*retyped_runs.failures_of_views(trajectory)] == []


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Payload]:
    """Return complete runs of every structure."""
    return retyped_runs.runs(tmp_path_factory.mktemp("retyped") / "whole")


@pytest.mark.parametrize("begin", range(0, CHANGES, 20))
def test_a_value_of_a_wrong_type_stops_no_view(begin: int, whole: dict[str, Payload], tmp_path: Path) -> None:
    """For a run with values of wrong types, each view gives its output or an error of this package."""
    found = [said for number in range(begin, begin + 20) for said in retyped_runs.one(number, 1, whole, tmp_path)]

    assert found == []


@given(journal=journals())
def test_a_malicious_journal_is_viewed_or_refused(journal: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    """For records in any order, with any values in place of the schema's, each view gives its output or an error of
    this package.
    """
    path = tmp_path_factory.mktemp("malicious") / "run.jsonl"
    path.write_bytes(journal)

    assert [*retyped_runs.failures(path, path, commands=False)] == []


MALICIOUS: dict[str, list[tuple[str, Payload]]] = {
    "a duration beyond the last year": [
        ("start", {"task": "a"}),
        ("llm_request", {"interaction_id": "a", "api": "openai-chat", "body": {"messages": []}}),
        ("llm_response", {"interaction_id": "a", "status": 200, "body": {}, "duration_seconds": 1e308}),
        ("agent_step", {"step_number": 1, "duration_seconds": 2**70}),
        ("gap", {"time": "9999-12-31T23:59:59-14:00", "what": "a", "why": "b"}),
    ],
    "the number of an attempt that is a text": [
        ("start", {"task": "a"}),
        ("llm_request", {"interaction_id": "a", "api": "openai-chat", "body": {}, "attempt": "b"}),
        ("llm_request", {"interaction_id": "a", "api": "openai-chat", "body": {}, "attempt": "b"}),
        ("llm_response", {"interaction_id": "a", "status": 200, "body": {}, "attempt": 1}),
    ],
    "masked metadata that are a list": [("start", {"task": "a"}), ("redaction", {"of": 1, "metadata": [None]})],
    "a tool without an id": [("start", {"task": "a"}), ("tool_result", {"execution_id": None, "name": "a"})],
    "a body that is no base64": [
        ("start", {"task": "a"}),
        ("llm_request", {"interaction_id": "a", "api": "openai-chat", "body": {"messages": []}}),
        ("llm_response", {"interaction_id": "a", "status": 200, "base64": ["a"]}),
    ],
}


@pytest.mark.parametrize("name", MALICIOUS)
def test_a_value_of_the_right_type_may_be_impossible(name: str, tmp_path: Path) -> None:
    """A duration that ends after all times, and a body that cannot be decoded, stop no view."""
    path = tmp_path / "run.jsonl"
    path.write_bytes(journal_of(*MALICIOUS[name]))

    assert [*retyped_runs.failures(path, path, commands=False)] == []


ODD = (["text"], {"a": 1}, 5, True, None)


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("member", ["text", "image_url", "source", "name"])
def test_the_type_of_a_part_may_be_any_json(kind: Payload, member: str) -> None:
    """The `type` of a part of a message, in a prompt or an answer, may be any JSON."""
    part = {"type": kind, member: "x"}
    answer = {"content": None, "extra": {"content": [part], "output": [part]}}

    assert_viewed(run(call([{"role": "user", "content": [part, {"type": "text", "text": "y"}]}], response=answer)))


def test_a_part_whose_type_is_not_a_string_is_left_out_and_counted() -> None:
    """A part whose `type` is not a string is left out of the text, and counted."""
    prompt = [{"role": "user", "content": [{"type": ["text"], "text": "x"}, {"type": "text", "text": "y"}]}]
    export = retyped_runs.EXPORT_FORMATS["trl"].with_options()

    rows, left_out = export(run(call(prompt, "z")))

    assert [row["messages"][0]["content"] for row in rows] == ["y"]
    assert sum(left_out.values()) == 1


@pytest.mark.parametrize("odd", [1.5, 5, True, "x", {"a": 1}])
@pytest.mark.parametrize("members", [("logprobs", "content"), ("logprobsResult", "chosenCandidates"), ("logprobs",)])
def test_log_probabilities_may_have_any_form(odd: Payload, members: tuple[str, ...]) -> None:
    """Every view gives its output, whatever value a response has in place of log-probabilities."""
    extra: Payload = odd
    for member in reversed(members):
        extra = {member: extra}

    assert_viewed(run(call([{"role": "user", "content": "y"}], response={"content": "z", "extra": extra})))


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_an_integer_beyond_every_float_is_reported(suffix: str, tmp_path: Path) -> None:
    """Loading and validating a run with an integer beyond every float give a result or an error of this package."""
    path = tmp_path / f"run{suffix}"
    document = run(call([{"role": "user", "content": "y"}], response={"content": "z"})).to_document()
    document["llm_interactions"][0]["duration_seconds"] = 10**400
    response = {"interaction_id": "llm_1", "status": 200, "duration_seconds": 10**400}
    records = [("start", {"schema": "trace-recorder/journal", "version": 1}), ("llm_response", response)]
    path.write_bytes(json.dumps(document).encode() if suffix == ".json" else journal_of(*records))

    findings = validate(path).findings

    assert [finding.severity for finding in findings if "duration_seconds" in finding.what] != []


def test_a_reward_that_is_not_a_finite_number_is_not_counted(tmp_path: Path) -> None:
    """A reward that is not a finite number is kept as a description, and left out of figures."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", task="guess")
    recorder.start()
    recorder.record_llm_interaction([{"role": "user", "content": "q"}], {"content": "a"}, "openai", "m")
    recorder.reward("odd", float("inf"))
    recorder.reward("even", 1.0)
    recorder.finalize(success=True)

    assert_viewed(load(recorder.trajectory_path))
    stats = Stats()
    stats.add(load(recorder.trajectory_path))
    assert [reward["name"] for reward in stats.to_json()["rewards"]] == ["even"]


def test_a_described_text_is_read_as_a_text(tmp_path: Path) -> None:
    """A state or provider that is recorded as a description is shown as its repr, also in the document."""
    path = tmp_path / "run.json"
    with TrajectoryRecorder(path, task="\ud800") as recorder:
        recorder.record_llm_interaction([], {"content": "a"}, provider=b"openai", model="m")  # type: ignore[arg-type]
        recorder.record_agent_step(1, b"thinking")

    trajectory = load(path)
    [one], [step] = trajectory.llm_interactions, trajectory.agent_steps
    assert (trajectory.task, one.provider, step.state) == ("'\\ud800'", "b'openai'", "b'thinking'")
    assert from_document(json.loads(path.read_bytes()), "run").to_document() == trajectory.to_document()
    assert_viewed(trajectory)


START: Payload = {
    "task": ["mend"],
    "provider": 5,
    "model": {"a": 1},
    "max_steps": "many",
    "metadata": "none",
    "trajectory_id": 7,
}
END: Payload = {"status": True, "success": "yes", "execution_time": [1]}


def test_members_of_the_run_have_their_types() -> None:
    """In place of a string, a description becomes its repr; a member of another wrong type is left out, with a gap."""
    trajectory = folded(journal_of(("start", START), ("finalize", END)))

    assert (trajectory.task, trajectory.provider, trajectory.model) == ('["mend"]', "5", '{"a": 1}')
    assert (trajectory.trajectory_id, trajectory.max_steps, trajectory.metadata) == ("7", None, {})
    assert (trajectory.status, trajectory.success, trajectory.execution_time) == ("unknown", None, None)
    assert [gap.why for gap in trajectory.gaps] == [
        "record 1: max_steps is str",
        "record 1: metadata is str",
        "record 2: status is bool",
        "record 2: success is str",
        "record 2: execution_time is list",
    ]
    assert_viewed(trajectory)


def test_a_journal_with_invalid_records_is_replayed_without_them(tmp_path: Path) -> None:
    """A replay ignores invalid records, which count as damaged lines."""
    path = tmp_path / "run.jsonl"
    odd = [("llm_request", {"interaction_id": {"a": 1}}), ("llm_response", {}), ("item", {"n": "x"}), ("tool_call", {})]
    path.write_bytes(journal_of(("start", {}), *odd))

    assert Recording(path).damaged == len(odd)


def test_lone_surrogates_in_a_document_stop_no_view(tmp_path: Path) -> None:
    """Views keep the lone surrogates of a document, unless their format cannot express them."""
    path = recorded(tmp_path / "run.json", "answer")
    path.with_suffix(".jsonl").unlink()
    path.write_text(path.read_text().replace("answer", "\\ud800").replace('"ask"', '"\\ud800"'))
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"trajectory_id": "\ud800"}))

    assert load(path).task == "\ud800"
    assert_viewed(load(path))
    assert invoke("export", path, "--format", "inspect", "--output", tmp_path / "out").exit_code == 0
