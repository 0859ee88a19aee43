"""ATIF that is read and written again, ours or another tool's: nothing is lost that the format can express."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.formats.files import produced_document
from tests.formats.runs import every
from trace_recorder import Trajectory, TrajectoryRecorder, load
from trace_recorder.formats.atif.writing import to_atif, to_atif_files
from trace_recorder.reading.document import from_document
from trace_recorder.values.messages import Payload

FOREIGN = produced_document("atif/terminus.json")


def written(path: Path, document: Payload) -> Path:
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def _lost(before: Payload, after: Payload, path: str = "") -> Iterator[str]:
    """Yield the differences between the two values, in both directions."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            yield from _lost(value, after.get(name), f"{path}.{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _lost(one, other, f"{path}[{place}]")
    elif before != after:
        yield f"{path}: {before!r}, and then {after!r}"


def test_a_document_of_another_tool_is_written_unchanged(tmp_path: Path) -> None:
    """Versions, notes, effort, totals, continuations, copied context, extras, references, and steps without a call are
    kept.
    """
    read = load(written(tmp_path / "foreign.json", FOREIGN))
    again = to_atif(read)

    plain = {**FOREIGN["steps"][5], "message": "One file."}
    expected = {**FOREIGN, "steps": [*FOREIGN["steps"][:5], plain, FOREIGN["steps"][6]]}
    assert [*_lost(expected, again)] == []
    assert to_atif(load(written(tmp_path / "again.json", again))) == again
    assert to_atif(from_document(json.loads(json.dumps(read.to_document())), "run")) == again


def test_facts_of_the_file_are_facts_of_the_run(tmp_path: Path) -> None:
    """The run has totals that no step states, the parents of sub-agents, and the reasoning effort."""
    run = load(written(tmp_path / "foreign.json", FOREIGN))

    assert {name: run.metrics[name] for name in ("input_tokens", "output_tokens", "cost")} == {
        "input_tokens": 220,
        "output_tokens": 12,
        "cost": 0.75,
    }
    bare = {**FOREIGN, "steps": [{"step_id": 1, "source": "agent", "message": "x"}], "subagent_trajectories": None}
    stated = load(written(tmp_path / "bare.json", bare)).metrics
    assert (stated["input_tokens"], stated["cost"]) == (999, 1.5)
    calls = {call.agent: call for call in run.llm_interactions}
    assert (calls["looker"].parent_agent_id, calls["reader"].parent_agent_id) == (calls["reader"].agent_id, None)
    assert [call.parameters.get("reasoning_effort") for call in run.llm_interactions if call.agent == "terminus-2"] == [
        "high",
        0.5,
    ]


def test_a_run_with_equal_times_has_no_known_end(tmp_path: Path) -> None:
    """If all timestamps are equal, the duration of the run is unknown, and not 0 s."""
    moment = "2025-06-12T20:00:00Z"
    steps = [
        {"step_id": 1, "timestamp": moment, "source": "user", "message": "q"},
        {"step_id": 2, "timestamp": moment, "source": "agent", "message": "a"},
    ]
    document = {"schema_version": "ATIF-v1.7", "agent": {"name": "x", "version": "1"}, "steps": steps}

    run = load(written(tmp_path / "moment.json", document))
    assert (run.start_time, run.end_time, run.execution_time) == (moment, None, None)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Trajectory]:
    """Return every recorded run, and a run whose tools were recorded with the objects that they returned."""
    directory = tmp_path_factory.mktemp("runs")
    return {name: load(path) for name, path in {**every(directory), "tools recorded": _tools(directory)}.items()}


def _tools(directory: Path) -> Path:
    path = directory / "tools_recorded.json"
    with TrajectoryRecorder(path, task="look") as recorder:

        @recorder.tool
        def look(place: str) -> Payload:
            if place == "nothing":
                raise ValueError(place)
            with recorder.agent("looker"):
                recorder.record_llm_interaction([{"role": "user", "content": place}], {"content": "seen"}, "p", "m")
            return {"seen": place}

        places = enumerate(("a", "nothing"))
        asked = [{"call_id": f"c{n}", "name": "look", "arguments": {"place": place}} for n, place in places]
        question = [{"role": "user", "content": "Look."}]
        recorder.record_llm_interaction(question, {"content": None, "tool_calls": asked}, "p", "m")
        look(place="a")
        with pytest.raises(ValueError, match="nothing"):
            look(place="nothing")
        said = {"role": "assistant", "content": None, "tool_calls": asked}
        shown = [{"role": "tool", "call_id": f"c{n}", "content": text} for n, text in enumerate(("I see a", "no"))]
        recorder.record_llm_interaction([*question, said, *shown], {"content": "done"}, "p", "m")
    return path


def test_every_run_survives_a_round_trip(runs: Mapping[str, Trajectory], tmp_path: Path) -> None:
    """Each of our documents, and each continuation, is the same after it is read and written again."""
    images = tmp_path / "images"
    for name, run in runs.items():
        for file, document in [("whole.json", to_atif(run, images)), *to_atif_files(run, "run.json", images)]:
            again = to_atif(load(written(tmp_path / file, document)), images)
            assert (name, file, again) == (name, file, document)


def test_recorded_steps_and_objects_of_tools_are_read_back(runs: Mapping[str, Trajectory], tmp_path: Path) -> None:
    """The agent's own steps have their reflections, and results have the objects that tools returned."""
    own = load(written(tmp_path / "own.json", to_atif(runs["own_steps"])))
    assert [(step.step_number, step.state, step.derived) for step in own.agent_steps] == [
        (step.step_number, step.state, step.derived) for step in runs["own_steps"].agent_steps
    ]
    told = load(written(tmp_path / "tools.json", to_atif(runs["tools recorded"])))
    results, before = (
        [
            (result.call_id, result.success, result.result, result.error, result.sent, result.duration_seconds)
            for step in run.agent_steps
            for result in step.tool_results
        ]
        for run in (told, runs["tools recorded"])
    )
    assert results == before


def test_a_document_with_sounds_survives_a_round_trip(tmp_path: Path) -> None:
    """Version 1.8 refers to a sound by its file, with the duration if it is known."""
    sound = {"type": "audio", "source": {"media_type": "audio/mpeg", "path": "images/q.mp3", "duration_sec": 2.25}}
    steps = [
        {"step_id": 1, "source": "user", "message": [{"type": "text", "text": "Listen."}, sound]},
        {"step_id": 2, "source": "agent", "message": "A bell.", "model_name": "m"},
    ]
    document = {
        "schema_version": "ATIF-v1.8",
        "session_id": "s",
        "trajectory_id": "s",
        "agent": {"name": "x", "version": "1"},
        "steps": steps,
        "final_metrics": {"total_steps": 2},
    }
    path = tmp_path / "heard.json"
    path.write_text(json.dumps(document))
    run = load(path)

    assert run.llm_interactions[0].input_messages[0].content == steps[0]["message"]
    again = to_atif(run)
    assert (again["schema_version"], again["steps"][0]["message"]) == ("ATIF-v1.8", steps[0]["message"])


def test_a_sound_in_a_sub_agent_without_answers_keeps_version_1_8(tmp_path: Path) -> None:
    """The sub-agent has no call in the run, and is kept unchanged."""
    sound = {"type": "audio", "source": {"media_type": "audio/mpeg", "path": "images/q.mp3"}}
    header = {"schema_version": "ATIF-v1.8", "agent": {"name": "x", "version": "1"}}
    silent = {**header, "trajectory_id": "ear", "steps": [{"step_id": 1, "source": "user", "message": [sound]}]}
    steps = [
        {"step_id": 1, "source": "user", "message": "Listen."},
        {"step_id": 2, "source": "agent", "message": "A bell.", "model_name": "m"},
    ]
    path = tmp_path / "heard.json"
    path.write_text(json.dumps({**header, "trajectory_id": "s", "steps": steps, "subagent_trajectories": [silent]}))
    again = to_atif(load(path))

    assert (again["schema_version"], again["subagent_trajectories"]) == ("ATIF-v1.8", [silent])
